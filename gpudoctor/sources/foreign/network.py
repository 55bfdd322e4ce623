"""ibstat, `ip addr` / `ip link` and `ip route`."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.sources.foreign.answer import Found, command
from gpudoctor.sources.requests import IBSTAT, IP_ADDR, IP_ROUTE

KIND = DocumentKind.COMMAND

_IBSTAT = re.compile(r"^\s*CA '[\w.\-]+'\s*$|\bibpanic: ", re.MULTILINE)
_ROUTE = re.compile(r"^\s*[\d.]+/\d+ dev \S+ .*\bscope link\b", re.MULTILINE)
_IP = re.compile(r"^\s*\d+: [\w.\-@]+: <[A-Z_,]+> mtu \d+", re.MULTILINE)


def recognise(text: str) -> bool:
    """Whether one of them wrote some of this."""
    head = text[:65536]
    return any(sign.search(head) for sign in (_IBSTAT, _IP, _ROUTE))


def requests(text: str) -> Found:
    """Those that occur."""
    found: Found = {}
    if _IBSTAT.search(text):
        found |= command(IBSTAT, text)
    if _IP.search(text):
        found |= command(IP_ADDR, text)
    if _ROUTE.search(text):
        found |= command(IP_ROUTE, text)
    return found
