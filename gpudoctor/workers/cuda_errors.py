"""Turns the exceptions of CuPy and of CUDA's libraries into `error` lines: the code, its name, and the API's own words."""

from __future__ import annotations

import re
import sys
import traceback

from gpudoctor.workers.bench_lines import Error

OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
MESSAGE_LIMIT = 2000

# Exception classes are told by name: loading CuPy's modules to compare with them may itself fail.
_STATUS_CLASSES = {
    "CUDARuntimeError": "cuda",
    "CUDADriverError": "cuda",
    "NVRTCError": "nvrtc",
    "CUBLASError": "cublas",
    "NcclError": "nccl",
}
_LIBRARIES = {"libcublas": "cublas", "libnvrtc": "nvrtc", "libnccl": "nccl", "libcuda.so": "cuda"}
_NAMED = re.compile(r"(?P<name>[A-Za-z_]\w*)(?: \((?P<code>-?\d+)\))?(?:: (?P<message>.*))?", re.S)


class WorkerError(Exception):
    """Something a worker finds out by itself and cannot go on with; `line` is what it prints."""

    def __init__(self, line: Error) -> None:
        super().__init__(line.message)
        self.line = line


def as_error(error: BaseException, where: str, device: int | None = None) -> Error:
    """What a worker prints for `error`, met while doing `where`. Names are CUDA's own: cudaErrorSystemNotReady, ..."""
    if isinstance(error, WorkerError):
        line = error.line
        place = {"where": line.where or where, "device": device if line.device is None else line.device}
        return Error(api=line.api, message=line.message, code=line.code, name=line.name, **place)  # type: ignore[arg-type]
    kind = type(error).__name__
    # A path in it may hold bytes that are no text.
    text = str(error).strip()[:MESSAGE_LIMIT].encode("utf-8", "replace").decode() or kind
    if kind in _STATUS_CLASSES:
        status = getattr(error, "status", None)
        named = _NAMED.fullmatch(text)
        return Error(
            api=_STATUS_CLASSES[kind],
            code=status if isinstance(status, int) else int(named["code"]) if named and named["code"] else None,
            name=named["name"] if named else None,
            message=(named["message"] if named else None) or text,
            where=where,
            device=device,
        )
    if kind == "OutOfMemoryError":  # of CuPy's memory pool, which hides the code
        return _line("cuda", text, where, device, name="cudaErrorMemoryAllocation", code=OUT_OF_MEMORY)
    if kind == "CompileException":
        return _line("nvrtc", text, where, device, name="NVRTC_ERROR_COMPILATION", code=6)
    library = next((api for name, api in _LIBRARIES.items() if name in text), None)
    if kind == "DynamicLibNotFoundError" or (isinstance(error, ImportError | OSError | RuntimeError) and library):
        return _line(library or "cupy", text, where, device, name=kind)
    if isinstance(error, ImportError):
        return _line("cupy", text, where, device, name=kind)
    if isinstance(error, MemoryError):
        return _line("worker", "the machine has no memory left for this test", where, device, name=kind)
    return _line("worker", text, f"{where} ({_place(error)})", device, name=kind)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the GPU had no room: the test may be tried again, smaller."""
    line = as_error(error, "")
    return line.api == "cuda" and line.code == OUT_OF_MEMORY


def is_expected(error: BaseException) -> bool:
    """Whether `error` is one that a machine, rather than a mistake in this program, causes."""
    return as_error(error, "").api != "worker" or isinstance(error, MemoryError | WorkerError)


def show_traceback(error: BaseException) -> None:
    """For a mistake of our own, on stderr."""
    traceback.print_exception(error, file=sys.stderr)


def _line(
    api: str, message: str, where: str, device: int | None, *, name: str | None, code: int | None = None
) -> Error:
    return Error(api=api, message=message, code=code, name=name, where=where, device=device)


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return "unknown place"
    return f"{frames[-1].filename.rsplit('/', 1)[-1]}:{frames[-1].lineno}"
