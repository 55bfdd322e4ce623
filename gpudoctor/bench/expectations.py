"""What a figure should be on this hardware, or why nothing is said of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from gpudoctor.bench.model import Target
from gpudoctor.bench.site import Site
from gpudoctor.facts import BenchFigure
from gpudoctor.knowledge import copy_expectations as known
from gpudoctor.knowledge.copy_expectations import Limit
from gpudoctor.knowledge.nccl_expectations import expected_busbw, expected_busbw_over_pcie

# Memory: all kernels move at the bus's rate. The driver's own copy is shown beside them.
_MEMORY_METRICS = frozenset({"read", "write", "copy", "scale", "triad"})
_HOST_METRICS = frozenset({"h2d_pinned", "d2h_pinned"})
_COMPUTE_SLICES = {"a30": 4, "rtx-pro-6000-server": 4, "rtx-pro-6000-ws": 4}
_MIG_NAME = re.compile(r"MIG (\d+)g\.(\d+)gb")
# Smaller pieces measure the start of a copy, not its speed: what is shrunk for want of free memory is not judged.
_LEAST_BYTES = {"memory": 256 << 20, "pcie": 16 << 20, "p2p": 16 << 20, "gemm": 4 << 20, "burn": 4 << 20}
# Below the size from which a busbw is published, down to this, healthy nodes read up to a fifth less.
_RELAXED_SIZE_BYTES = 256 << 20
_RELAXED = 0.75


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """All devices of a run, by address, and what is known of how they are joined."""

    targets: Sequence[Target]
    nvlink: bool | None = None  # pairs copy over NVLink
    p2p: bool | None = None  # pairs reach each other's memory at all
    site: Site = Site()
    ranks: int | None = None  # of NCCL's test, when it went beyond these GPUs
    wsl: bool = False

    def target(self, figure: BenchFigure) -> Target | None:
        return next(
            (t for t in self.targets if t.bdf == figure.bdf and t.mig == figure.mig and figure.bdf is not None), None
        )


def limit_of(figure: BenchFigure, node: Node) -> Limit | str:
    """What to hold a figure against; a text says why there is nothing."""
    target = node.target(figure)
    own = node.site.limit(figure, target, len(node.targets))
    if own is not None:
        return own
    if figure.test == "nccl":
        return _collective(figure, node)
    if target is None:
        return "not of one GPU"
    if is_too_small(figure):
        return f"pieces of {(figure.size_bytes or 0) / (1 << 20):.3g} MiB are too small to judge by"
    if figure.test == "memory":
        return _memory(figure, target)
    if figure.test == "pcie":
        return "Windows' driver stands between host and GPU" if node.wsl else _host_copy(figure, target)
    if figure.test == "p2p":
        return _peer_copy(figure, target)
    if figure.test in ("gemm", "burn"):
        return _matrix_product(figure, target)
    return "nothing is published for it"


def is_too_small(figure: BenchFigure) -> bool:
    """Whether so little was moved that the figure says nothing of the hardware."""
    return figure.size_bytes is not None and figure.size_bytes < _LEAST_BYTES.get(figure.test, 0)


def _unknown(target: Target) -> str:
    name = target.name or "this GPU"
    return f"nothing is known of {name}" + (f" ({target.device_id})" if target.device_id else "")


def _memory(figure: BenchFigure, target: Target) -> Limit | str:
    if figure.metric not in _MEMORY_METRICS:
        return "the driver's own copy, for comparison"
    if target.model is None:
        return _unknown(target)
    fraction = 1.0 if target.mig is None else memory_fraction(target)
    if fraction is None:
        return "the slice's share of the memory is not known"
    ecc = target.gpu.ecc_mode if target.gpu else None
    return known.memory(target.model, ecc=ecc, fraction=fraction) or _unknown(target)


def memory_fraction(target: Target) -> float | None:
    """Of the GPU's memory slices (eighths; quarters where the GPU has four), by the size of a MIG slice."""
    model = target.model
    whole = (target.gpu.memory_total_mib if target.gpu else None) or (model.memory_total_mib if model else None)
    if not whole or not target.memory_total_bytes:
        return None
    slices = 4 if model and model.mig_max_instances == 4 else 8
    return min(1.0, max(1, round(slices * target.memory_total_bytes / (whole << 20))) / slices)


def compute_fraction(target: Target) -> float | None:
    """Of the GPU's compute slices, by the profile in a MIG slice's name (MIG 2g.20gb)."""
    found = _MIG_NAME.search(target.name or "")
    if found is None:
        return None
    whole = 4 if target.model and target.model.mig_max_instances == 4 else 7
    return min(1.0, int(found[1]) / whole)


def _host_copy(figure: BenchFigure, target: Target) -> Limit | str:
    if "pageable" in figure.metric:
        return "pageable memory is copied twice: a third to a half of pinned is usual"
    if figure.metric.endswith("_far"):
        return "from the far socket: less is usual"
    if figure.metric not in _HOST_METRICS:
        return "both ways at once: hosts differ"
    if target.mig is not None:
        return "slices share one PCIe link"
    if target.model is not None and (coherent := known.coherent_host_copy(target.model)) is not None:
        return coherent
    link = link_of(target)
    if link is None:
        return "the link's generation and width are not known"
    return known.host_copy(*link) or f"nothing is known of PCIe {link[0]} x{link[1]}"


def link_of(target: Target) -> tuple[int, int] | None:
    """The generation and width that card and slot together can do: idle links and broken ones show less."""
    gpu = target.gpu
    if gpu is None or gpu.pcie_generation_max is None or gpu.pcie_width_max is None:
        return None
    generations = (gpu.pcie_generation_max, gpu.pcie_generation_device_max, target.path_generation_max)
    widths = (gpu.pcie_width_max, target.path_width_max)
    return min(g for g in generations if g), min(w for w in widths if w)


def _peer_copy(figure: BenchFigure, target: Target) -> Limit | str:
    if figure.unit != "GB/s":
        return "nothing is published for it"
    if figure.path != "nvlink":
        return "over PCIe or through the host: it depends on the board"
    if target.model is None:
        return _unknown(target)
    both = "bidirectional" in figure.metric
    return known.peer_copy(target.model.slug, both_ways=both) or "nothing is published for pairs of this model"


def _matrix_product(figure: BenchFigure, target: Target) -> Limit | str:
    if target.model is None:
        return _unknown(target)
    fraction = 1.0 if target.mig is None else compute_fraction(target)
    if fraction is None:
        return "the slice's share of the GPU is not known"
    found = known.matrix_product(target.model, figure.metric, fraction=fraction)
    return found or f"no {figure.metric} figure of {target.model.product} is published"


def _collective(figure: BenchFigure, node: Node) -> Limit | str:
    if node.ranks is not None:
        return f"{node.ranks} ranks of a launcher: it depends on the network between them"
    whole = [target for target in node.targets if target.mig is None]
    slugs = {target.model.slug if target.model else None for target in whole}
    if len(slugs) != 1 or None in slugs:
        return "different models take part" if len(slugs) != 1 else _unknown(whole[0])
    ranks, slug = len(whole), next(iter(slugs)) or ""
    found = expected_busbw(slug, ranks, figure.metric, nvlink=node.nvlink)
    if found is None and figure.metric == "all_reduce" and node.nvlink is False and node.p2p is not None:
        generation = next((link[0] for target in node.targets if (link := link_of(target)) is not None), None)
        found = expected_busbw_over_pcie(ranks, p2p=node.p2p, pcie_generation=generation)
    if found is None:
        return f"no figure of {ranks} such GPUs is published"
    size = figure.size_bytes or 0
    if size < min(_RELAXED_SIZE_BYTES, found.min_size_bytes):
        return f"too small: published figures begin at {found.min_size_bytes / (1 << 30):g} GiB"
    factor = 1.0 if size >= found.min_size_bytes else _RELAXED
    smaller = "" if factor == 1.0 else f", {_RELAXED} of it at this smaller size"
    basis = f"{found.name}, {found.link}: {found.basis}{smaller} ({', '.join(found.sources[:1])})"
    return Limit(
        expected=round(found.low_gbps, 1), threshold=round(factor * found.pass_gbps / found.low_gbps, 3), basis=basis
    )
