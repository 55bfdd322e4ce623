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
_DIGITS = Lazy(r"[-+]?\d[\d.,:e+-]*")
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
    series: list[tuple[float, int]] = []
    shape = ""
    for index, line in enumerate(text.splitlines()):
        found = _SPAN.search(line) if len(line) <= _LONGEST_LINE else None
        if found is None:
            continue
        alike = _DIGITS.sub("", line).strip()
        if alike != shape:
            if told := _of(series):
                return told
            shape, series = alike, []
        series.append((_seconds(found), index))
    return _of(series)


def _of(series: list[tuple[float, int]]) -> First | None:
    if len(series) < _FEWEST:
        return None
    (first, line), *rest = series
    if first < _LEAST_SECONDS:
        return None
    from statistics import median  # brings much along, and few texts have such a series

    later = median(value for value, _ in rest)
    most = max(value for value, _ in rest)
    if first < _TIMES * later or first < 4 * most:
        return None
    return First(first, later, line)


def _seconds(match: re.Match[str]) -> float:
    if match["clock"]:
        hours, minutes, seconds = match["clock"].split(":")
        return int(hours) * 3600 + int(minutes) * 60 + float(seconds)
    if match["plain"]:
        return float(match["plain"])
    return float(match["number"]) / (1000 if match["unit"].lower().startswith("m") else 1)
