"""What people bring of nccl-tests, `ip route`, ibstat and dcgmi's JSON: facts, and nothing from damaged text."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Facts
from gpudoctor.probes.network import overlapping, parse_routes
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_text

ROUTES = """\
$ ip route
default via 10.4.0.1 dev eno1 proto dhcp metric 100
10.4.0.0/20 dev eno1 proto kernel scope link src 10.4.3.9 metric 100
10.4.8.0/24 dev ens2f0 proto kernel scope link src 10.4.8.9
172.17.0.0/16 dev docker0 proto kernel scope link src 172.17.0.1 linkdown
192.168.9.0/24 dev ib0 proto kernel scope link src 192.168.9.9
"""
DCGM_3 = """\
{
  "DCGM GPU Diagnostic" : {
    "test_categories" : [
      {"category" : "Deployment", "tests" : [
        {"name" : "Denylist", "results" : [{"gpu_ids" : "0,1", "status" : "PASS"}]}, null]},
      {"category" : "Hardware", "tests" : [
        {"name" : "GPU Memory", "results" : [
          {"gpu_ids" : "0", "status" : "PASS"},
          {"gpu_ids" : "1", "status" : "FAIL", "warnings" : ["GPU 1 Thermal violations totaling 3.0 seconds"]}]}]}
    ],
    "version" : "3.3.8"
  }
}
"""
DCGM_4 = """\
Some warning before it
{"DCGM Diagnostic": {"test_categories": [{"category": "Integration", "tests": [
 {"name": "pcie", "results": [
  {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
  {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 3, "status": "Skip",
   "info": ["Skipped: not enough lanes"]},
  {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 5, "status": "Fail",
   "warnings": [{"warning": "PCIe replays 40", "error_id": 3, "error_category": 8}]}],
  "test_summary": {"status": "Fail"}}]}]},
 "metadata": {"DCGM Version": "4.2.3", "Driver Version Detected": "570.148.08"}}
"""
TWO_NODES = """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#  Rank  0 Group  0 Pid   11 on node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   12 on node-b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 12.5
"""


def facts_of(text: str) -> Facts:
    facts, runs = run_probes(open_text(text))
    assert [r.name for r in runs if r.state == "crashed"] == []
    return facts


def test_a_network_that_two_interfaces_share_is_named() -> None:
    network = facts_of(ROUTES).network
    assert network is not None
    assert network.routes_overlapping == ["10.4.8.0/24"]
    assert "ens2f0" in network.evidence["routes_overlapping"].text


def test_bridges_and_separate_networks_are_no_overlap() -> None:
    assert overlapping(parse_routes(ROUTES.replace("10.4.8.", "10.9.8."))) == []


@pytest.mark.parametrize("text", ["", "10.4.0.0/99 dev eno1 proto kernel scope link", "\x00\xff garbage /8 dev"])
def test_damaged_routes_say_nothing(text: str) -> None:
    assert overlapping(parse_routes(text)) == []


def test_dcgm_3_json() -> None:
    dcgm = facts_of(DCGM_3).dcgm
    assert dcgm is not None
    assert dcgm.version == "3.3.8"
    found = {(r.test, r.result): r.gpus for r in dcgm.results or []}
    assert found[("GPU Memory", "fail")] == [1]
    assert found[("GPU Memory", "pass")] == [0]
    assert any("Thermal violations" in (r.message or "") for r in dcgm.results or [])


def test_dcgm_4_json_with_entities_and_a_line_before_it() -> None:
    dcgm = facts_of(DCGM_4).dcgm
    assert dcgm is not None
    assert (dcgm.version, dcgm.driver_version) == ("4.2.3", "570.148.08")
    found = {r.result: (r.gpus, r.message) for r in dcgm.results or [] if r.test == "pcie"}
    assert found == {
        "pass": ([0], None),
        "skip": ([3], "Skipped: not enough lanes"),
        "fail": ([5], "PCIe replays 40"),
    }


@pytest.mark.parametrize("cut", [20, 60, 200, 400])
def test_a_cut_json_is_not_a_pass(cut: int) -> None:
    dcgm = facts_of(DCGM_3[:cut]).dcgm
    assert dcgm is None or not any(r.result == "pass" for r in dcgm.results or [])


def test_deeply_nested_json_is_survived() -> None:
    facts_of('{"DCGM GPU Diagnostic": ' + "[" * 20000)


def test_nodes_of_a_run_are_counted() -> None:
    nccl = facts_of(TWO_NODES).nccl
    assert nccl is not None
    (test,) = nccl.tests or []
    assert (test.ranks, test.nodes) == (2, 2)


@pytest.mark.parametrize("text", ["# nThread 1 nGpus 8", "CA 'mlx5_0'\n  Port 1:\n", "# Avg bus bandwidth : nan"])
def test_damaged_outputs_do_not_crash(text: str) -> None:
    facts_of(text)
