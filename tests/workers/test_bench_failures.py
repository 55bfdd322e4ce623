"""Workers that cannot do their work, for genuine reasons: the real CUDA runtime and the real NCCL say why, and it is explained."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.workers.bench_lines import End, Error, Start, read_line
from gpudoctor.workers.ranks import Ranks
from gpudoctor.workers.team import join
from tests.rules.reading import explain
from tests.testbed import cuda_on_cpu, gpus_on_cpu, native
from tests.testbed.cuda import FakeCuda
from tests.testbed.cuda_on_cpu import Ran
from tests.workers.test_links import free_port

pytestmark = pytest.mark.real("python:cupy")
WORKERS = ["devices", "memory", "gemm", "memtest", "pcie", "p2p", "nccl"]
# CUDA's code -> its name, its words, and the rule that explains them.
CUDA_FAILURES = {
    2: ("cudaErrorMemoryAllocation", "out of memory", "memory/gpu-out-of-memory"),
    3: ("cudaErrorInitializationError", "initialization error", "cuda/initialization-failed"),
    46: (
        "cudaErrorDevicesUnavailable",
        "CUDA-capable device(s) is/are busy or unavailable",
        "gpu/busy-or-unavailable",
    ),
    100: ("cudaErrorNoDevice", "no CUDA-capable device is detected", "cuda/no-device"),
    802: ("cudaErrorSystemNotReady", "system not yet initialized", "fabric/not-ready"),
    803: (
        "cudaErrorSystemDriverMismatch",
        "system has unsupported display driver / cuda driver combination",
        "cuda/system-driver-mismatch",
    ),
    804: (
        "cudaErrorCompatNotSupportedOnDevice",
        "forward compatibility was attempted on non supported HW",
        "cuda/forward-compat-unsupported",
    ),
    999: ("cudaErrorUnknown", "unknown error", "cuda/unknown-error"),
}
SMALL = ("--max-bytes", "65536", "--quick", "--seconds", "12")


def only_error(ran: Ran) -> Error:
    assert ran.code == 1, ran.stdout + ran.stderr
    (error,) = ran.errors
    assert isinstance(error, Error)
    assert not ran.end.complete
    assert "Traceback" not in ran.stderr
    return error


def rules_for(text: str) -> list[str]:
    """Every rule that speaks about a text, consequences included, the roots first."""
    findings = explain(text).findings
    return [finding.rule for finding in findings] + [
        other.rule for finding in findings for other in finding.consequences
    ]


# --- CUDA does not start: the genuine runtime on a libcuda that fails ---


# Loads CuPy once and lets a fork of itself be each worker; CUDA starts in the forks only.
MANY = """
import importlib, json, os, sys
import cupy, cupy.cuda.nccl, cupy.cuda.function
for worker in sys.argv[1:]:
    module = importlib.import_module("gpudoctor.workers.bench_" + worker)
    end, begin = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(begin, 1)
        sys.argv = [worker]
        module.main()
    os.close(begin)
    with open(end, encoding="utf-8") as stream:
        text = stream.read()
    print(json.dumps([worker, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text]), flush=True)
"""


@pytest.mark.parametrize("code", CUDA_FAILURES)
def test_every_worker_says_why_cuda_does_not_start(fake_cuda: FakeCuda, code: int) -> None:
    environment = {**os.environ, **fake_cuda.scenario({"init": code, "driver": 12090})}
    command = [sys.executable, "-P", "-c", MANY, *WORKERS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    name, words, rule = CUDA_FAILURES[code]
    assert done.stderr == ""
    ended = [json.loads(line) for line in done.stdout.splitlines()]
    assert [worker for worker, _status, _text in ended] == WORKERS
    for worker, status, text in ended:
        error, end = (read_line(line) for line in text.splitlines())
        assert status == 1, worker
        assert isinstance(error, Error)
        assert (error.api, error.code, error.name, error.message) == ("cuda", code, name, words), worker
        assert error.where == "counting the CUDA devices"
        assert isinstance(end, End)
        assert not end.complete
    assert rules_for(ended[0][2])[0] == rule
    assert rules_for(f"{name}: {words}")[0] == rule


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_as_it_is_run(fake_cuda: FakeCuda, worker: str) -> None:
    environment = {**os.environ, **fake_cuda.scenario({"init": 802, "driver": 12090})}
    error = only_error(cuda_on_cpu.finish(cuda_on_cpu.start(f"bench_{worker}", env=environment)))
    assert (error.code, error.name) == (802, "cudaErrorSystemNotReady")


def test_a_driver_older_than_the_runtime(fake_cuda: FakeCuda) -> None:
    environment = {**os.environ, **fake_cuda.scenario({"driver": 11040})}
    ran = cuda_on_cpu.finish(cuda_on_cpu.start("bench_memory", env=environment))
    error = only_error(ran)
    assert (error.code, error.name) == (35, "cudaErrorInsufficientDriver")
    assert rules_for(ran.stdout)[0] == "framework/driver-too-old"


def test_a_signal_while_cuda_starts(fake_cuda: FakeCuda) -> None:
    environment = {**os.environ, **fake_cuda.scenario({"delay.cuInit": 3000, "driver": 12090})}
    process = cuda_on_cpu.start("bench_nccl", env=environment)
    time.sleep(1.5)
    process.terminate()
    ran = cuda_on_cpu.finish(process)
    assert ran.code == 0
    assert ran.end.why == "SIGTERM received"


# --- CuPy is not there ---


def bare_python(folder: Path, *kept: str, without: tuple[str, ...] = ()) -> dict[str, str]:
    """The environment of a Python (run with -S) that has the project, and of the installed packages those in `kept`
    (default: all), as genuine as they are but without the parts in `without` ("nvidia/nccl")."""
    packages = Path(sysconfig.get_path("purelib"))
    hidden = {Path(part).parts[0]: Path(part).parts[1] for part in without}
    for entry in packages.iterdir():
        if kept and entry.name.partition("-")[0] not in kept:
            continue
        if entry.name in hidden:
            (folder / entry.name).mkdir()
            for part in entry.iterdir():
                if part.name != hidden[entry.name]:
                    (folder / entry.name / part.name).symlink_to(part)
        elif entry.name.startswith("nvidia_nccl") and "nvidia/nccl" in without:
            continue
        else:
            (folder / entry.name).symlink_to(entry)
    root = Path(__file__).parents[2]
    return {**os.environ, "PYTHONPATH": f"{folder}:{root}", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.parametrize(("driver", "extra"), [(12040, "cuda12"), (13000, "cuda13")])
def test_without_cupy(fake_cuda: FakeCuda, tmp_path: Path, driver: int, extra: str) -> None:
    environment = {**bare_python(tmp_path, "msgspec"), **fake_cuda.scenario({"driver": driver})}
    command = [sys.executable, "-S", "-P", "-m", "gpudoctor.workers.bench_memory"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)
    error = read_line(done.stdout.splitlines()[0])
    assert done.returncode == 1
    assert isinstance(error, Error)
    assert (error.api, error.name) == ("cupy", "ModuleNotFoundError")
    assert error.message == f"No module named 'cupy'; install it with: pip install 'gpudoctor[{extra}]'"
    assert done.stderr == ""


# --- NCCL is not there, or another one ---

LOAD = """
from gpudoctor.workers.bench_lines import say
from gpudoctor.workers.cuda_device import Cuda
from gpudoctor.workers.cuda_errors import WorkerError
from gpudoctor.workers.nccl_library import load, version_text
try:
    print(version_text(load(Cuda())[1]))
except WorkerError as error:
    say(error.line)
"""
# The functions that CuPy links with; the newest of them is left out of an old library.
NCCL_FUNCTIONS = [
    "CommInitAll",
    "CommDestroy",
    "CommAbort",
    "CommCuDevice",
    "CommUserRank",
    "CommCount",
    "CommGetAsyncError",
    "CommInitRankConfig",
    "GetUniqueId",
    "GetErrorString",
    "GroupStart",
    "GroupEnd",
    "AllReduce",
    "Reduce",
    "Broadcast",
    "Bcast",
    "ReduceScatter",
    "AllGather",
    "Send",
    "Recv",
    "CommSplit",
]


def load_nccl(environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOAD], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.strip()


def nccl_library(folder: Path, version: int, functions: list[str]) -> Path:
    """A libnccl.so.2 that says which version it is and exports `functions`."""
    text = f"int ncclGetVersion(int *version) {{ *version = {version}; return 0; }}\n"
    text += "".join(f"int nccl{name}(void) {{ return 3; }}\n" for name in functions)
    source = folder / "nccl.c"
    source.write_text(text)
    return native.build_shared("libnccl.so.2", [source]) / "libnccl.so.2"


def test_without_nccl(tmp_path: Path) -> None:
    line = load_nccl(bare_python(tmp_path, without=("nvidia/nccl",)))
    error = read_line(line)
    assert isinstance(error, Error)
    assert (error.api, error.where) == ("nccl", "loading NCCL")
    assert "libnccl.so.2: cannot open shared object file" in error.message
    assert error.message.endswith("install it with: pip install nvidia-nccl-cu12")
    assert rules_for(line)[0] == "framework/cudnn-not-found"


def test_an_nccl_too_old_for_cupy(tmp_path: Path) -> None:
    library = nccl_library(tmp_path, 21003, NCCL_FUNCTIONS[:-1])
    folder = tmp_path / "packages"
    folder.mkdir()
    environment = {**bare_python(folder, without=("nvidia/nccl",)), "LD_LIBRARY_PATH": str(library.parent)}
    line = load_nccl(environment)
    error = read_line(line)
    assert isinstance(error, Error)
    assert (error.api, error.name) == ("nccl", "NcclTooOld")
    assert "undefined symbol: ncclCommSplit" in error.message
    assert "pip install -U nvidia-nccl-cu12" in error.message
    assert "nccl/versions-differ" in rules_for(line)


def test_an_nccl_too_old_for_the_test(tmp_path: Path) -> None:
    library = nccl_library(tmp_path, 2604, NCCL_FUNCTIONS)
    folder = tmp_path / "packages"
    folder.mkdir()
    line = load_nccl({**bare_python(folder), "LD_PRELOAD": str(library)})
    error = read_line(line)
    assert isinstance(error, Error)
    assert error.name == "NcclTooOld"
    assert error.message.startswith("NCCL 2.6.4 is too old")
    assert rules_for(line) == ["nccl/versions-differ"]


def test_the_nccl_that_is_installed(tmp_path: Path) -> None:
    if find_spec("nvidia.nccl") is None:
        pytest.skip("NCCL's package is not installed")
    assert re.fullmatch(r"2\.\d+\.\d+", load_nccl(bare_python(tmp_path)))


# --- NCCL does not connect: the genuine library, on GPUs that are none ---


def genuine(**more: str) -> Ran:
    if find_spec("nvidia.nccl") is None:
        pytest.skip("NCCL's package is not installed")
    environment = gpus_on_cpu.environment({"devices": 2}, nccl="genuine", **more)
    return cuda_on_cpu.finish(cuda_on_cpu.start("bench_nccl", *SMALL, env=environment))


def test_nccl_finds_no_gpu() -> None:
    ran = genuine(NCCL_SOCKET_IFNAME="lo")
    error = only_error(ran)
    assert (error.api, error.code, error.name) == ("nccl", 1, "NCCL_ERROR_UNHANDLED_CUDA_ERROR")
    assert error.where == "connecting 2 ranks"
    assert re.search(r"\nNCCL WARN Cuda failure( \d+)? '[^']+'", error.message)
    assert "NCCL WARN" in ran.stderr
    assert all(line.startswith("{") for line in ran.stdout.splitlines())
    assert {"nccl/cuda-error", "cuda/no-device"} & set(rules_for(ran.stdout))


def test_nccl_finds_no_interface() -> None:
    ran = genuine(NCCL_SOCKET_IFNAME="nosuch0", NCCL_DEBUG="VERSION")
    error = only_error(ran)
    assert error.api == "nccl"
    assert error.name in ("NCCL_ERROR_INVALID_USAGE", "NCCL_ERROR_INTERNAL_ERROR")
    assert "no socket interface found" in error.message
    assert error.where == "starting NCCL"
    assert rules_for(ran.stdout)[0] == "nccl/interface-missing"


def test_nccl_waits_for_other_hosts_on_the_loopback_interface() -> None:
    """This process plays a rank on another host; before NCCL would wait for it in vain, rank 0 says so."""
    if find_spec("nvidia.nccl") is None:
        pytest.skip("NCCL's package is not installed")
    port = free_port()
    variables = {
        "TORCHELASTIC_RUN_ID": "t", "RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NCCL_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    environment = gpus_on_cpu.environment({"devices": 2}, nccl="genuine", **variables)
    process = cuda_on_cpu.start("bench_nccl", *SMALL, env=environment)
    start = json.loads(process.stdout.readline() if process.stdout else "")
    major, minor, patch = (int(part) for part in start["nccl"].split("."))
    hello = {"host": "elsewhere", "gpus": 1, "size": 65536, "nccl": major * 10000 + minor * 100 + patch}
    me = Ranks(launcher="test", rank=1, world=2, local_rank=0, master="127.0.0.1", port=port)
    member = join(me, hello, 10)
    ran = cuda_on_cpu.finish(process, json.dumps(start) + "\n")
    member.close()
    error = only_error(ran)
    assert (error.api, error.name) == ("nccl", "LoopbackOnly")
    assert "at 127.0.0.1, which they cannot reach: NCCL_SOCKET_IFNAME is 'lo'" in error.message


# --- errors in the middle ---


@pytest.mark.parametrize(
    ("worker", "place"), [("bench_pcie", "h2d"), ("bench_p2p", "kernel"), ("bench_nccl", "all_reduce@1")]
)
def test_a_cuda_error_in_the_middle(worker: str, place: str) -> None:
    ran = cuda_on_cpu.finish(
        cuda_on_cpu.start(worker, *SMALL, env=gpus_on_cpu.environment({"devices": 2, "wrong": {place: 700}}))
    )
    assert ran.code == 1
    assert isinstance(ran.lines[0], Start)
    assert (ran.errors[0].api, ran.errors[0].code, ran.errors[0].name) == ("cuda", 700, "cudaErrorIllegalAddress")
    assert not ran.end.complete
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("worker", ["bench_pcie", "bench_p2p", "bench_nccl"])
def test_a_worker_that_is_killed_leaves_whole_lines(worker: str) -> None:
    scenario: dict[str, Any] = {"devices": 2, "memory": 1 << 30}
    process = cuda_on_cpu.start(worker, "--seconds", "20", env=gpus_on_cpu.environment(scenario))
    assert process.stdout is not None
    read = ""
    while '"progress"' not in read:
        line = process.stdout.readline()
        assert line, read
        read += line
    process.kill()
    ran = cuda_on_cpu.finish(process, read)
    assert ran.code == -signal.SIGKILL
    assert len(ran.lines) == len(ran.stdout.splitlines())
    assert isinstance(ran.lines[0], Start)
