"""Expected bandwidths: every entry belongs to a known model, and the lookups answer what a health check would ask."""

from __future__ import annotations

import pytest

from gpudoctor.knowledge import gpus
from gpudoctor.knowledge import nccl_expectations as nccl


def test_every_entry_names_models_of_the_table_and_public_sources() -> None:
    known = {model.slug for model in gpus.models()}
    table = nccl._table()
    entries = [(node.slugs, node.sources) for node in table.single_node]
    entries += [(ramp.slugs, ramp.sources) for ramp in table.ramp]
    for slugs, sources in entries:
        assert set(slugs) <= known
        assert sources
        assert set(sources) <= set(table.sources)
    for node in table.single_node:
        assert node.pass_gbps <= node.busbw_gbps[0] <= node.busbw_gbps[1]
        # in-switch reduction may exceed the line rate, a ring cannot
        assert node.nvls or node.busbw_gbps[1] <= node.line_rate_gbps


@pytest.mark.parametrize(
    ("slug", "ranks", "collective", "nvls", "low", "high", "limit"),
    [
        ("h100-sxm5-80gb", 8, "all_reduce", True, 465, 483, 460),
        ("h100-sxm5-80gb", 8, "allreduce", False, 360, 370, 350),
        ("h100-sxm5-80gb", 8, "all_reduce_perf", None, 360, 483, 350),
        ("a100-sxm4-80gb", 8, "all_reduce", None, 230, 237, 228),
        ("b200", 8, "all_reduce", True, 830, 840, 790),
        ("gb200", 4, "all_reduce", None, 670, 685, 640),
        ("v100-sxm2-32gb", 8, "all_reduce", None, 120, 132, 110),
        ("h200-sxm", 8, "reduce_scatter", None, 363, 363, 345),
    ],
)
def test_expected_busbw(
    slug: str, ranks: int, collective: str, nvls: bool | None, low: float, high: float, limit: float
) -> None:
    found = nccl.expected_busbw(slug, ranks, collective, nvls)
    assert found is not None
    assert (found.low_gbps, found.high_gbps, found.pass_gbps) == (low, high, limit)


def test_collectives_without_reduction_in_the_switch_are_held_against_the_ring() -> None:
    found = nccl.expected_busbw("h100-sxm5-80gb", 8, "all_gather", None)
    assert found is not None
    assert 300 < found.pass_gbps < 350
    assert found.nvls is None


def test_fewer_gpus_of_a_board_follow_the_measured_ramp() -> None:
    four = nccl.expected_busbw("h200-sxm", 4, "all_reduce", None)
    seven = nccl.expected_busbw("h200-sxm", 7, "all_reduce", True)
    assert four is not None
    assert seven is not None
    assert four.high_gbps < 380 < seven.low_gbps
    assert four.name == "4 x H200"


def test_nothing_is_guessed() -> None:
    assert nccl.expected_busbw("h100-sxm5-80gb", 3, "all_reduce", None) is None
    assert nccl.expected_busbw("h100-sxm5-80gb", 16, "all_reduce", None) is None
    assert nccl.expected_busbw("h100-sxm5-80gb", 8, "sendrecv", None) is None
    assert nccl.expected_busbw("l4", 8, "all_reduce", None) is None
    assert nccl.expected_busbw("no-such-model", 8, "all_reduce", None) is None


def test_cards_with_bridges_are_judged_only_when_the_link_is_known() -> None:
    assert nccl.expected_busbw("a100-pcie-40gb", 2, "all_reduce") is None
    bridged = nccl.expected_busbw("a100-pcie-40gb", 2, "all_reduce", nvlink=True)
    assert bridged is not None
    assert bridged.pass_gbps == 193
    assert nccl.expected_busbw("a100-pcie-40gb", 2, "all_reduce", nvlink=False) is None
    over_pcie = nccl.expected_busbw_over_pcie(2, p2p=True, pcie_generation=4)
    assert over_pcie is not None
    assert over_pcie.low_gbps == 20
    through_host = nccl.expected_busbw_over_pcie(4, p2p=False)
    assert through_host is not None
    assert through_host.pass_gbps == 4


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm5-80gb"),
        ("A100-SXM4-40GB", "a100-sxm4-40gb"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA H100 PCIe", "h100-pcie-80gb"),
        ("NVIDIA Graphics Device", None),
        ("", None),
    ],
)
def test_a_full_name_finds_its_model(name: str, slug: str | None) -> None:
    assert nccl.slug_of_name(name) == slug


def test_factors() -> None:
    assert nccl.busbw_factor("all_reduce", 8) == 1.75
    assert nccl.busbw_factor("AllGather", 8) == 0.875
    assert nccl.busbw_factor("sendrecv", 8) == 1
    assert nccl.busbw_factor("all_reduce", 1) is None
    assert nccl.busbw_factor("something", 8) is None


def test_between_nodes_the_network_ports_bound_it() -> None:
    assert nccl.across_nodes([400.0] * 8) == (340.0, 368.0)
    assert nccl.across_nodes([400.0] * 8, ring_gbps=300.0) == (285.0, 300.0)
    assert nccl.across_nodes([]) is None
    port = nccl.network_port(400)
    assert port is not None
    assert port.pass_gbit == 360
    assert nccl.network_port(123) is None
