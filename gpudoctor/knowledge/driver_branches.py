"""NVIDIA's Linux driver branches: how long they live, the CUDA version they run, the architectures they drive."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec


class DriverBranch(msgspec.Struct, frozen=True, kw_only=True):
    """One branch, such as 535. `end_of_life` is "yyyy-mm" where the vendor's lifecycle table has it; `cuda` the highest version it runs."""

    branch: int
    kind: str  # LTSB, PB, NFB, legacy
    oldest_architecture: str
    newest_architecture: str
    end_of_life: str | None = None
    cuda: str | None = None


@cache
def branches() -> tuple[DriverBranch, ...]:
    """Every branch of the table, oldest first."""
    data = Path(__file__).with_name("driver_branches.json").read_bytes()
    return tuple(msgspec.json.decode(data, type=list[DriverBranch]))


def by_number(branch: int | None) -> DriverBranch | None:
    """The branch with this leading number; `None` where the table does not have it."""
    return next((entry for entry in branches() if entry.branch == branch), None)


def branch_of(version: str | None) -> int | None:
    """The leading number of a driver version: 535 for "535.183.01"."""
    head = (version or "").split(".", 1)[0]
    return int(head) if head.isdecimal() and len(head) <= 4 else None


def ended_by(branch: int | None) -> str | None:
    """The month ("2026-06") after which nothing in a branch is mended; `None` where the table does not tell.

    Feature branches have no date of their own: they are over when the first newer branch is.
    """
    known = by_number(branch)
    if known is None:
        return None
    newer = [entry.end_of_life for entry in branches() if entry.branch > known.branch and entry.end_of_life]
    return known.end_of_life or min(newer, default=None)
