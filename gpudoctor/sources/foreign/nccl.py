"""nccl-tests output and NCCL_DEBUG logs."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.sources.foreign.answer import Found, command
from gpudoctor.sources.requests import NCCL_DEBUG_LOG, NCCL_TESTS

KIND = DocumentKind.LOG

_TESTS = re.compile(
    r"^.*# nThread \d+ |^\s*#\s*Avg bus bandwidth\s*:|^\s*#\s+size\s+count\s+type\s+redop", re.MULTILINE
)
_LOG = re.compile(r"\bNCCL (?:INFO|WARN|TRACE) |\bNCCL version \d", re.MULTILINE)


def recognise(text: str) -> bool:
    """Whether NCCL or its tests wrote some of this."""
    head = text[:65536]
    return _TESTS.search(head) is not None or _LOG.search(head) is not None


def requests(text: str) -> Found:
    """Either or both."""
    found: Found = {}
    if _TESTS.search(text):
        found |= command(NCCL_TESTS, text)
    if _LOG.search(text):
        found |= command(NCCL_DEBUG_LOG, text)
    return found
