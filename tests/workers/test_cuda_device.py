"""What the workers share: errors by name, sizes and shapes, timing; and the genuine CuPy, as far as it goes without a GPU."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.workers import bench_gemm, bench_memory, bench_memtest
from gpudoctor.workers.bench_lines import Device, End, Error, read_line
from gpudoctor.workers.bench_memory import GIB, MIB, Shape
from gpudoctor.workers.cublas_gemm import PRECISIONS
from gpudoctor.workers.cuda_device import Kernels, summary
from gpudoctor.workers.cuda_errors import WorkerError, as_error, is_expected, is_out_of_memory
from gpudoctor.workers.gemm_product import tolerances
from gpudoctor.workers.wrong_data import Record, WrongData, fault_of
from tests.testbed import cuda_on_cpu
from tests.testbed.cuda import FakeCuda

# --- errors ---


def raised(name: str, text: str, status: int | None = None) -> Exception:
    """An exception of one of CuPy's classes, by its name."""
    error = type(name, (RuntimeError,), {})(text)
    if status is not None:
        error.status = status
    assert isinstance(error, Exception)
    return error


@pytest.mark.parametrize(
    ("error", "api", "code", "name", "message"),
    [
        (
            raised("CUDARuntimeError", "cudaErrorSystemNotReady: system not yet initialized", 802),
            "cuda",
            802,
            "cudaErrorSystemNotReady",
            "system not yet initialized",
        ),
        (
            raised("CUDADriverError", "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", 100),
            "cuda",
            100,
            "CUDA_ERROR_NO_DEVICE",
            "no CUDA-capable device is detected",
        ),
        (raised("NVRTCError", "NVRTC_ERROR_COMPILATION (6)", 6), "nvrtc", 6, "NVRTC_ERROR_COMPILATION", None),
        (raised("CUBLASError", "CUBLAS_STATUS_ALLOC_FAILED", 3), "cublas", 3, "CUBLAS_STATUS_ALLOC_FAILED", None),
        (
            raised("NcclError", "NCCL_ERROR_SYSTEM_ERROR: unhandled system error (run with NCCL_DEBUG=INFO)", 2),
            "nccl",
            2,
            "NCCL_ERROR_SYSTEM_ERROR",
            "unhandled system error (run with NCCL_DEBUG=INFO)",
        ),
        (
            raised("OutOfMemoryError", "Out of memory allocating 1,024 bytes (allocated so far: 0 bytes)."),
            "cuda",
            2,
            "cudaErrorMemoryAllocation",
            "Out of memory allocating 1,024 bytes (allocated so far: 0 bytes).",
        ),
        (raised("CompileException", "k.cu(1): error: x"), "nvrtc", 6, "NVRTC_ERROR_COMPILATION", "k.cu(1): error: x"),
        (
            raised("DynamicLibNotFoundError", 'Failure finding "libnvrtc.so.12": No such file'),
            "nvrtc",
            None,
            "DynamicLibNotFoundError",
            'Failure finding "libnvrtc.so.12": No such file',
        ),
        (
            ImportError("libcublas.so.12: cannot open shared object file: No such file or directory"),
            "cublas",
            None,
            "ImportError",
            "libcublas.so.12: cannot open shared object file: No such file or directory",
        ),
        (
            ModuleNotFoundError("No module named 'cupy'"),
            "cupy",
            None,
            "ModuleNotFoundError",
            "No module named 'cupy'",
        ),
    ],
    ids=lambda value: getattr(value, "name", None) or type(value).__name__,
)
def test_errors_are_named(error: Exception, api: str, code: int | None, name: str, message: str | None) -> None:
    line = as_error(error, "doing x", 3)
    assert (line.api, line.code, line.name) == (api, code, name)
    assert line.message == (message or str(error))
    assert (line.where, line.device) == ("doing x", 3)
    assert is_expected(error)


def test_a_mistake_of_our_own_says_where() -> None:
    with pytest.raises(KeyError) as caught:
        {}["no such key"]
    line = as_error(caught.value, "doing x")
    assert not is_expected(caught.value)
    assert (line.api, line.name) == ("worker", "KeyError")
    assert re.fullmatch(r"doing x \(test_cuda_device.py:\d+\)", line.where or "")


def test_an_error_keeps_its_place() -> None:
    inner = WorkerError(Error(api="nvrtc", message="m", where="compiling k.cu for sm_90"))
    assert as_error(inner, "measuring", 1) == Error(
        api="nvrtc", message="m", where="compiling k.cu for sm_90", device=1
    )
    assert len(as_error(RuntimeError("x" * 10**6), "y").message) == 2000
    assert as_error(ImportError("lib\udce4.so: cannot open"), "y").message == "lib?.so: cannot open"


def test_out_of_memory_is_recognized() -> None:
    assert is_out_of_memory(raised("CUDARuntimeError", "cudaErrorMemoryAllocation: out of memory", 2))
    assert is_out_of_memory(raised("OutOfMemoryError", "Out of memory"))
    assert not is_out_of_memory(raised("CUDARuntimeError", "cudaErrorECCUncorrectable: x", 214))
    assert not is_out_of_memory(raised("NcclError", "NCCL_ERROR_SYSTEM_ERROR: x", 2))


# --- sizes and shapes ---


def device(**fields: Any) -> Device:
    return Device(ordinal=0, **fields)


@pytest.mark.parametrize(
    ("free", "quick", "most", "array"),
    [
        pytest.param(80 * GIB, False, None, 4 * GIB, id="80 GiB"),
        pytest.param(80 * GIB, True, None, GIB, id="80 GiB quick"),
        pytest.param(6 * GIB, False, None, 1638 * MIB, id="6 GiB"),
        pytest.param(80 * GIB, False, 300 * MIB, 100 * MIB, id="limited"),
        pytest.param(1 * MIB, False, None, 4 * MIB, id="nothing free"),
    ],
)
def test_array_sizes(free: int, quick: bool, most: int | None, array: int) -> None:
    assert bench_memory.array_bytes_for(free, quick, most) == array


def test_smaller_arrays_are_well_past_the_cache() -> None:
    assert bench_memory.sizes_of(4 * GIB, 50 * MIB, quick=False) == [4 * GIB, GIB, 256 * MIB]
    assert bench_memory.sizes_of(4 * GIB, 126 * MIB, quick=False) == [4 * GIB, GIB]
    assert bench_memory.sizes_of(4 * GIB, 50 * MIB, quick=True) == [4 * GIB]
    assert bench_memory.sizes_of(100 * MIB, 50 * MIB, quick=False) == [100 * MIB]


def test_blocks() -> None:
    assert bench_memory.blocks_of(4 * GIB // 16, Shape(4, False), 132) == 2**18
    assert bench_memory.blocks_of(4 * GIB // 16, Shape(4, False, 8), 132) == 1056
    assert bench_memory.blocks_of(1, Shape(4, False, 8), 132) == 1
    assert bench_memory.blocks_of(1025, Shape(4, False), 132) == 2


def test_memory_to_test() -> None:
    assert bench_memtest.bytes_to_test(80 * GIB, None) == 80 * GIB - 257 * MIB
    assert bench_memtest.bytes_to_test(100 * MIB, None) == 89 * MIB
    assert bench_memtest.bytes_to_test(80 * GIB, 5 * MIB + 1) == 5 * MIB
    assert bench_memtest.bytes_to_test(0, None) == 0


def test_matrix_sizes() -> None:
    assert bench_gemm.size_for(device(multiprocessors=132), 64 * GIB, 4, None) == 8192
    assert bench_gemm.size_for(device(multiprocessors=40), 64 * GIB, 4, None) == 4096
    assert bench_gemm.size_for(device(), 64 * GIB, 4, None) == 2048
    assert bench_gemm.size_for(device(multiprocessors=132), GIB, 4, None) == 8192
    assert bench_gemm.size_for(device(multiprocessors=132), GIB - 1, 4, None) == 4096
    assert bench_gemm.size_for(device(), 0, 4, None) == bench_gemm.SMALLEST
    assert bench_gemm.size_for(device(), 64 * GIB, 4, 1024) == 1024


def test_tolerances_are_small_beside_the_results() -> None:
    """A sum of 8192 products has a standard deviation of 30."""
    bounds = {p.name: tolerances(p, 8192) for p in PRECISIONS}
    assert bounds["fp32"] == bounds["tf32"]
    assert bounds["fp32"][1] < 0.001
    assert bounds["fp16"][1] < 0.3
    assert bounds["bf16"][1] < 1.0
    assert bounds["fp8"][1] < 5.0


@pytest.mark.parametrize(
    ("capability", "names"),
    [
        ("6.1", ["fp32", "fp16"]),
        ("7.5", ["fp32", "fp16"]),
        ("8.0", ["fp32", "tf32", "fp16", "bf16"]),
        (None, ["fp32"]),
    ],
)
def test_precisions_by_capability(capability: str | None, names: list[str]) -> None:
    this = device(compute_capability=capability)
    assert [p.name for p in PRECISIONS if bench_gemm.missing(p, this) is None] == names


def test_summary_of_times() -> None:
    assert summary([4.0, 2.0, 3.0]) == (3.0, pytest.approx(2 / 3), 3)
    assert summary([4.0, 2.0, 3.0], each=10)[0] == pytest.approx(0.3)
    assert summary([0.0, 0.0]) == (0.0, 0.0, 2)


def test_fault_line() -> None:
    wrong = WrongData(2, 5, 0x8000000000000001, [Record(5, 0x10, 0x11)])
    line = fault_of(wrong, kind="bit_flip", what="memory test", metric="random", device=1, word_bytes=8)
    assert line.text == (
        "memory test: a word was wrong 2 times, the first at offset 0x28: 0x0000000000000011 instead of 0x0000000000000010"
    )
    assert (line.address, line.bits, line.count, line.device) == ("0x28", [0, 63], 2, 1)
    bare = fault_of(replace(wrong, records=[], count=1), kind="k", what="w", metric="m", device=0, word_bytes=4)
    assert bare.text == "w: a word was wrong once, the first at offset 0x14"
    assert (bare.expected, bare.got) == (None, None)


# --- the genuine CuPy ---


def run_worker(worker: str, env: dict[str, str]) -> tuple[int, list[Any], str]:
    command = [sys.executable, "-P", "-m", f"gpudoctor.workers.{worker}", "--seconds", "20"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **env})
    return done.returncode, [read_line(line) for line in done.stdout.splitlines()], done.stderr


WORKERS = ["bench_devices", "bench_memory", "bench_memtest", "bench_gemm"]


@pytest.mark.real("python:cupy")
@pytest.mark.parametrize("worker", WORKERS)
def test_genuine_cupy_tells_what_the_driver_says(worker: str, fake_cuda: FakeCuda) -> None:
    code, lines, stderr = run_worker(worker, fake_cuda.scenario({"init": 802}))
    assert code == 1
    assert lines[0] == Error(
        api="cuda",
        code=802,
        name="cudaErrorSystemNotReady",
        message="system not yet initialized",
        where="counting the CUDA devices",
    )
    assert isinstance(lines[1], End)
    assert not lines[1].complete
    assert len(lines) == 2
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        pytest.param("import no_such_module_at_all", "ModuleNotFoundError", "no_such_module_at_all", id="broken"),
        pytest.param(
            "raise RuntimeError('CuPy\\nis not correctly installed')", "RuntimeError", "correctly", id="raises"
        ),
        pytest.param("raise ImportError('libcudart.so.12: cannot open')", "ImportError", "libcudart", id="library"),
    ],
)
def test_cupy_does_not_load(tmp_path: Path, content: str, name: str, words: str) -> None:
    (tmp_path / "cupy.py").write_text(content)
    code, lines, stderr = run_worker("bench_memory", {"PYTHONPATH": str(tmp_path)})
    assert code == 1
    assert isinstance(lines[0], Error)
    assert (lines[0].api, lines[0].name, lines[0].where) == ("cupy", name, "loading CuPy")
    assert words in lines[0].message
    assert isinstance(lines[-1], End)
    assert "Traceback" not in stderr


class ModuleThatKeeps:
    """In place of a loaded module: keeps what its function is called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def get_function(self, name: str) -> Any:
        return lambda *arguments, **options: self.calls.append((name, arguments, options))


def test_words_are_passed_as_signed_numbers() -> None:
    module = ModuleThatKeeps()
    Kernels(module).launch("f", 2, 64, 0, 2**63 - 1, 2**63, 2**64 - 1, 0.5)
    assert module.calls == [("f", ((2,), (64,), (0, 2**63 - 1, -(2**63), -1, 0.5)), {"shared_mem": 0})]


def parameters_of(function: Any) -> int:
    """How many parameters a Cython function takes, by the first line of its documentation."""
    signature = (function.__doc__ or "").splitlines()[0]
    inside = signature[signature.index("(") + 1 : signature.rindex(")")]
    return len([part for part in inside.split(",") if part.strip()])


@pytest.mark.real("python:cupy")
@pytest.mark.parametrize("name", ["cupy_backends.cuda.api.runtime", "cupy_backends.cuda.libs.nvrtc"])
def test_the_stand_in_has_the_genuine_signatures(name: str) -> None:
    genuine = importlib.import_module(name)
    source = (cuda_on_cpu.SITE / f"{name.replace('.', '/')}.py").read_text()
    compared = 0
    for function, arguments in re.findall(r"^def (\w+)\((.*)\):", source, re.M):
        if hasattr(genuine, function) and "(" in (getattr(genuine, function).__doc__ or ""):
            assert parameters_of(getattr(genuine, function)) == len([a for a in arguments.split(",") if a.strip()]), (
                function
            )
            compared += 1
    assert compared >= 5
