"""Memory test: writes patterns over most of the free device memory, reads them back, and tells what came back wrong.

All memory is written before any of it is checked, so that every word must hold its value while all others are written.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

from gpudoctor.workers.bench_lines import Device, Fault, say
from gpudoctor.workers.bench_main import Work, main_of
from gpudoctor.workers.cuda_device import Cuda, Kernels, Pointer
from gpudoctor.workers.cuda_errors import is_out_of_memory
from gpudoctor.workers.wrong_data import RECORDS, Record, Report, WrongData, fault_of, report_on

MIB = 1 << 20
CHUNK = 1 << 30
SMALLEST_CHUNK = 8 * MIB
THREADS = 256
WORD_BYTES = 8
_64_BITS = 2**64 - 1
# As in kernels/memtest.cu.
CONSTANT, WALKING, ADDRESS, RANDOM = range(4)


class Step(NamedTuple):
    """One pass over all memory by one kernel. `invert` is 0 or all ones."""

    kernel: str  # memtest_fill, memtest_check or memtest_invert
    pattern: int
    seed: int
    invert: int
    backward: bool = False


class Chunk(NamedTuple):
    """A piece of the tested memory; `base` is the index of its first word among all."""

    pointer: Pointer
    size: int
    base: int


def _write_and_check(pattern: int, seed: int) -> Iterator[Step]:
    for invert in (0, _64_BITS):
        yield Step("memtest_fill", pattern, seed, invert)
        yield Step("memtest_check", pattern, seed, invert)


def address_steps(quick: bool) -> Iterator[Step]:
    yield from _write_and_check(ADDRESS, 0)


def random_steps(quick: bool) -> Iterator[Step]:
    for seed in (0x243F6A8885A308D3, 0x13198A2E03707344)[: 1 if quick else 2]:
        yield from _write_and_check(RANDOM, seed)


def moving_inversion_steps(quick: bool) -> Iterator[Step]:
    for value in (0, 0x5555555555555555, 0x3333333333333333, 0x00FF00FF00FF00FF)[: 2 if quick else 4]:
        yield Step("memtest_fill", CONSTANT, value, 0)
        yield Step("memtest_invert", CONSTANT, value, 0)
        yield Step("memtest_invert", CONSTANT, value, _64_BITS, backward=True)
        yield Step("memtest_check", CONSTANT, value, 0)


def walking_bit_steps(quick: bool) -> Iterator[Step]:
    for shift in range(0, 32, 8 if quick else 1):
        yield from _write_and_check(WALKING, shift)


# What finds most soonest comes first, since time may run out.
PATTERNS = (
    ("address", address_steps),
    ("random", random_steps),
    ("moving_inversions", moving_inversion_steps),
    ("walking_bits", walking_bit_steps),
)


def unmix(value: int) -> int:
    """The inverse of the kernels' `mix`."""
    value ^= value >> 31 ^ value >> 62
    value = value * 0x319642B2D24D8EC3 & _64_BITS
    value ^= value >> 27 ^ value >> 54
    value = value * 0x96DE1B173F119089 & _64_BITS
    return value ^ value >> 30 ^ value >> 60


def written_to(record: Record, step: Step, words: int) -> int | None:
    """The index of another word whose value a wrong word holds, where the pattern tells; else None."""
    if step.pattern not in (ADDRESS, RANDOM):
        return None
    for invert in (step.invert, step.invert ^ _64_BITS):  # this pass, or the one before it that was not overwritten
        index = unmix(record.got ^ invert) - step.seed & _64_BITS
        if index < words and index != record.index:
            return index
    return None


class Findings:
    """What one pattern found wrong, over all its steps."""

    def __init__(self) -> None:
        self.wrong: WrongData | None = None
        self.elsewhere: dict[int, int] = {}  # index of a wrong word -> index of the word whose value it holds

    def add(self, new: WrongData, step: Step, words: int) -> None:
        for record in new.records:
            other = written_to(record, step, words)
            if other is not None:
                self.elsewhere.setdefault(record.index, other)
        old = self.wrong
        if old is not None:
            records = sorted(old.records + new.records)[:RECORDS]
            new = WrongData(old.count + new.count, min(old.first, new.first), old.mask | new.mask, records)
        self.wrong = new

    def fault(self, name: str, device: int) -> Fault | None:
        """One line for people and rules; None when all was right."""
        if self.wrong is None:
            return None
        indices = {record.index for record in self.wrong.records}
        at_fault = 2 * len(self.elsewhere.keys() & indices) > len(indices)
        what = f"memory test, {name.replace('_', ' ')}"
        if at_fault:
            index = min(self.elsewhere)
            what += f" (offset 0x{index * WORD_BYTES:x} holds what was written to 0x{self.elsewhere[index] * WORD_BYTES:x})"
        kind = "wrong_address" if at_fault else "bit_flip"
        return fault_of(self.wrong, kind=kind, what=what, metric=name, device=device, word_bytes=WORD_BYTES)


def take_memory(cuda: Cuda, stack: ExitStack, wanted: int, largest: int = CHUNK) -> list[Chunk]:
    """As much of `wanted` bytes as there is, in chunks. Empty when not even the smallest chunk can be had."""
    chunks: list[Chunk] = []
    taken, size = 0, largest
    while wanted - taken >= SMALLEST_CHUNK:
        size = min(size, (wanted - taken) // MIB * MIB)
        try:
            pointer = stack.enter_context(cuda.memory(size))
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            size = size // 2 // MIB * MIB
            if size < SMALLEST_CHUNK:
                break
            continue
        chunks.append(Chunk(pointer, size, taken // WORD_BYTES))
        taken += size
    return chunks


def bytes_to_test(free_bytes: int, max_bytes: int | None) -> int:
    """Most of the free memory: a little is left for the driver and for others."""
    most = free_bytes - min(256 * MIB, free_bytes // 10) - MIB
    return max(0, most if max_bytes is None else min(most, max_bytes)) // MIB * MIB


def run_step(kernels: Kernels, chunks: list[Chunk], step: Step, report: Report, multiprocessors: int) -> None:
    """Launches one pass over all memory; does not wait for it."""
    for chunk in reversed(chunks) if step.backward else chunks:
        vectors = chunk.size // 16
        blocks = min(-(-vectors // (4 * THREADS)), 16 * multiprocessors)
        arguments = [chunk.pointer, vectors, chunk.base, step.pattern, step.seed, step.invert]
        if step.kernel != "memtest_fill":
            arguments.append(report.pointer)
        if step.kernel == "memtest_invert":
            arguments.append(int(step.backward))
        kernels.launch(step.kernel, blocks, THREADS, *arguments)


def test_device(work: Work, device: Device, done: float) -> None:
    """Raises CUDA's and NVRTC's errors."""
    cuda, quick, ordinal = work.cuda, work.arguments.quick, device.ordinal
    kernels = cuda.compile("memtest.cu", device)
    plan = [(name, list(steps(quick))) for name, steps in PATTERNS]
    passes, passed = sum(len(steps) for _, steps in plan), 0
    with ExitStack() as stack:
        report = stack.enter_context(report_on(cuda))
        wanted = bytes_to_test(cuda.free_bytes(), work.arguments.max_bytes)
        chunks = take_memory(cuda, stack, wanted)
        tested = sum(chunk.size for chunk in chunks)
        if tested == 0:
            work.note("skipped", f"too little memory is free to test: {cuda.free_bytes() // MIB} MiB", ordinal)
            return
        if tested < wanted * 9 // 10:
            work.note(
                "shrunk", f"{tested // MIB} MiB tested instead of {wanted // MIB} MiB: no more could be had", ordinal
            )
        for name, steps in plan:
            findings = Findings()
            try:
                for step in steps:
                    work.check_time()
                    work.progress(done + passed / passes / len(work.devices), name.replace("_", " "), ordinal)
                    run_step(kernels, chunks, step, report, device.multiprocessors or 16)
                    cuda.synchronize()
                    wrong = report.read() if step.kernel != "memtest_fill" else None
                    if wrong is not None:
                        findings.add(wrong, step, tested // WORD_BYTES)
                    passed += 1
            finally:  # also when time runs out or CUDA gives up half-way
                fault = findings.fault(name, ordinal)
                if fault is not None:
                    say(fault)
            if name == PATTERNS[0][0]:
                work.note("memory_tested", f"{tested // MIB} MiB written and read", ordinal, tested / MIB)


def run(work: Work) -> None:
    work.test_each_device(
        "the memory test", "testing memory", lambda device, _, done: test_device(work, device, done)
    )
    work.progress(1.0, "done")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="fewer passes of each pattern")
    parser.add_argument("--max-bytes", type=int, help="device memory to test at most")


def main() -> None:
    main_of("memtest", run, add_arguments)


if __name__ == "__main__":
    main()
