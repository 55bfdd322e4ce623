"""Evidence lines of a text that is part of a longer one, as the lines of that longer one."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from gpudoctor.facts import Evidence, Fact, Gpu

Found = TypeVar("Found", bound=Fact)


def renumber(evidence: dict[str, Evidence], numbers: list[int] | None) -> dict[str, Evidence]:
    """The evidence with line `n` as `numbers[n - 1]`; unchanged without numbers."""
    if numbers is None:
        return evidence
    return {name: _moved(item, numbers) for name, item in evidence.items()}


def renumbered(fact: Found, numbers: list[int] | None) -> Found:
    """The fact with its evidence renumbered."""
    if numbers is None:
        return fact
    return msgspec.structs.replace(fact, evidence=renumber(fact.evidence, numbers))


def renumbered_gpu(gpu: Gpu, numbers: list[int] | None) -> Gpu:
    """A GPU and its links renumbered."""
    if numbers is None:
        return gpu
    links = None if gpu.nvlinks is None else [renumbered(link, numbers) for link in gpu.nvlinks]
    return msgspec.structs.replace(gpu, evidence=renumber(gpu.evidence, numbers), nvlinks=links)


def _moved(item: Evidence, numbers: list[int]) -> Evidence:
    if item.line is None or not 0 < item.line <= len(numbers):
        return item
    return Evidence(source=item.source, text=item.text, line=numbers[item.line - 1])
