"""`nvidia-smi -q`, its XML and its table in the layouts of many drivers, whole and damaged."""

from __future__ import annotations

import re

import pytest

from gpudoctor.facts import Gpu
from gpudoctor.probes.run import run_probes
from gpudoctor.probes.smi_blocks import parse_q_report, parse_xml_report
from gpudoctor.probes.smi_report import SmiReport
from gpudoctor.probes.smi_table import parse_table
from gpudoctor.sources import open_text
from tests.probes.smi_samples import Q_346, Q_570, TABLE_304, TABLE_470, TABLE_610, XML_590


def only(report: SmiReport) -> Gpu:
    assert report.gpus is not None
    assert len(report.gpus) == 1
    return report.gpus[0]


def known(gpu: Gpu) -> set[str]:
    extra = ("evidence", "errors", "lost", "index")
    return {name for name in Gpu.__struct_fields__ if name not in extra and getattr(gpu, name) is not None}


def test_q_of_2015() -> None:
    report = parse_q_report(Q_346)
    gpu = only(report)
    assert (report.driver_version, report.cuda_version) == ("346.72", None)
    assert (gpu.index, gpu.name, gpu.bdf, gpu.device_id) == (0, "Tesla K80", "0000:04:00.0", "10de:102d")
    assert (gpu.pcie_generation, gpu.pcie_width, gpu.pcie_width_max, gpu.pcie_replay_count) == (3, 8, 16, 2)
    assert gpu.throttle_reasons == ["app_clocks", "hw_slowdown"]
    assert (gpu.ecc_mode, gpu.ecc_mode_pending) == (True, False)
    counters = (gpu.ecc_corrected_volatile, gpu.ecc_uncorrected_volatile, gpu.ecc_corrected_aggregate)
    assert (*counters, gpu.ecc_uncorrected_aggregate) == (5, 1, 40, 2)
    assert (gpu.retired_pages_single_bit, gpu.retired_pages_double_bit, gpu.retired_pages_pending) == (3, 1, True)
    assert (gpu.temperature_slowdown_c, gpu.temperature_shutdown_c) == (88, 93)
    assert (gpu.power_w, gpu.power_limit_w, gpu.power_limit_default_w) == (31.02, 120.0, 149.0)
    assert (gpu.compute_mode, gpu.fan_pct, gpu.mig_mode, gpu.processes) == ("exclusive_process", None, None, [])


def test_q_of_2025() -> None:
    report = parse_q_report(Q_570)
    assert (report.driver_version, report.cuda_version) == ("570.133.20", "12.8")
    assert report.gpus is not None
    gpu = report.gpus[0]
    assert (gpu.index, gpu.architecture, gpu.virtualization_mode) == (0, "hopper", "passthrough")
    assert (gpu.mig_mode, gpu.mig_mode_pending, gpu.addressing_mode) == (False, True, "none")
    assert gpu.recovery_action == "drain_and_reset"
    assert gpu.throttle_reasons == ["hw_slowdown", "hw_power_brake", "sw_thermal"]
    assert (gpu.ecc_uncorrected_volatile, gpu.ecc_corrected_volatile) == (7, 7)
    assert (gpu.ecc_sram_uncorrected_aggregate, gpu.ecc_sram_threshold_exceeded) == (30, True)
    assert (gpu.remapped_rows_correctable, gpu.remapped_rows_uncorrectable) == (2, 4)
    assert (gpu.remapped_rows_pending, gpu.remapped_rows_failure) == (True, False)
    assert (gpu.remap_banks_max, gpu.remap_banks_none) == (2558, 1)
    assert (gpu.temperature_margin_c, gpu.temperature_slowdown_c, gpu.temperature_shutdown_c) == (27, 89, 95)
    assert (gpu.power_w, gpu.power_limit_w, gpu.power_limit_default_w) == (301.2, 500.0, 700.0)  # not the module's
    assert (gpu.fabric_state, gpu.fabric_status) == ("in_progress", None)
    assert gpu.fabric_health == "degraded_bandwidth, route_unhealthy"
    assert gpu.processes is not None
    assert [(p.pid, p.kind, p.name, p.memory_used_mib) for p in gpu.processes] == [
        (4242, "C", "python3 train.py", 990),
        (77, "M+C", "nvidia-cuda-mps-server", None),
    ]
    assert gpu.evidence["remapped_rows_pending"].text == "Pending : Yes"


def test_q_through_grep_keeps_the_power_limits() -> None:
    text = "GPU 00000000:21:00.0\n        SW Power Cap                      : Active\n        Current Power Limit               : 250.00 W\n        Default Power Limit               : 350.00 W\n        Max Power Limit                   : 370.00 W\n"
    gpu = only(parse_q_report(text))
    assert (gpu.power_limit_w, gpu.power_limit_default_w, gpu.power_limit_max_w) == (250.0, 350.0, 370.0)
    assert gpu.evidence["power_limit_default_w"].line == 4


def test_q_words_of_trouble() -> None:
    gpu = (parse_q_report(Q_570).gpus or [])[1]
    assert gpu.recovery_action == "node_reboot"
    assert gpu.errors == {
        "memory_total_mib": "GPU_IS_LOST",
        "memory_used_mib": "GPU_IS_LOST",
        "temperature_c": "RESET_REQUIRED",
        "fan_pct": "UNKNOWN",
    }
    assert gpu.lost is True
    assert gpu.reset_required is True
    assert (gpu.power_w, gpu.power_limit_w, gpu.performance_state) == (
        None,
        None,
        None,
    )  # deprecated, denied: no fault


def test_xml_of_2025() -> None:
    report = parse_xml_report(XML_590)
    gpu = only(report)
    assert (report.driver_version, report.cuda_version) == ("590.44.01", "13.1")
    assert (gpu.name, gpu.bdf, gpu.device_id) == ("NVIDIA B200 & friends", "0001:1a:00.0", "10de:2901")
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (183359, 2)  # not the MIG device's
    assert (gpu.mig_mode, gpu.mig_devices, gpu.utilization_gpu_pct) == (True, 2, None)
    assert (gpu.throttle_reasons, gpu.recovery_action, gpu.pcie_replay_count) == (["sw_power_cap"], "none", 3)
    assert gpu.remapped_rows_pending is gpu.ecc_uncorrected_volatile is None
    assert (gpu.power_w, gpu.power_limit_w, gpu.temperature_slowdown_c) == (181.0, 1000.0, 87)
    assert (gpu.fabric_state, gpu.fabric_status, gpu.fabric_health) == ("completed", "success", "limited_capacity")
    assert [(p.pid, p.name, p.memory_used_mib) for p in gpu.processes or []] == [(5, None, None)]
    line = gpu.evidence["recovery_action"].line
    assert line is not None
    assert XML_590.split("\n")[line - 1].strip() == "<gpu_recovery_action>None</gpu_recovery_action>"


def test_table_of_2013() -> None:
    report = parse_table(TABLE_304)
    gpu = only(report)
    assert (report.driver_version, report.cuda_version) == ("304.88", None)
    assert (gpu.name, gpu.bdf, gpu.persistence_mode) == ("Tesla K20c", "0000:02:00.0", None)
    assert (gpu.memory_used_mib, gpu.memory_total_mib, gpu.fan_pct) == (13, 4799, 30)
    assert (gpu.ecc_uncorrected_volatile, gpu.ecc_mode, gpu.compute_mode) == (3, True, "exclusive_thread")
    assert [(p.pid, p.name, p.memory_used_mib) for p in gpu.processes or []] == [(12345, "./simulate --long", 100)]


def test_table_with_errors_and_mig() -> None:
    a40, broken, a100 = parse_table(TABLE_470).gpus or []
    assert (a40.ecc_mode, a40.ecc_uncorrected_volatile, a40.mig_mode, a40.errors) == (False, None, None, {})
    assert [p.pid for p in a40.processes or []] == [2109]
    assert broken.name is None
    assert (broken.bdf, broken.memory_total_mib, broken.compute_mode) == ("0000:25:00.0", 46068, "default")
    assert {broken.errors[name] for name in ("temperature_c", "fan_pct", "power_w", "ecc_uncorrected_volatile")} == {
        "UNKNOWN"
    }
    assert (a100.ecc_mode, a100.mig_mode, a100.mig_devices, a100.compute_mode) == (True, True, 2, "prohibited")
    assert [(p.pid, p.kind, p.name) for p in a100.processes or []] == [(5555, "C", "python train.py")]


def test_table_of_2026_with_unified_memory() -> None:
    report = parse_table(TABLE_610)
    gpu = only(report)
    assert (report.driver_version, report.cuda_version) == ("610.57.04", "13.3")
    assert (gpu.bdf, gpu.memory_total_mib, gpu.power_w, gpu.power_limit_w) == ("000f:01:00.0", None, 4.0, None)
    assert (gpu.errors, gpu.processes) == ({}, None)


def test_a_single_row_of_the_table() -> None:
    gpu = only(parse_table("| N/A   38C    P0    55W / 300W |  27914MiB / 32510MiB |     99%   E. Process |"))
    assert (gpu.index, gpu.temperature_c, gpu.memory_used_mib) == (None, 38, 27914)
    assert (gpu.utilization_gpu_pct, gpu.compute_mode) == (99, "exclusive_process")


def test_a_part_of_q_leaves_the_rest_unknown() -> None:
    text = "    Remapped Rows\n        Correctable Error                 : 0\n        Uncorrectable Error               : 4\n        Pending                           : Yes\n        Remapping Failure Occurred        : No\n"
    gpu = only(parse_q_report(text))
    assert (gpu.remapped_rows_pending, gpu.remapped_rows_failure) == (True, False)
    assert known(gpu) == {
        "remapped_rows_correctable",
        "remapped_rows_uncorrectable",
        "remapped_rows_pending",
        "remapped_rows_failure",
    }


def test_q_filtered_by_grep() -> None:
    text = "        SW Thermal Slowdown               : Active\n        HW Slowdown                       : Not Active\n        GPU Current Temp                  : 88 C\n        GPU Slowdown Temp                 : 90 C\n"
    gpu = only(parse_q_report(text))
    assert (gpu.throttle_reasons, gpu.temperature_c, gpu.temperature_slowdown_c) == (["sw_thermal"], 88, 90)


def test_q_that_lost_its_indentation() -> None:
    flat = "\n".join(line.strip() for line in Q_570.split("\n"))
    gpu = (parse_q_report(flat).gpus or [])[0]
    assert (gpu.remapped_rows_pending, gpu.temperature_c, gpu.bdf) == (True, 60, "0000:3b:00.0")
    assert gpu.name == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize("indent", ["    ", "\t", "> "])
def test_q_quoted_in_a_ticket(indent: str) -> None:
    text = "\n".join(indent + line for line in Q_346.split("\n"))
    gpu = (parse_q_report(text).gpus or [Gpu()])[0]
    if indent != "> ":
        assert gpu.temperature_c == 35
        assert gpu.ecc_uncorrected_volatile == 1


def test_windows_line_ends() -> None:
    for text, parse in ((Q_570, parse_q_report), (XML_590, parse_xml_report), (TABLE_470, parse_table)):
        whole, crlf = parse(text).gpus or [], parse(text.replace("\n", "\r\n")).gpus or []
        assert [known(gpu) for gpu in whole] == [known(gpu) for gpu in crlf]


@pytest.mark.parametrize(
    ("text", "parse"),
    [(Q_346, parse_q_report), (Q_570, parse_q_report), (XML_590, parse_xml_report), (TABLE_470, parse_table)],
    ids=["q346", "q570", "xml", "table"],
)
def test_cut_anywhere_it_tells_less_but_nothing_else(text: str, parse: object) -> None:
    assert callable(parse)
    whole = parse(text).gpus or []
    for end in range(0, len(text), 61):
        part = parse(text[:end]).gpus or []
        assert len(part) <= len(whole)
        for gpu, full in zip(part, whole, strict=False):
            # the last line may be cut inside its value
            wrong = [name for name in known(gpu) if getattr(gpu, name) != getattr(full, name)]
            made = {"throttle_reasons", "processes", "fabric_health", "mig_devices"}
            assert len([name for name in wrong if name not in made and not name.startswith("ecc_")]) <= 1, (
                end,
                wrong,
            )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "\x00\xff\x1b[31m",
        "GPU",
        "GPU 00000000:01:00.0",
        ": : : :\n" * 50,
        "|" * 5000,
        "+---+\n| | | |\n",
        "a: b\n" * 20000,
        "    " * 4000 + "x : y",
        "".join(" " * n + f"k{n} : v\n" for n in range(300)),
    ],
)
def test_rubbish_gives_no_gpu_and_no_error(text: str) -> None:
    for parse in (parse_q_report, parse_xml_report, parse_table):
        assert [gpu for gpu in parse(text).gpus or [] if known(gpu) - {"bdf"}] == []


def test_hostile_xml_is_given_up() -> None:
    bomb = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><nvidia_smi_log><gpu id="0000:01:00.0"><product_name>&b;</product_name></gpu></nvidia_smi_log>'
    assert parse_xml_report(bomb).gpus is None
    deep = "<nvidia_smi_log>" + "<gpu>" * 100000
    assert parse_xml_report(deep) is not None
    file = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><nvidia_smi_log><driver_version>&f;</driver_version></nvidia_smi_log>'
    assert parse_xml_report(file).driver_version is None


def test_xml_after_other_lines_and_with_a_declared_encoding() -> None:
    text = "$ nvidia-smi -q -x\n" + XML_590.replace('version="1.0" ?', 'version="1.0" encoding="utf-16" ?')
    gpu = only(parse_xml_report(text))
    assert gpu.temperature_c == 40
    line = gpu.evidence["temperature_c"].line
    assert line is not None
    assert text.split("\n")[line - 1].strip() == "<gpu_temp>40 C</gpu_temp>"


def test_a_query_that_names_no_gpu_is_about_the_ones_that_another_output_shows() -> None:
    rows = "name, power.draw [W]\nNVIDIA A100-SXM4-80GB, 61.20 W\nNVIDIA A100-SXM4-80GB, 75.00 W\n"
    listed = "".join(f"GPU {n}: NVIDIA A100-SXM4-80GB (UUID: GPU-{n}00-aaaa)\n" for n in range(2))
    text = f"$ nvidia-smi -L\n{listed}$ nvidia-smi --query-gpu=name,power.draw --format=csv\n{rows}"
    facts, _ = run_probes(open_text(text))
    assert [(gpu.index, gpu.power_w) for gpu in facts.gpus or []] == [(0, 61.2), (1, 75.0)]


_TWO = "$ nvidia-smi --query-gpu=index,uuid --format=csv\nindex, uuid\n0, GPU-aa\n1, GPU-bb\n"
_ONE = "$ nvidia-smi --query-gpu=index,uuid --format=csv\nindex, uuid\n0, GPU-aa\n"


@pytest.mark.parametrize(
    ("text", "processes"),
    [
        (
            _TWO + "$ nvidia-smi --query-compute-apps=gpu_uuid,pid --format=csv,noheader\nGPU-bb, 12\nGPU-bb, 13\n",
            [None, [12, 13]],
        ),
        (_TWO + "$ nvidia-smi --query-compute-apps=pid --format=csv\npid\n12\n", [None, None]),
        (_ONE + "$ nvidia-smi --query-compute-apps=pid --format=csv\npid\n12\n13\n", [[12, 13]]),
        (_ONE + "$ nvidia-smi --query-compute-apps=pid,name --format=csv\npid, process_name\n", [[]]),
        ("$ nvidia-smi --query-compute-apps=pid,name --format=csv\npid, process_name\n12, a\n", [[12]]),
        ("$ nvidia-smi --query-compute-apps=pid,name --format=csv\npid, process_name\n12, a\n13, a\n", []),
        ("$ nvidia-smi --query-compute-apps=pid,name --format=csv\npid, process_name\n", []),
    ],
)
def test_a_list_of_processes_is_about_the_gpus_that_it_names(text: str, processes: list[list[int] | None]) -> None:
    facts, _ = run_probes(open_text(text))
    found = [None if gpu.processes is None else [p.pid for p in gpu.processes] for gpu in facts.gpus or []]
    assert found == processes


@pytest.mark.parametrize(
    ("written", "limit_w"), [("350.00 W", 350.0), ("3633313.00 W", None), ("N/A", None), ("0.00 W", 0.0)]
)
def test_the_power_of_a_gpu_that_does_not_answer_is_not_believed(written: str, limit_w: float | None) -> None:
    """A genuine nvidia-smi 550 prints what happens to be in its memory."""
    tag = "current_power_limit"
    said = re.sub(rf"<{tag}>.*?</{tag}>", f"<{tag}>{written}</{tag}>", XML_590)
    found = parse_xml_report(said)
    assert found.gpus is not None
    assert found.gpus[0].power_limit_w == limit_w
