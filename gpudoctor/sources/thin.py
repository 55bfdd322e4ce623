"""Thins a huge log to the lines that matter, chunk by chunk: a gigabyte is never in memory."""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

# Lines that facts are read from, whatever the rules look for.
ALWAYS = (
    "NVRM", "Xid", "nvidia", "nouveau", "NVSwitch", "AER:", "PCIe Bus Error", "mce: ", "Machine check", "Hardware Error", "EDAC ", "Out of memory",
    "oom-kill", "oom_reaper", "invoked oom-killer", "Killed process", "Kernel panic", "Linux version ", "Command line: ", "blocked for more than",
    "I/O error", "DMAR: ", "AMD-Vi: ", "BUG: ", "soft lockup", "vfio-pci", "pciehp", "slabinfo", "module verification failed",
    "Loading of ", "mlx5_core", "segfault at", "PM: suspend", "traps: ",
)  # fmt: skip
FIRST_LINES = 50_000
LAST_LINES = 50_000
_WINDOW_BYTES = 4 << 20
_LONGEST_LINE = 16_384
_SAMPLE_BYTES = 1 << 18
_TOO_COMMON = 0.1  # of the sample's lines: such a word does not thin, it keeps everything
_ESCAPED_LITERAL = re.compile(rb"(?:[A-Za-z0-9_]|\\[^A-Za-z0-9_]|\\x[0-9a-f]{2}|[\x80-\xff])+")


class Thinned(msgspec.Struct, frozen=True):
    """The lines that matter with their 1-based numbers. `dropped`: how many more there were than are kept; `common`: words
    that are in so many lines that they were not looked for.
    """

    text: str
    numbers: list[int]
    dropped: int
    common: list[str]


def thin(chunks: Iterable[bytes], interesting: Any = None) -> Thinned:
    """The lines that match. `interesting` is a compiled RE2 pattern over bytes; lines of ALWAYS are kept with or without it."""
    chunks = iter(chunks)
    first_chunk = next(chunks, b"")
    literals, others = _parts(interesting)
    common = _common(literals, first_chunk[:_SAMPLE_BYTES])
    compiled = _compiled(tuple(sorted(literals - common)), others)
    first: list[tuple[int, bytes]] = []
    last: deque[tuple[int, bytes]] = deque(maxlen=LAST_LINES)
    dropped = 0
    for number, line in matching(itertools.chain([first_chunk], chunks), compiled):
        if len(first) < FIRST_LINES:
            first.append((number, line))
        else:
            dropped += len(last) == LAST_LINES
            last.append((number, line))
    kept = itertools.chain(first, last)
    text = b"\n".join(line for _, line in kept).decode("utf-8", "replace")
    numbers = [number for number, _ in itertools.chain(first, last)]
    return Thinned(text, numbers, dropped, sorted(_plain(word).decode("utf-8", "replace") for word in common))


def _parts(interesting: Any) -> tuple[set[bytes], bytes | None]:
    """The escaped literals to look for, and the rest of the pattern where it is not an alternation of literals."""
    import re2

    always = {re2.escape(literal.encode()) for literal in ALWAYS}
    if interesting is None:
        return always, None
    raw = interesting.pattern
    raw = raw if isinstance(raw, bytes) else raw.encode()
    parts = re.findall(rb"(?:\\.|[^|\\])+", raw)
    if all(_ESCAPED_LITERAL.fullmatch(part) for part in parts):
        return always | set(parts), None
    return always, raw


def _common(literals: set[bytes], sample: bytes) -> set[bytes]:
    """Those that are in more of the sample's lines than a filter's word may be; never one that facts need."""
    import re2

    needed = {re2.escape(literal.encode()) for literal in ALWAYS}
    lower = sample.lower()
    limit = lower.count(b"\n") * _TOO_COMMON
    return {word for word in literals - needed if limit > 50 and lower.count(_plain(word).lower()) > limit}


def _plain(escaped: bytes) -> bytes:
    return re.sub(rb"\\(.)", rb"\1", escaped)


@cache
def _compiled(literals: tuple[bytes, ...], others: bytes | None) -> Any:
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 << 20
    parts = [*literals] if others is None else [*literals, b"(?:" + others + b")"]
    return re2.compile(b"|".join(parts), options)


def matching(chunks: Iterable[bytes], compiled: Any) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of each line in which `compiled` occurs."""
    number = 1
    for window in _windows(chunks):
        position = counted = 0
        search = compiled.search
        while (match := search(window, position)) is not None:
            at = match.start()
            start = window.rfind(b"\n", 0, at) + 1
            end = window.find(b"\n", at)
            end = len(window) if end < 0 else end
            number += window.count(b"\n", counted, start)
            counted = start
            yield number, window[start : min(end, start + _LONGEST_LINE)].rstrip(b"\r")
            position = end + 1
            if position > len(window):
                break
        number += window.count(b"\n", counted)


def _windows(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces that end at line ends, so that no line is cut; a line longer than a window is."""
    rest = b""
    for chunk in chunks:
        cut = chunk.rfind(b"\n") + 1
        if cut == 0 and len(rest) + len(chunk) < _WINDOW_BYTES:
            rest += chunk
            continue
        yield rest + chunk[:cut] if cut else rest + chunk
        rest = chunk[cut:] if cut else b""
    if rest:
        yield rest
