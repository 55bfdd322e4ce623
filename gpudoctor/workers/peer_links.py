"""Pairs of GPUs: in which order they are measured, whether they reach each other's memory, and over what."""

from __future__ import annotations

import ctypes

from gpudoctor.workers.bench_main import Work

# CUdevice_P2PAttribute: native atomics of every kind are NVLink's; PCIe has some of them at most.
_NATIVE_ATOMICS = 3


def pair_order(count: int) -> list[tuple[int, int]]:
    """Every pair of `count` things once, in rounds in which nobody occurs twice: cut short, the rest is still spread."""
    seats: list[int | None] = [*range(count), *([None] if count % 2 else [])]
    pairs: list[tuple[int, int]] = []
    for _ in range(len(seats) - 1):
        half = len(seats) // 2
        for one, other in zip(seats[:half], reversed(seats[half:]), strict=True):
            if one is not None and other is not None:
                pairs.append((min(one, other), max(one, other)))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return pairs


def peer_access(work: Work, pairs: list[tuple[int, int]]) -> dict[tuple[int, int], bool]:
    """Which pairs of ordinals may access each other's memory, both ways; the others get a note. Raises CUDARuntimeError."""
    can = work.cuda.runtime.deviceCanAccessPeer
    direct: dict[tuple[int, int], bool] = {}
    without: list[tuple[int, int]] = []
    for a, b in pairs:
        ways = bool(can(a, b)), bool(can(b, a))
        direct[a, b] = all(ways)
        if any(ways) and not all(ways):
            only = a if ways[0] else b
            work.note("other", f"of GPU {a} and GPU {b} only GPU {only} can access the other's memory", a)
        elif not any(ways):
            without.append((a, b))
    if len(without) > 1 and len(without) == len(direct):
        work.note("other", "no GPU can access another one's memory (no P2P): copies go through host memory")
        return direct
    for a, b in without:
        work.note("other", f"GPU {a} and GPU {b} cannot access each other's memory: copies go through host memory", a)
    return direct


def link_of(one: int, other: int) -> str | None:
    """`nvlink` or `pcie` between two visible devices with peer access, by the driver; None when it does not tell."""
    handles, answer = (ctypes.c_int(), ctypes.c_int()), ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        for handle, ordinal in zip(handles, (one, other), strict=True):
            if driver.cuDeviceGet(ctypes.byref(handle), ctypes.c_int(ordinal)) != 0:
                return None
        if driver.cuDeviceGetP2PAttribute(ctypes.byref(answer), ctypes.c_int(_NATIVE_ATOMICS), *handles) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return "nvlink" if answer.value else "pcie"
