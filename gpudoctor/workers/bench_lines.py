"""What active-test workers print: one JSON object a line, on stdout. `event` tells which; readers skip what they do not know.

A worker is run as `python -m gpudoctor.workers.bench_NAME [--device N]... [--seconds S] ...`: `--device` are CUDA ordinals among
the visible devices (so CUDA_VISIBLE_DEVICES holds), `--seconds` the time it may take in all. It ends by itself within that
time, prints what it has at once, and exits 0 when its plan was carried out, 1 after an `error`. SIGTERM and SIGINT end it
cleanly with an `end` line. It never needs anything but CuPy and what CuPy needs.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec


class Device(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A visible CUDA device. `bdf` is 0000:3b:00.0; `uuid` starts with GPU- or MIG-."""

    ordinal: int
    name: str | None = None
    bdf: str | None = None
    uuid: str | None = None
    compute_capability: str | None = None  # "9.0"
    multiprocessors: int | None = None
    l2_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_free_bytes: int | None = None


class Start(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="start", omit_defaults=True):
    """Once CUDA answers: which versions and devices are at work."""

    test: str
    devices: list[Device]
    cupy: str | None = None
    cuda_runtime: int | None = None  # 12090
    cuda_driver: int | None = None
    nccl: str | None = None  # "2.28.3"


class Progress(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="progress", omit_defaults=True):
    """`done` is 0..1 of the whole plan; `device` the ordinal, None for all."""

    done: float
    what: str
    device: int | None = None


class Figure(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="figure", omit_defaults=True):
    """One measured figure, named as in facts.BenchFigure; `peer` is the other ordinal of a pair."""

    metric: str
    value: float
    unit: str
    device: int | None = None
    peer: int | None = None
    path: str | None = None
    size_bytes: int | None = None
    repeats: int | None = None
    spread: float | None = None


class Fault(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="fault", omit_defaults=True):
    """Wrong data, named as in facts.BenchFault."""

    kind: str  # bit_flip, wrong_address, corrupt_copy, wrong_result
    text: str
    device: int | None = None
    peer: int | None = None
    metric: str | None = None
    count: int | None = None
    address: str | None = None
    expected: str | None = None
    got: str | None = None
    bits: list[int] = []


class Note(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="note", omit_defaults=True):
    """Something left out or made smaller. `kind`: shrunk, skipped, busy, memory_tested (value in MiB), other."""

    kind: str
    text: str
    device: int | None = None
    value: float | None = None


class Error(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="error", omit_defaults=True):
    """Why the worker could not go on. `message` is the API's own words, `where` what was being done."""

    api: str  # cuda, nccl, nvrtc, cublas, cupy (not installed, broken), worker
    message: str
    code: int | None = None
    name: str | None = None
    where: str | None = None
    device: int | None = None


class End(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="end", omit_defaults=True):
    """The last line. `complete` is False when time ran out or a signal came before the plan's end."""

    complete: bool
    seconds: float
    why: str | None = None


Line = Start | Progress | Figure | Fault | Note | Error | End
_STARTED = time.monotonic()


def say(line: Line) -> None:
    """Prints a line at once: a worker that dies later loses nothing."""
    sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
    sys.stdout.flush()


def elapsed_seconds() -> float:
    """Since the worker was loaded."""
    return time.monotonic() - _STARTED


def read_line(text: str) -> Line | None:
    """A line of a worker; None for anything else (a library's chatter, a line cut short)."""
    try:
        return msgspec.json.decode(text, type=Line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def as_plain(line: Line) -> dict[str, Any]:
    """For tests and recorders."""
    value = msgspec.to_builtins(line)
    assert isinstance(value, dict)
    return value
