"""What `each:` iterates over: the item's name in expressions, its list among the facts, and how a finding names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gpudoctor.facts import Fact, Facts


class Items(msgspec.Struct, frozen=True):
    """`path` is the list among the facts; `subject` names one item of it."""

    path: str
    subject: Callable[[Any], str]


def full_bdf(text: str) -> str:
    """3b:00.0, 0000:3b:00 and 00000000:3B:00.0 name the same device: 0000:3b:00.0."""
    parts = text.lower().split(":")
    if len(parts) == 2:
        parts = ["0000", *parts]
    if len(parts) != 3:
        return text.lower()
    domain = parts[0][-4:].rjust(4, "0")
    return f"{domain}:{parts[1]}:{parts[2] if '.' in parts[2] else parts[2] + '.0'}"


def _gpu(item: Any) -> str:
    if item.bdf:
        return f"gpu {full_bdf(item.bdf)}"
    return "gpu" if item.index is None else f"gpu {item.index}"


def _bdf(item: Any) -> str:
    return f"gpu {full_bdf(item.bdf)}" if item.bdf else "node"


def _switch(item: Any) -> str:
    return f"nvswitch {item.bdf or item.switch}"


def _named(kind: str) -> Callable[[Any], str]:
    return lambda item: f"{kind} {item.name}"


EACH: dict[str, Items] = {
    "gpu": Items("gpus", _gpu),
    "device": Items("pci.nvidia_devices", _bdf),
    "xid": Items("kernel.xids", _bdf),
    "sxid": Items("kernel.sxids", _switch),
    "nvrm": Items("kernel.nvrm", _bdf),
    "framework": Items("frameworks", _named("framework")),
    "node": Items("kubernetes.nodes", _named("kubernetes node")),
    "pod": Items("kubernetes.pods", _named("pod")),
    "slurm_node": Items("slurm.nodes", _named("slurm node")),
    "port": Items("network.rdma_ports", lambda item: f"port {item.device}"),
    "nccl_test": Items("nccl.tests", lambda item: "node"),
    "bench_run": Items("bench.runs", lambda item: "node"),
    "bench_figure": Items("bench.figures", _bdf),
    "bench_fault": Items("bench.faults", _bdf),
    "bench_counter": Items("bench.counters", _bdf),
    "bench_throttle": Items("bench.throttling", _bdf),
}


def items(facts: Facts, each: str) -> list[Fact] | None:
    """The items that a rule's `each` iterates over; None when that list is not known."""
    value: Any = facts
    for name in EACH[each].path.split("."):
        value = getattr(value, name, None)
        if value is None:
            return None
    return list(value)
