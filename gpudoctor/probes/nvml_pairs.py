"""The worker's `pairs` line: {"a": 0, "b": 1, "ancestor": "SYS", "read": "OK", "write": "OK", "nvlink": "NS"}."""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Evidence, Topology, TopologyLink

SOURCE = "worker nvml_dump"
_NAMES = {"ancestor": "ancestors", "read": "p2p_read", "write": "p2p_write", "nvlink": "p2p_nvlink"}


def topology_of(pairs: list[Any]) -> Topology | None:
    """The fields that the pairs tell; None for none. Damaged entries are passed over."""
    found: dict[str, list[TopologyLink]] = {}
    for pair in pairs:
        if not isinstance(pair, dict) or not all(isinstance(pair.get(end), int) for end in ("a", "b")):
            continue
        for key, name in _NAMES.items():
            if isinstance(value := pair.get(key), str):
                link = TopologyLink(a=f"GPU{pair['a']}", b=f"GPU{pair['b']}", kind=value)
                found.setdefault(name, []).append(link)
    if not found:
        return None
    evidence = {
        name: Evidence(source=SOURCE, text=", ".join(f"{link.a}-{link.b} {link.kind}" for link in links[:12]))
        for name, links in found.items()
    }
    return Topology(
        ancestors=found.get("ancestors"),
        p2p_read=found.get("p2p_read"),
        p2p_write=found.get("p2p_write"),
        p2p_nvlink=found.get("p2p_nvlink"),
        evidence=evidence,
    )
