"""lspci in its forms: plain, -nn, -k, -v to -vvv, with domains (-D), with hex dumps (-xxx)."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.foreign.answer import Found, command, pick

KIND = DocumentKind.FILE

DEVICE = Lazy(
    r"^[ \t]*(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] (?:[A-Z0-9][\w/ .()-]*?(?: \[[0-9a-f]{4}\])?: |\"|[0-9a-f]{4}: )",
    re.MULTILINE,
)
_DETAIL = Lazy(r"^[ \t]+\S|^[0-9a-f]{2,3}: (?:[0-9a-f]{2} ?){8,16}\s*$")
_VERBOSE = Lazy(
    r"^[ \t]+(?:LnkCap|LnkSta|Capabilities: \[|Region \d+: |Control: I/O|!!! Unknown header)",
    re.MULTILINE,
    needs=("LnkCap", "LnkSta", "Capabilities: [", "Region ", "Control: I/O", "!!! Unknown header"),
)
_EVERY_KIND = Lazy(
    r"\b(?:Host bridge|PCI bridge|ISA bridge|Non-Volatile memory|USB controller)\b",
    needs=("Host bridge", "PCI bridge", "ISA bridge", "Non-Volatile memory", "USB controller"),
)


def recognise(text: str) -> bool:
    """Whether this looks like devices as lspci prints them."""
    return DEVICE.search(text[:65536]) is not None


def requests(text: str) -> Found:
    """The device lines with what belongs to them. Without bridges or other devices it is an excerpt."""
    lines = text.split("\n")
    wanted: list[int] = []
    inside = False
    for i, line in enumerate(lines):
        if DEVICE.match(line):
            inside = True
        elif not (inside and _DETAIL.match(line)):
            inside = inside and not line.strip()
            continue
        wanted.append(i)
    body, numbers = pick(text, wanted)
    excerpt = _EVERY_KIND.search(body) is None
    found = command(known.LSPCI, body, partial=excerpt, lines=numbers)
    if _VERBOSE.search(body):
        found |= command(known.LSPCI_VVV, body, partial=excerpt, lines=numbers)
    return found
