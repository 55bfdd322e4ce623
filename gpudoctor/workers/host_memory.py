"""Host memory for copies to and from GPUs: pinned and pageable buffers, patterns in them, and what differs."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpudoctor.workers.cuda_device import Cuda, Pointer

_CHUNK_WORDS = 4 << 20
_GOLDEN = 2654435761  # odd, so that every word of 4 billion is another one
POISON = 0xA5  # what a target holds before a copy: neither zero nor any pattern's beginning


@dataclass(frozen=True)
class Difference:
    """Where memory is not what was copied into it. Offsets are bytes; words have four."""

    words: int
    of_words: int
    offset: int
    expected: int
    got: int
    bits: list[int]  # that differ in any wrong word
    all_zero: bool  # every wrong word is zero
    untouched: bool  # every wrong word still holds what was there before the copy

    def describe(self) -> str:
        """A clause for people: what came instead."""
        if self.untouched:
            kind = "nothing arrived"
        elif self.all_zero:
            kind = "zeros arrived"
        else:
            kind = "other data arrived"
        return f"{kind} in {self.words} of {self.of_words} words, first at offset {self.offset:#x}"


@contextlib.contextmanager
def pinned(cuda: Cuda, size: int) -> Iterator[Pointer]:
    """Page-locked memory, on the NUMA node on which this thread runs. Raises CUDARuntimeError (code 2: no room)."""
    pointer = int(cuda.runtime.hostAlloc(size, cuda.runtime.hostAllocPortable))
    try:
        yield pointer
    finally:
        with contextlib.suppress(Exception):  # after a fault on the device every call fails
            cuda.runtime.freeHost(pointer)


@contextlib.contextmanager
def pageable(size: int) -> Iterator[Pointer]:
    """Ordinary memory, with every page present. Raises OSError or MemoryError when there is no room."""
    with mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        view = ctypes.c_char.from_buffer(area)
        pointer = ctypes.addressof(view)
        poison(pointer, size)
        try:
            yield pointer
        finally:
            del view


def available_bytes(meminfo: str, cgroup_max: str | None = None, cgroup_current: str | None = None) -> int | None:
    """Host memory that may still be taken, from the text of /proc/meminfo and of memory.max and memory.current."""
    found: list[int] = []
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:") and line.split()[1].isdecimal():
            found.append(int(line.split()[1]) * 1024)
    limit, used = (cgroup_max or "").strip(), (cgroup_current or "").strip()
    if limit.isdecimal() and used.isdecimal():
        found.append(max(0, int(limit) - int(used)))
    return min(found, default=None)


def available_here() -> int | None:
    """`available_bytes` of this machine and container; None when it does not tell."""
    texts: list[str | None] = []
    for name in ("/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"):
        try:
            texts.append(Path(name).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            texts.append(None)
    return available_bytes(texts[0] or "", texts[1], texts[2])


def poison(pointer: Pointer, size: int) -> None:
    """Marks host memory that a copy is to overwrite."""
    ctypes.memset(pointer, POISON, size)


def words_at(pointer: Pointer, size: int) -> Any:
    """NumPy's view of host memory as 32-bit words."""
    numpy: Any = importlib.import_module("numpy")
    return numpy.frombuffer((ctypes.c_uint32 * (size // 4)).from_address(pointer), dtype=numpy.uint32)


def write_pattern(pointer: Pointer, size: int, seed: int) -> None:
    """Fills host memory with words that all differ from each other and, by `seed`, from other patterns."""
    numpy: Any = importlib.import_module("numpy")
    words = words_at(pointer, size)
    for start in range(0, len(words), _CHUNK_WORDS):
        part = words[start : start + _CHUNK_WORDS]
        part[:] = numpy.arange(start, start + len(part), dtype=numpy.uint32)
        part *= numpy.uint32(_GOLDEN)
        part ^= numpy.uint32((seed * 0x9E3779B9 + 0x5BD1E995) & 0xFFFFFFFF)


def difference(expected: Pointer, got: Pointer, size: int) -> Difference | None:
    """How host memory at `got` differs from that at `expected`; None when it is the same."""
    numpy: Any = importlib.import_module("numpy")
    wanted, found = words_at(expected, size), words_at(got, size)
    before = numpy.uint32(POISON * 0x01010101)
    wrong = first = flipped = 0
    all_zero = untouched = True
    for start in range(0, len(wanted), _CHUNK_WORDS):
        one, other = wanted[start : start + _CHUNK_WORDS], found[start : start + _CHUNK_WORDS]
        if numpy.array_equal(one, other):
            continue
        places = numpy.flatnonzero(one != other)
        first = first if wrong else start + int(places[0])
        wrong += len(places)
        bad = other[places]
        flipped |= int(numpy.bitwise_or.reduce(one[places] ^ bad))
        all_zero = all_zero and not bad.any()
        untouched = untouched and bool((bad == before).all())
    if not wrong:
        return None
    bits = [bit for bit in range(32) if flipped >> bit & 1]
    return Difference(
        wrong, len(wanted), first * 4, int(wanted[first]), int(found[first]), bits, bool(all_zero), untouched
    )
