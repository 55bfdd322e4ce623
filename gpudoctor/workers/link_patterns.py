"""Data that tests of links send, and what of it is wrong where it arrives: on the GPU, or through the host without NVRTC.

The formulas are those of kernels/links.cu: words for copies, whole-number floats for reductions. No element is zero by
rule, and neighbours differ, so that lost, late or misplaced data shows.
"""

from __future__ import annotations

import ctypes
import importlib
import struct
from dataclasses import dataclass
from typing import Any, Protocol

from gpudoctor.workers.bench_lines import Device
from gpudoctor.workers.cuda_device import Cuda, Kernels, Pointer

ELEMENT = 4  # bytes of a word, and of a float
_HOST_ELEMENTS = 4 << 20  # looked at through the host
_BLOCKS, _THREADS = 1024, 256
_NOT_FOUND = 2**64 - 1


@dataclass(frozen=True)
class Wrong:
    """Elements that are not what they should be. `got` is None where it could not be read."""

    count: int
    of: int
    index: int
    zeros: int
    expected: int | float
    got: int | float | None

    def describe(self) -> str:
        """A clause for people."""
        kind = "zeros instead" if self.zeros == self.count else "other data"
        return f"{kind} in {self.count} of {self.of} elements, first at {self.index}"


class Patterns(Protocol):
    """Fills and checks memory of one device, which must be the current one. Counts are elements of four bytes."""

    def fill_words(self, pointer: Pointer, count: int, seed: int) -> None: ...
    def check_words(self, pointer: Pointer, count: int, seed: int) -> Wrong | None: ...
    def fill_values(self, pointer: Pointer, count: int, rank: int) -> None: ...
    def check_values(self, pointer: Pointer, count: int, rank: int, start: int = 0) -> Wrong | None: ...
    def check_sums(self, pointer: Pointer, count: int, ranks: int, start: int = 0) -> Wrong | None: ...


def mixed(index: int, seed: int) -> int:
    """The word at `index` of pattern `seed`."""
    x = ((index & 0xFFFFFFFF) * 2654435761 + (index >> 32) * 0x85EBCA6B) & 0xFFFFFFFF
    x ^= (seed * 0x9E3779B9 + 0x5BD1E995) & 0xFFFFFFFF
    x ^= x >> 16
    x = x * 0x85EBCA6B & 0xFFFFFFFF
    return x ^ x >> 13


def value(index: int, rank: int) -> float:
    """What `rank` has at `index`: 1 to 1024."""
    return float((mixed(index, rank) & 1023) + 1)


def words(start: int, count: int, seed: int) -> Any:
    """NumPy array of `mixed(start ... start + count, seed)`."""
    numpy: Any = importlib.import_module("numpy")
    index = numpy.arange(start, start + count, dtype=numpy.uint64)
    x = (index & 0xFFFFFFFF) * numpy.uint64(2654435761) + (index >> numpy.uint64(32)) * numpy.uint64(0x85EBCA6B)
    x = x.astype(numpy.uint32) ^ numpy.uint32((seed * 0x9E3779B9 + 0x5BD1E995) & 0xFFFFFFFF)
    x ^= x >> numpy.uint32(16)
    x *= numpy.uint32(0x85EBCA6B)
    return x ^ x >> numpy.uint32(13)


def values(start: int, count: int, rank: int) -> Any:
    """NumPy array of `value(start ... start + count, rank)`."""
    numpy: Any = importlib.import_module("numpy")
    return ((words(start, count, rank) & numpy.uint32(1023)) + numpy.uint32(1)).astype(numpy.float32)


class OnGpu:
    """By kernels: everything is checked, at memory speed."""

    def __init__(self, cuda: Cuda, device: Device, result: Pointer) -> None:
        """`result` is memory of `device`, of 24 bytes. Raises NVRTC's and CUDA's errors."""
        self._cuda, self._result = cuda, result
        self._kernels: Kernels = cuda.compile("links.cu", device)

    def fill_words(self, pointer: Pointer, count: int, seed: int) -> None:
        self._kernels.launch("fill_words", _BLOCKS, _THREADS, pointer, count, seed)
        self._cuda.synchronize()

    def fill_values(self, pointer: Pointer, count: int, rank: int) -> None:
        self._kernels.launch("fill_values", _BLOCKS, _THREADS, pointer, count, rank)
        self._cuda.synchronize()

    def check_words(self, pointer: Pointer, count: int, seed: int) -> Wrong | None:
        found = self._check("check_words", pointer, count, seed)
        if found is None:
            return None
        wrong, index, zeros = found
        return Wrong(wrong, count, index, zeros, mixed(index, seed), self._read(pointer, index, "<I"))

    def check_values(self, pointer: Pointer, count: int, rank: int, start: int = 0) -> Wrong | None:
        found = self._check("check_values", pointer, count, rank, start)
        if found is None:
            return None
        wrong, index, zeros = found
        return Wrong(wrong, count, index, zeros, value(start + index, rank), self._read(pointer, index, "<f"))

    def check_sums(self, pointer: Pointer, count: int, ranks: int, start: int = 0) -> Wrong | None:
        found = self._check("check_sums", pointer, count, ranks, start)
        if found is None:
            return None
        wrong, index, zeros = found
        expected = sum(value(start + index, rank) for rank in range(ranks))
        return Wrong(wrong, count, index, zeros, expected, self._read(pointer, index, "<f"))

    def _check(self, kernel: str, pointer: Pointer, count: int, *arguments: int) -> tuple[int, int, int] | None:
        self._cuda.to_device(self._result, struct.pack("<3Q", 0, _NOT_FOUND, 0))
        self._kernels.launch(kernel, _BLOCKS, _THREADS, pointer, count, *arguments, self._result)
        self._cuda.synchronize()
        wrong, index, zeros = struct.unpack("<3Q", self._cuda.to_host(self._result, 24))
        return (wrong, index, zeros) if wrong else None

    def _read(self, pointer: Pointer, index: int, layout: str) -> int | float | None:
        """The wrong element once more; `pointer` may be another GPU's memory, so the copy's kind is left open."""
        content = ctypes.create_string_buffer(ELEMENT)
        try:
            runtime = self._cuda.runtime
            runtime.memcpy(ctypes.addressof(content), pointer + index * ELEMENT, ELEMENT, runtime.memcpyDefault)
        except Exception:
            return None
        element: int | float = struct.unpack(layout, content.raw)[0]
        return element


class OnHost:
    """Through host memory, where NVRTC is missing: only the first 16 MiB are filled and checked."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda

    def fill_words(self, pointer: Pointer, count: int, seed: int) -> None:
        self._cuda.to_device(pointer, words(0, min(count, _HOST_ELEMENTS), seed).tobytes())

    def fill_values(self, pointer: Pointer, count: int, rank: int) -> None:
        # Of a buffer whose parts go to different ranks all must be filled.
        for start in range(0, count, _HOST_ELEMENTS):
            part = values(start, min(count - start, _HOST_ELEMENTS), rank)
            self._cuda.to_device(pointer + start * ELEMENT, part.tobytes())

    def check_words(self, pointer: Pointer, count: int, seed: int) -> Wrong | None:
        return self._compare(pointer, words(0, min(count, _HOST_ELEMENTS), seed))

    def check_values(self, pointer: Pointer, count: int, rank: int, start: int = 0) -> Wrong | None:
        return self._compare(pointer, values(start, min(count, _HOST_ELEMENTS), rank))

    def check_sums(self, pointer: Pointer, count: int, ranks: int, start: int = 0) -> Wrong | None:
        count = min(count, _HOST_ELEMENTS)
        return self._compare(pointer, sum(values(start, count, rank) for rank in range(ranks)))

    def _compare(self, pointer: Pointer, expected: Any) -> Wrong | None:
        numpy: Any = importlib.import_module("numpy")
        got = numpy.frombuffer(self._cuda.to_host(pointer, len(expected) * ELEMENT), dtype=expected.dtype)
        places = numpy.flatnonzero(got != expected)
        if not len(places):
            return None
        first = int(places[0])
        zeros = int((got[places] == 0).sum())
        return Wrong(len(places), len(expected), first, zeros, expected[first].item(), got[first].item())
