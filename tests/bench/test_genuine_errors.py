"""CUDA's genuine errors, from a fake driver through the genuine CuPy, are explained by the finding that they belong to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from tests.testbed import gpu_models
from tests.testbed.cuda import FakeCuda, join
from tests.testbed.nvml import FakeNvml

ROOT = Path(__file__).parents[2]
EXPLAINED_BY = {
    2: "memory/gpu-out-of-memory",
    3: "cuda/initialization-failed",
    46: "gpu/busy-or-unavailable",
    100: "cuda/no-device",
    304: "cuda/os-call-failed",
    802: "fabric/not-ready",
    803: "cuda/system-driver-mismatch",
    804: "cuda/forward-compat-unsupported",
    999: "cuda/unknown-error",
}


@pytest.mark.skipif(util.find_spec("cupy") is None, reason="CuPy is not installed (pip install 'gpudoctor[cuda12]')")
@pytest.mark.parametrize("code", EXPLAINED_BY)
def test_each_is_explained(fake_cuda: FakeCuda, fake_nvml: FakeNvml, code: int) -> None:
    fakes = join(fake_cuda.scenario({"init": code}), fake_nvml.scenario({"count": 8, "gpu": gpu_models.H100}))
    run = subprocess.run(
        [sys.executable, "-m", "gpudoctor", "check", "--level", "2", "--deadline", "60", "--format", "json"],
        capture_output=True,
        text=True,
        env={**os.environ, **fakes},
        cwd=ROOT,
        timeout=120,
    )
    assert "fault of gpudoctor" not in run.stderr
    report = json.loads(run.stdout)
    tests = next(probe for probe in report["probes"] if probe["name"] == "active tests")
    assert (tests["state"], tests["essential"]) == ("no_evidence", True)
    explaining = [f for f in report["findings"] if "bench/could-not-run" in [c["rule"] for c in f["consequences"]]]
    assert EXPLAINED_BY[code] in [finding["rule"] for finding in explaining], [f["rule"] for f in report["findings"]]
    assert run.returncode == 1
