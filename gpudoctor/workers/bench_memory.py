"""Device memory bandwidth: read, write, copy, scale, triad by own kernels, beside CUDA's own device-to-device copy.

GB/s are 10^9 bytes read plus written per second. Every result is checked word by word, a read by the sum of its words.
"""

from __future__ import annotations

import argparse
import struct
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

from gpudoctor.workers.bench_lines import Device, Fault, Figure, say
from gpudoctor.workers.bench_main import Work, main_of
from gpudoctor.workers.cuda_device import Kernels, Pointer, Timing, measure
from gpudoctor.workers.wrong_data import Report, fault_of, report_on

MIB = 1 << 20
GIB = 1 << 30
LARGEST = 4 * GIB  # of one array
LARGEST_QUICK = GIB
SMALLEST = 4 * MIB
ARRAYS = 3
# Of an array this many times as large as the L2 cache no more than a quarter can be cached.
L2_TIMES = 4
THREADS = 256
_32_BITS = 2**32 - 1


class Shape(NamedTuple):
    """How a kernel is built and launched. `blocks_per_sm` 0: as many blocks as tiles, so one pass."""

    unroll: int
    streaming: bool
    blocks_per_sm: int = 0


# Which of these is fastest differs between generations of GPUs: each is tried, and the fastest measured.
SHAPES = (Shape(4, False), Shape(4, True), Shape(2, False), Shape(1, False), Shape(4, False, 16))
SHAPES_READ = (Shape(4, False, 8), Shape(4, True, 8), Shape(2, False, 8), Shape(4, False, 32))
SHAPES_QUICK = 2  # how many of them `--quick` tries


class Operation(NamedTuple):
    """A measured kernel (None: CUDA's own copy) and what checks its result, each with its arguments: words that
    Bench.values knows, or numbers. `arrays` are those read plus those written; `kind` is that of a fault."""

    metric: str
    arrays: int
    kernel: str | None
    takes: tuple[str | int, ...]
    check: str
    check_takes: tuple[str | int, ...]
    kind: str


_CHECK_A = ("a", "n", "seed", "report")
_CHECK_C = ("c", "n", "seed", "report")
# In this order each finds the data that it needs: `write` makes array a, `scale` and `triad` work on floats.
ON_BITS = (
    Operation("write", 1, "memory_write", ("a", "n", "seed"), "check_bits", _CHECK_A, "bit_flip"),
    Operation("read", 1, "memory_read", ("a", "n", "sum"), "check_bits", _CHECK_A, "bit_flip"),
    Operation("copy", 2, "memory_copy", ("a", "c", "n"), "check_bits", _CHECK_C, "corrupt_copy"),
    Operation("device_copy", 2, None, (), "check_bits", _CHECK_C, "corrupt_copy"),
)
_CHECK_SCALED = ("c", "n", 0, 0, "factor", "seed_b", "report")
_CHECK_TRIAD = ("c", "n", 1, "seed_a", "factor", "seed_b", "report")
ON_FLOATS = (
    Operation("scale", 2, "memory_scale", ("b", "c", "n", "factor"), "check_floats", _CHECK_SCALED, "wrong_result"),
    Operation(
        "triad", 3, "memory_triad", ("a", "b", "c", "n", "factor"), "check_floats", _CHECK_TRIAD, "wrong_result"
    ),
)


class Bench:
    """The test on one device. `block` holds the arrays, `sums` two 64-bit numbers."""

    def __init__(
        self, work: Work, device: Device, block: Pointer, array_bytes: int, sums: Pointer, report: Report
    ) -> None:
        self.work = work
        self.cuda = work.cuda
        self.device = device
        self.report = report
        self.checks = self.cuda.compile("memory_check.cu", device)
        self.kernels: dict[tuple[int, bool], Kernels] = {}
        self.best: dict[str, Shape] = {}
        self.multiprocessors = device.multiprocessors or 16
        self.values: dict[str, int] = {
            **{name: block + index * array_bytes for index, name in enumerate("abc")},
            "n": array_bytes // 16,
            "seed": 0x9E3779B9,
            "seed_a": 0x7F4A7C15,
            "seed_b": 0x2545F491,
            "factor": 3,
            "sum": sums,
            "expected_sum": sums + 8,
            "report": report.pointer,
        }

    def arguments(self, takes: tuple[str | int, ...]) -> list[int]:
        return [value if isinstance(value, int) else self.values[value] for value in takes]

    def run(self, operation: Operation, shape: Shape) -> None:
        """Launches an operation once."""
        vectors = self.values["n"]
        if operation.kernel is None:
            to, source, kind = self.values["c"], self.values["a"], self.cuda.runtime.memcpyDeviceToDevice
            self.cuda.runtime.memcpyAsync(to, source, vectors * 16, kind, 0)
            return
        key = (shape.unroll, shape.streaming)
        if key not in self.kernels:
            options = (f"-DUNROLL={shape.unroll}", f"-DSTREAMING={int(shape.streaming)}")
            self.kernels[key] = self.cuda.compile("memory.cu", self.device, options)
        blocks = blocks_of(vectors, shape, self.multiprocessors)
        self.kernels[key].launch(operation.kernel, blocks, THREADS, *self.arguments(operation.takes))

    def help(self, kernel: str, *takes: str | int) -> None:
        """Launches a kernel that is not measured."""
        blocks = blocks_of(self.values["n"], Shape(1, False, 32), self.multiprocessors)
        self.checks.launch(kernel, blocks, THREADS, *self.arguments(takes))

    def choose(self, operation: Operation, budget_s: float) -> Shape:
        """The fastest shape for an operation, tried once per device."""
        shapes: tuple[Shape, ...] = SHAPES_READ if operation.metric == "read" else SHAPES
        if operation.kernel is None:
            return shapes[0]
        if operation.metric not in self.best:
            shapes = shapes[:SHAPES_QUICK] if self.work.arguments.quick else shapes
            times: list[tuple[float, Shape]] = []
            for shape in shapes:
                self.work.check_time()
                each_s = budget_s / len(shapes)
                times.append((self.time(operation, shape, repeats=3, budget_s=each_s).median_ms, shape))
            self.best[operation.metric] = min(times)[1]
        return self.best[operation.metric]

    def time(self, operation: Operation, shape: Shape, repeats: int, budget_s: float) -> Timing:
        return measure(self.cuda, lambda: self.run(operation, shape), repeats=repeats, budget_s=budget_s)

    def test(self, operation: Operation, budget_s: float) -> None:
        """Measures one operation at the present size, prints its figure, and checks the data."""
        shape = self.choose(operation, budget_s / 2)
        size = self.values["n"] * 16
        if "c" in operation.check_takes:  # what an earlier operation left there must not pass for this one's result
            self.cuda.fill(self.values["c"], 0, size)
        timing = self.time(operation, shape, 7 if self.work.arguments.quick else 15, budget_s / 2)
        say(
            Figure(
                metric=operation.metric,
                value=round(operation.arrays * size / timing.median_ms / 1e6, 2),
                unit="GB/s",
                device=self.device.ordinal,
                size_bytes=size,
                repeats=timing.repeats,
                spread=round(timing.spread, 4),
            )
        )
        self.help(operation.check, *operation.check_takes)
        self.report_wrong(operation.metric, operation.kind)
        if operation.metric == "read":
            self.check_sum(shape)

    def report_wrong(self, metric: str, kind: str) -> None:
        wrong = self.report.read()
        if wrong is not None:
            what = f"data after the {metric} test of memory bandwidth"
            say(fault_of(wrong, kind=kind, what=what, metric=metric, device=self.device.ordinal, word_bytes=4))

    def check_sum(self, shape: Shape) -> None:
        """The read kernel's sum over the array against the sum that the array should have."""
        self.cuda.fill(self.values["sum"], 0, 16)
        self.run(ON_BITS[1], shape)
        self.help("expected_sum", "n", "seed", "expected_sum")
        got, expected = (
            value & _32_BITS for value in struct.unpack("<2Q", self.cuda.to_host(self.values["sum"], 16))
        )
        if got != expected:
            text = f"the words read add up to 0x{got:08x} instead of 0x{expected:08x} (modulo 2^32)"
            line = Fault(kind="bit_flip", text=text, device=self.device.ordinal, metric="read", count=1)
            say(line)


def blocks_of(vectors: int, shape: Shape, multiprocessors: int) -> int:
    """Blocks of THREADS threads: one per tile, or fewer where the shape strides."""
    tiles = -(-vectors // (THREADS * shape.unroll))
    return min(tiles, shape.blocks_per_sm * multiprocessors) if shape.blocks_per_sm else tiles


def sizes_of(array_bytes: int, l2_bytes: int, quick: bool) -> list[int]:
    """Array sizes to test, largest first: those below are kept only as far as they are well past the L2 cache."""
    floor = max(L2_TIMES * l2_bytes, 16 * MIB)
    smaller = [] if quick else [array_bytes // 4, array_bytes // 16]
    return [array_bytes, *(size // MIB * MIB for size in smaller if size >= floor)]


def array_bytes_for(free_bytes: int, quick: bool, max_bytes: int | None) -> int:
    """Size of one of the arrays: whole MiB, at most a fifth of it left unused in all."""
    room = free_bytes * 4 // 5 if max_bytes is None else min(free_bytes * 4 // 5, max_bytes)
    return max(SMALLEST, min(LARGEST_QUICK if quick else LARGEST, room // ARRAYS) // MIB * MIB)


def test_device(work: Work, device: Device, seconds: float, done: float) -> None:
    """Raises CUDA's and NVRTC's errors."""
    cuda, quick, ordinal = work.cuda, work.arguments.quick, device.ordinal
    wanted = array_bytes_for(cuda.free_bytes(), quick, work.arguments.max_bytes)
    with ExitStack() as stack:
        block, got = stack.enter_context(cuda.memory_at_most(ARRAYS * wanted, ARRAYS * SMALLEST, ARRAYS * MIB))
        sums = stack.enter_context(cuda.memory(16))
        report = stack.enter_context(report_on(cuda))
        array = got // ARRAYS
        usual = LARGEST_QUICK if quick else LARGEST
        if array < usual:
            work.note(
                "shrunk",
                f"arrays of {array // MIB} MiB instead of {usual // MIB} MiB: no more memory is free or allowed",
                ordinal,
            )
        if array < L2_TIMES * (device.l2_bytes or 0):
            work.note(
                "other",
                "the arrays are not well past the L2 cache: the figures are not those of memory alone",
                ordinal,
            )
        bench = Bench(work, device, block, array, sums, report)
        sizes = sizes_of(array, device.l2_bytes or 0, quick)
        steps = [(size, operation) for size in sizes for operation in (*ON_BITS, *ON_FLOATS)]
        for index, (size, operation) in enumerate(steps):
            work.check_time()
            work.progress(
                done + index / len(steps) / len(work.devices), f"{operation.metric}, {size // MIB} MiB", ordinal
            )
            bench.values["n"] = size // 16
            if operation is ON_FLOATS[0]:
                bench.help("fill_floats", "a", "n", "seed_a")
                bench.help("fill_floats", "b", "n", "seed_b")
            # The first size also tries shapes, and is the one that counts: it may take twice as long.
            share = seconds / (len(steps) + len(steps) // len(sizes)) * (2 if size == array else 1)
            bench.test(operation, min(share * 0.8, 2.0))
        cuda.synchronize()


def run(work: Work) -> None:
    work.test_each_device("the memory test", "measuring memory bandwidth", partial(test_device, work))
    work.progress(1.0, "done")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="one size, fewer repeats")
    parser.add_argument("--max-bytes", type=int, help="device memory to use at most")


def main() -> None:
    main_of("memory", run, add_arguments)


if __name__ == "__main__":
    main()
