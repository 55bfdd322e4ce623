"""NUMA nodes of this machine, and a thread's place on one of them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NODES = Path("/sys/devices/system/node")
_DEVICES = Path("/sys/bus/pci/devices")


@dataclass(frozen=True)
class Node:
    """One node: those of its CPUs on which this process may run, and its distance to every node, itself included."""

    number: int
    cpus: frozenset[int]
    distances: dict[int, int]


def parse_cpus(text: str) -> frozenset[int]:
    """`0-3,8` -> 0, 1, 2, 3, 8. Parts that are no ranges are left out."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part.strip())
        if found:
            cpus.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(cpus)


def nodes(folder: Path = _NODES, allowed: frozenset[int] | None = None) -> list[Node]:
    """Nodes with CPUs; `cpus` is empty where this process may run on none of them. Nodes of memory alone are left out."""
    if allowed is None:
        allowed = frozenset(os.sched_getaffinity(0))
    numbers = sorted(int(path.name[4:]) for path in folder.glob("node[0-9]*") if path.name[4:].isdecimal())
    found: list[Node] = []
    for number in numbers:
        cpus = parse_cpus(_text(folder / f"node{number}" / "cpulist"))
        if cpus:
            found.append(
                Node(number, cpus & allowed, _distances(_text(folder / f"node{number}" / "distance"), numbers))
            )
    return found


def node_of(bdf: str | None, folder: Path = _DEVICES) -> int | None:
    """The node to which a PCI device is attached; None when the firmware does not say."""
    text = _text(folder / bdf / "numa_node").strip() if bdf else ""
    return int(text) if text.isdecimal() else None


def nearest(near: int, among: list[Node]) -> Node | None:
    """Node `near` itself, or where it has no CPUs the one that is nearest to it."""
    return min(among, key=lambda node: (node.number != near, node.distances.get(near, 0), node.number), default=None)


def farthest(near: int, among: list[Node]) -> Node | None:
    """The node with CPUs of ours that is farthest from node `near`; None when there is no other."""
    others = [node for node in among if node.number != near and node.cpus]
    return max(others, key=lambda node: (node.distances.get(near, 0), -node.number), default=None)


@contextlib.contextmanager
def running_on(node: Node | None) -> Iterator[None]:
    """This thread runs on the node's CPUs, so that memory it takes comes from there; None changes nothing."""
    before = os.sched_getaffinity(0)
    if node is not None:
        os.sched_setaffinity(0, node.cpus)
    try:
        yield
    finally:
        if node is not None:
            os.sched_setaffinity(0, before)


def _distances(text: str, numbers: list[int]) -> dict[int, int]:
    parts = text.split()
    # One distance for each node that is online, in the order of their numbers.
    return {number: int(part) for number, part in zip(numbers, parts, strict=False) if part.isdecimal()}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
