"""The fakes themselves: the genuine programs on top of them say what they say on real hardware."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

import pytest

from tests.testbed import namespace
from tests.testbed.cuda import FakeCuda
from tests.testbed.gpu_models import H100, RTX_4090, T4
from tests.testbed.nvml import FakeNvml
from tests.testbed.scenario_file import Scenario
from tests.testbed.smi import GenuineSmi

# NVML's code at start -> nvidia-smi's words and exit code.
START_FAILURES = [
    (4, "Failed to initialize NVML: Insufficient Permissions", 4),
    (9, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", 9),
    (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12),
    (15, "Failed to initialize NVML: GPU is lost", 15),
    (16, "Failed to initialize NVML: GPU requires reset", 255),
    (17, "Failed to initialize NVML: GPU access blocked by the operating system", 17),
    (18, "Failed to initialize NVML: Driver/library version mismatch", 18),
    (19, "Failed to initialize NVML: In use by another client", 19),
    (999, "Failed to initialize NVML: Unknown Error", 255),
]


def pynvml(environment: dict[str, str], code: str) -> str:
    """What a Python program using the real pynvml prints, error text included."""
    program = f"import pynvml as p\ntry:\n p.nvmlInit()\n g = p.nvmlDeviceGetHandleByIndex(0)\n {code}\nexcept p.NVMLError as e: print(e.value, e)"
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=20, check=False
    )
    return done.stdout.strip() + done.stderr.strip()


@pytest.mark.parametrize(("code", "text", "status"), START_FAILURES)
def test_smi_tells_why_nvml_did_not_start(genuine_smi: GenuineSmi, code: int, text: str, status: int) -> None:
    done = genuine_smi.run(scenario={"init": code})
    assert text in done.stdout
    old_mismatch = code == 18 and genuine_smi.generation == "470"
    assert done.returncode == (255 if old_mismatch else status)


def test_smi_names_the_library_version_on_a_mismatch(genuine_smi: GenuineSmi) -> None:
    done = genuine_smi.run(scenario={"init": 18, "nvml": "12.535.309.01"})
    assert ("NVML library version: 535.309" in done.stdout) == (genuine_smi.generation != "470")


def test_smi_without_gpus(genuine_smi: GenuineSmi) -> None:
    assert (done := genuine_smi.run(scenario={"count": 0})).returncode == 6
    assert "No devices were found" in done.stdout
    listed = genuine_smi.run("-L", scenario={"count": 0})
    assert (listed.stdout.strip(), listed.returncode) == ("No devices found.", 0)


def test_smi_cannot_open_a_lost_gpu(genuine_smi: GenuineSmi) -> None:
    done = genuine_smi.run(scenario={"count": 2, "gpu1.err.nvmlDeviceGetHandleByIndex": 15})
    assert re.search(r"Unable to determine the device handle for GPU ?1: GPU is lost", done.stdout)
    assert done.returncode == 15


def test_smi_shows_a_gpu_that_is_lost_meanwhile_and_still_exits_0(genuine_smi: GenuineSmi) -> None:
    done = genuine_smi.run(scenario={"count": 2, "gpu1.lost": True})
    assert "ERR!" in done.stdout or "GPU is lost" in done.stdout
    assert done.returncode == 0


def test_smi_table_shows_gpus_and_processes(genuine_smi: GenuineSmi) -> None:
    procs = "4242:1024:python3,4300:20:/usr/lib/xorg/Xorg:g"
    done = genuine_smi.run(scenario={"count": 2, "gpu": {"temperature_c": 61, "power_w": 312, "procs": procs}})
    assert done.returncode == 0
    assert done.stdout.count("NVIDIA A100-SXM") == 2
    assert "61C" in done.stdout
    assert "312W" in done.stdout
    assert " C   python3" in done.stdout
    assert " G   /usr/lib/xorg/Xorg" in done.stdout


@pytest.mark.parametrize("model", [H100, T4, RTX_4090, {}], ids=["h100", "t4", "rtx4090", "a100"])
def test_smi_xml_of_every_model(genuine_smi: GenuineSmi, model: Scenario) -> None:
    done = genuine_smi.run("-q", "-x", scenario={"count": 2, "gpu": model})
    assert done.returncode == 0
    root = ElementTree.fromstring(done.stdout)
    assert root.findtext("driver_version", "").startswith(genuine_smi.generation)
    name = model.get("name", "NVIDIA A100-SXM4-80GB")
    assert [gpu.findtext("product_name") for gpu in root.findall("gpu")] == [name, name]
    assert "Unknown Error" not in done.stdout


def test_smi_shows_memory_errors_and_remapped_rows(genuine_smi: GenuineSmi) -> None:
    facts: Scenario = {"ecc_uncorrected_volatile": 7, "remapped_rows_uncorrectable": 2, "remapped_rows_pending": True}
    done = genuine_smi.run("-q", "-d", "ECC,ROW_REMAPPER", scenario={"gpu": facts})
    assert "DRAM Uncorrectable            : 7" in done.stdout
    assert "Uncorrectable Error               : 2" in done.stdout
    assert "Pending                           : Yes" in done.stdout


def test_smi_lists_mig_devices(genuine_smi: GenuineSmi) -> None:
    facts: Scenario = {"mig_mode": True, "mig_devices": "1g.10gb,3g.40gb:MIG-11111111-2222-3333-4444-555555555555"}
    done = genuine_smi.run("-L", scenario={"gpu0": facts})
    assert "MIG 1g.10gb     Device  0: (UUID: MIG-" in done.stdout
    assert "MIG 3g.40gb     Device  1: (UUID: MIG-11111111-2222-3333-4444-555555555555)" in done.stdout


def test_smi_topology(genuine_smi: GenuineSmi) -> None:
    plain = genuine_smi.run("topo", "-m", scenario={"count": 3, "topology": "SYS", "topology.0-1": "PIX"})
    assert "GPU0\t X \tPIX\tSYS" in plain.stdout
    linked = genuine_smi.run(
        "topo",
        "-m",
        scenario={"count": 2, "gpu": {"nvlinks": 12, "nvlink_remote": "switch"}, "gpu1": {"nvlink_down_mask": 3}},
    )
    assert "GPU0\t X \tNV12" in linked.stdout
    assert "GPU1\tNV10" in linked.stdout


def test_smi_nvlink_status(genuine_smi: GenuineSmi) -> None:
    done = genuine_smi.run("nvlink", "-s", scenario={"gpu": {"nvlinks": 4, "nvlink_down_mask": 2}})
    assert "Link 0: 25 GB/s" in done.stdout
    assert "Link 1: <inactive>" in done.stdout


def test_pynvml_reads_the_same_gpus(fake_nvml: FakeNvml) -> None:
    environment = fake_nvml.scenario({"count": 2, "gpu": {**H100, "fabric_status": 0, "recovery_action": 2}})
    assert pynvml(environment, "print(p.nvmlDeviceGetName(g), p.nvmlDeviceGetCount())") == "NVIDIA H100 80GB HBM3 2"
    assert pynvml(environment, "print(p.nvmlDeviceGetCudaComputeCapability(g))") == "(9, 0)"
    assert pynvml(environment, "print(p.nvmlDeviceGetMemoryInfo(g).total >> 20)") == "81559"
    assert pynvml(environment, "print(p.nvmlDeviceGetMemoryInfo(g, p.nvmlMemory_v2).reserved >> 20)") == "568"
    field = "p.nvmlDeviceGetFieldValues(g, [p.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])[0]"
    assert pynvml(environment, f"print({field}.nvmlReturn, {field}.value.uiVal)") == "0 2"
    fabric = "f = p.c_nvmlGpuFabricInfoV_t(); p.nvmlDeviceGetGpuFabricInfoV(g, p.byref(f)); print(f.state, f.status)"
    assert pynvml(environment, fabric) == "3 0"


@pytest.mark.parametrize("binding", ["pynvml", "py3nvml.py3nvml"])
def test_python_bindings_raise_the_codes(fake_nvml: FakeNvml, binding: str) -> None:
    pytest.importorskip(binding.partition(".")[0])
    program = f"import {binding} as p\ntry: p.nvmlInit()\nexcept p.NVMLError as e: print(e.value, e)"
    environment = {**os.environ, **fake_nvml.scenario({"init": 18})}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.stdout.strip() == "18 RM has detected an NVML/RM version mismatch."


def test_single_getters_fail_when_told_to(fake_nvml: FakeNvml) -> None:
    environment = fake_nvml.scenario({"gpu0.err.nvmlDeviceGetTemperature": 15, "gpu.fan_pct": None})
    assert pynvml(environment, "print(p.nvmlDeviceGetTemperature(g, 0))").startswith("15 ")
    assert pynvml(environment, "print(p.nvmlDeviceGetFanSpeed(g))").startswith("3 ")
    assert pynvml(environment, "print(p.nvmlDeviceGetPowerUsage(g))") == "72000"


def test_a_wedged_driver_does_not_answer_and_ignores_term(fake_nvml: FakeNvml) -> None:
    environment = {**os.environ, **fake_nvml.scenario({"wedge.init": True})}
    program = [sys.executable, "-c", "import pynvml; print('go', flush=True); pynvml.nvmlInit()"]
    with subprocess.Popen(program, env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        time.sleep(0.3)
        process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.5)
        process.kill()
    assert process.returncode == -signal.SIGKILL


def test_a_crashing_driver_kills_its_caller(fake_nvml: FakeNvml) -> None:
    environment = {**os.environ, **fake_nvml.scenario({"crash.nvmlDeviceGetName": True})}
    program = [
        sys.executable,
        "-c",
        "import pynvml as p; p.nvmlInit(); p.nvmlDeviceGetName(p.nvmlDeviceGetHandleByIndex(0))",
    ]
    assert subprocess.run(program, env=environment, timeout=20, check=False).returncode == -signal.SIGSEGV


@pytest.mark.real("nvidia-smi", "root", "unshare")
def test_the_fake_can_be_bound_over_the_installed_library(fake_nvml: FakeNvml) -> None:
    from pathlib import Path

    installed = next(Path("/usr/lib").glob("*/nvidia/current/libnvidia-ml.so.1")).resolve()
    scenario = fake_nvml.scenario({"count": 1})["FAKE_NVML"]
    done = namespace.run(["nvidia-smi", "-L"], {fake_nvml.library: installed}, env={"FAKE_NVML": scenario})
    assert done.stdout.startswith("GPU 0: NVIDIA A100-SXM4-80GB")


@pytest.mark.real("nvidia-smi")
def test_genuine_library_without_a_driver() -> None:
    done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=20, check=False)
    if done.returncode == 0:
        pytest.skip("this machine has a working NVIDIA driver")
    assert "couldn't communicate with the NVIDIA driver" in done.stdout
    assert done.returncode == 9


# CUresult -> what the genuine CUDA runtime inside CuPy says.
CUDA_FAILURES = [
    (3, "cudaErrorInitializationError"),
    (46, "cudaErrorDevicesUnavailable"),
    (100, "cudaErrorNoDevice: no CUDA-capable device is detected"),
    (304, "cudaErrorOperatingSystem"),
    (802, "cudaErrorSystemNotReady: system not yet initialized"),
    (803, "cudaErrorSystemDriverMismatch: system has unsupported display driver / cuda driver combination"),
    (804, "cudaErrorCompatNotSupportedOnDevice: forward compatibility was attempted on non supported HW"),
    (999, "cudaErrorUnknown: unknown error"),
]


@pytest.mark.real("python:cupy")
@pytest.mark.parametrize(("code", "text"), CUDA_FAILURES)
def test_cuda_runtime_tells_why_the_driver_did_not_start(fake_cuda: FakeCuda, code: int, text: str) -> None:
    assert text in cupy_device_count(fake_cuda.scenario({"init": code, "driver": 12040}))


@pytest.mark.real("python:cupy")
def test_cuda_runtime_newer_than_the_driver(fake_cuda: FakeCuda) -> None:
    text = cupy_device_count(fake_cuda.scenario({"driver": 11040}))
    assert "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version" in text


def cupy_device_count(environment: dict[str, str]) -> str:
    program = "import cupy\nprint(cupy.cuda.runtime.getDeviceCount())"
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False
    ).stderr


def test_cuda_driver_calls_by_hand(fake_cuda: FakeCuda) -> None:
    program = (
        "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); v = ctypes.c_int()\n"
        "c.cuDriverGetVersion(ctypes.byref(v)); before = c.cuDeviceGetCount(ctypes.byref(n)); c.cuInit(0)\n"
        "after = c.cuDeviceGetCount(ctypes.byref(n)); print(v.value, before, after, n.value)"
    )
    environment = {**os.environ, **fake_cuda.scenario({"driver": 12040, "count": 4})}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=20, check=False
    )
    assert done.stdout.split() == ["12040", "3", "0", "4"]
