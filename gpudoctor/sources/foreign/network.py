"""ibstat, `ip addr` / `ip link` and `ip route`."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources.foreign.answer import Found, any_sign, whole_text
from gpudoctor.sources.requests import IBSTAT, IP_ADDR, IP_ROUTE

KIND = DocumentKind.COMMAND

_IBSTAT = Lazy(r"^\s*CA '[\w.\-]+'\s*$|\bibpanic: ", re.MULTILINE, needs=("CA '", "ibpanic"))
_ROUTE = Lazy(r"^\s*[\d.]+/\d+ dev \S+ .*\bscope link\b", re.MULTILINE, needs=("scope link",))
_IP = Lazy(r"^\s*\d+: [\w.\-@]+: <[A-Z_,]+> mtu \d+", re.MULTILINE, needs=("> mtu ",))
# ip -br addr: a name, a state, addresses
_IP_BRIEF = Lazy(
    r"^\s*[\w.\-@]+\s+(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)\s+(?:\d+\.\d+\.\d+\.\d+|[0-9a-f:]*:[0-9a-f:]+)/\d+",
    re.MULTILINE,
    needs=("UP", "DOWN", "UNKNOWN", "DORMANT"),
)
_SIGNS = ((IBSTAT, _IBSTAT), (IP_ADDR, _IP), (IP_ADDR, _IP_BRIEF), (IP_ROUTE, _ROUTE))


def recognise(text: str) -> bool:
    """Whether one of them wrote some of this."""
    return any_sign(text, _SIGNS)


def requests(text: str) -> Found:
    """What occurs, each as the whole text."""
    return whole_text(text, _SIGNS)
