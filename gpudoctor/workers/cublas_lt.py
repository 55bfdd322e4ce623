"""Matrix products in fp8 (E4M3), which only cuBLASLt has; CuPy has no binding for it, so its C functions are called here.

Numbers and structures are those of cublasLt.h and library_types.h, the same since CUDA 11.8.
"""

from __future__ import annotations

import ctypes
from typing import Any

from gpudoctor.workers.bench_lines import Error
from gpudoctor.workers.cuda_device import Cuda, Pointer
from gpudoctor.workers.cuda_errors import WorkerError

_SONAMES = ("libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so.11")
_WORKSPACE = 32 << 20
_R_32F, _R_16BF, _R_8F_E4M3 = 0, 14, 28
_COMPUTE_32F = 68
_TRANSPOSE = 1
_DESC_TRANSA, _DESC_FAST_ACCUM = 3, 25
_PREF_MAX_WORKSPACE_BYTES = 1


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t, with the opaque algorithm in front."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def load() -> ctypes.CDLL:
    """The library that cuBLAS has already brought in. Raises WorkerError."""
    for name in _SONAMES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    raise WorkerError(Error(api="cublas", message=str(last), name="OSError", where="loading cuBLASLt"))


class Lt:
    """Descriptions of one n by n product, made without a GPU. `close` frees them."""

    def __init__(self, library: ctypes.CDLL, n: int) -> None:
        self.library = library
        self._made: list[tuple[str, ctypes.c_void_p]] = []
        self.operation = self._make("cublasLtMatmulDesc", ctypes.c_int(_COMPUTE_32F), ctypes.c_int(_R_32F))
        # fp8 products need the left matrix transposed. Fast accumulation is what training uses, and what peaks are quoted for.
        self._set("cublasLtMatmulDesc", self.operation, _DESC_TRANSA, ctypes.c_int32(_TRANSPOSE))
        self._set("cublasLtMatmulDesc", self.operation, _DESC_FAST_ACCUM, ctypes.c_int8(1))
        size = (ctypes.c_uint64(n), ctypes.c_uint64(n), ctypes.c_int64(n))
        self.factor = self._make("cublasLtMatrixLayout", ctypes.c_int(_R_8F_E4M3), *size)
        self.product = self._make("cublasLtMatrixLayout", ctypes.c_int(_R_16BF), *size)
        self.preference = self._make("cublasLtMatmulPreference")
        self._set("cublasLtMatmulPreference", self.preference, _PREF_MAX_WORKSPACE_BYTES, ctypes.c_size_t(_WORKSPACE))

    def call(self, name: str, *arguments: Any) -> None:
        """Raises WorkerError with the name of cuBLAS's status."""
        status = int(getattr(self.library, name)(*arguments))
        if status == 0:
            return
        word = f"status {status}"
        if hasattr(self.library, "cublasLtGetStatusName"):
            self.library.cublasLtGetStatusName.restype = ctypes.c_char_p
            word = (self.library.cublasLtGetStatusName(status) or b"").decode() or word
        raise WorkerError(Error(api="cublas", code=status, name=word, message=f"{name}: {word}"))

    def _make(self, kind: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(f"{kind}Create", ctypes.byref(made), *arguments)
        self._made.append((kind, made))
        return made

    def _set(self, kind: str, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self.call(f"{kind}SetAttribute", of, ctypes.c_int(attribute), ctypes.byref(value), size)

    def close(self) -> None:
        while self._made:
            kind, made = self._made.pop()
            getattr(self.library, f"{kind}Destroy")(made)


class Fp8:
    """fp8 products of n by n matrices on the current device, on the default stream. Raises WorkerError."""

    def __init__(self, cuda: Cuda, n: int) -> None:
        self._cuda = cuda
        self._lt = Lt(load(), n)
        self._handle = ctypes.c_void_p()
        self._workspace: Pointer = 0
        self._one, self._zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        self._found = _Heuristic()
        self._lt.call("cublasLtCreate", ctypes.byref(self._handle))
        lt, count = self._lt, ctypes.c_int()
        layouts = (lt.factor, lt.factor, lt.product, lt.product)
        lt.call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._handle,
            lt.operation,
            *layouts,
            lt.preference,
            ctypes.c_int(1),
            ctypes.byref(self._found),
            ctypes.byref(count),
        )
        if count.value == 0:
            raise WorkerError(
                Error(api="cublas", code=15, name="CUBLAS_STATUS_NOT_SUPPORTED", message="no algorithm")
            )
        self._workspace = int(cuda.runtime.malloc(_WORKSPACE))

    def multiply(self, left: Pointer, right: Pointer, product: Pointer) -> None:
        """product = left transposed * right, in column order; the product is bf16. Asynchronous."""
        lt = self._lt
        result = ctypes.c_void_p(product)
        lt.call(
            "cublasLtMatmul",
            self._handle,
            lt.operation,
            ctypes.byref(self._one),
            ctypes.c_void_p(left),
            lt.factor,
            ctypes.c_void_p(right),
            lt.factor,
            ctypes.byref(self._zero),
            result,
            lt.product,
            result,
            lt.product,
            ctypes.byref(self._found),
            ctypes.c_void_p(self._workspace),
            ctypes.c_size_t(_WORKSPACE),
            ctypes.c_void_p(0),
        )

    def close(self) -> None:
        self._lt.close()
        if self._handle:
            self._lt.library.cublasLtDestroy(self._handle)
        if self._workspace:
            self._cuda.runtime.free(self._workspace)
