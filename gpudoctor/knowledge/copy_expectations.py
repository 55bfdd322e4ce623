"""What memory, host copies, copies between GPUs and matrix products give on healthy hardware, and from where on it is too little.

All bandwidths are decimal GB/s. Limits leave room for what is no fault: other hosts, virtual machines, power limits.
"""

from __future__ import annotations

import msgspec

from gpudoctor.knowledge.gpus import GpuModel

AZURE = "https://github.com/Azure/azurehpc-health-checks"
ML_ENGINEERING = "https://github.com/stas00/ml-engineering"
PCIE = "https://en.wikipedia.org/wiki/PCI_Express"


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """`expected` is what is usual, `threshold` the lowest share of it that is still right, `basis` where both come from."""

    expected: float
    threshold: float
    basis: str


# Streaming kernels reach 0.84 to 0.93 of the datasheet's peak: A100-SXM4-40GB 1309 of 1555 GB/s
# (https://github.com/JuliaGPU/GPUInspector.jl), H100 and H200 0.88 to 0.92 (ml-engineering). GDDR memory that keeps its ECC
# bits inline gives up a part of the bus: 240 of 320 GB/s on a T4 (CUDA's bandwidthTest).
# P100 gave about three quarters in published STREAM results.
_MEMORY_SHARE = 0.80
_MEMORY_SHARE_INLINE_ECC = 0.70
_MEMORY_SHARE_BEFORE_VOLTA = 0.68
_BEFORE_VOLTA = frozenset({"kepler", "maxwell", "pascal"})


def memory(model: GpuModel, *, ecc: bool | None, fraction: float = 1.0) -> Limit | None:
    """Device memory; `fraction` of the memory slices under MIG. ECC that is not known is taken to be on."""
    if model.memory_bandwidth_gbps is None:
        return None
    inline = "GDDR" in (model.memory_type or "") and model.ecc not in ("not_supported",) and ecc is not False
    share = _MEMORY_SHARE_INLINE_ECC if inline else _MEMORY_SHARE
    share = _MEMORY_SHARE_BEFORE_VOLTA if model.architecture in _BEFORE_VOLTA else share
    slices = f", {fraction:.3g} of its memory slices" if fraction < 1 else ""
    return Limit(
        expected=round(model.memory_bandwidth_gbps * fraction, 1),
        threshold=share,
        basis=f"datasheet peak of {model.product}{slices}; streaming kernels reach 0.84 to 0.93 of it"
        + (", 0.75 with inline ECC" if inline else ""),
    )


# Pinned memory on the near socket (usual, limit): measurements of ml-engineering and limits of Azure's node health checks;
# widths without a published figure are scaled, which is less sure, so their limits are wider.
_HOST_COPY: dict[tuple[int, int], tuple[float, float]] = {
    (3, 16): (11.5, 9.0),
    (3, 8): (5.8, 5.0),
    (4, 16): (24.0, 21.0),
    (4, 8): (12.0, 10.0),
    (4, 4): (6.0, 5.0),
    (5, 16): (52.0, 48.0),
    (5, 8): (25.0, 22.0),
    (6, 16): (95.0, 85.0),
}
# After line coding, one direction.
LANE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
_USUAL_SHARE, _LEAST_SHARE = 0.75, 0.60


def host_copy(generation: int, width: int) -> Limit | None:
    """Copies between pinned host memory and a GPU on a PCIe link of this generation and width; None for an unknown one."""
    known = _HOST_COPY.get((generation, width))
    if known is not None:
        usual, least = known
        basis = f"PCIe {generation} x{width}: usual figure and limit of public node health checks ({AZURE})"
    elif generation in LANE_GBPS and width in (1, 2, 4, 8, 16, 32):
        rate = LANE_GBPS[generation] * width
        usual, least = _USUAL_SHARE * rate, _LEAST_SHARE * rate
        basis = f"PCIe {generation} x{width}: {_LEAST_SHARE:.2f} of {rate:.3g} GB/s"
    else:
        return None
    return Limit(expected=round(usual, 2), threshold=round(least / usual, 3), basis=basis)


# By slug's beginning: the CPU and the GPU are joined by NVLink, not by PCIe.
_COHERENT = (("gh200", 290.0, 250.0), ("gb200", 190.0, 180.0), ("gb300", 190.0, 180.0))


def coherent_host_copy(model: GpuModel) -> Limit | None:
    """Host copies of superchips, over NVLink-C2C; None for other GPUs."""
    for start, usual, least in _COHERENT:
        if model.slug.startswith(start):
            basis = (
                "NVLink-C2C: published measurements, less a margin (https://github.com/Azure/AI-benchmarking-guide)"
            )
            return Limit(expected=usual, threshold=round(least / usual, 3), basis=basis)
    return None


# Copies between two GPUs over NVLink: slugs, usual one way, both ways, limit one way.
_PEER_COPY: tuple[tuple[tuple[str, ...], float, float | None, float], ...] = (
    (("h100-sxm5-80gb", "h100-sxm5-94gb", "h200-sxm", "h20", "h20-3e"), 380.0, 760.0, 335.0),
    (("a100-sxm4-40gb", "a100-sxm4-80gb", "a100-sxm-64gb"), 270.0, 500.0, 235.0),
    (("a100-pcie-40gb", "a100-80gb-pcie"), 240.0, None, 235.0),
    (("b200", "gb200", "b300", "gb300"), 750.0, 1450.0, 700.0),
    (("v100-sxm2-16gb", "v100-sxm2-32gb", "v100-sxm3-32gb"), 44.0, 90.0, 40.0),
)
_SINGLE_LINK = frozenset({"v100-sxm2-16gb", "v100-sxm2-32gb", "v100-sxm3-32gb"})


def peer_copy(slug: str, *, both_ways: bool) -> Limit | None:
    """A pair of these GPUs over NVLink; None where nothing is published.

    V100 pairs are joined by one or two links: the limit is that of one.
    """
    found = next((entry for entry in _PEER_COPY if slug in entry[0]), None)
    if found is None:
        return None
    _, one_way, both, least = found
    if slug in _SINGLE_LINK:
        one_way, both, least = one_way / 2, (both or 0) / 2, least / 2
    if both_ways and both is None:
        return None
    expected = both if both_ways and both else one_way
    return Limit(
        expected=expected,
        threshold=round(least / one_way, 3),
        basis=f"NVLink pairs of this model: measurements of {ML_ENGINEERING}, limit of {AZURE}",
    )


# The best public matrix products are reached with ideal shapes; catalogue peaks never: 0.6 to 0.95 of them. Boards with little
# power hold their clocks less: half the peak and below at 70 W (L4, T4), somewhat more at 150 W (A10).
_OF_BEST = 0.75
_OF_CATALOGUE = ((100.0, 0.35), (200.0, 0.45), (float("inf"), 0.55))  # board power below, lowest right share
_SAME_RATE = {"fp16": "bf16"}


def matrix_product(model: GpuModel, precision: str, *, fraction: float = 1.0) -> Limit | None:
    """TFLOPS of cuBLAS in this precision; `fraction` of the compute slices under MIG."""
    name = _SAME_RATE.get(precision, precision)
    best = (model.measured_matmul_tflops or {}).get(name)
    if best is not None:
        basis = f"best public matrix product of {model.product} ({ML_ENGINEERING})"
        return Limit(expected=round(best * fraction, 1), threshold=_OF_BEST, basis=basis)
    peak = (model.dense_tflops or {}).get(name)
    if peak is None:
        return None
    power = model.tdp_w if model.tdp_w is not None else float("inf")
    share = next(share for below, share in _OF_CATALOGUE if power < below or below == float("inf"))
    return Limit(
        expected=round(peak * fraction, 1),
        threshold=share,
        basis=f"catalogue peak of {model.product} without sparsity, of which its power limit leaves {share:g} or more",
    )
