"""torch's collect_env report, by its first lines."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.sources.foreign.answer import Found, command
from gpudoctor.sources.requests import COLLECT_ENV

KIND = DocumentKind.COMMAND

_SIGN = re.compile(r"^\s*(?:PyTorch version: \S|CUDA used to build PyTorch: )", re.MULTILINE)


def recognise(text: str) -> bool:
    """Whether collect_env wrote this."""
    return _SIGN.search(text[:65536]) is not None


def requests(text: str) -> Found:
    """The whole report."""
    return command(COLLECT_ENV, text)
