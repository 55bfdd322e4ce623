"""dcgmi: the diagnostic's table (also a part of it) or JSON and discovery."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.sources.foreign.answer import Found, command
from gpudoctor.sources.requests import DCGMI_DIAG, DCGMI_DISCOVERY

KIND = DocumentKind.COMMAND

_DIAG = re.compile(
    r'"DCGM (?:GPU )?Diagnostic"\s*:'
    r"|^\s*\| Diagnostic\s+\| Result|^\s*[|+]-{3,}\s+(?:Metadata|Deployment|Integration|Hardware|Stress)\s+-"
    r"|^\s*\| (?:GPU Memory|PCIe|Memory Bandwidth|Diagnostic|Targeted (?:Power|Stress)|SM Stress|EUD Test|Memtest|Inforom|Pulse Test)\s+\| (?:Pass|Fail|Warn|Skip)",
    re.MULTILINE,
)
_DISCOVERY = re.compile(r"^\s*\d+ GPUs? found\.\s*$", re.MULTILINE)


def recognise(text: str) -> bool:
    """Whether dcgmi wrote some of this."""
    head = text[:65536]
    return _DIAG.search(head) is not None or _DISCOVERY.search(head) is not None


def requests(text: str) -> Found:
    """Either or both."""
    found: Found = {}
    if _DIAG.search(text):
        found |= command(DCGMI_DIAG, text)
    if _DISCOVERY.search(text):
        found |= command(DCGMI_DISCOVERY, text)
    return found
