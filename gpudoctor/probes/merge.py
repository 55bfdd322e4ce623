"""Puts what the probes found together, and derives what follows from several groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from gpudoctor.facts import Fact, Facts, fill
from gpudoctor.probes.derive import DERIVATIONS
from gpudoctor.probes.merge_gpus import merge_gpu_lists


class Part(msgspec.Struct, frozen=True):
    """What one probe found: a value of its group, or `Facts` with several groups."""

    probe: str
    group: str
    value: object


def merge(parts: Sequence[Part]) -> tuple[Facts, list[tuple[str, str]]]:
    """All facts of the parts; of two that know the same field, the earlier one holds. Derivations that crash are named with the reason."""
    groups: dict[str, Any] = {}
    for part in parts:
        if isinstance(part.value, Facts):
            for name in Facts.__struct_fields__:
                value = getattr(part.value, name)
                if name != "evidence" and value is not None:
                    groups[name] = combine(groups.get(name), value, name)
        else:
            groups[part.group] = combine(groups.get(part.group), part.value, part.group)
    facts = Facts(**groups)
    broken: list[tuple[str, str]] = []
    for derive in DERIVATIONS:
        facts = _derived(derive, facts, broken)
    return facts, broken


def _derived(derive: Callable[[Facts], Facts], facts: Facts, broken: list[tuple[str, str]]) -> Facts:
    try:
        return derive(facts)
    except Exception as error:
        broken.append((f"merge.{derive.__name__}", " ".join(f"{type(error).__name__}: {error}".split())[:300]))
        return facts


def combine(first: Any, second: Any, group: str) -> Any:
    """Two values of one group: fields of the first hold, the second fills what is not known. Lists of GPUs are matched item by item."""
    if first is None:
        return second
    if isinstance(first, Fact) and isinstance(second, Fact):
        return fill(first, second)
    if isinstance(first, list) and isinstance(second, list):
        if group == "gpus":
            return merge_gpu_lists(first, second)
        return first or second
    return first
