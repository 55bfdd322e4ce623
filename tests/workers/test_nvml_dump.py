"""The NVML worker as a child process, with the real bindings on the fake library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.facts import plain
from gpudoctor.probes.nvml import facts_of
from gpudoctor.sources import process
from gpudoctor.sources.answers import CommandAnswer, Status
from tests.testbed.gpu_models import H100
from tests.testbed.nvml import FakeNvml
from tests.testbed.scenario_file import Scenario

START_CODES = [
    (4, "NO_PERMISSION"),
    (9, "DRIVER_NOT_LOADED"),
    (12, "LIBRARY_NOT_FOUND"),
    (15, "GPU_IS_LOST"),
    (16, "RESET_REQUIRED"),
    (17, "OPERATING_SYSTEM"),
    (18, "LIB_RM_VERSION_MISMATCH"),
    (999, "UNKNOWN"),
]


def dump(
    fake: FakeNvml, scenario: Scenario, *arguments: str, timeout: float = 15.0, more: dict[str, str] | None = None
) -> CommandAnswer:
    environment = {**os.environ, **fake.scenario(scenario), **(more or {})}
    argv = [sys.executable, "-P", "-m", "gpudoctor.workers.nvml_dump", *arguments]
    return process.run(argv, request=("worker", "nvml_dump"), timeout=timeout, environment=environment)


def lines(answer: CommandAnswer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.stdout.splitlines()]


def facts(answer: CommandAnswer) -> dict[str, Any]:
    found: dict[str, Any] = plain(facts_of(answer))
    return found


@pytest.mark.parametrize(("code", "name"), START_CODES)
def test_tells_why_nvml_did_not_start(fake_nvml: FakeNvml, code: int, name: str) -> None:
    answer = dump(fake_nvml, {"init": code})
    assert answer.status is Status.OK
    assert [line["kind"] for line in lines(answer)] == ["begin", "init", "end"]
    assert (lines(answer)[1]["code"], lines(answer)[1]["name"]) == (code, name)
    found = facts(answer)
    assert (found["driver"]["nvml_error"], found["driver"]["nvml_error_code"]) == (name, code)
    assert found["driver"]["library_version"] == "535.309.01"  # told without a driver
    assert found["gpus"] is None


def test_reads_healthy_gpus(fake_nvml: FakeNvml) -> None:
    answer = dump(fake_nvml, {"count": 2, "gpu": {**H100, "procs": f"{os.getpid()}:1024:python3"}})
    found = facts(answer)
    gpu = found["gpus"][1]
    assert (gpu["index"], gpu["name"], gpu["bdf"]) == (1, "NVIDIA H100 80GB HBM3", "0000:02:00.0")
    assert (gpu["architecture"], gpu["compute_capability"], gpu["device_id"]) == ("hopper", "9.0", "10de:2330")
    assert (gpu["memory_total_mib"], gpu["power_limit_w"], gpu["performance_state"]) == (81559, 700.0, "P0")
    assert (gpu["persistence_mode"], gpu["mig_mode"], gpu["ecc_mode"]) == (True, False, True)
    assert (gpu["throttle_reasons"], gpu["lost"], gpu["errors"]) == (["idle"], False, {})
    assert gpu["fabric_state"] == "completed"
    assert len(gpu["nvlinks"]) == 18
    assert all(link["active"] for link in gpu["nvlinks"])
    told = [{name: value for name, value in one.items() if value is not None} for one in gpu["processes"]]
    assert told == [{"pid": os.getpid(), "name": "python3", "kind": "C", "memory_used_mib": 1024}]
    assert found["driver"]["version"] == "535.309.01"
    assert found["cuda"]["driver_cuda_version"] == "12.2"


def test_what_a_gpu_does_not_have_is_neither_zero_nor_an_error(fake_nvml: FakeNvml) -> None:
    gpu = facts(dump(fake_nvml, {"gpu": {"ecc_mode": None, "fan_pct": None, "mig_mode": None}}))["gpus"][0]
    assert gpu["ecc_mode"] is gpu["ecc_uncorrected_volatile"] is gpu["fan_pct"] is gpu["mig_mode"] is None
    assert gpu["errors"] == {}


def test_no_gpus_is_a_known_empty_list(fake_nvml: FakeNvml) -> None:
    assert facts(dump(fake_nvml, {"count": 0}))["gpus"] == []


def test_a_gpu_without_handle_does_not_end_the_scan(fake_nvml: FakeNvml) -> None:
    found = facts(dump(fake_nvml, {"count": 3, "gpu1.err.nvmlDeviceGetHandleByIndex": 15}))["gpus"]
    assert [gpu["lost"] for gpu in found] == [False, True, False]
    assert found[1]["errors"] == {"handle": "GPU_IS_LOST"}
    assert found[2]["temperature_c"] == 34


def test_a_gpu_lost_after_its_handle(fake_nvml: FakeNvml) -> None:
    found = facts(dump(fake_nvml, {"count": 2, "gpu0.lost": True}))["gpus"]
    assert found[0]["lost"] is True
    assert found[0]["temperature_c"] is None
    assert found[0]["errors"]["temperature_c"] == "GPU_IS_LOST"
    assert (found[1]["lost"], found[1]["errors"]) == (False, {})


def test_one_field_that_fails_costs_only_itself(fake_nvml: FakeNvml) -> None:
    gpu = facts(dump(fake_nvml, {"gpu0.err.nvmlDeviceGetTemperature": 999}))["gpus"][0]
    assert gpu["errors"] == {"temperature_c": "UNKNOWN"}
    assert gpu["lost"] is False
    assert gpu["power_w"] == 72.0


def test_a_denied_field_is_not_a_fault_of_the_gpu(fake_nvml: FakeNvml) -> None:
    gpu = facts(dump(fake_nvml, {"gpu0.err.nvmlDeviceGetSramEccErrorStatus": 4}))["gpus"][0]
    assert gpu["ecc_sram_threshold_exceeded"] is None
    assert gpu["errors"] == {}


def test_reset_required(fake_nvml: FakeNvml) -> None:
    gpu = facts(dump(fake_nvml, {"gpu0.err.nvmlDeviceGetPowerUsage": 16}))["gpus"][0]
    assert gpu["reset_required"] is True
    assert gpu["lost"] is False


def test_an_old_library_is_asked_by_the_older_names(fake_nvml: FakeNvml) -> None:
    scenario = {
        "gpu0.throttle_mask": 0x48,
        "gpu0.memory_used_mib": 1000,
        "gpu0.err.nvmlDeviceGetCurrentClocksEventReasons": 13,
        "gpu0.err.nvmlDeviceGetMemoryInfo_v2": 13,
    }
    gpu = facts(dump(fake_nvml, scenario))["gpus"][0]
    assert gpu["throttle_reasons"] == ["hw_slowdown", "hw_thermal"]
    assert gpu["memory_used_mib"] in (1000, 1568)  # the old call counts what the driver reserves
    assert gpu["errors"] == {}


def test_a_wedged_gpu_does_not_hide_the_others(fake_nvml: FakeNvml) -> None:
    started = time.monotonic()
    answer = dump(fake_nvml, {"count": 3, "gpu1.wedge.nvmlDeviceGetTemperature": True}, "--seconds", "1.5")
    assert time.monotonic() - started < 8
    assert answer.status is Status.OK
    found = facts(answer)["gpus"]
    assert [gpu["temperature_c"] for gpu in found] == [34, None, 34]
    assert found[1]["errors"] == {"handle": "TIMEOUT"}
    assert found[1]["lost"] is None


def test_a_wedged_start_is_given_up(fake_nvml: FakeNvml) -> None:
    started = time.monotonic()
    answer = dump(fake_nvml, {"wedge.init": True}, timeout=1.5)
    assert time.monotonic() - started < 5
    assert answer.status is Status.TIMEOUT
    assert [line["kind"] for line in lines(answer)] == ["begin"]
    found = facts(answer)
    assert found["driver"]["nvml_timed_out"] is True
    assert found["gpus"] is None


def test_what_was_read_before_the_end_is_kept(fake_nvml: FakeNvml) -> None:
    answer = dump(fake_nvml, {"count": 3, "gpu1.wedge.nvmlDeviceGetTemperature": True}, timeout=2.5)
    assert answer.status is Status.TIMEOUT
    found = facts(answer)
    assert [gpu["temperature_c"] for gpu in found["gpus"]] == [34, None, 34]
    assert found["gpus"][1]["errors"] == {"handle": "TIMEOUT"}
    assert found["driver"]["nvml_timed_out"] is False


def test_a_crashing_library_is_not_an_absence_of_gpus(fake_nvml: FakeNvml) -> None:
    answer = dump(fake_nvml, {"count": 2, "crash.nvmlDeviceGetName": True})
    assert answer.status is Status.FAILED
    found = facts(answer)["gpus"]
    assert [gpu["errors"] for gpu in found] == [{"handle": "CRASHED"}] * 2


def shadow(folder: Path, **modules: str) -> dict[str, str]:
    """Modules of these names and contents that come before the installed ones."""
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("answer = 42\n", "it lacks NVMLError, nvmlInit"),
        ("raise ImportError('made for another Python')\n", "ImportError: made for another Python"),
        ("print('hello' from here)\n", "SyntaxError"),
        ("class NVMLError(Exception): pass\ndef nvmlInit(): pass\n", "it lacks nvmlSystemGetDriverVersion"),
    ],
    ids=["another module", "import error", "syntax error", "half a binding"],
)
def test_the_second_binding_takes_over(fake_nvml: FakeNvml, tmp_path: Path, text: str, reason: str) -> None:
    pytest.importorskip("py3nvml")
    answer = dump(fake_nvml, {"count": 2}, more=shadow(tmp_path, pynvml=text))
    begin = lines(answer)[0]
    assert begin["binding"] == "py3nvml"
    assert reason in begin["binding_problems"][0]
    assert len(facts(answer)["gpus"]) == 2


def test_both_bindings_give_the_same_facts(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    pytest.importorskip("py3nvml")
    scenario: Scenario = {
        "count": 2,
        "gpu": {**H100, "procs": f"{os.getpid()}:1024:python3", "recovery_action": 1},
        "gpu1": {"remapped_rows_pending": True, "ecc_uncorrected_volatile": 3, "mig_mode": True, "compute_mode": 3},
    }
    first = facts(dump(fake_nvml, scenario))
    second = facts(dump(fake_nvml, scenario, more=shadow(tmp_path, pynvml="")))
    assert first == second
    assert first["gpus"][1]["remapped_rows_pending"] is True
    assert first["gpus"][0]["recovery_action"] == "gpu_reset"


def test_without_any_binding_nothing_is_claimed(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    answer = dump(fake_nvml, {}, more=shadow(tmp_path, pynvml="", py3nvml=""))
    assert answer.status is Status.FAILED
    assert len(lines(answer)[0]["binding_problems"]) == 2
    assert facts_of(answer) is None


def test_a_file_in_the_current_directory_is_not_imported(fake_nvml: FakeNvml, tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise SystemExit('run by accident')\n", encoding="utf-8")
    environment = {**os.environ, **fake_nvml.scenario({})}
    argv = [sys.executable, "-P", "-m", "gpudoctor.workers.nvml_dump"]
    done = subprocess.run(
        argv, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=20, check=False
    )
    assert json.loads(done.stdout.splitlines()[0])["binding"] == "pynvml"


def test_every_margin_of_hopper_becomes_a_limit(fake_nvml: FakeNvml) -> None:
    text = json.dumps(
        {
            "kind": "device",
            "index": 0,
            "handle": 0,
            "values": {
                "temperature_c": 34,
                "temperature_margin_c": 53,
                "temperature_shutdown_margin_c": -8,
                "temperature_slowdown_margin_c": -2,
                "temperature_max_operating_margin_c": 0,
            },
        }
    )
    start = '{"kind": "init", "code": 0}\n{"kind": "system", "values": {"device_count": 1}}\n'
    answer = CommandAnswer(argv=("worker", "nvml_dump"), status=Status.OK, exit_code=0, stdout=start + text)
    gpu = facts(answer)["gpus"][0]
    limits = [gpu[f"temperature_{name}_c"] for name in ("max_operating", "slowdown", "shutdown")]
    assert limits == [87, 89, 95]
