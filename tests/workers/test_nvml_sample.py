"""The sampler on the fake NVML: a line a GPU each round, quick to end, silent when it only holds the GPUs open."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.testbed.nvml import FakeNvml


def start(fake_nvml: FakeNvml, scenario: dict[str, object], *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "gpudoctor.workers.nvml_sample", *arguments]
    environment = {**os.environ, **fake_nvml.scenario(scenario)}  # type: ignore[arg-type]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def test_lines_of_every_gpu(fake_nvml: FakeNvml) -> None:
    stdout, stderr = start(fake_nvml, {"count": 3, "gpu1": {"temperature_c": 71}}, "--seconds", "1").communicate(
        timeout=30
    )
    lines = [json.loads(line) for line in stdout.splitlines()]
    assert {line["index"] for line in lines} == {0, 1, 2}
    assert {line["values"]["temperature_c"] for line in lines if line["index"] == 1} == {71}
    assert {"sm_clock_mhz", "power_w", "throttle_mask", "pcie_generation", "pcie_width"} <= set(lines[0]["values"])
    assert stderr == ""


def test_what_a_gpu_does_not_tell_is_left_out(fake_nvml: FakeNvml) -> None:
    stdout, _ = start(fake_nvml, {"gpu0.err.nvmlDeviceGetTemperature": 15}, "--seconds", "0.3").communicate(
        timeout=30
    )
    values = json.loads(stdout.splitlines()[0])["values"]
    assert "temperature_c" not in values
    assert "sm_clock_mhz" in values


@pytest.mark.parametrize("arguments", [("--seconds", "60"), ("--hold", "--seconds", "60")])
def test_it_ends_at_once(fake_nvml: FakeNvml, arguments: tuple[str, ...]) -> None:
    process = start(fake_nvml, {"count": 2}, *arguments)
    time.sleep(1.5)
    process.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    stdout, _ = process.communicate(timeout=30)
    assert time.monotonic() - begun < 3
    assert process.returncode == 0
    assert bool(stdout) == ("--hold" not in arguments)


def test_without_a_driver_it_says_so(fake_nvml: FakeNvml) -> None:
    process = start(fake_nvml, {"init": 9}, "--seconds", "5")
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (1, "")
    assert stderr.startswith("NVML: ")
