"""Thins a huge log to the lines that matter, chunk by chunk: a gigabyte is never in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

# Lines that facts are read from, whatever the rules look for.
ALWAYS = (
    "NVRM", "Xid", "nvidia", "nouveau", "NVSwitch", "AER:", "PCIe Bus Error", "mce: ", "Machine check", "Hardware Error", "EDAC ", "Out of memory",
    "oom-kill", "oom_reaper", "invoked oom-killer", "Killed process", "Kernel panic", "Linux version ", "Command line: ", "blocked for more than",
    "I/O error", "DMAR: ", "AMD-Vi: ", "BUG: ", "soft lockup", "vfio-pci", "pciehp", "slabinfo", "module verification failed",
    "Loading of ", "mlx5_core", "segfault at", "PM: suspend", "traps: ",
)  # fmt: skip
FIRST_LINES = 100_000
LAST_LINES = 100_000
_WINDOW_BYTES = 4 << 20
_LONGEST_LINE = 16_384


def thin(chunks: Iterable[bytes], interesting: Any = None) -> tuple[str, list[int], int]:
    """The lines that match, their 1-based numbers, and how many matching lines were left out beyond the limits.

    `interesting` is a compiled RE2 pattern; lines of ALWAYS are kept with or without it.
    """
    first: list[tuple[int, bytes]] = []
    last: deque[tuple[int, bytes]] = deque(maxlen=LAST_LINES)
    dropped = 0
    for number, line in matching(chunks, pattern(interesting)):
        if len(first) < FIRST_LINES:
            first.append((number, line))
        else:
            dropped += len(last) == LAST_LINES
            last.append((number, line))
    kept = first + list(last)
    text = b"\n".join(line for _, line in kept).decode("utf-8", "replace")
    return text, [number for number, _ in kept], dropped


def pattern(interesting: Any = None) -> Any:
    """RE2 over bytes: the rules' patterns and ALWAYS."""
    return _compiled(None if interesting is None else interesting.pattern)


@cache
def _compiled(more: str | bytes | None) -> Any:
    import re2

    options = re2.Options()
    options.never_nl = True
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 << 20
    parts = [re2.escape(literal) for literal in ALWAYS]
    if more is not None:
        parts.append(f"(?:{more.decode('latin-1') if isinstance(more, bytes) else more})")
    return re2.compile("|".join(parts), options)


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
    pieces: list[bytes] = []
    size = 0
    for chunk in chunks:
        pieces.append(chunk)
        size += len(chunk)
        if size < _WINDOW_BYTES:
            continue
        window = b"".join(pieces)
        cut = window.rfind(b"\n") + 1 or len(window)
        yield window[:cut]
        rest = window[cut:]
        pieces, size = [rest], len(rest)
    if size:
        yield b"".join(pieces)
