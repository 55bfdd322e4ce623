"""The command on this machine, with the genuine workers on the CPU stand-in for CUDA and the fake NVML: no GPU is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.testbed import cuda_on_cpu, gpu_models
from tests.testbed.nvml import FakeNvml

pytest.importorskip("numpy")  # the stand-in for CUDA uses it
ROOT = Path(__file__).parents[2]
Start = Callable[..., "subprocess.Popen[str]"]


def environment(fake_nvml: FakeNvml, scenario: dict[str, Any]) -> dict[str, str]:
    """Under which CUDA and NVML show the same two H100."""
    cuda = cuda_on_cpu.environment({"count": 2, "name": "NVIDIA H100 80GB HBM3", "memory_mib": 48} | scenario)
    nvml = fake_nvml.scenario({"count": 2, "gpu": gpu_models.H100})
    return {**cuda, **nvml, "PYTHONPATH": f"{cuda['PYTHONPATH']}:{ROOT}"}


@pytest.fixture
def start(fake_nvml: FakeNvml) -> Iterator[Start]:
    """`start(*arguments, scenario={})`: the program as a process of its own; what it leaves behind is ended."""
    begun: list[subprocess.Popen[str]] = []

    def run(*arguments: str, scenario: dict[str, Any] | None = None) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpudoctor", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(fake_nvml, scenario or {}),
            cwd=ROOT,
        )
        begun.append(process)
        return process

    yield run
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.communicate()


def workers_of(process: subprocess.Popen[str], name: str, seconds: float = 60.0) -> list[psutil.Process]:
    """The running workers of this name, once there are some."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True)
        if found := [child for child in children if _is_worker(child, name)]:
            return found
        time.sleep(0.05)
    raise AssertionError(f"no worker {name}: {process.communicate()}")


def _is_worker(process: psutil.Process, name: str) -> bool:
    try:
        return any(f"workers.{name}" in part for part in process.cmdline())
    except psutil.Error:  # it ended just now
        return False


def report_of(process: subprocess.Popen[str], timeout: float = 120.0) -> tuple[int, dict[str, Any], str]:
    stdout, stderr = process.communicate(timeout=timeout)
    assert "fault of gpudoctor" not in stderr, stderr
    return process.returncode, json.loads(stdout), stderr


def test_bench_measures(start: Start) -> None:
    """Arrays of a few MiB say nothing of an H100's memory: shown, not judged, and said so."""
    code, report, stderr = report_of(start("bench", "memory", "--gpu", "0", "--seconds", "60", "--format", "json"))
    figures = report["bench"]["figures"]
    assert {figure["metric"] for figure in figures} >= {"read", "write", "copy", "triad"}
    assert {figure["gpu_index"] for figure in figures} == {0}
    assert {figure["verdict"] for figure in figures} == {"unjudged"}
    assert {f["why_unjudged"] for f in figures if f["metric"] == "copy"} <= {
        "a larger size of it is judged",
        "pieces of 12 MiB are too small to judge by",
    } or "too small" in figures[0]["why_unjudged"]
    assert report["bench"]["gpus_visible"] == 2
    assert any("instead of" in note for run in report["bench"]["runs"] for note in run["notes"] or [])
    assert report["bench"]["load"][0]["samples"] > 0
    assert (report["verdict"], code, stderr) == ("pass", 0, "")


def test_planted_faults_are_found(start: Start) -> None:
    """A bit that stays 0 in the arena that plays the GPU's memory."""
    stuck = [[offset, 0xFF, 0x10] for offset in range(1 << 20, 40 << 20, 1 << 20)]
    process = start(
        "bench", "memtest", "--gpu", "0", "--seconds", "60", "--format", "json", scenario={"stuck": stuck}
    )
    code, report, _ = report_of(process)
    assert code == 1
    assert report["findings"][0]["rule"] == "bench/memory-errors"
    assert report["bench"]["faults"][0]["bits"] is not None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_shows_what_was_measured_and_leaves_nothing_running(
    start: Start, number: signal.Signals
) -> None:
    process = start("bench", "memory", "--seconds", "300", scenario={"slow_ms": 50})
    workers = workers_of(process, "bench_memory")
    time.sleep(2.0)
    process.send_signal(number)
    begun = time.monotonic()
    stdout, stderr = process.communicate(timeout=30)
    assert time.monotonic() - begun < 20
    assert process.returncode == 130
    assert "ending the tests" in stderr
    assert "interrupted" in stdout
    assert "no time was left" not in stdout
    assert not [worker for worker in workers if worker.is_running() and worker.status() != psutil.STATUS_ZOMBIE]


def test_a_killed_worker_costs_its_own_test_only(start: Start) -> None:
    process = start("bench", "memory", "--seconds", "300", "--format", "json", scenario={"slow_ms": 50})
    workers = workers_of(process, "bench_memory")
    time.sleep(1.0)
    for worker in workers_of(process, "bench_memory") or workers:
        worker.kill()
    code, report, _ = report_of(process)
    runs = report["bench"]["runs"]
    assert {(run["error_name"], run["state"]) for run in runs} <= {("SIGKILL", "failed"), ("SIGKILL", "partial")}
    assert code in (0, 3)
    assert report["verdict"] != "pass" or all(run["state"] == "partial" for run in runs)


def test_a_hang_is_bounded_by_the_deadline(start: Start) -> None:
    begun = time.monotonic()
    process = start(
        "bench", "memory", "--gpu", "1", "--seconds", "15", "--deadline", "40", "--format", "json",
        scenario={"slow_ms": 3_600_000},
    )  # fmt: skip
    code, report, _ = report_of(process)
    assert time.monotonic() - begun < 60
    assert {run["state"] for run in report["bench"]["runs"]} == {"timed_out"}
    assert report["findings"][0]["rule"] == "bench/test-hangs"
    assert code == 1


def test_a_deadline_too_short_for_anything_is_no_pass(start: Start) -> None:
    process = start("bench", "memory", "--deadline", "9", "--format", "json")
    code, report, _ = report_of(process)
    assert (code, report["verdict"]) == (3, "unknown")


def test_a_gpu_that_cuda_does_not_show(start: Start) -> None:
    process = start("bench", "memory", "--gpu", "7")
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "--gpu 7: CUDA shows no such GPU" in stderr


def test_a_baseline_is_written_and_compared_with(start: Start, tmp_path: Path) -> None:
    path = tmp_path / "good.json"
    process = start("bench", "memory", "--gpu", "0", "--seconds", "60", "--save-baseline", str(path))
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 0
    assert f"--baseline {path}" in stderr
    baseline = json.loads(path.read_text())
    for figure in baseline["figures"]:
        figure["value"] *= 1000  # a node a thousand times as fast
    path.write_text(json.dumps(baseline))
    process = start("bench", "memory", "--gpu", "0", "--seconds", "60", "--baseline", str(path), "--format", "json")
    code, report, _ = report_of(process)
    assert code == 1
    assert "baseline good.json" in report["findings"][0]["evidence"][0]["text"]
    assert os.path.basename(path) == report["bench"]["baseline"]


def test_under_a_launcher_only_nccl_runs(fake_nvml: FakeNvml) -> None:
    """Two ranks are announced and one comes: said by name, and nothing else puts load on the GPUs meanwhile."""
    ranks = {"TORCHELASTIC_RUN_ID": "x", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    ranks |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29871"}
    run = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "bench", "--seconds", "10", "--format", "json"],
        capture_output=True,
        text=True,
        env={**environment(fake_nvml, {"count": 1}), **ranks},
        cwd=ROOT,
        timeout=120,
    )
    report = json.loads(run.stdout)
    assert [entry["test"] for entry in report["bench"]["runs"]] == ["nccl"]
    assert "--alone" not in str(report)
    assert run.returncode == 3
