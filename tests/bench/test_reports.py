"""From recorded worker output to findings: what healthy nodes of many shapes, and nodes with one fault, are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.bench.conftest import Report
from tests.bench.nodes import A100_PCIE, GIB, H100, RTX_4090, UNKNOWN, Node, bdf

ReportOn = Callable[..., Report]


def slowed(node: Node, test: str, *key: int, factor: float) -> None:
    figures = node.figures[test, *key] if key else node.figures[test,]
    for metric in figures:
        figures[metric] *= factor


@pytest.mark.parametrize(
    ("model", "count"), [(H100, 8), (H100, 1), (H100, 4), (A100_PCIE, 4), (A100_PCIE, 1), (UNKNOWN, 8), (UNKNOWN, 1)]
)
def test_healthy_nodes_pass(report_on: ReportOn, model: dict[str, Any], count: int) -> None:
    report = report_on(Node(model, count))
    assert (report.verdict, report.rules, report.code) == ("pass", [], 0)
    judged_by = count > 1 or model is not UNKNOWN
    assert report.tests_run["state"] == ("ok" if judged_by else "partial")
    assert "none is low" in report.text


def test_cards_without_p2p_are_told_so_and_nothing_else(report_on: ReportOn) -> None:
    report = report_on(Node(RTX_4090, 2))
    assert report.roots == [("bench/no-peer-access", "node")]
    assert (report.verdict, report.code) == ("pass", 0)
    assert report.finding("bench/no-peer-access")["causes"][0]["id"] == "geforce"


def test_every_line_fits_80_columns(report_on: ReportOn) -> None:
    node = Node(H100, 8)
    slowed(node, "memory", 3, factor=0.7)
    report = report_on(node, "-v")
    wide = [line for line in report.text.splitlines() if len(line) > 80 and "--query" not in line]
    assert not [line for line in wide if "GPU 0" in line or "median" in line or "right from" in line]
    assert "GPU 3 0000:5d:00.0" in report.text


class TestMemory:
    def test_one_slow_gpu_of_eight(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        slowed(node, "memory", 3, factor=0.7)
        report = report_on(node)
        assert report.roots == [("bench/memory-bandwidth-low", f"gpu {bdf(3)}")]
        assert report.code == 1
        finding = report.finding("bench/memory-bandwidth-low")
        assert finding["causes"][0]["id"] == "memory-clock-low"
        assert "right from 2682: 0.8 of 3352, datasheet peak" in finding["evidence"][0]["text"]
        figure = next(f for f in report.figures("memory", "copy") if f["bdf"] == bdf(3))
        assert (figure["verdict"], figure["siblings_ratio"]) == ("low", 0.7)

    def test_all_gpus_slow_alike(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        for index in range(8):
            slowed(node, "memory", index, factor=0.6)
        finding = report_on(node).finding("bench/memory-bandwidth-low")
        assert finding["causes"][0]["id"] == "all-alike"

    def test_right_by_the_datasheet_but_behind_its_siblings(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        slowed(node, "memory", 6, factor=0.92)
        report = report_on(node)
        assert report.roots == [("bench/odd-one-out", f"gpu {bdf(6)}")]
        assert (report.verdict, report.code) == ("warn", 0)
        assert "behind their siblings" in report.text

    def test_a_model_that_nobody_knows_is_judged_among_its_siblings(self, report_on: ReportOn) -> None:
        node = Node(UNKNOWN, 8)
        slowed(node, "memory", 2, factor=0.8)
        report = report_on(node)
        assert report.roots == [("bench/memory-bandwidth-low", f"gpu {bdf(2)}")]
        assert "median of the 8 NVIDIA X9000 here" in str(report.figures("memory")[0]["basis"])

    def test_alone_it_is_not_judged(self, report_on: ReportOn) -> None:
        node = Node(UNKNOWN, 1)
        slowed(node, "memory", 0, factor=0.1)
        report = report_on(node)
        assert report.rules == []
        assert {f["verdict"] for f in report.figures("memory")} == {"unjudged"}
        assert "nothing is known of NVIDIA X9000" in report.figures("memory")[0]["why_unjudged"]
        assert "device memory: measured, but not judged" in " ".join(report.text.split())

    def test_ecc_in_the_way_of_the_bus_is_no_fault(self, report_on: ReportOn) -> None:
        """A T4 with ECC on gives 240 of 320 GB/s."""
        node = Node(A100_PCIE, 1)
        node.values[0] |= {
            "name": "Tesla T4",
            "device_id": "10de:1eb8",
            "pcie_generation_max": 3,
            "pcie_generation_device_max": 3,
        }
        node.devices[0]["name"] = "Tesla T4"
        node.figures["memory", 0] = {"copy": 240.0, "read": 262.0}
        node.figures["gemm", 0] = {"fp32": 4.2}
        node.figures["pcie", 0] = {"h2d_pinned": 12.3, "d2h_pinned": 13.0}
        assert report_on(node).rules == []


class TestMarginal:
    def again(self, node: Node, **figures: float) -> None:
        """The recording of a second run of the memory test on GPU 0."""
        first = node.request("memory", 0)
        node.answers[(*first, "#again")] = {"stdout": node.output("memory", 0)}
        for metric, value in figures.items():
            node.figures["memory", 0][metric] = value

    def test_a_second_look_clears_it(self, report_on: ReportOn) -> None:
        node = Node(H100, 1)
        self.again(node, copy=2650.0)
        report = report_on(node)
        assert report.rules == []
        copy = report.figures("memory", "copy")[0]
        assert (copy["value"], copy["verdict"], copy["measured_twice"]) == (3010.0, "right", True)

    def test_a_second_look_confirms_it(self, report_on: ReportOn) -> None:
        node = Node(H100, 1)
        node.figures["memory", 0]["copy"] = 2640.0
        self.again(node)
        node.figures["memory", 0]["copy"] = 2600.0
        report = report_on(node)
        assert report.rules == ["bench/memory-bandwidth-low"]
        assert report.figures("memory", "copy")[0]["value"] == 2640.0


def test_gpus_that_cuda_does_not_show_are_not_passed_over_in_silence(report_on: ReportOn) -> None:
    node = Node(H100, 8)
    node.devices = node.devices[:2]
    report = report_on(node)
    assert (report.verdict, report.rules) == ("pass", [])
    assert "CUDA shows 2 of 8 GPUs here" in report.text
    assert {f["bdf"] for f in report.figures("memory")} == {bdf(0), bdf(1)}


class TestHostCopies:
    def test_half_the_lanes_explain_it(self, report_on: ReportOn) -> None:
        node = Node(A100_PCIE, 4)
        node.values[1]["pcie_width"] = 8
        node.samples["pcie"] = {1: {"pcie_width": 8}}
        slowed(node, "pcie", 1, factor=0.5)
        report = report_on(node)
        assert report.roots == [("gpu/pcie-width-low", f"gpu {bdf(1)}")]
        assert "bench/host-copy-slow" in report.rules
        assert report.code == 1

    def test_a_link_that_stays_at_a_low_generation(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.samples["pcie"] = {4: {"pcie_generation": 3}}
        slowed(node, "pcie", 4, factor=0.23)
        finding = report_on(node).finding("bench/host-copy-slow")
        assert finding["causes"][0]["id"] == "link-stays-slow" or finding["causes"][0]["standing"] == "likely"
        assert finding["subject"] == f"gpu {bdf(4)}"

    def test_pageable_memory_is_never_slow(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        for index in range(8):
            node.figures["pcie", index] |= {"h2d_pageable": 3.0, "d2h_pageable": 2.5, "h2d_pinned_far": 30.0}
        assert report_on(node).rules == []


class TestPairs:
    def test_a_dead_link_explains_slow_pairs(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.values[5]["nvlinks"][4]["active"] = False
        for other in set(range(8)) - {5}:
            slowed(node, "p2p", 5, other, factor=0.88)
            slowed(node, "p2p", other, 5, factor=0.88)
        report = report_on(node)
        assert report.roots == [("topology/links-inactive", f"gpu {bdf(5)}")]
        assert report.rules == ["topology/links-inactive", "bench/odd-one-out"]

    def test_the_gpu_with_most_slow_pairs_is_blamed(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        for other in set(range(8)) - {2}:
            slowed(node, "p2p", 2, other, factor=0.5)
            slowed(node, "p2p", other, 2, factor=0.5)
        report = report_on(node)
        assert report.roots == [("bench/peer-copy-slow", f"gpu {bdf(2)}")]

    def test_not_over_nvlink_though_the_board_has_it(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.model["p2p"]["path"] = "pcie"
        for one in range(8):
            for other in set(range(8)) - {one}:
                slowed(node, "p2p", one, other, factor=0.1)
        slowed(node, "nccl", factor=0.05)
        report = report_on(node)
        assert report.roots == [("bench/peer-copy-not-over-nvlink", "node")]
        assert "bench/collective-low" in report.rules

    def test_pairs_on_other_sockets_are_slower_without_any_fault(self, report_on: ReportOn) -> None:
        node = Node(A100_PCIE, 4)
        for one in range(4):
            for other in set(range(4)) - {one}:
                if (one < 2) == (other < 2):
                    slowed(node, "p2p", one, other, factor=1.1)
                else:
                    slowed(node, "p2p", one, other, factor=0.5)
        assert report_on(node).rules == []

    def test_corrupt_data(self, report_on: ReportOn) -> None:
        node = Node(RTX_4090, 2)
        node.model["p2p"]["path"] = "pcie"
        slowed(node, "nccl", factor=2.5)
        text = "67108864 bytes of a copy from GPU 0 to GPU 1 are zero"
        node.extra["p2p",] = [
            {"event": "fault", "kind": "corrupt_copy", "text": text, "device": 0, "peer": 1, "count": 99}
        ]
        report = report_on(node)
        assert report.roots == [("bench/peer-copy-corrupt", "node")]
        finding = report.finding("bench/peer-copy-corrupt")
        assert text in finding["title"]
        assert finding["causes"][0]["id"] == "patched-driver"


class TestCollectives:
    def test_low_though_pairs_are_fast(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        slowed(node, "nccl", factor=0.05)
        report = report_on(node)
        assert report.roots == [("bench/collective-low", "node")]
        assert report.finding("bench/collective-low")["causes"][0]["id"] == "other-way"

    def test_small_messages_say_nothing(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.model["nccl_size"] = 64 << 20
        slowed(node, "nccl", factor=0.3)
        assert report_on(node).rules == []

    def test_a_variable_left_over_explains_it(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.environment["NCCL_P2P_DISABLE"] = "1"
        slowed(node, "nccl", factor=0.05)
        report = report_on(node)
        assert "bench/collective-low" in report.rules
        assert report.roots[0][0].startswith("nccl/")

    def test_wrong_sums(self, report_on: ReportOn) -> None:
        node = Node(A100_PCIE, 4)
        text = "512 elements of all_reduce are wrong"
        node.extra["nccl",] = [{"event": "fault", "kind": "wrong_result", "text": text, "metric": "all_reduce"}]
        assert report_on(node).roots == [("bench/collective-wrong", "node")]


AT_WORK = {
    "utilization_gpu_pct": 97,
    "sm_clock_mhz": 1755,
    "pcie_generation": 5,
    "throttle_mask": 0,
    "processes": [{"pid": 4242, "name": "python3", "kind": "C"}],
}


class TestBusy:
    def test_busy_is_not_slow(self, report_on: ReportOn) -> None:
        node = Node(H100, 8)
        node.values[0] |= AT_WORK
        slowed(node, "memory", 0, factor=0.4)
        slowed(node, "gemm", 0, factor=0.4)
        report = report_on(node)
        assert report.roots == [("bench/busy", "node")]
        assert bdf(0) in report.finding("bench/busy")["title"]
        copy = report.figures("memory", "copy")[0]
        assert copy["verdict"] == "unjudged"
        assert "97 % busy" in copy["why_unjudged"]
        assert "4242 (python3)" in report.text

    def test_what_is_right_in_spite_of_it_is_right(self, report_on: ReportOn) -> None:
        node = Node(H100, 1)
        node.values[0] |= {"processes": [{"pid": 4242, "name": "python3", "kind": "C"}]}
        report = report_on(node)
        assert {f["verdict"] for f in report.figures("memory", "copy")} == {"right"}

    def test_a_desktop_is_not_busy(self, report_on: ReportOn) -> None:
        node = Node(RTX_4090, 1)
        node.values[0] |= {"utilization_gpu_pct": 3, "processes": [{"pid": 900, "name": "Xorg", "kind": "G"}]}
        assert report_on(node).rules == []


class TestMig:
    def node(self) -> Node:
        """Two slices of an H100: 1g.10gb and 3g.40gb."""
        node = Node(H100, 2, tests=("memory", "gemm", "pcie"))
        node.values, node.count = node.values[:1], 1
        node.values[0] |= {"mig_mode": 1, "mig_mode_pending": 1, "mig_devices": 2, "utilization_gpu_pct": None}
        for index, (profile, gib) in enumerate((("1g.10gb", 9.75), ("3g.40gb", 39.5))):
            node.devices[index] |= {
                "name": f"NVIDIA H100 80GB HBM3 MIG {profile}", "bdf": bdf(0), "uuid": f"MIG-{index}",
                "memory_total_bytes": int(gib * GIB),
            }  # fmt: skip
        node.figures["memory", 0] = {"copy": 380.0}
        node.figures["memory", 1] = {"copy": 1520.0}
        node.figures["gemm", 0] = {"bf16": 98.0}
        node.figures["gemm", 1] = {"bf16": 310.0}
        return node

    def test_slices_scale_the_expectation(self, report_on: ReportOn) -> None:
        report = report_on(self.node())
        assert report.rules == []
        small, large = report.figures("memory", "copy")
        assert (small["expected"], large["expected"]) == (419.0, 1676.0)
        assert {f["verdict"] for f in report.figures("gemm")} == {"right"}
        assert "MIG 1g.10gb" in report.text

    def test_a_slow_slice_is_found(self, report_on: ReportOn) -> None:
        node = self.node()
        node.figures["memory", 1] = {"copy": 700.0}
        assert report_on(node).rules == ["bench/memory-bandwidth-low"]
