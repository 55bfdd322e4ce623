"""Lines of `ls -l`, as bug reports and pastes hold them."""

from __future__ import annotations

import re
from datetime import datetime

from gpudoctor.lazy import Lazy
from gpudoctor.sources.answers import StatAnswer, Status

_KINDS = {"-": "file", "d": "dir", "l": "link", "c": "char", "b": "block", "p": "fifo", "s": "socket"}
LONG_LINE = Lazy(
    r"^\s*(?P<type>[-dlcbps])(?P<bits>[-rwxsStT]{9})[.+@]?\s+\d+\s+(?P<user>\S+)\s+(?P<group>\S+)\s+"
    r"(?:(?P<major>\d+),\s*(?P<minor>\d+)|(?P<size>\S+))\s+"
    r"(?P<time>\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d(?:\.\d+)?)?(?: [+-]\d{4})?|[A-Za-z.]{3,5}\s+\d+\s+[\d:]+|\d+\s+[A-Za-z.]{3,5}\s+[\d:]+)\s+"
    r"(?P<name>.+?)(?: -> (?P<target>.+?))?\s*$"
)


def stat_of_line(line: str, path: str | None = None) -> StatAnswer | None:
    """The metadata in one line of `ls -l`; None where it is none. `path` overrides the name in the line."""
    match = LONG_LINE.match(line)
    if match is None:
        return None
    size = match["size"]
    return StatAnswer(
        path=path or match["name"],
        status=Status.OK,
        kind=_KINDS[match["type"]],
        mode=_octal(match["bits"]),
        uid=0 if match["user"] == "root" else None,
        gid=0 if match["group"] == "root" else None,
        size_bytes=int(size) if size and size.isdecimal() else None,
        major=int(match["major"]) if match["major"] else None,
        minor=int(match["minor"]) if match["minor"] else None,
        modified=_epoch(match["time"]),
        target=match["target"],
    )


def _octal(bits: str) -> str:
    value = 0
    for i, bit in enumerate(bits):
        if bit not in "-ST":
            value |= 1 << (8 - i)
    for i, flags in ((2, "sS"), (5, "sS"), (8, "tT")):
        if bits[i] in flags:
            value |= {2: 0o4000, 5: 0o2000, 8: 0o1000}[i]
    return f"{value:04o}"


def _epoch(text: str) -> float | None:
    """Only full ISO times with an offset say when."""
    trimmed = re.sub(r"(\.\d{6})\d*", r"\1", text)
    try:
        moment = datetime.fromisoformat(trimmed)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None
