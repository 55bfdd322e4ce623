"""Real container engines: what they say about GPUs that they cannot give, and what a container looks like from inside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import containers
from tests.testbed.containers import Docker, Podman
from tests.testbed.nvml import FakeNvml

DOCKER = pytest.mark.real("dockerd", "docker", "containerd", "runc", "root", "unshare")
PODMAN = pytest.mark.real("podman", "runc", "root")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def docker() -> Iterator[Docker]:
    with containers.dockerd() as daemon:
        yield daemon


@pytest.fixture(scope="module")
def podman() -> Iterator[Podman]:
    with containers.podman() as engine:
        yield engine


@DOCKER
def test_docker_without_the_nvidia_toolkit(docker: Docker) -> None:
    all_gpus = docker.run(["true"], ["--gpus=all"])
    assert (
        all_gpus.returncode,
        'could not select device driver "" with capabilities: [[gpu]]' in all_gpus.stderr,
    ) == (125, True)
    runtime = docker.run(["true"], ["--runtime=nvidia"])
    assert runtime.returncode == 125
    assert (
        "nvidia" in runtime.stderr
    )  # "Unknown runtime specified nvidia" of old, "unknown or invalid runtime name: nvidia" of new
    device = docker.run(["true"], ["--device=/dev/no-such-gpu"])
    assert 'error gathering device information while adding custom device "/dev/no-such-gpu"' in device.stderr


@DOCKER
def test_docker_container_from_inside(docker: Docker) -> None:
    seen = docker.run(["sh", "-c", "ls /.dockerenv; df -k /dev/shm | tail -1"], ["--shm-size=32m"])
    assert seen.stdout.split()[:3] == ["/.dockerenv", "shm", "32768"]


@DOCKER
def test_docker_reports_a_failing_toolkit_hook(tmp_path: Path) -> None:
    hook = tmp_path / "nvidia-container-runtime-hook"
    hook.write_text(
        "#!/bin/sh\necho 'nvidia-container-cli: initialization error: nvml error: driver not loaded' >&2\nexit 1\n"
    )
    hook.chmod(0o755)
    with containers.dockerd(path=[tmp_path]) as daemon:
        done = daemon.run(["true"], ["--gpus=all"])
    assert done.returncode == 125
    assert "error running hook" in done.stderr
    assert "nvidia-container-cli: initialization error: nvml error: driver not loaded" in done.stderr


@DOCKER
@pytest.mark.real("nvidia-smi")
def test_genuine_nvidia_smi_in_a_container_on_the_fake(docker: Docker, fake_nvml: FakeNvml) -> None:
    scenario = fake_nvml.scenario({"count": 2})
    options = ["-e", f"FAKE_NVML={scenario['FAKE_NVML']}", "-e", f"LD_LIBRARY_PATH={scenario['LD_LIBRARY_PATH']}"]
    folders = {Path(scenario["FAKE_NVML"]).parent, fake_nvml.folder}
    done = docker.run(["nvidia-smi", "-L"], options, mounts={folder: f"{folder}:ro" for folder in folders})
    assert done.stdout.count("NVIDIA A100-SXM4-80GB") == 2


@PODMAN
def test_podman_without_a_cdi_specification(podman: Podman) -> None:
    done = podman.run(["true"], ["--device=nvidia.com/gpu=all"])
    assert done.returncode in {125, 126}
    assert "unresolvable CDI devices nvidia.com/gpu=all" in done.stderr


@PODMAN
def test_podman_container_from_inside(podman: Podman) -> None:
    assert podman.run(["ls", "/run/.containerenv"]).stdout == "/run/.containerenv\n"
    assert "container=podman" in podman.run(["env"]).stdout


@pytest.mark.real("runc", "root")
def test_runc_container_from_inside(tmp_path: Path) -> None:
    done = containers.runc(["sh", "-c", "cat /proc/1/comm; ls /.dockerenv"], tmp_path)
    assert done.stdout == "sh\n"
    assert "No such file" in done.stderr


@DOCKER
def test_docker_leaves_nothing(docker: Docker) -> None:
    with containers.dockerd() as daemon:
        folder = daemon.folder
    assert not folder.exists()
    assert str(folder) not in Path("/proc/mounts").read_text()
