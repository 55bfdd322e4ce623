"""What an NCCL test measures: collectives, sizes, counts, repetitions, and bandwidth as nccl-tests reports it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

MIB = 1 << 20
ELEMENT = 4  # bytes of an fp32
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv")
SIZES = (1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB, 4096 * MIB)
QUICK_SIZES = (16 * MIB, 256 * MIB, 1024 * MIB)
# Every rank's part starts at a multiple of 16 bytes: NCCL's fastest protocols want it.
_GRAIN = 4


@dataclass(frozen=True)
class Step:
    """One figure. `count` is the number of elements in NCCL's call, `size` the bytes that nccl-tests would name."""

    collective: str
    count: int
    size: int


def bus_factor(collective: str, ranks: int) -> float:
    """Bus bandwidth / (size / time): https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("all_gather", "reduce_scatter"):
        return (ranks - 1) / ranks
    if collective in ("broadcast", "sendrecv"):
        return 1.0
    raise ValueError(f"no such collective: {collective}")


def bus_bandwidth(step: Step, ranks: int, seconds: float) -> float:
    """GB/s (10^9 bytes)."""
    return step.size / seconds / 1e9 * bus_factor(step.collective, ranks)


def step_for(collective: str, size: int, ranks: int) -> Step:
    """The call that moves about `size` bytes: of the whole, also where each rank gives or gets only its part."""
    if collective in ("all_gather", "reduce_scatter"):
        count = max(_GRAIN, size // ELEMENT // ranks // _GRAIN * _GRAIN)
        return Step(collective, count, count * ELEMENT * ranks)
    count = max(_GRAIN, size // ELEMENT // _GRAIN * _GRAIN)
    return Step(collective, count, count * ELEMENT)


def plan(largest: int, ranks: int, *, quick: bool, collectives: tuple[str, ...] = COLLECTIVES) -> list[Step]:
    """Figures in the order of their worth: each collective at the largest size first, so that a cut loses the least."""
    sizes = sorted({min(size, largest) for size in (QUICK_SIZES if quick else SIZES)}, reverse=True)
    if len(sizes) > 1 and sizes[0] < 2 * sizes[1]:
        del sizes[1]  # two sizes that say the same
    return [step_for(collective, size, ranks) for size in sizes for collective in collectives]


def buffer_bytes(free: int) -> int:
    """How large each of the two buffers of a GPU with `free` bytes may be; NCCL needs some memory of its own."""
    own = min(1 << 30, free // 2)
    return max(MIB, int((free - own) * 0.8) // 2 // MIB * MIB)


def iterations(seconds_each: float, budget_s: float) -> int:
    """How often to run something that takes `seconds_each`, within a budget; 1 to 200."""
    return max(1, min(200, int(budget_s / max(seconds_each, 1e-7))))


def combined(per_process: list[list[float]]) -> tuple[float, float]:
    """Seconds and spread of one figure from each process's repeats: the mean over processes, as nccl-tests takes it,
    the median over repeats."""
    repeats = [statistics.fmean(times) for times in zip(*per_process, strict=True)]
    median = statistics.median(repeats)
    return median, (max(repeats) - min(repeats)) / median if median > 0 else 0.0
