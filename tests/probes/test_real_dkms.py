"""The genuine dkms: its tree and its `status` must tell the same, in every state."""

from __future__ import annotations

import json
import sys

import pytest

from gpudoctor.probes.driver_dkms import parse_dkms_status
from tests.testbed import dkms_module

pytestmark = pytest.mark.real("dkms", "kernel-headers", "root")
SCRIPT = """
import json
from gpudoctor.facts import plain
from gpudoctor.probes import driver, host
from gpudoctor.sources import open_live
source = open_live()
print(json.dumps({"driver": plain(driver.probe(source)), "host": plain(host.probe(source))}))
"""


def both(machine, release=None):
    """The driver's and the host's facts, and the entries of `dkms status`."""
    result = machine.run(sys.executable, "-c", SCRIPT, release=release)
    assert result.returncode == 0, result.stderr
    status = machine.run("dkms", "status")
    entries = [(e.module, e.version, e.kernel, e.state) for e, _ in parse_dkms_status(status.stdout)]
    facts = json.loads(result.stdout)
    found = [(e["module"], e["version"], e["kernel"], e["state"]) for e in facts["driver"]["dkms"]]
    assert sorted(found, key=str) == sorted(entries, key=str), status.stdout
    return facts, entries


def test_added_built_installed_and_then_another_kernel_runs(tmp_path):
    machine = dkms_module.host(tmp_path)
    kernel = machine.kernel
    machine.add("535.183.01")
    assert both(machine)[1] == [("nvidia", "535.183.01", None, "added")]
    machine.build("535.183.01")
    assert both(machine)[1] == [("nvidia", "535.183.01", kernel, "built")]
    machine.install("535.183.01")
    facts, entries = both(machine)
    assert entries == [("nvidia", "535.183.01", kernel, "installed")]
    assert facts["driver"]["module_for_running_kernel"] is True
    assert facts["driver"]["module_on_disk_version"] == "535.183.01"
    assert facts["host"]["kernel_headers_installed"] is True
    machine.add_kernel("6.8.0-51-generic")
    facts, _ = both(machine, release="6.8.0-51-generic")
    assert facts["host"]["kernel_release"] == "6.8.0-51-generic"
    assert facts["driver"]["module_for_running_kernel"] is False
    assert facts["driver"]["module_on_disk_kernels"] == [kernel]
    assert facts["host"]["kernel_headers_installed"] is False
    assert sorted(facts["host"]["kernels_installed"]) == sorted([kernel, "6.8.0-51-generic"])


def test_a_build_that_fails_leaves_its_first_error(tmp_path):
    machine = dkms_module.host(tmp_path)
    machine.add("550.1", broken=True)
    assert machine.build("550.1").returncode != 0
    facts, entries = both(machine)
    assert entries == [("nvidia", "550.1", None, "added")]
    assert "error:" in facts["driver"]["dkms_autoinstall_error"]
    assert "nvidia.c" in facts["driver"]["dkms_autoinstall_error"]
