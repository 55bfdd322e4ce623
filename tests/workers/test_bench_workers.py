"""The workers of one GPU, on the CPU stand-in: their figures, the faults planted in its memory, and how they end early."""

from __future__ import annotations

import re
import signal
from typing import Any

import pytest

from gpudoctor.workers.bench_lines import Fault, Progress, read_line
from tests.testbed import cuda_on_cpu
from tests.testbed.cuda_on_cpu import Ran, run

pytest.importorskip("numpy")
SMALL = {"memory_mib": 16}
BIG = {"memory_mib": 80}  # with room for cuBLASLt's workspace
BANDWIDTHS = ["write", "read", "copy", "device_copy", "scale", "triad"]
PATTERNS = ["address", "random", "moving_inversions", "walking_bits"]


def metrics(found: list[Any]) -> list[str]:
    return [line.metric for line in found]


def assert_healthy(ran: Ran) -> None:
    assert ran.code == 0, ran.stderr
    assert ran.errors == []
    assert ran.faults == []
    assert ran.end.complete
    assert ran.stderr == ""


def test_devices() -> None:
    ran = run("bench_devices", scenario={"count": 2, "name": "NVIDIA H100 80GB HBM3", "memory_mib": 32})
    assert_healthy(ran)
    assert ran.start.test == "devices"
    first, second = ran.start.devices
    assert (first.ordinal, first.name, first.bdf) == (0, "NVIDIA H100 80GB HBM3", "0000:01:00.0")
    assert (second.ordinal, second.compute_capability, second.multiprocessors) == (1, "9.0", 1)
    assert second.memory_total_bytes == 32 << 20
    assert second.memory_free_bytes == 31 << 20


def test_memory() -> None:
    ran = run("bench_memory", "--quick", scenario=SMALL)
    assert_healthy(ran)
    assert metrics(ran.figures) == BANDWIDTHS
    for figure in ran.figures:
        assert (figure.unit, figure.device, figure.size_bytes) == ("GB/s", 0, 4 << 20)
        assert figure.value > 0
        assert (figure.repeats or 0) >= 3
        assert figure.spread is not None
    (note,) = ran.notes
    assert note.kind == "shrunk"
    assert "4 MiB instead of 1024 MiB" in note.text


def test_memory_takes_less_when_there_is_no_room() -> None:
    ran = run("bench_memory", "--quick", scenario={"memory_mib": 48, "no_room_above": 13 << 20})
    assert_healthy(ran)
    assert metrics(ran.figures) == BANDWIDTHS
    assert all(figure.size_bytes == 4 << 20 for figure in ran.figures)


def test_memory_without_any_room_fails_with_cudas_own_code() -> None:
    ran = run("bench_memory", "--quick", scenario={"memory_mib": 32, "no_room_above": 1 << 20})
    assert ran.code == 1
    (error,) = ran.errors
    assert (error.api, error.code, error.name) == ("cuda", 2, "cudaErrorMemoryAllocation")
    assert (error.message, error.device) == ("out of memory", 0)
    assert not ran.end.complete


def test_memory_finds_a_stuck_bit() -> None:
    ran = run("bench_memory", "--quick", scenario={**SMALL, "stuck": [[100001, 0xFF, 0x10]]})
    assert ran.code == 0
    faults = {fault.metric: fault for fault in ran.faults if fault.address is not None}
    assert faults["write"].kind == "bit_flip"
    assert faults["write"].address == "0x186a0"
    assert faults["write"].bits == [12]
    assert faults["write"].count == 1
    assert faults["copy"].kind == "corrupt_copy"
    assert any("add up to" in fault.text for fault in ran.faults if fault.metric == "read")


def test_memtest() -> None:
    ran = run("bench_memtest", "--quick", scenario=SMALL)
    assert_healthy(ran)
    (note,) = ran.notes
    assert (note.kind, note.value, note.device) == ("memory_tested", 12.0, 0)
    done = [line.done for line in ran.lines if isinstance(line, Progress)]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("stuck", "bit", "patterns"),
    [
        pytest.param([5_000_003, 0xFF, 0x40], 30, PATTERNS, id="at 1"),
        pytest.param([5_000_003, 0xBF, 0], 30, PATTERNS, id="at 0"),
    ],
)
def test_memtest_finds_a_stuck_bit(stuck: list[int], bit: int, patterns: list[str]) -> None:
    ran = run("bench_memtest", "--quick", scenario={**SMALL, "stuck": [stuck]})
    assert ran.code == 0
    assert metrics(ran.faults) == patterns
    assert {fault.kind for fault in ran.faults} == {"bit_flip"}
    (address,) = {fault.address for fault in ran.faults}
    # The arena also holds the report, so the offset in the tested memory is a little less than the one planted.
    assert address is not None
    assert 0 < 5_000_000 - int(address, 16) < 16384
    for fault in ran.faults:
        assert fault.expected is not None
        assert fault.got is not None
        assert fault.bits == [bit]
        assert int(fault.expected, 16) ^ int(fault.got, 16) == 1 << bit
        assert fault.address in fault.text


def test_memtest_tells_an_aliased_address_from_a_flipped_bit() -> None:
    ran = run("bench_memtest", "--quick", scenario={**SMALL, "alias": [[2_000_000, 6_000_000]]})
    assert ran.code == 0
    assert metrics(ran.faults) == ["address", "random"]  # the others write the same value to both
    for fault in ran.faults:
        assert fault.kind == "wrong_address"
        held = re.search(r"offset (0x[0-9a-f]+) holds what was written to (0x[0-9a-f]+)", fault.text)
        assert held is not None
        assert int(held[2], 16) - int(held[1], 16) == 4_000_000
        assert held[1] == fault.address


def test_memtest_takes_memory_in_pieces() -> None:
    ran = run("bench_memtest", "--quick", scenario={"memory_mib": 40, "no_room_above": 9 << 20})
    assert_healthy(ran)
    assert [(note.kind, note.value) for note in ran.notes] == [("memory_tested", 32.0)]
    ran = run("bench_memtest", "--quick", "--max-bytes", str(9 << 20), scenario={"memory_mib": 40})
    assert [(note.kind, note.value) for note in ran.notes] == [("memory_tested", 9.0)]


def test_memory_that_is_also_the_machines_is_left_half_alone() -> None:
    ran = run("bench_memtest", "--quick", scenario={"memory_mib": 33, "integrated": 1})
    assert_healthy(ran)
    assert [(note.kind, note.value) for note in ran.notes] == [("memory_tested", 13.0)]


def test_memtest_with_too_little_memory_skips() -> None:
    ran = run("bench_memtest", scenario={"memory_mib": 8})
    assert_healthy(ran)
    assert [note.kind for note in ran.notes] == ["skipped"]


def test_gemm() -> None:
    ran = run("bench_gemm", "--quick", "--size", "128", scenario=SMALL)
    assert_healthy(ran)
    assert ran.start.test == "gemm"
    assert metrics(ran.figures) == ["fp32", "tf32", "fp16", "bf16"]
    assert {figure.unit for figure in ran.figures} == {"TFLOPS"}
    (note,) = [note for note in ran.notes if note.kind == "skipped"]
    assert note.text.startswith("fp8: libcublasLt.so")


def test_gemm_in_fp8() -> None:
    lt = cuda_on_cpu.cublas_lt()
    ran = run("bench_gemm", "--precision", "fp8", "--size", "64", "--seconds", "3", scenario=BIG, more=lt)
    assert_healthy(ran)
    assert metrics(ran.figures) == ["fp8"]
    assert ran.notes == []
    # The sign of an element of the left matrix is stuck: a row of the product is wrong.
    stuck = {**BIG, "stuck": [[6400 + 64 * 8 + 3, 0x7F, 0x00], [6400 + 64 * 8 + 4, 0x7F, 0x00]]}
    ran = run("bench_gemm", "--quick", "--precision", "fp8", "--size", "64", scenario=stuck, more=lt)
    assert [(fault.kind, fault.metric) for fault in ran.faults] == [("wrong_result", "fp8")]


def test_gemm_leaves_out_what_the_gpu_has_not_got() -> None:
    ran = run("bench_gemm", "--quick", "--size", "64", scenario={**SMALL, "compute_capability": "6.1"})
    assert_healthy(ran)
    assert metrics(ran.figures) == ["fp32", "fp16"]
    skipped = [note.text for note in ran.notes if note.kind == "skipped"]
    assert "tf32: needs compute capability 8.0, this is 6.1" in skipped
    assert "bf16: needs compute capability 8.0, this is 6.1" in skipped
    assert "fp8: needs compute capability 8.9, this is 6.1" in skipped


def test_gemm_shrinks() -> None:
    ran = run("bench_gemm", "--quick", "--precision", "fp32", scenario={"memory_mib": 10, "no_room_above": 5 << 20})
    assert_healthy(ran)
    assert [figure.size_bytes for figure in ran.figures] == [512 * 512 * 4]
    assert [note.text for note in ran.notes if note.kind == "shrunk"] == [
        "matrices of 512 rows instead of 2048: no more memory is free or allowed"
    ]


def matrix_fault(place: int, bit: int) -> dict[str, Any]:
    """A bit stuck at 1 in a byte of the matrices of 64 rows in single precision, which lie behind the report of 6400 bytes."""
    return {**SMALL, "stuck": [[6400 + place, 0xFF, 1 << bit]]}


def test_gemm_finds_a_wrong_result() -> None:
    # Byte 3 of element 8 of the right matrix's column 0, whose exponent becomes huge: all of the product's column 0 is wrong.
    ran = run(
        "bench_gemm", "--quick", "--size", "64", "--precision", "fp32", scenario=matrix_fault(64 * 64 * 4 + 35, 6)
    )
    (fault,) = ran.faults
    assert (fault.kind, fault.metric, fault.device) == ("wrong_result", "fp32", 0)
    assert "of 1024 elements checked are wrong" in fault.text
    assert (fault.count or 0) >= 8
    assert fault.expected is not None
    assert fault.got is not None
    assert float(fault.expected) != float(fault.got)


def test_burn_compares_every_result() -> None:
    ran = run("bench_gemm", "--burn", "--seconds", "3", "--size", "64", scenario=SMALL)
    assert_healthy(ran)
    assert ran.start.test == "burn"
    assert metrics(ran.figures) == ["fp16", "fp32"]
    assert all((figure.repeats or 0) > 1 for figure in ran.figures)
    assert 2 < ran.end.seconds < 6


def test_burn_counts_results_that_change() -> None:
    # The lowest bit of an element of later results only (the fourth matrix): the first one passes its check.
    scenario = matrix_fault(3 * 64 * 64 * 4 + 100, 0)
    ran = run("bench_gemm", "--burn", "--seconds", "2", "--size", "64", "--precision", "fp32", scenario=scenario)
    (fault,) = ran.faults
    assert (fault.kind, fault.metric, fault.bits) == ("wrong_result", "fp32", [0])
    assert fault.address == "0x64"
    assert fault.count == ran.figures[0].repeats  # once in every product
    assert "compared with the first" in fault.text


# --- ends ---


@pytest.mark.parametrize("worker", ["bench_memory", "bench_memtest", "bench_gemm"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_with_what_it_has(worker: str, number: signal.Signals) -> None:
    process = cuda_on_cpu.start(worker, env=cuda_on_cpu.environment({**SMALL, "slow_ms": 50}))
    assert process.stdout is not None
    read = ""
    while '"progress"' not in read:
        read += process.stdout.readline()
    process.send_signal(number)
    ran = cuda_on_cpu.finish(process, read)
    assert ran.code == 0
    assert not ran.end.complete
    assert ran.end.why == f"{number.name} received"
    assert ran.stderr == ""


def test_faults_found_before_a_signal_are_told() -> None:
    scenario = {**SMALL, "stuck": [[5_000_003, 0xFF, 0x40]], "slow_ms": 150}
    process = cuda_on_cpu.start("bench_memtest", env=cuda_on_cpu.environment(scenario))
    assert process.stdout is not None
    read = ""
    while "walking" not in read:
        read += process.stdout.readline()
    for _ in range(4):
        read += process.stdout.readline()
    process.terminate()
    ran = cuda_on_cpu.finish(process, read)
    assert metrics(ran.faults) == PATTERNS


@pytest.mark.parametrize("worker", ["bench_memory", "bench_memtest", "bench_gemm"])
def test_time_runs_out(worker: str) -> None:
    ran = run(worker, "--seconds", "1.5", scenario={**SMALL, "slow_ms": 100})
    assert ran.code == 0
    assert not ran.end.complete
    assert ran.end.why == "time ran out"
    assert ran.end.seconds < 8


@pytest.mark.parametrize("worker", ["bench_devices", "bench_memory", "bench_memtest", "bench_gemm"])
def test_a_gpu_that_others_hold_alone(worker: str) -> None:
    ran = run(worker, scenario={"fail": {"setDevice": 46}})
    assert ran.code == 1
    assert [(error.code, error.name, error.device) for error in ran.errors] == [
        (46, "cudaErrorDevicesUnavailable", 0)
    ]
    assert (ran.errors[0].where or "").startswith("making a CUDA context")
    assert not ran.end.complete


@pytest.mark.parametrize(("worker", "launches"), [("bench_memory", 20), ("bench_memtest", 9), ("bench_gemm", 1)])
def test_an_uncorrectable_memory_error_in_the_middle(worker: str, launches: int) -> None:
    """Every call fails from then on, freeing included; the worker says which error it was, and ends."""
    ran = run(worker, "--quick", scenario={**SMALL, "dies_after_launches": launches})
    assert ran.code == 1
    assert [(error.api, error.code, error.name) for error in ran.errors] == [
        ("cuda", 214, "cudaErrorECCUncorrectable")
    ]
    assert ran.stderr == ""


@pytest.mark.parametrize(
    ("function", "code", "name"),
    [("cublasCreate", 1, "CUBLAS_STATUS_NOT_INITIALIZED"), ("gemmEx", 15, "CUBLAS_STATUS_NOT_SUPPORTED")],
)
def test_cublas_fails(function: str, code: int, name: str) -> None:
    ran = run("bench_gemm", "--quick", "--size", "64", scenario={**SMALL, "fail": {function: code}})
    assert ran.code == 1
    assert [(error.api, error.code, error.name) for error in ran.errors] == [("cublas", code, name)]


def test_a_device_that_is_not_there() -> None:
    ran = run("bench_memory", "--device", "7", scenario=SMALL)
    assert ran.code == 1
    assert [(error.code, error.name) for error in ran.errors] == [(101, "cudaErrorInvalidDevice")]
    assert ran.errors[0].message == "there is no CUDA device 7: 1 visible"


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--seconds", "x"], ["--device", "x"], ["--nonsense"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    ran = run("bench_memory", *arguments, scenario=SMALL)
    assert ran.code == 2
    assert ran.stdout == ""
    assert "usage: bench_memory" in ran.stderr


def test_one_of_two_devices_is_tested() -> None:
    ran = run("bench_memtest", "--quick", "--device", "1", scenario={**SMALL, "count": 2})
    assert_healthy(ran)
    assert [device.ordinal for device in ran.start.devices] == [1]
    assert [note.device for note in ran.notes] == [1]


def test_a_reader_that_goes_away_ends_the_worker_quietly() -> None:
    process = cuda_on_cpu.start("bench_memtest", env=cuda_on_cpu.environment({**SMALL, "slow_ms": 20}))
    assert process.stdout is not None
    assert read_line(process.stdout.readline()) is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 1
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


def test_fault_lines_are_valid() -> None:
    line = read_line('{"event":"fault","kind":"bit_flip","text":"x","bits":[1]}')
    assert line == Fault(kind="bit_flip", text="x", bits=[1])
