"""A real Slurm cluster: genuine drain reasons and GPU variables, and gpudoctor's verdict on what scontrol shows."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.testbed import slurm
from tests.testbed.slurm import Cluster, Node

pytestmark = [pytest.mark.slow, pytest.mark.real("slurmctld", "slurmd", "munged", "scontrol", "srun", "root")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    nodes = [Node("gpu1", gpus=4), Node("gpu2", gpus=4, devices=2), Node("cpu1", memory_mib=9_000_000)]
    with slurm.cluster(nodes) as running:
        yield running


def test_nodes_are_drained_for_genuine_reasons(cluster: Cluster) -> None:
    assert "Gres=gpu:4" in cluster.wait_for("gpu1", "State=IDLE")
    assert "gres/gpu count reported lower than configured (2 < 4)" in cluster.wait_for("gpu2", "Reason=")
    assert "Low RealMemory" in cluster.wait_for("cpu1", "Reason=")


def test_a_job_gets_its_gpus(cluster: Cluster) -> None:
    cluster.wait_for("gpu1", "State=IDLE")
    done = cluster.command("srun", "--gres=gpu:2", "-w", "gpu1", "env")
    assert "CUDA_VISIBLE_DEVICES=0,1\n" in done.stdout


def test_gpudoctor_names_the_missing_gpus(cluster: Cluster, tmp_path: Path) -> None:
    cluster.wait_for("gpu2", "Reason=")
    shown = tmp_path / "scontrol.txt"
    shown.write_text(cluster.command("scontrol", "show", "node").stdout)
    command = [sys.executable, "-m", "gpudoctor", "check", "--from", str(shown), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    rules = {finding["rule"] for finding in json.loads(done.stdout)["findings"]}
    assert "slurm/gres-count-low" in rules
