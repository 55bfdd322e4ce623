"""The law of sources holds for active tests too: the report of a live run is the report of its recording."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpudoctor.cli.active import Active
from gpudoctor.cli.pipeline import Request, examine
from gpudoctor.engine.load import load_rules
from gpudoctor.sources import Recorder, open_live, open_paths
from tests.bench.conftest import Report
from tests.bench.nodes import H100, Node
from tests.bench.test_live import environment
from tests.testbed.nvml import FakeNvml

pytest.importorskip("numpy")  # the stand-in for CUDA uses it


def comparable(report: Any) -> dict[str, Any]:
    """Without what differs by nature: the source's name and the time that probes took."""
    data: dict[str, Any] = msgspec.to_builtins(report)
    data.pop("source")
    for run in data["probes"]:
        run.pop("seconds")
    return data


@pytest.mark.parametrize("tests", [("memory",), ("memory", "gemm")])
def test_a_recording_gives_the_report_of_the_live_run(
    fake_nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tests: tuple[str, ...]
) -> None:
    for name, value in environment(fake_nvml, {"count": 1}).items():
        monkeypatch.setenv(name, value)
    rules = load_rules()
    recorder = Recorder(open_live())
    deadline = 60.0 if len(tests) == 1 else 32.0  # the second has no time for all of it
    live = examine(recorder, rules, Request(active=Active(level=2, tests=tests), deadline_seconds=deadline))
    recorder.save(tmp_path / "recording")
    again = examine(open_paths([tmp_path / "recording"]), rules, Request())
    assert live.bench is not None
    assert live.bench.runs
    assert comparable(again) == comparable(live)


def test_without_a_word_on_levels_the_recorded_tests_are_shown(report_on: Callable[..., Report]) -> None:
    node = Node(H100, 8)
    default, level_2 = report_on(node), report_on(node, "--level", "2")
    assert default.bench == level_2.bench
    assert default.roots == level_2.roots == []


def test_a_recording_without_tests_has_none(report_on: Callable[..., Report]) -> None:
    node = Node(H100, 2, tests=())
    node.answers["worker", "bench_devices"] = {"status": "not_recorded"}
    report = report_on(node)
    assert report.data["bench"] is None
    assert [run["name"] for run in report.data["probes"]].count("active tests") == 0


def test_asked_for_tests_that_a_recording_lacks_are_not_checked(report_on: Callable[..., Report]) -> None:
    report = report_on(Node(H100, 2, tests=("memory",)), "--level", "2")
    assert (report.verdict, report.code) == ("unknown", 3)
    assert "NCCL collectives: the evidence has no run of it" in report.tests_run["problems"]
    assert "NOT CHECKED" in report.text
