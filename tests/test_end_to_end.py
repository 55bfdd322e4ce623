"""The whole way, as a user runs it: a genuine nvidia-smi on a fake NVML, the same seen by the NVML worker, wedged drivers, real messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import dkms_module
from tests.testbed.nvml import FakeNvml
from tests.testbed.pci_tree import Device, PciTree
from tests.testbed.scenario_file import Scenario
from tests.testbed.smi import GenuineSmi

NVML_OPERATING_SYSTEM = 17
AT_INIT = (4, 9, 12, 15, 16, NVML_OPERATING_SYSTEM, 18, 999)
DEVICES: dict[str, Scenario] = {
    "healthy": {},
    "no devices": {"count": 0},
    "lost while reading": {"count": 2, "gpu1": {"lost": True}},
    "remap pending": {"gpu": {"remapped_rows_pending": True, "remapped_rows_uncorrectable": 1}},
    "remap failed": {"gpu": {"remapped_rows_failure": True}},
    "uncorrectable": {"gpu": {"ecc_uncorrected_volatile": 2}},
    "prohibited": {"gpu": {"compute_mode": 2}},
}


def gpudoctor(
    *words: str, environment: Mapping[str, str] | None = None, text: str | None = None
) -> tuple[dict[str, Any], int]:
    """The JSON report and the exit code."""
    run = subprocess.run(
        [sys.executable, "-m", "gpudoctor", *words, "--format", "json"],
        env={**os.environ, **(environment or {})},
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in run.stderr, run.stderr
    report: dict[str, Any] = json.loads(run.stdout)
    return report, run.returncode


def rules_of(findings: list[dict[str, Any]]) -> set[str]:
    """Every rule that fired, folded ones too."""
    return {f["rule"] for f in findings} | {rule for f in findings for rule in rules_of(f["consequences"])}


def without_clock(findings: list[dict[str, Any]]) -> str:
    """Two runs are some seconds apart."""
    return re.sub(r"host\.time = [-\dT:]+Z", "host.time", json.dumps(findings))


def about_gpus(report: dict[str, Any]) -> set[str]:
    """Error and critical findings, told by their rule, that a nvidia-smi output can show."""
    serious = {"critical", "error"}
    return {f["rule"] for f in report["findings"] if f["severity"] in serious and f["rule"].split("/")[0] == "gpu"}


@pytest.mark.parametrize("name", DEVICES)
def test_worker_xml_and_table_give_the_same_verdict(name: str, genuine_smi: GenuineSmi, tmp_path: Path) -> None:
    scenario = DEVICES[name]
    seen = {}
    live, _ = gpudoctor("check", "gpus", "driver", environment=genuine_smi.environment(scenario))
    seen["worker"] = about_gpus(live)
    for kind, arguments in (("xml", ("-q", "-x")), ("q", ("-q",))):
        output = genuine_smi.run(*arguments, scenario=scenario)
        file = tmp_path / kind
        file.write_text(output.stdout)
        report, _ = gpudoctor("check", "--from", str(file)) if output.stdout.strip() else (live, 0)
        seen[kind] = about_gpus(report)
    assert seen["xml"] == seen["q"]
    assert seen["xml"] <= seen["worker"] | {"gpu/lost"}
    assert seen["worker"] <= seen["xml"] | {"gpu/lost", "gpu/values-unreadable"}
    table = genuine_smi.run(scenario=scenario)
    (tmp_path / "table").write_text(table.stdout)
    report, _ = gpudoctor("check", "--from", str(tmp_path / "table"))
    assert about_gpus(report) <= seen["worker"] | {"gpu/lost", "gpu/values-unreadable"}


@pytest.mark.parametrize("code", AT_INIT)
def test_a_start_that_fails_is_explained_alike_live_and_pasted(code: int, genuine_smi: GenuineSmi) -> None:
    scenario: Scenario = {"init": code}
    output = genuine_smi.run(scenario=scenario)
    pasted, _ = gpudoctor("explain", "-", text=f"$ nvidia-smi\n{output.stdout}{output.stderr}")
    live, exit_code = gpudoctor("check", environment=genuine_smi.environment(scenario))
    assert pasted["findings"], output.stdout
    assert live["verdict"] in ("fail", "unknown")
    assert exit_code in (1, 3)
    said = {f["rule"].split("/")[0] for f in pasted["findings"]}
    assert said & {"driver", "gpu", "pci", "container", "wsl"}, said
    if code == 18:
        assert "driver/version-mismatch" in rules_of(live["findings"]) & rules_of(pasted["findings"])
    if code == NVML_OPERATING_SYSTEM:  # Windows's word: pasted, it speaks of WSL; this machine is known to be none
        assert rules_of(pasted["findings"]) == {"wsl/gpu-not-available"}
    else:
        assert rules_of(pasted["findings"]) <= rules_of(live["findings"])


@pytest.mark.parametrize("name", [*DEVICES, *map(str, AT_INIT)])
def test_the_report_on_a_recording_is_that_on_the_live_machine(
    name: str, genuine_smi: GenuineSmi, tmp_path: Path
) -> None:
    scenario = DEVICES[name] if name in DEVICES else {"init": int(name)}
    environment = {**os.environ, **genuine_smi.environment(scenario)}
    words = [sys.executable, "-m", "gpudoctor", "collect", "-o", str(tmp_path / "host.tar.gz")]
    subprocess.run(words, env=environment, capture_output=True, timeout=120, check=True)
    live, live_exit = gpudoctor("check", environment=environment)
    later, later_exit = gpudoctor("check", "--from", str(tmp_path / "host.tar.gz"))
    assert without_clock(later["findings"]) == without_clock(live["findings"])
    assert (later["verdict"], later["next_checks"], later_exit) == (live["verdict"], live["next_checks"], live_exit)
    states = ("name", "state", "problems", "essential")
    assert [[p[k] for k in states] for p in later["probes"]] == [[p[k] for k in states] for p in live["probes"]]


@pytest.mark.parametrize("wedged", ["library", "nvidia-smi"])
def test_a_wedged_driver_costs_a_bounded_time_and_the_rest_is_reported(
    wedged: str, fake_nvml: FakeNvml, tmp_path: Path
) -> None:
    environment = fake_nvml.scenario({"wedge.init": True})
    if wedged == "nvidia-smi":
        program = tmp_path / "nvidia-smi"
        program.write_text("#!/bin/sh\ntrap '' TERM INT\nwhile :; do sleep 1; done\n")
        program.chmod(0o755)
        environment = {**fake_nvml.scenario({"init": 9}), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    started = time.monotonic()
    report, exit_code = gpudoctor("check", "--deadline", "6", environment=environment)
    assert time.monotonic() - started < 12
    states = {probe["name"]: probe["state"] for probe in report["probes"]}
    assert states["host"] == states["pci"] == "ok"
    assert "timed_out" in {states["nvml"], states["nvidia_smi"]}
    assert (report["verdict"], exit_code) != ("pass", 0)


@pytest.mark.real("docker", "root")
def test_dockers_own_words_without_the_toolkit_are_explained() -> None:
    from tests.testbed import containers

    with containers.dockerd() as docker:
        refused = docker.run(["true"], ["--gpus=all"])
    report, _ = gpudoctor("explain", "-", text=f"$ docker run --gpus=all img true\n{refused.stderr}")
    assert report["findings"][0]["rule"] == "container/no-gpu-device-driver"


@pytest.mark.real("podman", "root")
def test_podmans_own_words_without_a_cdi_specification_are_explained() -> None:
    from tests.testbed import containers

    with containers.podman() as engine:
        refused = engine.run(["true"], ["--device=nvidia.com/gpu=all"])
    report, _ = gpudoctor("explain", "-", text=f"$ podman run --device nvidia.com/gpu=all img true\n{refused.stderr}")
    assert report["findings"][0]["rule"] == "container/cdi-device-unresolvable"


@pytest.mark.real("nvidia-smi", "root")
def test_the_genuine_nvidia_smi_without_a_driver() -> None:
    if Path("/proc/driver/nvidia/version").exists():
        pytest.skip("this machine has a driver")
    report, exit_code = gpudoctor("check")
    assert "pci/no-gpu" in rules_of(report["findings"])
    assert exit_code == 1


@pytest.mark.real("dkms", "kernel-headers", "nvidia-smi", "root")
def test_a_card_on_the_bus_whose_module_dkms_built_for_another_kernel(tmp_path: Path) -> None:
    machine = dkms_module.host(tmp_path / "host")
    tree = PciTree(tmp_path / "sys")
    tree.add(Device("0000:3b:00.0", 0x20B2, driver=None))
    for step in (machine.add, machine.build, machine.install):
        step("535.183.01")
    machine.add_kernel("6.8.0-51-generic")
    bus: dict[str | Path, str | Path] = {tree.sys / "bus/pci": "/sys/bus/pci", tree.sys / "devices": "/sys/devices"}
    words = (sys.executable, "-m", "gpudoctor", "check", "--format", "json")
    report = json.loads(machine.run(*words, release="6.8.0-51-generic", binds=bus).stdout)
    root = report["findings"][0]
    # The new kernel has no headers either, so that is the root; the module that is not loaded is its consequence.
    assert root["rule"] == "driver/kernel-headers-missing"
    assert "driver/module-not-loaded" in rules_of([root])
    assert any("6.8.0-51-generic" in (step["run"] or "") for step in root["causes"][0]["steps"])
    entry = f"nvidia/535.183.01, {machine.kernel}, x86_64: installed"
    assert ("dkms status", entry) in {(proof["source"], proof["text"]) for proof in root["evidence"]}
