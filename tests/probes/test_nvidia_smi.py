"""What nvidia-smi says when it fails, its lists and CSV, and how the probe puts its answers together."""

from __future__ import annotations

import os
import time

import pytest

from gpudoctor.facts import Facts
from gpudoctor.probes import nvidia_smi, nvml
from gpudoctor.probes.nvidia_smi import facts_of_answers
from gpudoctor.probes.smi_csv import parse_list, parse_processes, parse_query
from gpudoctor.probes.smi_errors import parse_failure
from gpudoctor.sources import open_live
from gpudoctor.sources.answers import CommandAnswer, Status
from tests.testbed.nvml import FakeNvml
from tests.testbed.scenario_file import Scenario
from tests.testbed.smi import GenuineSmi


def answer(*argv: str, text: str, status: Status = Status.FAILED, code: int | None = None) -> CommandAnswer:
    return CommandAnswer(argv=argv, status=status, exit_code=code, stdout=text)


@pytest.mark.parametrize(
    ("text", "index", "bdf", "fault"),
    [
        (
            "Unable to determine the device handle for GPU0000:0F:00.0: Unknown Error\n",
            None,
            "0000:0f:00.0",
            "UNKNOWN",
        ),
        (
            "Unable to determine the device handle for GPU 0000:04:00.0: GPU is lost.  Reboot the system to recover this GPU\n",
            None,
            "0000:04:00.0",
            "GPU_IS_LOST",
        ),
        ("Unable to determine the device handle for GPU1: GPU is lost. Reboot the system\n", 1, None, "GPU_IS_LOST"),
        (
            "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n",
            1,
            "0000:34:00.0",
            "UNKNOWN",
        ),
        ("Unable to determine the device handle for GPU 2: Unknown Error\n", 2, None, "UNKNOWN"),
        (
            "Unable to determine the device handle for GPU 00000000:81:00.0: GPU requires reset\n",
            None,
            "0000:81:00.0",
            "RESET_REQUIRED",
        ),
    ],
)
def test_handle_that_is_refused(text: str, index: int | None, bdf: str | None, fault: str) -> None:
    failure = parse_failure(text)
    gpu = failure.gpus[0]
    assert (gpu.index, gpu.bdf, gpu.errors) == (index, bdf, {"handle": fault})
    assert gpu.lost is (None if fault == "RESET_REQUIRED" else True)
    assert gpu.reset_required is (True if fault == "RESET_REQUIRED" else None)
    assert failure.error == text.strip()
    assert failure.nvml_error is None


def test_a_refused_gpu_beside_a_table() -> None:
    from tests.probes.smi_samples import TABLE_470

    text = "Unable to determine the device handle for GPU3: 0000:61:00.0: Unknown Error\n" + TABLE_470
    facts = facts_of_answers([answer("nvidia-smi", text=text, code=255)])
    assert facts is not None
    assert facts.gpus is not None
    assert [(gpu.index, bool(gpu.lost)) for gpu in facts.gpus] == [(0, False), (1, False), (2, False), (3, True)]
    assert facts.driver is not None
    assert (
        facts.driver.nvidia_smi_error == "Unable to determine the device handle for GPU3: 0000:61:00.0: Unknown Error"
    )


@pytest.mark.parametrize(
    "text",
    [
        "bash: nvidia-smi: command not found",
        "/bin/sh: 1: nvidia-smi: not found",
        "Command 'nvidia-smi' not found, but can be installed with:\nsudo apt install nvidia-utils-390",
        'exec: "nvidia-smi": executable file not found in $PATH: unknown.',
    ],
)
def test_a_missing_program(text: str) -> None:
    facts = facts_of_answers([answer("nvidia-smi", text=text)])
    assert facts is not None
    assert facts.driver is not None
    assert facts.driver.nvidia_smi_present is False
    assert facts.driver.nvml_error is None
    assert facts.gpus is None


def test_a_program_that_is_not_there() -> None:
    facts = facts_of_answers([CommandAnswer(argv=("nvidia-smi",), status=Status.NOT_FOUND)])
    assert facts is not None
    assert facts.driver is not None
    assert facts.driver.nvidia_smi_present is False
    assert facts_of_answers([CommandAnswer(argv=("nvidia-smi",), status=Status.NOT_RECORDED)]) is None


def test_a_program_that_never_answers() -> None:
    facts = facts_of_answers([CommandAnswer(argv=("nvidia-smi",), status=Status.TIMEOUT, seconds=12.0)])
    assert facts is not None
    assert facts.driver is not None
    assert facts.driver.nvml_timed_out is True
    assert facts.driver.evidence["nvml_timed_out"].text == "nvidia-smi gave no answer in 12 s"


def test_corrupted_inforom() -> None:
    text = "WARNING: infoROM is corrupted at gpu 0000:84:00.0\n"
    facts = facts_of_answers([answer("nvidia-smi", text=text, code=14)])
    assert facts is not None
    assert facts.gpus is not None
    assert (facts.gpus[0].bdf, facts.gpus[0].inforom_corrupted) == ("0000:84:00.0", True)


def test_unknown_words_of_a_failure_are_kept() -> None:
    facts = facts_of_answers([answer("nvidia-smi", text="Something went wrong here\n", code=77)])
    assert facts is not None
    assert facts.driver is not None
    assert facts.driver.nvidia_smi_error == "Something went wrong here"
    assert facts.driver.nvml_error is None


def test_the_richer_output_holds_and_the_other_completes() -> None:
    from tests.probes.smi_samples import Q_346

    listing = "GPU 0: Tesla K80 (UUID: GPU-11111111-2222-3333-4444-555555555555)\nGPU 1: Tesla K80 (UUID: GPU-2)\n"
    facts = facts_of_answers(
        [
            answer("nvidia-smi", "-q", text=Q_346, status=Status.OK, code=0),
            answer("nvidia-smi", "-L", text=listing, status=Status.OK, code=0),
        ]
    )
    assert facts is not None
    assert facts.gpus is not None
    assert [(gpu.index, gpu.temperature_c) for gpu in facts.gpus] == [(0, 35), (1, None)]


def test_evidence_has_the_lines_of_the_file_it_came_from() -> None:
    from tests.probes.smi_samples import Q_346

    numbers = list(range(1001, 1001 + Q_346.count("\n") + 1))
    stored = CommandAnswer(argv=("nvidia-smi", "-q"), status=Status.OK, stdout=Q_346, line_numbers=numbers)
    facts = facts_of_answers([stored])
    assert facts is not None
    assert facts.gpus is not None
    line = facts.gpus[0].evidence["temperature_c"].line
    assert line is not None
    assert "GPU Current Temp" in Q_346.split("\n")[line - 1001]


# --- lists and CSV -------------------------------------------------------------------------------------------------


def test_list_with_mig() -> None:
    text = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
  MIG 1g.5gb      Device  0: (UUID: MIG-1)
  MIG 3g.20gb     Device  1: (UUID: MIG-2)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
"""
    gpus = parse_list(text).gpus or []
    assert [(gpu.index, gpu.name, gpu.uuid, gpu.mig_devices) for gpu in gpus] == [
        (0, "NVIDIA A100-SXM4-40GB", "GPU-aaaa", 2),
        (1, "NVIDIA A100-SXM4-40GB", "GPU-bbbb", None),
    ]
    assert parse_list("No devices found.\n").gpus is None


def test_csv_with_header() -> None:
    text = """index, pstate, utilization.gpu [%], memory.used [MiB], pcie.link.gen.current, clocks_event_reasons.sw_thermal_slowdown, driver_version
0, P0, 97 %, 1024 MiB, 3, Active, 550.54.15
1, P8, [N/A], [Unknown Error], 1, Not Active, 550.54.15
"""
    report = parse_query(text)
    first, second = report.gpus or []
    assert (first.index, first.performance_state, first.utilization_gpu_pct) == (0, "P0", 97)
    assert (first.memory_used_mib, first.throttle_reasons) == (1024, ["sw_thermal"])
    assert (second.utilization_gpu_pct, second.throttle_reasons) == (None, [])
    assert second.errors == {"memory_used_mib": "UNKNOWN"}
    assert report.driver_version == "550.54.15"


def test_csv_without_header_is_read_by_the_command_that_was_typed() -> None:
    command = "nvidia-smi --query-gpu=name,temperature.gpu,power.draw --format=csv,noheader,nounits"
    gpu = (parse_query("NVIDIA L4, 55, 70.12\n", command).gpus or [])[0]
    assert (gpu.name, gpu.temperature_c, gpu.power_w) == ("NVIDIA L4", 55, 70.12)
    assert parse_query("NVIDIA L4, 55, 70.12\n").gpus is None


def test_csv_tells_the_reasons_by_their_mask() -> None:
    report = parse_query(
        "index, clocks_throttle_reasons.active\n0, 0x0000000000000004\n1, 0x0000000000000000\n2, [N/A]\n"
    )
    assert report.gpus is not None
    assert [gpu.throttle_reasons for gpu in report.gpus] == [["sw_power_cap"], [], None]


def test_csv_samples_over_time_are_one_gpu() -> None:
    command = "--query-gpu=timestamp,temperature.gpu,fan.speed,clocks_event_reasons.sw_thermal_slowdown"
    text = "2026/04/09 14:02:11.120, 88, 30 %, Not Active\n2026/04/09 14:02:16.121, 92, 30 %, Active\n"
    gpus = parse_query(text, command).gpus or []
    assert [(gpu.temperature_c, gpu.throttle_reasons) for gpu in gpus] == [(92, ["sw_thermal"])]


def test_csv_of_a_lost_gpu() -> None:
    text = "index, name, temperature.gpu\n0, NVIDIA L4, 40\n[GPU is lost], [GPU is lost], [GPU is lost]\n2, NVIDIA L4, 41\n"
    gpus = parse_query(text).gpus or []
    assert [(gpu.index, bool(gpu.lost), gpu.temperature_c) for gpu in gpus] == [
        (0, False, 40),
        (1, True, None),
        (2, False, 41),
    ]


def test_csv_of_versions_only_tells_of_no_gpu() -> None:
    report = parse_query("driver_version\n440.33.01\n")
    assert (report.driver_version, report.gpus) == ("440.33.01", None)


@pytest.mark.parametrize("text", ["", "\n", "a, b, c\n1, 2\n", '"unclosed, 1\n2', "\x00, \x01"])
def test_damaged_csv(text: str) -> None:
    assert parse_query(text).gpus is None


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-1, 4100, /usr/bin/python3, 70112 MiB\n", ""),
        ("gpu_uuid, pid, name, used_memory [MiB]\nGPU-1, 4100, /usr/bin/python3, 70112 MiB\n", ""),
        (
            "GPU-1, 4100, /usr/bin/python3, 70112\n",
            "nvidia-smi --query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv,noheader,nounits",
        ),
        (
            "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-1, 4100, /usr/bin/python3, 5 MiB\n"
            "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-1, 4100, /usr/bin/python3, 70112 MiB\n",
            "",
        ),
    ],
)
def test_csv_of_processes(text: str, command: str) -> None:
    [gpu] = parse_processes(text, command).gpus or []
    [process] = gpu.processes or []
    assert gpu.uuid == "GPU-1"
    assert (process.pid, process.name, process.memory_used_mib) == (4100, "/usr/bin/python3", 70112)
    assert "4100" in (gpu.evidence["processes"].text or "")


def test_csv_of_processes_by_address_and_without_values() -> None:
    text = "gpu_bus_id, pid, process_name, used_gpu_memory [MiB]\n00000000:3B:00.0, 77, [N/A], [N/A]\n00000000:5E:00.0, 78, a, 1 MiB\n"
    gpus = parse_processes(text).gpus or []
    assert [gpu.bdf for gpu in gpus] == ["0000:3b:00.0", "0000:5e:00.0"]
    assert [(p.name, p.memory_used_mib) for gpu in gpus for p in gpu.processes or []] == [(None, None), ("a", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "pid, process_name, used_gpu_memory [MiB]\n",
        "pid, process_name\n1, a, 3 MiB\nword, b\n",
        "1, a, 3 MiB\n",
        "\x00, \x01",
        "No running processes found",
    ],
)
def test_damaged_or_empty_csv_of_processes(text: str) -> None:
    assert parse_processes(text).gpus is None


# --- live, on the fake NVML ------------------------------------------------------------------------------------------


def live(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> tuple[Facts | None, Facts | None]:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    source = open_live()
    return nvml.probe(source), nvidia_smi.probe(source)


def test_live_and_healthy_asks_for_the_table_only(genuine_smi: GenuineSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in genuine_smi.environment({"count": 2}).items():
        monkeypatch.setenv(name, value)
    source = open_live()
    facts = nvidia_smi.probe(source)
    assert facts is not None
    assert len(facts.gpus or []) == 2
    assert [document.name for document in source.documents()] == ["nvidia-smi"]


def test_live_and_unwell_asks_for_more(genuine_smi: GenuineSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario: Scenario = {"count": 2, "gpu1.err.nvmlDeviceGetTemperature": 999, "gpu0.remapped_rows_pending": True}
    first, second = live(monkeypatch, genuine_smi.environment(scenario))
    assert first is not None
    assert second is not None
    assert second.gpus is not None
    assert second.gpus[0].remapped_rows_pending is True  # only the XML tells that
    assert second.gpus[1].errors == {"temperature_c": "UNKNOWN"}


def test_live_wedged_start_ends_in_time(
    genuine_smi: GenuineSmi, fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvidia_smi, "TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(nvml, "TIMEOUT_SECONDS", 1.5)
    started = time.monotonic()
    first, second = live(monkeypatch, genuine_smi.environment({"wedge.init": True}))
    assert time.monotonic() - started < 8
    for facts in (first, second):
        assert facts is not None
        assert facts.driver is not None
        assert facts.driver.nvml_timed_out is True
        assert facts.gpus is None


def test_live_processes_are_looked_up(genuine_smi: GenuineSmi, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    if Path("/proc/2/comm").read_text().strip() != "kthreadd":
        pytest.skip("in a PID namespace of its own, process numbers of the host mean nothing")
    procs = f"{os.getpid()}:1024:python3,4194303:20:gone"
    first, _ = live(monkeypatch, genuine_smi.environment({"gpu": {"procs": procs}}))
    assert first is not None
    assert first.gpus is not None
    alive = {process.pid: process.alive for process in first.gpus[0].processes or []}
    assert alive == {os.getpid(): True, 4194303: False}
