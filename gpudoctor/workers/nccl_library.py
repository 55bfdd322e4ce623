"""NCCL through CuPy: loading it, which version it is, and the last words of its log."""

from __future__ import annotations

import importlib
import os
import re
import socket
import sys
import warnings
from typing import Any

from gpudoctor.workers.bench_lines import Error
from gpudoctor.workers.cuda_device import Cuda
from gpudoctor.workers.cuda_errors import WorkerError, as_error

OLDEST = 20700  # send and receive came with 2.7
_LOG_TAIL = 64 << 10
_LEVELS = {"WARN", "INFO", "ABORT", "TRACE"}
_WARNING = re.compile(r"NCCL WARN (.*)")
# ncclResult_t; CuPy's own table ends before the last ones.
_CODES = {6: "NCCL_ERROR_REMOTE_ERROR", 7: "NCCL_ERROR_IN_PROGRESS"}


def version_text(code: int) -> str:
    """23203 -> 2.32.3; up to 2.8 the digits were fewer: 2708 -> 2.7.8."""
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def comparable(code: int) -> int:
    """The version as 2.9 and later write it."""
    return code if code >= 10000 else code // 1000 * 10000 + code // 100 % 10 * 100 + code % 100


class Log:
    """NCCL's log, kept in memory; must be made before NCCL is loaded, which reads the variables once."""

    def __init__(self) -> None:
        self._file = os.memfd_create("nccl-log")
        if os.environ.get("NCCL_DEBUG", "").upper() not in _LEVELS:
            os.environ["NCCL_DEBUG"] = "WARN"
        os.environ["NCCL_DEBUG_FILE"] = f"/proc/self/fd/{self._file}"

    def text(self) -> str:
        """Its end, at most 64 KiB."""
        size = os.fstat(self._file).st_size
        return os.pread(self._file, _LOG_TAIL, max(0, size - _LOG_TAIL)).decode("utf-8", "replace")

    def to_stderr(self) -> None:
        sys.stderr.write(self.text())
        sys.stderr.flush()


def last_words(log: str, most: int = 3) -> list[str]:
    """The last warnings of an NCCL log, without repetitions, oldest first."""
    words: list[str] = []
    for found in _WARNING.findall(log):
        text = found.strip()
        if text in words:
            words.remove(text)
        words.append(text)
    return words[-most:]


def load(cuda: Cuda) -> tuple[Any, int]:
    """CuPy's NCCL module and NCCL's version code. Raises WorkerError: not installed, too old, damaged."""
    where = "loading NCCL"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy warns in its own words
        nccl: Any = importlib.import_module("cupy.cuda.nccl")
    if not getattr(nccl, "available", False):
        try:
            importlib.import_module("cupy_backends.cuda.libs.nccl")
            reason = "CuPy finds no NCCL"
        except ImportError as error:
            reason = str(error)
        raise WorkerError(_unavailable(reason, cuda.versions()[0], where))
    try:
        code = int(nccl.get_version())
    except Exception as error:
        raise WorkerError(as_error(error, where)) from error
    if comparable(code) < OLDEST:
        words = f"NCCL {version_text(code)} is too old for this test: {_install(cuda.versions()[0], upgrade=True)}"
        raise WorkerError(Error(api="nccl", message=words, name="NcclTooOld", where=where))
    return nccl, code


def version_of(cuda: Cuda) -> str | None:
    """For the `start` line; None when NCCL does not load, which the test says itself."""
    try:
        return version_text(load(cuda)[1])
    except Exception:
        return None


def loopback_in(unique_id: bytes) -> str | None:
    """The loopback address at which NCCL waits for the other ranks, when it is one: other hosts cannot reach it.

    The id begins with a random number of 8 bytes and the address as the C library keeps it (bootstrap.h, ncclSocket).
    """
    family = int.from_bytes(unique_id[8:10], "little")
    if family == socket.AF_INET and unique_id[12] == 127:
        return socket.inet_ntop(socket.AF_INET, unique_id[12:16])
    if family == socket.AF_INET6 and unique_id[16:32] == bytes(15) + b"\1":
        return "::1"
    return None


def with_last_words(error: BaseException, where: str, log: Log, device: int | None = None) -> Error:
    """An `error` line with what NCCL warned of."""
    if isinstance(error, KeyError) and error.args and error.args[0] in _CODES:
        code = int(error.args[0])
        line = Error(
            api="nccl", message="remote process exited or there was a network error", code=code, name=_CODES[code]
        )
    else:
        line = as_error(error, where, device)
    if line.api not in ("nccl", "cuda"):
        return line
    words = [text for text in last_words(log.text()) if text not in line.message]
    message = line.message + "".join(f"\nNCCL WARN {text}" for text in words)
    return Error(
        api=line.api,
        message=message[:2000],
        code=line.code,
        name=line.name,
        where=line.where or where,
        device=line.device,
    )


def _unavailable(reason: str, runtime: int | None, where: str) -> Error:
    if "undefined symbol" in reason:
        words = f"the NCCL that is installed does not fit this CuPy: {reason}; {_install(runtime, upgrade=True)}"
        return Error(api="nccl", message=words, name="NcclTooOld", where=where)
    words = f"NCCL cannot be loaded: {reason}; {_install(runtime, upgrade=False)}"
    return Error(api="nccl", message=words, name="ImportError", where=where)


def _install(runtime: int | None, *, upgrade: bool) -> str:
    option = "-U " if upgrade else ""
    return f"install it with: pip install {option}nvidia-nccl-cu{(runtime or 12000) // 1000}"
