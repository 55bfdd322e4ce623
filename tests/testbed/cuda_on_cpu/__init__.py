"""Runs this project's kernels, and the workers that launch them, on the CPU.

`kernels` compiles a .cu file with g++ and the thread shim (shim.h). `run` starts a worker with `site/` in front of its path:
a stand-in for CuPy whose "GPU" is an arena of memory, with faults planted where the scenario says (site/cupy/__init__.py).
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpudoctor.workers.bench_lines import End, Error, Fault, Figure, Line, Note, Start, read_line
from gpudoctor.workers.cuda_device import kernel_source
from tests.testbed import native

SITE = Path(__file__).parent / "site"


@cache
def _compiler() -> Any:
    path = SITE / "cupy_backends" / "cuda" / "libs" / "nvrtc.py"
    spec = importlib.util.spec_from_file_location("nvrtc_on_cpu", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class CpuKernels:
    """A compiled .cu file. Arguments are numbers, or ctypes and NumPy arrays, whose addresses are passed."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def launch(self, name: str, blocks: int, threads: int, *arguments: Any) -> None:
        values = (ctypes.c_uint64 * 12)(*(_number(argument) for argument in arguments))
        kernel = ctypes.cast(getattr(self._library, name), ctypes.c_void_p)
        together = ctypes.c_uint(_compiler().together(self._library._name, name))
        self._library.shim_launch(kernel, ctypes.c_uint(blocks), ctypes.c_uint(threads), together, values)


def _number(argument: Any) -> int:
    if isinstance(argument, int):
        return argument & (2**64 - 1)
    return int(argument.ctypes.data) if hasattr(argument, "ctypes") else ctypes.addressof(argument)


@cache
def kernels(file_name: str, *options: str) -> CpuKernels:
    """Compiles a file of workers/kernels/; options as for NVRTC (-DNAME=VALUE)."""
    nvrtc = _compiler()
    program = nvrtc.createProgram(kernel_source(file_name), file_name, (), ())
    try:
        nvrtc.compileProgram(program, options)
    except nvrtc.NVRTCError:
        raise AssertionError(nvrtc.getProgramLog(program)) from None
    return CpuKernels(ctypes.CDLL(nvrtc.getCUBIN(program).decode()))


@dataclass(frozen=True)
class Ran:
    """What a worker printed, and how it ended."""

    code: int
    lines: list[Line]
    stdout: str
    stderr: str

    def _only(self, kind: type[Any]) -> list[Any]:
        return [line for line in self.lines if isinstance(line, kind)]

    @property
    def start(self) -> Start:
        (line,) = self._only(Start)
        assert isinstance(line, Start)
        return line

    @property
    def figures(self) -> list[Figure]:
        return self._only(Figure)

    @property
    def faults(self) -> list[Fault]:
        return self._only(Fault)

    @property
    def notes(self) -> list[Note]:
        return self._only(Note)

    @property
    def errors(self) -> list[Error]:
        return self._only(Error)

    @property
    def end(self) -> End:
        line = self.lines[-1]
        assert isinstance(line, End), self.stdout + self.stderr
        return line


def environment(scenario: dict[str, Any] | None = None) -> dict[str, str]:
    """For a worker that should see the stand-in."""
    return {
        **os.environ,
        "PYTHONPATH": f"{SITE}:{os.environ.get('PYTHONPATH', '')}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUDA_ON_CPU": json.dumps(scenario or {}),
    }


@cache
def cublas_lt() -> dict[str, str]:
    """The environment in which cuBLASLt's stand-in is found."""
    source = Path(__file__).parent / "cublas_lt.cpp"
    folder = native.cache_folder() / f"cublas-lt-{hashlib.sha256(source.read_bytes()).hexdigest()[:16]}"
    library = folder / "libcublasLt.so.12"
    if not library.exists():
        folder.mkdir(exist_ok=True)
        made = folder / f"{os.getpid()}.so"
        command = ["g++", "-std=c++20", "-O2", "-shared", "-fPIC", "-Wall", "-Werror", "-o", str(made), str(source)]
        subprocess.run(command, check=True)
        made.replace(library)
    return {"LD_LIBRARY_PATH": str(folder)}


def start(worker: str, *arguments: str, env: dict[str, str]) -> subprocess.Popen[str]:
    """A worker as the sources run it."""
    command = [sys.executable, "-P", "-m", f"gpudoctor.workers.{worker}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def finish(process: subprocess.Popen[str], read_before: str = "") -> Ran:
    """Waits for a worker that `start` began."""
    stdout, stderr = process.communicate(timeout=120)
    stdout = read_before + stdout
    lines = [line for text in stdout.splitlines() if (line := read_line(text)) is not None]
    return Ran(process.returncode, lines, stdout, stderr)


def run(
    worker: str, *arguments: str, scenario: dict[str, Any] | None = None, more: dict[str, str] | None = None
) -> Ran:
    """Runs a worker on the stand-in to its end; `more` goes into its environment."""
    return finish(start(worker, *arguments, env={**environment(scenario), **(more or {})}))
