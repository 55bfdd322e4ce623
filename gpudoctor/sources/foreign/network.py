"""ibstat and `ip addr` / `ip link`."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.sources.foreign.answer import Found, command
from gpudoctor.sources.requests import IBSTAT, IP_ADDR

KIND = DocumentKind.COMMAND

_IBSTAT = re.compile(r"^\s*CA '[\w.\-]+'\s*$|\bibpanic: ", re.MULTILINE)
_IP = re.compile(r"^\s*\d+: [\w.\-@]+: <[A-Z_,]+> mtu \d+", re.MULTILINE)


def recognise(text: str) -> bool:
    """Whether one of them wrote some of this."""
    head = text[:65536]
    return _IBSTAT.search(head) is not None or _IP.search(head) is not None


def requests(text: str) -> Found:
    """Either or both."""
    found: Found = {}
    if _IBSTAT.search(text):
        found |= command(IBSTAT, text)
    if _IP.search(text):
        found |= command(IP_ADDR, text)
    return found
