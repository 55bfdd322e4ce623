"""The worker's lines as facts: whole, partial, damaged, and from a future worker."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpudoctor.facts import Facts
from gpudoctor.probes.nvml import facts_of
from gpudoctor.probes.nvml_answer import parse_dump
from gpudoctor.probes.nvml_fabric import health_of_mask
from gpudoctor.sources.answers import CommandAnswer, Status

OK = {"kind": "init", "code": 0, "name": "SUCCESS"}


def answer(*items: Any, status: Status = Status.OK, code: int | None = 0) -> CommandAnswer:
    text = "".join((item if isinstance(item, str) else json.dumps(item)) + "\n" for item in items)
    return CommandAnswer(argv=("worker", "nvml_dump"), status=status, exit_code=code, stdout=text)


def system(count: int) -> dict[str, Any]:
    return {"kind": "system", "values": {"device_count": count, "driver_version": "570.1.2"}}


def device(index: int, **more: Any) -> dict[str, Any]:
    return {"kind": "device", "index": index, "handle": 0, "values": {"temperature_c": 40}, **more}


def facts(*items: Any, **more: Any) -> Facts:
    found = facts_of(answer(*items, **more))
    assert found is not None
    return found


def test_evidence_is_field_and_value() -> None:
    gpus = facts(OK, system(1), device(0, values={"remapped_rows_pending": 1, "power_w": 71.5})).gpus or []
    assert gpus[0].evidence["remapped_rows_pending"].text == "remapped_rows_pending = 1"
    assert gpus[0].evidence["remapped_rows_pending"].source == "nvml"
    assert gpus[0].evidence["power_w"].text == "power_w = 71.5"


def test_devices_in_any_order() -> None:
    assert [gpu.index for gpu in facts(OK, system(2), device(1), device(0)).gpus or []] == [0, 1]


def test_what_was_not_reached_is_said() -> None:
    gpus = facts(OK, system(3), device(0), status=Status.TIMEOUT, code=None).gpus or []
    assert [gpu.errors for gpu in gpus] == [{}, {"handle": "TIMEOUT"}, {"handle": "TIMEOUT"}]
    crashed = facts(OK, system(2), device(0), status=Status.FAILED, code=-11).gpus or []
    assert crashed[1].errors == {"handle": "CRASHED"}
    assert "signal 11" in crashed[1].evidence["errors"].text


@pytest.mark.parametrize(
    ("code", "fault"), [(15, "GPU_IS_LOST"), (16, "RESET_REQUIRED"), (31, "CODE_31"), (4, "NO_PERMISSION")]
)
def test_a_refused_handle(code: int, fault: str) -> None:
    gpu = (facts(OK, system(1), {"kind": "device", "index": 0, "handle": code}).gpus or [])[0]
    assert gpu.errors == {"handle": fault}
    assert gpu.lost is (True if code == 15 else None)
    assert gpu.reset_required is (True if code == 16 else None)


def test_codes_that_only_mean_no_value_are_no_errors() -> None:
    codes = {"fan_pct": 3, "power_w": 4, "serial": 13, "minor": 25, "vbios": 26, "temperature_c": 14}
    gpu = (facts(OK, system(1), device(0, values={}, errors=codes)).gpus or [])[0]
    assert gpu.errors == {"temperature_c": "CORRUPTED_INFOROM"}
    assert gpu.inforom_corrupted is True


@pytest.mark.parametrize(
    ("mask", "health"),
    [
        (0, None),
        (0b01_01_0001_10_10_10_10, "healthy"),
        (0b01_01_0001_10_10_10_01, "degraded_bandwidth"),
        (
            0b10_10_0100_10_01_10_10,
            "route_unhealthy, incorrect_configuration, no_partition, fabric_manager_disconnected",
        ),
    ],
)
def test_fabric_health(mask: int, health: str | None) -> None:
    assert health_of_mask(mask) == health


def test_fabric_status_is_an_nvml_code() -> None:
    values = {"fabric_state": "completed", "fabric_status_code": 999}
    gpu = (facts(OK, system(1), device(0, values=values)).gpus or [])[0]
    assert (gpu.fabric_state, gpu.fabric_status) == ("completed", "UNKNOWN")


def test_no_devices_and_no_count_are_different() -> None:
    assert facts(OK, system(0)).gpus == []
    assert facts(OK, {"kind": "system", "values": {}}).gpus is None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "not json",
        "[1, 2]",
        "null",
        '{"kind": "device"}',
        '{"kind": "device", "index": "x"}',
        '{"kind": "new"}',
        "{" * 9000,
        '{"kind": "device", "index": 0, "values": [1], "errors": 7, "handle": 0}',
        '{"kind": "system", "values": {"device_count": "many", "cuda_driver_version": "new", "driver_version": 7}}',
    ],
)
def test_damaged_lines_are_passed_over(line: str) -> None:
    assert parse_dump(line) is not None
    found = facts(OK, line, system(1), device(0))
    assert [gpu.temperature_c for gpu in found.gpus or []] == [40]


def test_values_of_a_newer_worker_are_passed_over() -> None:
    gpu = (facts(OK, system(1), device(0, values={"temperature_c": 1, "flux_capacitor_pct": 88})).gpus or [])[0]
    assert gpu.temperature_c == 1


@pytest.mark.parametrize("status", [Status.NOT_RECORDED, Status.NOT_FOUND, Status.DENIED])
def test_no_answer_is_no_fact(status: Status) -> None:
    assert facts_of(CommandAnswer(argv=("worker", "nvml_dump"), status=status)) is None
    assert facts_of(answer(status=Status.FAILED, code=1)) is None
