"""Recognisers of files that other tools wrote, by content.

Each module has `KIND` (what its texts are to the message search), `recognise(text) -> bool` (cheap; sees the first 64 KiB
or more) and `requests(text)`, the answers in it by request. The order matters: the first that recognises a file has it.
"""

from __future__ import annotations

from typing import Protocol

from gpudoctor.facts import DocumentKind
from gpudoctor.sources.foreign import (
    bug_report,
    containers,
    dcgm,
    frameworks,
    kernel_log,
    kubernetes,
    lspci,
    nccl,
    network,
    nvidia_smi,
    slurm,
    small_files,
)
from gpudoctor.sources.foreign.answer import Found


class Recogniser(Protocol):
    """One kind of file."""

    @property
    def KIND(self) -> DocumentKind: ...

    def recognise(self, text: str, /) -> bool: ...

    def requests(self, text: str, /) -> Found: ...


# Most specific first: a bug report holds all the others, and logs quote other tools' messages.
RECOGNISERS: tuple[Recogniser, ...] = (
    bug_report,
    kernel_log,
    nvidia_smi,
    lspci,
    nccl,
    frameworks,
    dcgm,
    network,
    containers,
    kubernetes,
    slurm,
    small_files,
)
