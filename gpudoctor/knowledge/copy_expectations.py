"""What copies between host and GPU, between two GPUs, and between nodes reach on healthy hardware. Decimal GB/s throughout."""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec


class CopyExpectation(msgspec.Struct, frozen=True, kw_only=True):
    """What one direction of a copy reaches, and the limit below which something is wrong; `both_*` is the sum of two directions."""

    link: str
    low_gbps: float
    high_gbps: float
    pass_gbps: float
    line_rate_gbps: float
    sources: list[str]  # public pages
    confidence: str  # high, medium, low (low: estimated from the line rate)
    both_low_gbps: float | None = None
    both_high_gbps: float | None = None


class _Copy(msgspec.Struct, frozen=True, kw_only=True):
    slugs: list[str]
    link: str
    one_way_gbps: tuple[float, float]
    both_ways_gbps: tuple[float, float] | None
    pass_gbps: float
    line_rate_gbps: float
    sources: list[str]
    confidence: str


class _Host(msgspec.Struct, frozen=True, kw_only=True):
    theoretical_gbps: float
    pinned_gbps: tuple[float, float]
    pass_gbps: float
    sources: list[str]
    confidence: str
    pcie_generation: int | None = None
    pcie_width: int | None = None
    slugs: list[str] = []


class _Nic(msgspec.Struct, frozen=True, kw_only=True):
    rate_gbit: float
    realistic_gbps: tuple[float, float]
    pass_gbit: float
    sources: list[str]
    confidence: str


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    sources: dict[str, str]
    p2p_copy: list[_Copy]
    host_copy: list[_Host]
    c2c_copy: list[_Host]
    lane_gbps: dict[str, float]
    nics: list[_Nic]


@cache
def _table() -> _Table:
    data = resources.files("gpudoctor.knowledge").joinpath("nccl_expectations.json").read_bytes()
    return msgspec.json.decode(data, type=_Table)


def _pages(keys: list[str]) -> list[str]:
    return [_table().sources[key] for key in keys]


def lane_rate(generation: int) -> float | None:
    """One direction of one PCIe lane after line coding, in GB/s."""
    return _table().lane_gbps.get(str(generation))


def pcie_line_rate(generation: int, width: int) -> float | None:
    """One direction of a PCIe link after line coding, in GB/s; packet headers still come off."""
    lane = lane_rate(generation)
    return None if lane is None else lane * width


def host_copy(generation: int, width: int) -> CopyExpectation | None:
    """Pinned copies between the GPU and memory of its own socket over this PCIe link.

    Pageable memory gives a third to a half; the far socket may cost 10 to 40 percent.
    """
    line = pcie_line_rate(generation, width)
    if line is None or width < 1:
        return None
    for entry in _table().host_copy:
        if (entry.pcie_generation, entry.pcie_width) == (generation, width):
            return _of_host(entry, f"PCIe {generation} x{width}")
    # Widths that nobody published: the shares of the line rate that the published ones have.
    return CopyExpectation(
        link=f"PCIe {generation} x{width}",
        low_gbps=round(0.74 * line, 2),
        high_gbps=round(0.85 * line, 2),
        pass_gbps=round(0.6 * line, 2),
        line_rate_gbps=round(line, 2),
        sources=_pages(["pcie", "estimate"]),
        confidence="low",
    )


def c2c_copy(slug: str) -> CopyExpectation | None:
    """Copies of a Grace GPU over its chip-to-chip NVLink."""
    entry = next((entry for entry in _table().c2c_copy if slug in entry.slugs), None)
    return None if entry is None else _of_host(entry, "NVLink-C2C")


def _of_host(entry: _Host, link: str) -> CopyExpectation:
    return CopyExpectation(
        link=link,
        low_gbps=entry.pinned_gbps[0],
        high_gbps=entry.pinned_gbps[1],
        pass_gbps=entry.pass_gbps,
        line_rate_gbps=entry.theoretical_gbps,
        sources=_pages(entry.sources),
        confidence=entry.confidence,
    )


def p2p_copy(slug: str) -> CopyExpectation | None:
    """Copies between two GPUs of this model (slug of gpus.json) that are joined by NVLink; None where nothing is published."""
    entry = next((entry for entry in _table().p2p_copy if slug in entry.slugs), None)
    if entry is None:
        return None
    both = entry.both_ways_gbps
    return CopyExpectation(
        link=entry.link,
        low_gbps=entry.one_way_gbps[0],
        high_gbps=entry.one_way_gbps[1],
        pass_gbps=entry.pass_gbps,
        line_rate_gbps=entry.line_rate_gbps,
        sources=_pages(entry.sources),
        confidence=entry.confidence,
        both_low_gbps=both[0] if both else None,
        both_high_gbps=both[1] if both else None,
    )


def network_port(rate_gbit: float) -> CopyExpectation | None:
    """What one RDMA port of this rate (Gb/s) carries, in GB/s; None for rates without a published figure."""
    entry = next((entry for entry in _table().nics if entry.rate_gbit == rate_gbit), None)
    if entry is None:
        return None
    return CopyExpectation(
        link=f"{rate_gbit:g} Gb/s port",
        low_gbps=entry.realistic_gbps[0],
        high_gbps=entry.realistic_gbps[1],
        pass_gbps=entry.pass_gbit / 8,
        line_rate_gbps=entry.rate_gbit / 8,
        sources=_pages(entry.sources),
        confidence=entry.confidence,
    )


# busbw between nodes against the sum of a node's RDMA ports: 85 to 92 percent is usual on clusters with one port per GPU.
_ACROSS_NODES = (0.85, 0.92)


def across_nodes(port_rates_gbit: list[float], ring_gbps: float | None = None) -> tuple[float, float] | None:
    """Usual range of all_reduce busbw over several nodes with these ports each; `ring_gbps` (one node's ring) bounds it."""
    total = sum(port_rates_gbit) / 8
    if total <= 0:
        return None
    low, high = (share * total for share in _ACROSS_NODES)
    if ring_gbps is not None:
        low, high = min(low, 0.95 * ring_gbps), min(high, ring_gbps)
    return round(low, 1), round(high, 1)
