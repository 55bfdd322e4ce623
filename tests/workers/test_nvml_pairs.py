"""Pairs of GPUs and the far ends of NVLinks, read by the worker with the real binding on the fake library."""

from __future__ import annotations

import os
import sys
from typing import Any

from gpudoctor.facts import Facts
from gpudoctor.probes.derive_topology import links_by_nvml, nvlink_counts
from gpudoctor.probes.nvml import facts_of
from gpudoctor.sources import process
from tests.testbed.gpu_models import H100
from tests.testbed.nvml import FakeNvml
from tests.testbed.scenario_file import Scenario


def read(fake: FakeNvml, scenario: Scenario) -> Facts:
    environment = {**os.environ, **fake.scenario(scenario)}
    argv = [sys.executable, "-P", "-m", "gpudoctor.workers.nvml_dump"]
    answer = process.run(argv, request=("worker", "nvml_dump"), timeout=15.0, environment=environment)
    facts = facts_of(answer)
    assert facts is not None
    return facts


def kinds(links: Any) -> dict[str, str]:
    return {f"{link.a}-{link.b}": link.kind for link in links or []}


def test_pairs_and_far_ends(fake_nvml: FakeNvml) -> None:
    scenario: Scenario = {"count": 3, "topology": "SYS", "topology.0-1": "PIX", "p2p.0-2": 3, "gpu": {"nvlinks": 0}}
    facts = read(fake_nvml, scenario)
    assert facts.topology is not None
    assert kinds(facts.topology.ancestors) == {"GPU0-GPU1": "PIX", "GPU0-GPU2": "SYS", "GPU1-GPU2": "SYS"}
    assert kinds(facts.topology.p2p_read) == {"GPU0-GPU1": "OK", "GPU0-GPU2": "TNS", "GPU1-GPU2": "OK"}


def test_a_board_with_switches(fake_nvml: FakeNvml) -> None:
    facts = read(fake_nvml, {"count": 2, "gpu": H100, "gpu1": {"nvlink_down_mask": 3}})
    assert facts.gpus is not None
    link = (facts.gpus[0].nvlinks or [])[0]
    assert (link.active, link.remote_kind, link.remote) == (True, "switch", "0000:c0:00.0")
    done = links_by_nvml(nvlink_counts(facts))
    assert done.gpus is not None
    assert [(gpu.nvlinks_active, gpu.nvlinks_expected) for gpu in done.gpus] == [(18, 18), (16, 18)]
    assert done.topology is not None
    assert kinds(done.topology.links) == {"GPU0-GPU1": "NV16"}


def test_one_gpu_has_no_pairs(fake_nvml: FakeNvml) -> None:
    assert read(fake_nvml, {"count": 1}).topology is None


def test_calls_that_fail_or_hang_cost_the_pairs_only(fake_nvml: FakeNvml) -> None:
    refused = read(fake_nvml, {"count": 2, "err.nvmlDeviceGetP2PStatus": 3})
    assert refused.topology is not None
    assert refused.topology.p2p_read is None
    assert refused.topology.ancestors
    hung = read(fake_nvml, {"count": 2, "wedge.nvmlDeviceGetTopologyCommonAncestor": 1})
    assert hung.topology is None
    assert hung.gpus is not None
    assert len(hung.gpus) == 2
    assert all(gpu.name for gpu in hung.gpus)
