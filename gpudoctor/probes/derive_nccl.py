"""Whether a result of nccl-tests is what such GPUs give: sets the verdict and the expectation of each test."""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Facts, NcclTest
from gpudoctor.knowledge import gpus, nccl_expectations
from gpudoctor.knowledge.nccl_expectations import BusbwExpectation

_SMALLEST_BYTES = 256 << 20  # smaller messages do not fill the links
_TOO_SMALL = 0.8  # up to a fifth may be missing between that and the size that reaches the figure
_LOW_CONFIDENCE = 0.85  # limits that rest on the line rate only
# Between nodes the figure depends on routing, congestion and the number of nodes too.
_ACROSS_NODES_PASS = 0.6


def judged(facts: Facts, test: NcclTest) -> dict[str, Any]:
    """The derived fields of one test."""
    rows = [row for row in test.rows or [] if row.busbw_gbps is not None]
    if not rows:
        return {"why_unjudged": "it has no rows with a bandwidth"}
    largest = max(row.size_bytes for row in rows)
    slug = _slug(facts, test)
    known: dict[str, Any] = {"model": slug, "largest_size_bytes": largest}
    if largest < _SMALLEST_BYTES:
        return known | {"why_unjudged": "its messages are too small to fill the links (256 MiB at least)"}
    best = max(row.busbw_gbps or 0.0 for row in rows if row.size_bytes >= _SMALLEST_BYTES)
    known["best_busbw_gbps"] = best
    if test.separate_runs is not None:
        return known | {"why_unjudged": "every process tested alone"}
    if test.ranks is None or test.collective is None:
        return known | {"why_unjudged": "the text does not show the collective or the number of GPUs"}
    if (test.nodes or 1) > 1:
        return known | _across_nodes(facts, test, best)
    expected = _expectations(facts, test, slug)
    if not expected:
        what = "the GPUs' model" if slug is None else "these GPUs in this number and way of connection"
        return known | {"why_unjudged": f"nothing is published on {what}"}
    return known | _compared(facts, test, expected, best, largest)


def _slug(facts: Facts, test: NcclTest) -> str | None:
    """The one model of all devices: by the names in the output, else by the PCI ids of this machine's GPUs."""
    if test.devices:
        slugs = {nccl_expectations.slug_of_name(name) for name in test.devices}
        return slugs.pop() if len(slugs) == 1 else None
    models = {gpu.device_id for gpu in facts.gpus or []}
    if len(models) != 1 or test.ranks != len(facts.gpus or []):
        return None
    model = gpus.by_pci_id(models.pop())
    return model.slug if model else None


def _expectations(facts: Facts, test: NcclTest, slug: str | None) -> list[BusbwExpectation]:
    if slug is None or test.ranks is None or test.collective is None:
        return []
    found = nccl_expectations.busbw_expectations(slug, test.ranks, test.collective, nvlink=_nvlink(facts, slug))
    if found or test.collective != "allreduce":
        return found
    ways = [pair.transport for pair in (facts.nccl.pairs if facts.nccl else None) or []]
    model = next((model for model in gpus.models() if model.slug == slug), None)
    if ways and all(way.startswith("SHM") for way in ways) and model is not None and model.nvlink_links is None:
        through_host = nccl_expectations.expected_busbw_over_pcie(test.ranks, p2p=False)
        return [through_host] if through_host else []
    return []


def _nvlink(facts: Facts, slug: str) -> bool | None:
    """Whether these GPUs are meant to use NVLink: always on boards, by what is connected on cards with bridges."""
    model = next((model for model in gpus.models() if model.slug == slug), None)
    if model is None or model.nvlink_attach == "board":
        return True if model is not None else None
    if model.nvlink_links is None:
        return False
    links = facts.topology.links if facts.topology else None
    between = [link for link in links or [] if link.a.startswith("GPU") and link.b.startswith("GPU")]
    if between:
        return any(link.kind.startswith("NV") for link in between)
    states = [link.active for gpu in facts.gpus or [] for link in gpu.nvlinks or []]
    return any(states) if states else None


def _nvls(facts: Facts) -> bool | None:
    """Whether the switches reduce: as the log says, or as a variable forbids."""
    nccl = facts.nccl
    settings = (nccl.settings or nccl.env or {}) if nccl else {}
    if settings.get("NCCL_NVLS_ENABLE") == "0" or settings.get("NCCL_ALGO", "").lower() in ("ring", "tree"):
        return False
    return nccl.nvls_available if nccl else None


def _compared(
    facts: Facts, test: NcclTest, expected: list[BusbwExpectation], best: float, largest: int
) -> dict[str, Any]:
    """`expected` has the best way first. A ring where the switches could reduce is right, and worth telling."""
    nvls = _nvls(facts)
    fitting = [entry for entry in expected if nvls is not False or not entry.nvls] or expected
    for place, entry in enumerate(fitting):
        if best >= _limit(entry, largest):
            verdict = "ring" if place > 0 and fitting[0].nvls and nvls is None else "normal"
            if place > 0 and nvls is True and fitting[0].nvls:
                verdict = "low"
                entry = fitting[0]
            return _fields(entry, verdict)
    # Messages that do not reach the full figure cannot prove that it is missed.
    wanted = fitting[0] if nvls is True else fitting[-1]
    return _fields(wanted, "low")


def _limit(entry: BusbwExpectation, largest: int) -> float:
    limit = entry.pass_gbps * (_LOW_CONFIDENCE if entry.confidence == "low" else 1.0)
    return limit if largest >= entry.min_size_bytes else limit * _TOO_SMALL


def _fields(entry: BusbwExpectation, verdict: str) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "expected_for": f"{entry.name} ({entry.link})",
        "expected_low_gbps": entry.low_gbps,
        "expected_high_gbps": entry.high_gbps,
        "pass_busbw_gbps": entry.pass_gbps,
        "expectation_basis": entry.basis,
        "expectation_source": entry.sources[0],
        "line_rate_gbps": entry.line_rate_gbps,
    }


def _across_nodes(facts: Facts, test: NcclTest, best: float) -> dict[str, Any]:
    """Several nodes are bounded by their network cards, where those are known."""
    rates = _port_rates(facts)
    if test.collective != "allreduce" or not rates:
        return {"why_unjudged": "it runs over several nodes, and the rates of their network ports are not known"}
    slug = _slug(facts, test)
    per_node = (test.ranks or 0) // (test.nodes or 1)
    rings = nccl_expectations.busbw_expectations(slug, per_node, "all_reduce") if slug else []
    ring = next((entry.low_gbps for entry in rings if not entry.nvls), None)
    usual = nccl_expectations.across_nodes(rates, ring)
    if usual is None:
        return {}
    low, high = usual
    ports = f"{len(rates)} x {rates[0]:g} Gb/s"
    return {
        "verdict": "normal" if best >= _ACROSS_NODES_PASS * low else "low",
        "expected_for": f"{test.nodes} nodes with {ports} each",
        "expected_low_gbps": low,
        "expected_high_gbps": high,
        "pass_busbw_gbps": round(_ACROSS_NODES_PASS * low, 1),
        "expectation_basis": "85 to 92 percent of the ports' sum; below six tenths of that something is wrong",
        "expectation_source": "https://github.com/stas00/ml-engineering/tree/master/network/benchmarks",
        "line_rate_gbps": sum(rates) / 8,
    }


def _port_rates(facts: Facts) -> list[float]:
    """Gb/s of the ports that NCCL uses by its log, else of the fastest active ones of this node."""
    nccl = facts.nccl
    if nccl is not None and nccl.hca_rates_gbit:
        return nccl.hca_rates_gbit
    ports = (facts.network.rdma_ports if facts.network else None) or []
    active = [port for port in ports if port.state == "Active" and port.rate_gbps]
    used = set((nccl.hcas if nccl else None) or [])
    if used:
        active = [port for port in active if f"{port.device}:{port.port or 1}" in used]
    fastest = max((port.rate_gbps or 0.0 for port in active), default=0.0)
    return [fastest for port in active if port.rate_gbps == fastest]
