"""The workers of links on GPUs that are pieces of host memory: figures, data changed on the way, hangs, and many ranks."""

from __future__ import annotations

import ast
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import cuda_on_cpu, gpus_on_cpu
from tests.testbed.cuda_on_cpu import Ran
from tests.testbed.gpus_on_cpu import run
from tests.workers.test_links import free_port

pytest.importorskip("numpy")
SMALL = ("--max-bytes", "65536", "--quick", "--seconds", "20")
PCIE = ["h2d_pinned", "d2h_pinned", "bidirectional_pinned", "h2d_pageable", "d2h_pageable"]
PAIR = ["p2p_unidirectional", "p2p_latency", "p2p_unidirectional", "p2p_latency", "p2p_bidirectional"]
COLLECTIVES = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv"]


def assert_healthy(ran: Ran) -> None:
    assert ran.code == 0, ran.stdout + ran.stderr
    assert ran.errors == []
    assert ran.faults == []
    assert ran.end.complete


def gpus(count: int = 2, **wrong: Any) -> dict[str, Any]:
    return {"devices": count, "memory": 64 << 20, "wrong": wrong}


# --- host and GPU ---


def test_pcie() -> None:
    ran = run("bench_pcie", *SMALL, scenario=gpus(2))
    assert_healthy(ran)
    near = [figure for figure in ran.figures if not figure.metric.endswith("_far")]
    assert [(figure.device, figure.metric) for figure in near] == [(gpu, metric) for gpu in (0, 1) for metric in PCIE]
    assert all(figure.value > 0 and figure.unit == "GB/s" and figure.size_bytes == 65536 for figure in near)


def test_pcie_of_several_sizes() -> None:
    ran = run(
        "bench_pcie", "--max-bytes", str(80 << 20), "--seconds", "30", scenario={"devices": 1, "memory": 1 << 30}
    )
    assert_healthy(ran)
    sizes = {figure.size_bytes for figure in ran.figures if figure.metric == "h2d_pinned"}
    assert sizes == {64 << 20, 80 << 20}


@pytest.mark.parametrize(
    ("way", "metric", "words"), [("h2d", "h2d_pinned", "to the GPU"), ("d2h", "h2d_pinned", "back")]
)
def test_pcie_that_changes_data(way: str, metric: str, words: str) -> None:
    ran = run("bench_pcie", *SMALL, scenario={"devices": 1, "wrong": {way: "flip"}})
    assert ran.code == 0
    first = ran.faults[0]
    assert (first.kind, first.device, first.metric, first.address, first.bits) == (
        "corrupt_copy",
        0,
        metric,
        "0x800",
        [9],
    )
    assert words in first.text
    assert first.expected != first.got


def test_pcie_takes_less_when_there_is_no_room() -> None:
    ran = run("bench_pcie", "--seconds", "20", "--quick", scenario={"devices": 1, "memory": 100 << 20})
    assert_healthy(ran)
    assert [(note.kind, note.value) for note in ran.notes] == [("shrunk", 16.0)]


# --- GPU and GPU ---


def test_p2p() -> None:
    ran = run("bench_p2p", *SMALL, scenario=gpus(3))
    assert_healthy(ran)
    assert ran.notes == []
    assert [figure.metric for figure in ran.figures] == PAIR * 3
    pairs = {(figure.device, figure.peer) for figure in ran.figures if figure.metric == "p2p_unidirectional"}
    assert pairs == {(a, b) for a in range(3) for b in range(3) if a != b}
    assert {figure.unit for figure in ran.figures if figure.metric == "p2p_latency"} == {"us"}


@pytest.mark.parametrize(
    ("what", "words", "count"),
    [
        ("zero", "zeros instead in 16384", 16384),
        ("nothing", "nothing arrived", 16384),
        ("flip", "other data in 1 of", 1),
    ],
)
def test_p2p_that_changes_data(what: str, words: str, count: int) -> None:
    ran = run("bench_p2p", *SMALL, scenario=gpus(2, **{"1-0": what}))
    assert (ran.code, ran.end.complete) == (0, True)
    assert {fault.metric for fault in ran.faults} == {"p2p_unidirectional", "p2p_bidirectional"}
    for fault in ran.faults:
        assert (fault.kind, fault.device, fault.peer, fault.count) == ("corrupt_copy", 1, 0, count)
        assert words in fault.text


def test_pairs_without_peer_access_are_named_and_go_through_the_host() -> None:
    ran = run("bench_p2p", *SMALL, scenario={**gpus(3), "no_peer": ["0-1", "1-0", "2-1"]})
    assert_healthy(ran)
    assert [note.text for note in ran.notes] == [
        "of GPU 1 and GPU 2 only GPU 1 can access the other's memory",
        "GPU 0 and GPU 1 cannot access each other's memory: copies go through host memory",
    ]
    paths = {(figure.device, figure.peer): figure.path for figure in ran.figures}
    assert paths[0, 1] == paths[1, 0] == paths[1, 2] == "host"
    assert paths[0, 2] != "host"


def test_no_peer_access_at_all_is_one_note() -> None:
    pairs = [f"{a}-{b}" for a in range(4) for b in range(4) if a != b]
    ran = run("bench_p2p", *SMALL, scenario={**gpus(4), "no_peer": pairs})
    assert_healthy(ran)
    assert len(ran.notes) == 1
    assert "no P2P" in ran.notes[0].text


def test_a_copy_between_gpus_that_never_ends() -> None:
    begun = time.monotonic()
    ran = run("bench_p2p", *SMALL[:3], "--seconds", "12", scenario=gpus(2, **{"0-1": "hang"}))
    assert time.monotonic() - begun < 20
    assert ran.code == 1
    (error,) = ran.errors
    assert (error.api, error.name) == ("worker", "NoAnswer")
    assert re.match(r"copying from GPU 0 to GPU 1 did not come back within \d s", error.message)
    assert not ran.end.complete


def test_a_fault_in_a_copy_ends_the_test() -> None:
    ran = run("bench_p2p", *SMALL, scenario=gpus(3, **{"0-2": 700}))
    assert ran.code == 1
    (error,) = ran.errors
    assert (error.api, error.code, error.name) == ("cuda", 700, "cudaErrorIllegalAddress")
    assert error.where == "copying between GPU 0 and GPU 2"


def test_one_gpu_has_no_links() -> None:
    for worker in ("bench_p2p", "bench_nccl"):
        ran = run(worker, *SMALL, "--device", "1", scenario=gpus(2))
        assert_healthy(ran)
        assert [note.kind for note in ran.notes] == ["skipped"]


# --- NCCL in one process ---


def test_nccl() -> None:
    ran = run("bench_nccl", *SMALL, scenario=gpus(3))
    assert_healthy(ran)
    assert ran.start.nccl == "2.32.3"
    assert [figure.metric for figure in ran.figures] == COLLECTIVES
    assert all(figure.unit == "GB/s" and figure.device is None for figure in ran.figures)


def test_nccl_with_wrong_results() -> None:
    ran = run("bench_nccl", *SMALL, scenario=gpus(2, **{f"{collective}@1": "zero" for collective in COLLECTIVES}))
    assert (ran.code, ran.end.complete) == (0, True)
    assert [fault.metric for fault in ran.faults] == COLLECTIVES
    for fault in ran.faults:
        assert (fault.kind, fault.device, fault.address, fault.got) == ("wrong_result", 1, "0x0", "0.0")
        assert f"{fault.metric} of 0 MiB: rank 1 received zeros instead" in fault.text


def test_nccl_that_does_not_connect() -> None:
    ran = run("bench_nccl", *SMALL, scenario=gpus(2, connect=2))
    assert ran.code == 1
    (error,) = ran.errors
    assert (error.api, error.code, error.name) == ("nccl", 2, "NCCL_ERROR_SYSTEM_ERROR")
    assert error.where == "connecting 2 ranks"


def test_nccl_that_never_ends_a_collective() -> None:
    ran = run("bench_nccl", *SMALL[:3], "--seconds", "8", scenario=gpus(2, all_reduce="hang"))
    assert not ran.end.complete
    words = ran.errors[0].message if ran.errors else ran.end.why or ""
    assert "running all_reduce of 0 MiB" in words
    assert (ran.code, bool(ran.errors)) in [(0, False), (1, True)]


# --- NCCL over many processes ---


def torchrun(
    rank: int, world: int, port: int, scenario: dict[str, Any], folder: Path, *more: str
) -> subprocess.Popen[str]:
    variables = {
        "TORCHELASTIC_RUN_ID": "t", "RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    environment = gpus_on_cpu.environment(scenario, str(folder), **variables)
    return cuda_on_cpu.start("bench_nccl", *SMALL[:3], "--seconds", "30", *more, env=environment)


def read_until(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    read = ""
    while words not in read:
        line = process.stdout.readline()
        assert line, read
        read += line
    return read


def test_ranks_of_torchrun_go_together(tmp_path: Path) -> None:
    port = free_port()
    scenario = gpus(2, **{"broadcast@1": "flip"})
    started = [torchrun(rank, 2, port, scenario, tmp_path) for rank in range(2)]
    zero, one = (cuda_on_cpu.finish(process) for process in started)
    assert (zero.code, one.code) == (0, 0)
    assert [figure.metric for figure in zero.figures] == COLLECTIVES
    assert [fault.metric for fault in zero.faults] == ["broadcast"]
    assert "rank 1 received" in zero.faults[0].text
    assert one.figures == []
    assert [note.text for note in one.notes] == ["rank 1 of 2: rank 0 prints the figures"]
    assert one.end.complete


def test_a_process_alone_on_its_host_brings_all_its_gpus(tmp_path: Path) -> None:
    port = free_port()
    started = []
    for rank in range(2):
        variables = {
            "SLURM_STEP_ID": "0", "SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": "2", "SLURM_NODEID": str(rank),
            "SLURM_STEP_TASKS_PER_NODE": "1(x2)", "SLURM_STEP_NODELIST": "localhost,b", "MASTER_PORT": str(port),
        }  # fmt: skip
        environment = gpus_on_cpu.environment(gpus(2, **{"all_reduce@1": "zero"}), str(tmp_path), **variables)
        started.append(cuda_on_cpu.start("bench_nccl", *SMALL[:3], "--seconds", "30", env=environment))
    zero, one = (cuda_on_cpu.finish(process) for process in started)
    assert (zero.code, one.code) == (0, 0)
    assert [fault.text.split(": ")[1].split(" received")[0] for fault in zero.faults] == ["rank 1", "rank 3"]


def test_a_rank_that_fails_is_named_by_rank_0(tmp_path: Path) -> None:
    port = free_port()
    started = [torchrun(rank, 2, port, gpus(2, **{"kernel@1": 700} if rank else {}), tmp_path) for rank in range(2)]
    zero, one = (cuda_on_cpu.finish(process) for process in started)
    assert (zero.code, one.code) == (1, 1)
    assert (one.errors[0].code, one.errors[0].name) == (700, "cudaErrorIllegalAddress")
    assert re.match(r"rank 1 on \S+: an illegal memory access", zero.errors[0].message)


def test_another_version_of_nccl_is_named(tmp_path: Path) -> None:
    port = free_port()
    started = [torchrun(rank, 2, port, {**gpus(2), "nccl": 21803 + rank}, tmp_path) for rank in range(2)]
    zero, one = (cuda_on_cpu.finish(process) for process in started)
    assert (zero.code, one.code) == (1, 1)
    (error,) = zero.errors
    assert (error.api, error.name) == ("nccl", "VersionMismatch")
    assert re.match(r"rank 1 on \S+ has NCCL 2.18.4, rank 0 has 2.18.3", error.message)


def test_a_rank_that_does_not_come_is_named(tmp_path: Path) -> None:
    port = free_port()
    late = torchrun(2, 3, port, gpus(3), tmp_path)
    read = read_until(late, '"note"')  # it is about to connect
    zero = cuda_on_cpu.finish(torchrun(0, 3, port, gpus(3), tmp_path, "--seconds", "5"))
    two = cuda_on_cpu.finish(late, read)
    assert (zero.code, two.code) == (1, 1)
    assert zero.errors[0].name == "RanksMissing"
    assert zero.errors[0].message.startswith("rank 1 of 3 did not come")
    assert "rank 0 says: rank 1 of 3 did not come" in two.errors[0].message


# --- nccl-tests ---

ALL_REDUCE_PERF = """#!/bin/sh
echo "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 4(factor) warmup iters: 5 iters: 20 agg iters: 1"
echo "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"
echo "     1048576        262144     float     sum      -1    53.90   19.45   19.45      0    53.91   19.45   19.45      0"
echo "$@"
echo "n1: Test NCCL failure common.cu:1008 'unhandled cuda error'" >&2
exit ${EXIT:-0}
"""


def with_program(folder: Path, **more: str) -> dict[str, str]:
    program = folder / "all_reduce_perf"
    program.write_text(ALL_REDUCE_PERF)
    program.chmod(0o755)
    environment = gpus_on_cpu.environment(gpus(2), **more)
    return {**environment, "PATH": f"{folder}:{environment['PATH']}"}


def test_nccl_tests_are_used_when_asked_for(tmp_path: Path) -> None:
    process = cuda_on_cpu.start("bench_nccl", *SMALL, "--nccl-tests", env=with_program(tmp_path))
    ran = cuda_on_cpu.finish(process)
    assert_healthy(ran)
    assert [(figure.metric, figure.value, figure.size_bytes) for figure in ran.figures] == [
        ("all_reduce", 19.45, 1 << 20)
    ]


def test_nccl_tests_that_fail(tmp_path: Path) -> None:
    process = cuda_on_cpu.start("bench_nccl", *SMALL, "--nccl-tests", env=with_program(tmp_path, EXIT="3"))
    ran = cuda_on_cpu.finish(process)
    assert ran.code == 1
    assert (ran.errors[0].api, ran.errors[0].name) == ("nccl", "exit 3")
    assert "Test NCCL failure" in ran.errors[0].message


def test_without_nccl_tests_the_own_measurement_is_made() -> None:
    ran = run("bench_nccl", *SMALL, "--nccl-tests", scenario=gpus(2))
    assert_healthy(ran)
    assert [note.kind for note in ran.notes] == ["skipped"]
    assert len(ran.figures) == 5


# --- ended from outside ---


@pytest.mark.parametrize(
    ("worker", "place"), [("bench_pcie", None), ("bench_p2p", "0-1"), ("bench_nccl", "all_reduce")]
)
def test_a_signal_ends_a_worker_with_its_last_line(worker: str, place: str | None) -> None:
    """Also in the middle of a copy or collective that never comes back."""
    scenario = {"devices": 2, "memory": 1 << 30, "wrong": {place: "hang"} if place else {}}
    process = cuda_on_cpu.start(worker, "--seconds", "20", env=gpus_on_cpu.environment(scenario))
    read = read_until(process, '"progress"')
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    ran = cuda_on_cpu.finish(process, read)
    assert ran.code == 0
    assert not ran.end.complete
    assert ran.end.why == "SIGTERM received"
    assert "Traceback" not in ran.stderr


# --- the stand-in has the genuine functions ---

_ASK = """
import importlib, sys
for name in sys.argv[2:]:
    module = importlib.import_module(sys.argv[1])
    for part in name.split('.'):
        module = getattr(module, part)
    print(name, (module.__doc__ or '').strip().split('\\n')[0], sep='|')
"""
MODULES = ["cupy_backends.cuda.api.runtime", "cupy_backends.cuda.libs.nccl"]


@pytest.mark.real("python:cupy")
@pytest.mark.parametrize("module", MODULES)
def test_the_stand_in_takes_the_arguments_of_the_genuine_functions(module: str) -> None:
    functions = _functions_of(gpus_on_cpu.SEVERAL / (module.replace(".", "/") + ".py"))
    asked = [sys.executable, "-c", "import cupy.cuda.nccl\n" + _ASK, module, *functions]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True)
    compared = 0
    for line in done.stdout.splitlines():
        name, _, signature = line.partition("|")
        found = re.match(r"[\w.]+\((?:self(?:, )?)?(.*?)\)", signature)
        if found is None:
            continue
        genuine = [part.split("=")[0].split()[-1] for part in found[1].split(",") if part.strip()]
        least, most = functions[name]
        assert least <= len(genuine) <= most, f"{name}: {signature}"
        compared += 1
    assert compared > 10


def _functions_of(path: Path) -> dict[str, tuple[int, int]]:
    """Every public function, and method, of a file with the fewest and most arguments that it takes."""
    found: dict[str, tuple[int, int]] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        members = (
            [(f"{node.name}.", child) for child in node.body] if isinstance(node, ast.ClassDef) else [("", node)]
        )
        for prefix, child in members:
            if isinstance(child, ast.FunctionDef) and not child.name.startswith("_") and "Error" not in prefix:
                count = len(child.args.args) - bool(prefix)
                found[prefix + child.name] = (count - len(child.args.defaults), count)
    return found
