"""scripts/gpu-acceptance without a GPU: it says so; its reference measurements are right on the CPU stand-in."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed import cuda_on_cpu

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "gpu-acceptance"


def test_without_a_gpu_it_ends_with_the_reason() -> None:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run([SCRIPT, sys.executable], capture_output=True, text=True, env=environment, timeout=120)
    assert run.returncode == 3
    assert "there is no GPU to test here: " in run.stderr
    assert run.stdout == ""


def test_a_python_that_is_not_there() -> None:
    run = subprocess.run([SCRIPT, "/no/such/venv"], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (2, "gpu-acceptance: there is no /no/such/venv\n")


def test_the_other_methods_copy_right() -> None:
    pytest.importorskip("numpy")
    environment = cuda_on_cpu.environment({"memory_mib": 32})
    environment["PYTHONPATH"] += f":{ROOT}"
    script = ROOT / "benchmarks" / "gpu_reference.py"
    run = subprocess.run([sys.executable, script, "0"], capture_output=True, text=True, env=environment, timeout=120)
    found = json.loads(run.stdout)
    assert found["nvbandwidth_ce_right"]
    assert found["nvbandwidth_sm_right"]
    assert found["nvbandwidth_sm"] > 0


def test_a_copy_that_goes_wrong_is_seen() -> None:
    """A bit of the target's memory that stays 0."""
    pytest.importorskip("numpy")
    stuck = [[offset, 0xFE, 0] for offset in range(9 << 20, 12 << 20, 4096)]
    environment = cuda_on_cpu.environment({"memory_mib": 32, "stuck": stuck})
    environment["PYTHONPATH"] += f":{ROOT}"
    script = ROOT / "benchmarks" / "gpu_reference.py"
    run = subprocess.run([sys.executable, script, "0"], capture_output=True, text=True, env=environment, timeout=120)
    found = json.loads(run.stdout)
    assert not (found["nvbandwidth_ce_right"] and found["nvbandwidth_sm_right"])
