"""The container and runtime probes inside real containers and beside real engines."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from gpudoctor.probes.runtime_docker import parse_info_json, parse_info_text
from tests.testbed import containers

ROOT = Path(__file__).parents[2]
# Runs inside: prints what the probes found there.
SCRIPT = """
import json, sys
from gpudoctor.facts import plain
from gpudoctor.probes import container, driver, host, runtime
from gpudoctor.sources import open_live
source = open_live()
names = {"host": host, "container": container, "driver": driver, "runtime": runtime}
print(json.dumps({name: plain(value) if (value := module.probe(source)) else None for name, module in names.items()}))
"""
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def places():
    """Where this Python and the project lie, to be mounted at the same paths."""
    wanted = {str(ROOT), sys.prefix, sys.base_prefix, *(p for p in sys.path if p.endswith("-packages"))}
    return {path: f"{path}:ro" for path in sorted(wanted) if not path.startswith("/usr/")}


def facts_of(result):
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.strip().splitlines()[-1])


PYTHON = [sys.executable, "-c", SCRIPT]
ENVIRONMENT = f"PYTHONPATH={ROOT}"


@needs_root
@pytest.mark.real("podman", "runc")
def test_inside_podman():
    with containers.podman() as engine:
        options = ["-e", ENVIRONMENT, "-e", "NVIDIA_VISIBLE_DEVICES=all"]
        facts = facts_of(engine.run(PYTHON, options=options, mounts=places()))
    assert (facts["host"]["in_container"], facts["host"]["container_kind"]) == (True, "podman")
    assert (facts["container"]["kind"], facts["container"]["visible_devices"]) == ("podman", "all")
    assert facts["container"]["device_nodes"] == []
    assert facts["container"]["hidden"]
    # Nothing of the host's disk is claimed from in here.
    assert facts["driver"]["dkms"] is None
    assert facts["driver"]["module_on_disk_kernels"] is None
    assert facts["host"]["kernel_headers_installed"] is None
    assert facts["runtime"] is None


@needs_root
@pytest.mark.slow
@pytest.mark.real("dockerd", "docker", "containerd", "runc")
def test_inside_docker_and_beside_it():
    with containers.dockerd() as docker:
        options = ["-e", ENVIRONMENT, "--shm-size=96m"]
        facts = facts_of(docker.run(PYTHON, options=options, mounts=places()))
        result = docker.command("info", "--format", "{{json .}}")
        text = docker.command("info")
    assert (facts["host"]["in_container"], facts["host"]["container_kind"]) == (True, "docker")
    assert facts["host"]["shm_total_mib"] == 96
    as_json, as_text = parse_info_json(result.stdout), parse_info_text(text.stdout)
    assert as_json is not None
    assert "runc" in as_json.runtimes
    assert "nvidia" not in as_json.runtimes
    assert (as_json.version, as_json.runtimes, as_json.default_runtime, as_json.cgroup_driver) == (
        as_text.version,
        as_text.runtimes,
        as_text.default_runtime,
        as_text.cgroup_driver,
    )
