"""Matrix products through cuBLAS, for the gemm test: which precisions there are, and how one product is launched."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from gpudoctor.workers.bench_lines import Error
from gpudoctor.workers.cublas_lt import Fp8
from gpudoctor.workers.cuda_device import Cuda, Pointer
from gpudoctor.workers.cuda_errors import WorkerError

# Types of kernels/gemm.cu.
FP32, FP16, BF16, FP8 = range(4)
# Of library_types.h and cublas_api.h.
_CUDA_TYPES = {FP32: 0, FP16: 2, BF16: 14}
_COMPUTE_32F, _COMPUTE_32F_FAST_TF32 = 68, 77
_TRANSPOSE, _NO_TRANSPOSE = 1, 0
_DEFAULT_ALGORITHM = -1


class Precision(NamedTuple):
    """One way to multiply: the matrices' format and bytes of an element, those of the product, and how products are summed.

    `capability` is the lowest compute capability that has it in hardware, times ten; `unit` is the unit roundoff of the
    product's format; `loose` is what summing in fewer bits may cost, as a part of the sum of magnitudes.
    """

    name: str
    type: int
    bytes: int
    result_type: int
    result_bytes: int
    compute: int
    capability: int
    unit: float
    loose: float = 0.0


PRECISIONS = (
    Precision("fp32", FP32, 4, FP32, 4, _COMPUTE_32F, 0, 2.0**-24),
    Precision("tf32", FP32, 4, FP32, 4, _COMPUTE_32F_FAST_TF32, 80, 2.0**-24),
    Precision("fp16", FP16, 2, FP16, 2, _COMPUTE_32F, 53, 2.0**-11),
    Precision("bf16", BF16, 2, BF16, 2, _COMPUTE_32F, 80, 2.0**-9),
    # Hopper's fast accumulation keeps about 14 bits.
    Precision("fp8", FP8, 1, BF16, 2, _COMPUTE_32F, 89, 2.0**-9, 2.0**-9),
)


class Cublas:
    """cuBLAS with a handle for the current device, on the current stream."""

    def __init__(self, cuda: Cuda, library: Any, handle: int) -> None:
        self._cuda = cuda
        self._library = library
        self._handle = handle
        self._one = ctypes.c_float(1.0)
        self._zero = ctypes.c_float(0.0)
        self._fp8: Fp8 | None = None

    def prepare(self, precision: Precision, n: int) -> None:
        """Before the first product of this size. Raises WorkerError when cuBLASLt is missing or has no fp8."""
        if precision.type == FP8:
            self._fp8 = Fp8(self._cuda, n)

    def close(self) -> None:
        if self._fp8 is not None:
            self._fp8.close()
        self._library.destroy(self._handle)

    def multiply(self, precision: Precision, n: int, left: Pointer, right: Pointer, product: Pointer) -> None:
        """product = left transposed * right, all n by n in cuBLAS's column order. Asynchronous."""
        if precision.type == FP8:
            assert self._fp8 is not None, "prepare was not called"
            self._fp8.multiply(left, right, product)
            return
        cuda_type = _CUDA_TYPES[precision.type]
        self._library.gemmEx(
            self._handle,
            _TRANSPOSE,
            _NO_TRANSPOSE,
            n,
            n,
            n,
            ctypes.addressof(self._one),
            left,
            cuda_type,
            n,
            right,
            cuda_type,
            n,
            ctypes.addressof(self._zero),
            product,
            cuda_type,
            n,
            precision.compute,
            _DEFAULT_ALGORITHM,
        )


@contextlib.contextmanager
def cublas_on(cuda: Cuda) -> Iterator[Cublas]:
    """For the current device. Raises WorkerError when the library cannot be loaded, CuPy's CUBLASError when it fails."""
    try:
        libraries = importlib.import_module("cupy_backends.cuda.libs")
        library = getattr(libraries, "cublas", None)  # since CuPy 14 this also finds libraries in Python packages
        library = library or importlib.import_module("cupy_backends.cuda.libs.cublas")
    except Exception as error:
        text = str(error).strip()[:2000].encode("utf-8", "replace").decode()
        raise WorkerError(
            Error(api="cublas", message=text, name=type(error).__name__, where="loading cuBLAS")
        ) from error
    cublas = Cublas(cuda, library, library.create())
    try:
        yield cublas
    finally:
        with contextlib.suppress(Exception):
            cublas.close()
