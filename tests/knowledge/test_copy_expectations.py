"""What copies and matrix products should give: every model has sane limits, and published measurements of healthy cards are right."""

from __future__ import annotations

import pytest

from gpudoctor.knowledge import copy_expectations as known
from gpudoctor.knowledge import gpus
from gpudoctor.knowledge.gpus import GpuModel


def model(slug: str) -> GpuModel:
    return next(m for m in gpus.models() if m.slug == slug)


# Public measurements on healthy cards, GB/s read plus written.
MEASURED_MEMORY = [
    ("a100-sxm4-40gb", True, 1309),  # GPUInspector.jl
    ("t4", True, 239.6),  # CUDA's bandwidthTest
    ("p100-pcie-16gb", True, 540),  # STREAM
    ("v100-sxm2-16gb", True, 790),
    ("h100-sxm5-80gb", True, 3000),
    ("rtx-4090", False, 920),
]


@pytest.mark.parametrize(("slug", "ecc", "measured"), MEASURED_MEMORY)
def test_measured_memory_is_right(slug: str, ecc: bool, measured: float) -> None:
    limit = known.memory(model(slug), ecc=ecc)
    assert limit is not None
    assert limit.threshold * limit.expected <= measured <= limit.expected


@pytest.mark.parametrize(("slug", "ecc", "measured"), MEASURED_MEMORY)
def test_two_thirds_of_it_are_low(slug: str, ecc: bool, measured: float) -> None:
    limit = known.memory(model(slug), ecc=ecc)
    assert limit is not None
    assert measured * 2 / 3 < limit.threshold * limit.expected


# Public measurements of pinned copies.
@pytest.mark.parametrize(
    ("generation", "width", "measured"),
    [(3, 16, 11.4), (4, 16, 24.0), (5, 16, 55.1), (4, 8, 12.4), (3, 4, 3.1), (4, 4, 6.4)],
)
def test_measured_host_copies_are_right_and_half_of_them_low(generation: int, width: int, measured: float) -> None:
    limit = known.host_copy(generation, width)
    assert limit is not None
    least = limit.threshold * limit.expected
    assert measured / 2 < least <= measured


@pytest.mark.parametrize(("generation", "width"), [(0, 16), (9, 16), (4, 0), (4, 3)])
def test_links_that_do_not_exist(generation: int, width: int) -> None:
    assert known.host_copy(generation, width) is None


# Public matrix products (ml-engineering) and cards known to be held by their power limit.
@pytest.mark.parametrize(
    ("slug", "precision", "measured"),
    [
        ("a100-sxm4-80gb", "bf16", 250),
        ("h100-sxm5-80gb", "fp16", 650),
        ("h200-sxm", "bf16", 700),
        ("a10", "bf16", 65),
        ("l4", "bf16", 55),
        ("t4", "fp32", 4.0),
        ("rtx-4090", "fp16", 150),
    ],
)
def test_measured_products_are_right(slug: str, precision: str, measured: float) -> None:
    limit = known.matrix_product(model(slug), precision)
    assert limit is not None
    assert limit.threshold * limit.expected <= measured


def test_every_model_has_sane_limits() -> None:
    for one in gpus.models():
        for limit in (
            known.memory(one, ecc=None),
            known.coherent_host_copy(one),
            known.peer_copy(one.slug, both_ways=False),
            known.peer_copy(one.slug, both_ways=True),
            *(known.matrix_product(one, precision) for precision in ("fp32", "tf32", "fp16", "bf16", "fp8")),
        ):
            if limit is not None:
                assert limit.expected > 0, one.slug
                assert 0.3 <= limit.threshold < 1, one.slug
                assert limit.basis


def test_what_a_model_has_not_is_not_expected_of_it() -> None:
    assert known.matrix_product(model("v100-sxm2-16gb"), "fp8") is None
    assert known.peer_copy("rtx-4090", both_ways=False) is None
    assert known.coherent_host_copy(model("h100-sxm5-80gb")) is None


def test_slices_get_their_share() -> None:
    whole, slice_ = (
        known.memory(model("h100-sxm5-80gb"), ecc=True),
        known.memory(model("h100-sxm5-80gb"), ecc=True, fraction=0.5),
    )
    assert whole is not None
    assert slice_ is not None
    assert slice_.expected == whole.expected / 2
    assert "0.5 of its memory slices" in slice_.basis
