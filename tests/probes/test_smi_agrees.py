"""The genuine nvidia-smi of several generations and NVML, on the same fake GPUs: XML, -q, table, CSV and NVML give the same facts."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

from gpudoctor.facts import Facts, Gpu
from gpudoctor.probes.nvidia_smi import facts_of_answers
from gpudoctor.probes.nvml import facts_of
from gpudoctor.sources import process
from gpudoctor.sources.answers import CommandAnswer
from tests.testbed.gpu_models import H100, T4
from tests.testbed.scenario_file import Scenario
from tests.testbed.smi import GenuineSmi

SCENARIOS: dict[str, Scenario] = {
    "healthy": {"count": 2},
    "h100": {"count": 2, "gpu": H100},
    "t4 with retired pages": {
        "gpu": {
            **T4,
            "retired_pages_single_bit": 3,
            "retired_pages_double_bit": 1,
            "retired_pages_pending": True,
        }
    },
    "memory trouble": {
        "count": 2,
        "gpu0": {
            "remapped_rows_pending": True,
            "remapped_rows_uncorrectable": 4,
            "ecc_uncorrected_volatile": 2,
            "ecc_corrected_aggregate": 177,
            "remap_banks_max": 638,
            "remap_banks_low": 2,
        },
        "gpu1": {"remapped_rows_failure": True, "remap_banks_none": 1},
    },
    "slowed down": {"gpu": {"throttle_mask": 0xC8, "temperature_c": 91, "power_w": 312, "utilization_gpu_pct": 100}},
    "odd modes": {
        "gpu": {"persistence_mode": 0, "compute_mode": 3, "ecc_mode": 0, "power_limit_w": 250, "pcie_width": 8}
    },
    "prohibited": {"gpu": {"compute_mode": 2, "fan_pct": 45}},
    "mig": {"gpu": {"mig_mode": True, "mig_devices": "1g.10gb,3g.40gb"}},
    "mig without devices": {"gpu": {"mig_mode": True}},
    "processes": {"gpu": {"procs": "4242:1024:python3,4300:20:/usr/lib/xorg/Xorg:g"}},
    "one field unknown": {"count": 2, "gpu1.err.nvmlDeviceGetTemperature": 999},
    "not supported": {
        "gpu": {"ecc_mode": None, "mig_mode": None, "memory_temperature_c": None, "power_limit_w": None}
    },
}
# What only newer programs print, what only NVML tells, and what the table rounds or shortens.
ONLY_NEWER = frozenset(
    {
        "board_part_number",
        "architecture",
        "memory_reserved_mib",
        "ecc_sram_threshold_exceeded",
        "pcie_generation_device_max",
        "reset_required",
        "drain_and_reset_recommended",
        "recovery_action",
        "fabric_state",
        "fabric_status",
        "fabric_health",
        "fabric_cluster_uuid",
        "fabric_clique",
        "temperature_margin_c",
        "addressing_mode",
        "gsp_firmware_version",
    }
)
ONLY_NVML = frozenset({"compute_capability", "nvlinks"})
# the margin comes from an entry of the library that only nvidia-smi knows
NOT_COMPARED = frozenset({"evidence", "errors", "index", "temperature_margin_c"})
# nvidia-smi before 510 counts what the driver reserves as used; Hopper's limits are computed from margins.
KNOWN_DIFFERENT = {"470": {"memory_used_mib"}}
FROM_MARGINS = frozenset({"temperature_slowdown_c", "temperature_shutdown_c", "temperature_max_operating_c"})


def ask(smi: GenuineSmi, scenario: Scenario, *arguments: str) -> CommandAnswer:
    environment = {**os.environ, **smi.environment(scenario), "LC_ALL": "C"}
    request = ("nvidia-smi", *arguments)
    return process.run([str(smi.path), *arguments], request=request, timeout=20, environment=environment)


def nvml(smi: GenuineSmi, scenario: Scenario) -> Facts:
    environment = {**os.environ, **smi.environment(scenario)}
    argv = [sys.executable, "-P", "-m", "gpudoctor.workers.nvml_dump"]
    found = facts_of(process.run(argv, request=("worker", "nvml_dump"), timeout=20, environment=environment))
    assert found is not None
    return found


def outputs(smi: GenuineSmi, scenario: Scenario) -> dict[str, Facts]:
    columns = (
        "index,name,uuid,pci.bus_id,temperature.gpu,memory.total,memory.used,pstate,persistence_mode,compute_mode"
    )
    requests = {
        "xml": ("-q", "-x"),
        "q": ("-q",),
        "table": (),
        "csv": (f"--query-gpu={columns}", "--format=csv"),
        "list": ("-L",),
    }
    found = {name: facts_of_answers([ask(smi, scenario, *arguments)]) for name, arguments in requests.items()}
    assert all(facts is not None for facts in found.values())
    return {name: facts for name, facts in found.items() if facts is not None}


def differences(smi: GenuineSmi, how: str, expected: Gpu, got: Gpu) -> dict[str, tuple[Any, Any]]:
    """Fields that both know and tell differently, and those that XML and -q should know and do not."""
    found: dict[str, tuple[Any, Any]] = {}
    margins = FROM_MARGINS if got.temperature_margin_c is not None else frozenset()
    ignored = NOT_COMPARED | ONLY_NVML | KNOWN_DIFFERENT.get(smi.generation, set()) | margins
    for name in Gpu.__struct_fields__:
        want, have = getattr(expected, name), getattr(got, name)
        if name in ignored:
            continue
        if have is None and (how not in ("xml", "q") or name in ONLY_NEWER):
            continue
        if name == "name" and isinstance(have, str) and have.endswith("..."):
            have = want if str(want).startswith(have[:-3]) else have
        if how == "csv" and name == "lost" and not got.errors:
            continue
        if want != have:
            found[name] = (want, have)
    return found


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS.keys())
def test_every_output_gives_the_same_facts(genuine_smi: GenuineSmi, scenario: Scenario) -> None:
    reference = nvml(genuine_smi, scenario)
    assert reference.gpus
    for how, facts in outputs(genuine_smi, scenario).items():
        assert facts.gpus is not None, how
        assert len(facts.gpus) == len(reference.gpus), how
        for expected, got in zip(reference.gpus, facts.gpus, strict=True):
            assert differences(genuine_smi, how, expected, got) == {}, how
            assert got.index == expected.index, how
        if how in ("xml", "q", "table"):
            assert facts.driver is not None
            assert facts.cuda is not None
            assert reference.driver is not None
            assert facts.driver.version == reference.driver.version
            assert facts.cuda == facts.cuda.__class__(
                driver_cuda_version=reference.cuda.driver_cuda_version if reference.cuda else None,
                evidence=facts.cuda.evidence,
            )


@pytest.mark.parametrize("how", ["xml", "q", "table"])
def test_evidence_quotes_the_line_that_says_it(genuine_smi: GenuineSmi, how: str) -> None:
    arguments = {"xml": ("-q", "-x"), "q": ("-q",), "table": ()}[how]
    answer = ask(genuine_smi, {"count": 2, "gpu1.temperature_c": 87}, *arguments)
    facts = facts_of_answers([answer])
    assert facts is not None
    assert facts.gpus is not None
    evidence = facts.gpus[1].evidence["temperature_c"]
    assert evidence.source == answer.request
    assert evidence.line is not None
    assert "87" in evidence.text
    assert evidence.text == " ".join(answer.stdout.splitlines()[evidence.line - 1].split())


def test_a_gpu_lost_meanwhile_is_lost_in_every_output(genuine_smi: GenuineSmi) -> None:
    scenario: Scenario = {"count": 3, "gpu1.lost": True}
    for how, facts in {"nvml": nvml(genuine_smi, scenario), **outputs(genuine_smi, scenario)}.items():
        assert facts.gpus is not None, how
        assert [gpu.index for gpu in facts.gpus] == [0, 1, 2], how
        assert [bool(gpu.lost) for gpu in facts.gpus] == [False, True, False], how
        # -L prints stray bytes before the reason, so that its words may be lost
        assert {"GPU_IS_LOST"} & {*facts.gpus[1].errors.values()} or how == "list", how
        assert facts.gpus[1].evidence["lost"].text, how
        assert facts.gpus[1].processes is None, how


FAILURES = [
    (4, "NO_PERMISSION", "Failed to initialize NVML: Insufficient Permissions", 4),
    (9, "DRIVER_NOT_LOADED", "NVIDIA-SMI has failed because it couldn't communicate", 9),
    (12, "LIBRARY_NOT_FOUND", "NVIDIA-SMI couldn't find libnvidia-ml.so library", 12),
    (15, "GPU_IS_LOST", "Failed to initialize NVML: GPU is lost", 15),
    (16, "RESET_REQUIRED", "Failed to initialize NVML: GPU requires reset", 255),
    (17, "OPERATING_SYSTEM", "Failed to initialize NVML: GPU access blocked by the operating system", 17),
    (18, "LIB_RM_VERSION_MISMATCH", "Failed to initialize NVML: Driver/library version mismatch", 18),
    (19, "IN_USE", "Failed to initialize NVML: In use by another client", 19),
    (999, "UNKNOWN", "Failed to initialize NVML: Unknown Error", 255),
]


@pytest.mark.parametrize(("code", "name", "words", "exit_code"), FAILURES, ids=[row[1] for row in FAILURES])
def test_a_failed_start_is_told_alike(
    genuine_smi: GenuineSmi, code: int, name: str, words: str, exit_code: int
) -> None:
    scenario: Scenario = {"init": code}
    reference = nvml(genuine_smi, scenario)
    assert reference.driver is not None
    assert (reference.driver.nvml_error, reference.driver.nvml_error_code) == (name, code)
    for how, facts in outputs(genuine_smi, scenario).items():
        driver = facts.driver
        assert driver is not None, how
        assert (driver.nvml_error, driver.nvml_error_code) == (name, code), how
        assert (driver.nvidia_smi_error or "").startswith(words), how
        assert driver.nvidia_smi_exit_code in (exit_code, 255), how
        assert driver.evidence["nvidia_smi_error"].text == driver.nvidia_smi_error
        assert facts.gpus is None, how


def test_the_library_version_of_a_mismatch(genuine_smi: GenuineSmi) -> None:
    facts = facts_of_answers([ask(genuine_smi, {"init": 18})])
    assert facts is not None
    assert facts.driver is not None
    expected = (
        None if genuine_smi.generation == "470" else {"535": "535.309", "550": "550.163"}[genuine_smi.generation]
    )
    assert facts.driver.library_version == expected


def test_no_devices_is_a_known_empty_list(genuine_smi: GenuineSmi) -> None:
    for how, facts in outputs(genuine_smi, {"count": 0}).items():
        assert facts.gpus == [], how
        assert facts.driver is not None
        assert facts.driver.nvml_error is None


def test_a_gpu_without_handle_is_named(genuine_smi: GenuineSmi) -> None:
    facts = facts_of_answers([ask(genuine_smi, {"count": 2, "gpu1.err.nvmlDeviceGetHandleByIndex": 15})])
    assert facts is not None
    assert facts.gpus is not None
    assert [(gpu.index, gpu.lost, gpu.errors) for gpu in facts.gpus] == [(1, True, {"handle": "GPU_IS_LOST"})]
    assert facts.driver is not None
    assert "Unable to determine the device handle" in (facts.driver.nvidia_smi_error or "")
    assert facts.driver.nvidia_smi_exit_code == 15


def test_links_and_topology(genuine_smi: GenuineSmi) -> None:
    from gpudoctor.probes.nvlink import parse_nvlink
    from gpudoctor.probes.topology import parse_topology

    scenario: Scenario = {
        "count": 2,
        "gpu": {"nvlinks": 4, "nvlink_remote": "switch"},
        "gpu1": {"nvlink_down_mask": 2},
    }
    topology = parse_topology(ask(genuine_smi, scenario, "topo", "-m").stdout)
    assert topology is not None
    assert topology.gpus == ["GPU0", "GPU1"]
    assert [(link.a, link.b) for link in topology.links or []] == [("GPU0", "GPU1")]
    gpus = parse_nvlink(ask(genuine_smi, scenario, "nvlink", "-s").stdout)
    assert gpus is not None
    assert [link.active for link in gpus[1].nvlinks or []] == [True, False, True, True]
    assert gpus[0].uuid is not None
