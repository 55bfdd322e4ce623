"""Matches two lists of GPUs (NVML's and nvidia-smi's) item by item."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudoctor.facts import Gpu, NvLink
from gpudoctor.lazy import Lazy

_BDF = Lazy(r"(?i)^(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?$")


def normal_bdf(text: str | None) -> str | None:
    """A PCI address as 0000:3b:00.0, from 3b:00.0, 00000000:3B:00.0 or 0000:3b:00; `None` when it is none."""
    match = _BDF.match((text or "").strip().removeprefix("PCI:"))
    if match is None:
        return None
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{int(match[2], 16):02x}:{int(match[3], 16):02x}.{match[4] or '0'}"


def same_gpu(a: Gpu, b: Gpu) -> bool:
    """Whether two entries are the same GPU: by address, else by UUID, else by index.

    A line that tells none of them (a query for name and memory) is the first GPU of that name.
    """
    a_bdf, b_bdf = normal_bdf(a.bdf), normal_bdf(b.bdf)
    if a_bdf and b_bdf:
        return a_bdf == b_bdf
    if a.uuid and b.uuid:
        return a.uuid == b.uuid
    if (a_bdf, a.uuid, a.index) == (None, None, None) or (b_bdf, b.uuid, b.index) == (None, None, None):
        return a.name is None or b.name is None or a.name == b.name
    return a.index == b.index


def merge_gpu_lists(first: list[Gpu], second: list[Gpu]) -> list[Gpu]:
    """`first`, each completed by its match in `second`; GPUs that only `second` has come after."""
    left = list(second)
    merged: list[Gpu] = []
    for gpu in first:
        match = next((other for other in left if same_gpu(gpu, other)), None)
        if match is not None:
            left.remove(match)
            gpu = _completed(gpu, match)
        merged.append(gpu)
    return merged + left


def _completed(gpu: Gpu, other: Gpu) -> Gpu:
    taken: dict[str, Any] = {}
    evidence = dict(gpu.evidence)
    if gpu.nvlinks and other.nvlinks:
        taken["nvlinks"] = _links_of_both(gpu.nvlinks, other.nvlinks)
    for name in gpu.__struct_fields__:
        value = getattr(other, name)
        if name in ("evidence", "errors", "index") or value is None or getattr(gpu, name) is not None:
            continue
        taken[name] = value
        if name in other.evidence:
            evidence[name] = other.evidence[name]
    if "" in other.evidence:
        evidence.setdefault("", other.evidence[""])
    return msgspec.structs.replace(gpu, **taken, errors={**other.errors, **gpu.errors}, evidence=evidence)


def _links_of_both(first: list[NvLink], second: list[NvLink]) -> list[NvLink]:
    """States and counters of a link come from different commands."""
    others = {link.link: link for link in second}
    merged = []
    for link in first:
        other = others.pop(link.link, None)
        if other is not None:
            names = [n for n in link.__struct_fields__ if n != "evidence" and getattr(link, n) is None]
            added = {name: getattr(other, name) for name in names}
            quoted = {name: other.evidence[""] for name in names if added[name] is not None and "" in other.evidence}
            link = msgspec.structs.replace(link, **added, evidence={**quoted, **link.evidence})
        merged.append(link)
    return [*merged, *others.values()]
