"""The same piece of work timed several times: the first may take much longer than the next ones."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.lazy import Lazy

# 0:02:01.451538 - 94.21 s - 812.3 ms - took 94.21 - time: 94.21
_SPAN = Lazy(
    r"(?P<clock>(?<![\d:])\d:\d\d:\d\d\.\d+)|(?<![\w.])(?P<number>\d+(?:\.\d+)?) ?(?P<unit>ms|msec|s|sec|secs|seconds|milliseconds)\b"
    r"|\b(?P<word>time|took|elapsed|latency|duration|runtime)\b[ :=]*(?P<plain>\d+\.\d+)\b",
    re.IGNORECASE,
)
# What numbers are written with: lines that differ in nothing else tell of the same piece of work.
_NUMBERS = dict.fromkeys(map(ord, "0123456789.,:e+-"))
_FEWEST = 3
_LONGEST_LINE = 300
_LEAST_SECONDS = 3.0
_TIMES = 15.0


class First(msgspec.Struct, frozen=True):
    """Seconds of the first and of a usual later one; `line` is the 0-based number of the first's line."""

    first: float
    later: float
    line: int


def parse_first(text: str) -> First | None:
    """The first series of lines, alike but for their numbers, that begins with a time of another size."""
    alike: dict[str, list[tuple[str, int]]] = {}
    for index, line in enumerate(text.splitlines()):
        if len(line) <= _LONGEST_LINE:
            alike.setdefault(line.translate(_NUMBERS).strip(), []).append((line, index))
    for lines in alike.values():
        if len(lines) >= _FEWEST and (told := _of(lines)):
            return told
    return None


def _of(lines: list[tuple[str, int]]) -> First | None:
    begins = _SPAN.search(lines[0][0])
    if begins is None or (first := _seconds(begins)) < _LEAST_SECONDS:
        return None
    later = [_seconds(found) for line, _ in lines[1:] if (found := _SPAN.search(line))]
    if len(later) < _FEWEST - 1 or first < 4 * max(later):
        return None
    from statistics import median  # brings much along, and few texts have such a series

    usual = median(later)
    return First(first, usual, lines[0][1]) if first >= _TIMES * usual else None


def _seconds(match: re.Match[str]) -> float:
    if match["clock"]:
        hours, minutes, seconds = match["clock"].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if match["plain"]:
        return float(match["plain"])
    return float(match["number"]) / (1000 if match["unit"].lower().startswith("m") else 1)
