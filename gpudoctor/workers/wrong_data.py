"""The reports of checking kernels (kernels/report.cuh), read back and put into `fault` lines."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gpudoctor.workers.bench_lines import Fault
from gpudoctor.workers.cuda_device import Cuda, Pointer

_HEADER = struct.Struct("<6Q")
_RECORD = struct.Struct("<3Q")
_NONE_YET = 2**64 - 1
RECORDS = 256


@dataclass(frozen=True, order=True)
class Record:
    """A wrong word: its index, what it should be, what it was."""

    index: int
    expected: int
    got: int


@dataclass(frozen=True)
class WrongData:
    """Totals over all wrong words, and those recorded (at most RECORDS), lowest index first."""

    count: int
    first: int
    mask: int  # bits that differed in any wrong word
    records: list[Record]

    @property
    def bits(self) -> list[int]:
        return [bit for bit in range(64) if self.mask >> bit & 1]


class Report:
    """A report in device memory, empty at first; `pointer` is what a checking kernel takes."""

    def __init__(self, cuda: Cuda, pointer: Pointer) -> None:
        self._cuda = cuda
        self.pointer = pointer
        self.reset()

    def reset(self) -> None:
        self._cuda.to_device(self.pointer, _HEADER.pack(0, _NONE_YET, 0, 0, RECORDS, 0))

    def read(self) -> WrongData | None:
        """What the kernels so far found wrong; None when nothing. Waits for them. Empties the report."""
        count, first, mask, asked, _, _ = _HEADER.unpack(self._cuda.to_host(self.pointer, _HEADER.size))
        if count == 0:
            return None
        size = min(asked, RECORDS) * _RECORD.size
        content = self._cuda.to_host(self.pointer + _HEADER.size, size)
        self.reset()
        return WrongData(count, first, mask, sorted(Record(*record) for record in _RECORD.iter_unpack(content)))


@contextlib.contextmanager
def report_on(cuda: Cuda) -> Iterator[Report]:
    """A report on the current device."""
    with cuda.memory(_HEADER.size + RECORDS * _RECORD.size) as pointer:
        yield Report(cuda, pointer)


def fault_of(wrong: WrongData, *, kind: str, what: str, metric: str, device: int, word_bytes: int) -> Fault:
    """`what` names the test for people; addresses are offsets in bytes, in words of `word_bytes`."""
    shown = wrong.records[0] if wrong.records else None
    digits = 2 * word_bytes
    address = f"0x{(shown.index if shown else wrong.first) * word_bytes:x}"
    times = "once" if wrong.count == 1 else f"{wrong.count} times"
    values = f": 0x{shown.got:0{digits}x} instead of 0x{shown.expected:0{digits}x}" if shown else ""
    return Fault(
        kind=kind,
        text=f"{what}: a word was wrong {times}, the first at offset {address}{values}",
        device=device,
        metric=metric,
        count=wrong.count,
        address=address,
        expected=f"0x{shown.expected:0{digits}x}" if shown else None,
        got=f"0x{shown.got:0{digits}x}" if shown else None,
        bits=wrong.bits,
    )
