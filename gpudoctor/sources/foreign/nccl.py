"""nccl-tests output, NCCL_DEBUG logs, and PyTorch's words on its collectives."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources.foreign.answer import Found, any_sign, whole_text
from gpudoctor.sources.requests import NCCL_DEBUG_LOG, NCCL_TESTS, TORCH_DISTRIBUTED_LOG

KIND = DocumentKind.LOG

_TESTS = Lazy(
    r"^.*# nThread \d+ |^\s*#\s*Avg bus bandwidth\s*:|^\s*#\s+size\s+count\s+type\s+redop",
    re.MULTILINE,
    needs=("# nThread", "Avg bus", "redop"),
)
_LOG = Lazy(r"\bNCCL (?:INFO|WARN|TRACE) |\bNCCL version \d", re.MULTILINE, needs=("NCCL ",))
_WATCHDOG = Lazy(
    r"ProcessGroupNCCL|\bWorkNCCL\(|\b[Mm]issing ranks(?: are|:)|are the lagging ranks|lagging/dead/mismatched ranks|but didn.t join collective #|\b(?:COLLECTIVE_TYPE|SIZE_OR_SYNTAX|COLLECTIVE_DTYPE)_MISMATCH\b",
    needs=("NCCL", "issing ranks", "mismatched ranks", "lagging ranks", "join collective", "_MISMATCH"),
)
_SIGNS = ((NCCL_TESTS, _TESTS), (NCCL_DEBUG_LOG, _LOG), (TORCH_DISTRIBUTED_LOG, _WATCHDOG))


def recognise(text: str) -> bool:
    """Whether NCCL or its tests wrote some of this."""
    return any_sign(text, _SIGNS)


def requests(text: str) -> Found:
    """What occurs, each as the whole text."""
    return whole_text(text, _SIGNS)
