"""torch's collect_env report, by its first lines."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources.foreign.answer import Found, any_sign, whole_text
from gpudoctor.sources.requests import COLLECT_ENV

KIND = DocumentKind.COMMAND

_SIGN = Lazy(r"^\s*(?:PyTorch version: \S|CUDA used to build PyTorch: )", re.MULTILINE, needs=("PyTorch",))
_SIGNS = ((COLLECT_ENV, _SIGN),)


def recognise(text: str) -> bool:
    """Whether collect_env wrote this."""
    return any_sign(text, _SIGNS)


def requests(text: str) -> Found:
    """What occurs, each as the whole text."""
    return whole_text(text, _SIGNS)
