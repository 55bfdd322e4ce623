"""dcgmi: the diagnostic's table (also a part of it) or JSON and discovery."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources.foreign.answer import Found, any_sign, whole_text
from gpudoctor.sources.requests import DCGMI_DIAG, DCGMI_DISCOVERY

KIND = DocumentKind.COMMAND

_DIAG = Lazy(
    r'"DCGM (?:GPU )?Diagnostic"\s*:'
    r"|^\s*\| Diagnostic\s+\| Result|^\s*[|+]-{3,}\s+(?:Metadata|Deployment|Integration|Hardware|Stress)\s+-"
    r"|^\s*\| (?:GPU Memory|PCIe|Memory Bandwidth|Diagnostic|Targeted (?:Power|Stress)|SM Stress|EUD Test|Memtest|Inforom|Pulse Test)\s+\| (?:Pass|Fail|Warn|Skip)",
    re.MULTILINE,
    needs=(
        "Diagnostic",
        "Metadata",
        "Deployment",
        "Integration",
        "Hardware",
        "Stress",
        "Pass",
        "Fail",
        "Warn",
        "Skip",
    ),
)
_DISCOVERY = Lazy(r"^\s*\d+ GPUs? found\.\s*$", re.MULTILINE, needs=("found.",))
_SIGNS = ((DCGMI_DIAG, _DIAG), (DCGMI_DISCOVERY, _DISCOVERY))


def recognise(text: str) -> bool:
    """Whether dcgmi wrote some of this."""
    return any_sign(text, _SIGNS)


def requests(text: str) -> Found:
    """What occurs, each as the whole text."""
    return whole_text(text, _SIGNS)
