"""What bandwidth collectives reach on healthy hardware, by GPU model; every figure with its public source.

All bandwidths are decimal GB/s. "busbw" is the bus bandwidth of nccl-tests: algorithm bandwidth times the collective's
factor, so that it can be held against the rate of one direction of a link (nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from gpudoctor.knowledge import gpus

# Collectives that run as rings at about the ring rate of all_reduce; of the others nothing is published.
_AS_RING = ("all_gather", "reduce_scatter", "broadcast", "reduce")
_WITHOUT_UNDERSCORES = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}


class BusbwExpectation(msgspec.Struct, frozen=True, kw_only=True):
    """What busbw this many GPUs of one model reach with large messages.

    Below `pass_gbps` something is wrong; `nvls` says whether the switches reduce (None: it makes no difference, or both
    are covered); `confidence` is high, medium or low (low: estimated from the line rate).
    """

    name: str  # "8 x H100 SXM"
    collective: str
    link: str
    low_gbps: float
    high_gbps: float
    pass_gbps: float
    basis: str  # where the pass limit comes from
    line_rate_gbps: float  # one direction
    min_size_bytes: int  # smaller messages do not reach it
    sources: list[str]  # public pages
    confidence: str
    nvls: bool | None = None


class _Node(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    slugs: list[str]
    ranks: list[int]
    collective: str
    nvls: bool | None
    link: str
    nvlink: bool
    busbw_gbps: tuple[float, float]
    pass_gbps: float
    basis: str
    line_rate_gbps: float
    min_size_bytes: int
    sources: list[str]
    confidence: str
    nodes: int = 1


class _Ramp(msgspec.Struct, frozen=True, kw_only=True):
    slugs: list[str]
    link: str
    size_bytes: int
    line_rate_gbps: float
    nvls: dict[str, float]
    ring: dict[str, float]
    sources: list[str]
    confidence: str


class _Pair(msgspec.Struct, frozen=True, kw_only=True):
    busbw_gbps: tuple[float, float]
    pass_gbps: float
    basis: str
    line_rate_gbps: float
    min_size_bytes: int
    sources: list[str]
    confidence: str
    pcie_generation: int | None = None


class NetworkPort(msgspec.Struct, frozen=True, kw_only=True):
    """What one RDMA port carries: usual range in GB/s, and the limit of health checks in Gb/s."""

    rate_gbit: float
    realistic_gbps: tuple[float, float]
    pass_gbit: float
    sources: list[str]
    confidence: str


class _Table(msgspec.Struct, frozen=True, kw_only=True):
    sources: dict[str, str]
    single_node: list[_Node]
    ramp: list[_Ramp]
    pcie_pair: list[_Pair]
    without_p2p: _Pair
    network_ports: list[NetworkPort]


@cache
def _table() -> _Table:
    data = Path(__file__).with_name("nccl_expectations.json").read_bytes()
    return msgspec.json.decode(data, type=_Table)


def _pages(keys: list[str]) -> list[str]:
    return [_table().sources[key] for key in keys]


@cache
def _slugs_by_name() -> dict[str, str]:
    named: dict[str, str] = {}
    for model in gpus.models():
        for name in model.names:
            named.setdefault(_bare(name), model.slug)
    return named


def _bare(name: str) -> str:
    return name.lower().removeprefix("nvidia ").removeprefix("tesla ").strip()


def slug_of_name(name: str) -> str | None:
    """The model with exactly this product name, with or without "NVIDIA"; for outputs that show no PCI id."""
    return _slugs_by_name().get(_bare(name))


def collective_name(name: str) -> str:
    """One spelling for all tools: all_reduce for allreduce, all_reduce_perf and AllReduce."""
    bare = name.lower().removesuffix("_perf").replace("_", "")
    return _WITHOUT_UNDERSCORES.get(bare, bare)


def busbw_factor(collective: str, ranks: int) -> float | None:
    """busbw = algbw times this factor (nccl-tests, doc/PERFORMANCE.md); None for an unknown collective or one rank."""
    if ranks < 2:
        return None
    name = collective_name(collective)
    if name == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if name in ("reduce_scatter", "all_gather", "alltoall", "gather", "scatter", "hypercube"):
        return (ranks - 1) / ranks
    return 1.0 if name in ("broadcast", "reduce", "sendrecv") else None


def busbw_expectations(
    slug: str, ranks: int, collective: str, *, nvlink: bool | None = None, nodes: int = 1
) -> list[BusbwExpectation]:
    """Every published way for these GPUs, best first (in-switch reduction before the ring).

    `nvlink` must be known for cards that have NVLink only with bridges: without it nothing is said of them.
    """
    name = collective_name(collective)
    found = [
        _of_node(entry)
        for entry in _table().single_node
        if slug in entry.slugs
        and ranks in entry.ranks
        and entry.collective == name
        and entry.nodes == nodes
        and _link_fits(slug, entry.nvlink, nvlink)
    ]
    if not found and nodes == 1 and nvlink is not False:
        found = _of_ramp(slug, ranks, name)
    if not found and name in _AS_RING:
        rings = [e for e in busbw_expectations(slug, ranks, "all_reduce", nvlink=nvlink, nodes=nodes) if not e.nvls]
        found = [_as_ring(ring, name) for ring in rings]
    return sorted(found, key=lambda entry: entry.low_gbps, reverse=True)


def _link_fits(slug: str, wanted: bool, nvlink: bool | None) -> bool:
    if nvlink is not None:
        return wanted == nvlink
    model = next((model for model in gpus.models() if model.slug == slug), None)
    return model is not None and (model.nvlink_attach == "board" or not (wanted or model.nvlink_links))


def _of_node(entry: _Node) -> BusbwExpectation:
    return BusbwExpectation(
        name=entry.id,
        collective=entry.collective,
        link=entry.link,
        low_gbps=entry.busbw_gbps[0],
        high_gbps=entry.busbw_gbps[1],
        pass_gbps=entry.pass_gbps,
        basis=entry.basis,
        line_rate_gbps=entry.line_rate_gbps,
        min_size_bytes=entry.min_size_bytes,
        sources=_pages(entry.sources),
        confidence=entry.confidence,
        nvls=entry.nvls,
    )


# Fewer than eight GPUs were measured on one machine with switches only; boards of four without them may give less.
_RAMP_PASS = 0.85


def _of_ramp(slug: str, ranks: int, collective: str) -> list[BusbwExpectation]:
    ramp = next((ramp for ramp in _table().ramp if slug in ramp.slugs), None)
    if ramp is None or collective != "all_reduce":
        return []
    product = next(model.product for model in gpus.models() if model.slug == slug).removeprefix("NVIDIA ")
    found = []
    for nvls, values in ((True, ramp.nvls), (False, ramp.ring)):
        value = values.get(str(ranks))
        if value is None or (nvls and value < 1.05 * ramp.ring[str(ranks)]):
            continue  # with so few GPUs the switches do not reduce
        found.append(
            BusbwExpectation(
                name=f"{ranks} x {product}",
                collective=collective,
                link=f"{ramp.link}, {'in-switch reduction (NVLS)' if nvls else 'ring'}",
                low_gbps=round(0.97 * value, 1),
                high_gbps=round(1.02 * value, 1),
                pass_gbps=round(_RAMP_PASS * value, 1),
                basis="one node's measurement less 15 percent",
                line_rate_gbps=ramp.line_rate_gbps,
                min_size_bytes=ramp.size_bytes,
                sources=_pages(ramp.sources),
                confidence="medium",
                nvls=nvls,
            )
        )
    return found


def _as_ring(ring: BusbwExpectation, collective: str) -> BusbwExpectation:
    return msgspec.structs.replace(
        ring,
        collective=collective,
        pass_gbps=round(0.92 * ring.pass_gbps, 1),
        low_gbps=round(0.95 * ring.low_gbps, 1),
        basis=f"the ring figure of all_reduce, less 8 percent ({ring.basis})",
        confidence="low" if ring.confidence == "low" else "medium",
        nvls=None,
    )


def expected_busbw(
    slug: str, ranks: int, collective: str, nvls: bool | None = None, *, nvlink: bool | None = None, nodes: int = 1
) -> BusbwExpectation | None:
    """What `ranks` GPUs of this model (slug of gpus.json) should give; None where nothing is published.

    With `nvls` unknown both ways are right: the range spans them, and the pass limit is the ring's.
    """
    found = busbw_expectations(slug, ranks, collective, nvlink=nvlink, nodes=nodes)
    fitting = [entry for entry in found if nvls is None or entry.nvls in (None, nvls)]
    if not fitting:
        return None
    best, least = fitting[0], fitting[-1]
    if best is least:
        return best
    return msgspec.structs.replace(
        least,
        high_gbps=best.high_gbps,
        link=f"{least.link} to {best.link.rpartition(', ')[2]}",
        sources=list(dict.fromkeys(least.sources + best.sources)),
        nvls=None,
    )


def expected_busbw_over_pcie(ranks: int, *, p2p: bool, pcie_generation: int | None = None) -> BusbwExpectation | None:
    """All_reduce of cards without NVLink: a pair with P2P under one switch (x16 links), or any number through host memory."""
    if not p2p:
        return _of_pair(_table().without_p2p, f"{ranks} GPUs without P2P", "through host memory")
    pair = next((pair for pair in _table().pcie_pair if pair.pcie_generation == pcie_generation), None)
    if pair is None or ranks != 2:
        return None
    return _of_pair(pair, f"2 GPUs with P2P over PCIe {pcie_generation}", f"PCIe {pcie_generation} x16, ring")


def _of_pair(pair: _Pair, name: str, link: str) -> BusbwExpectation:
    return BusbwExpectation(
        name=name,
        collective="all_reduce",
        link=link,
        low_gbps=pair.busbw_gbps[0],
        high_gbps=pair.busbw_gbps[1],
        pass_gbps=pair.pass_gbps,
        basis=pair.basis,
        line_rate_gbps=pair.line_rate_gbps,
        min_size_bytes=pair.min_size_bytes,
        sources=_pages(pair.sources),
        confidence=pair.confidence,
    )


def network_port(rate_gbit: float) -> NetworkPort | None:
    """What a port of this rate carries; None for rates without a published figure."""
    return next((port for port in _table().network_ports if port.rate_gbit == rate_gbit), None)


# busbw between nodes against the sum of a node's RDMA ports: usual on clusters with one port per GPU.
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
