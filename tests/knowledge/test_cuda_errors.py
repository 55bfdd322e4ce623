"""Numbers of CUDA errors, in the words in which programs give them."""

import pytest
import re2

from gpudoctor.engine.messages import options
from gpudoctor.engine.required import needs
from gpudoctor.knowledge.cuda_errors import wordings


def found(number: int, line: str) -> bool:
    return re2.compile(wordings([number]), options()).search(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "cuda error 46",
        "CUDA error: 46",
        "CUDA Error (46): somewhere",
        "CUDA error code=46(x) at main.cu:12",
        "CUDA Driver API error 46",
        "Cuda failure 46",
        "cudaError_t: 46",
        "CUresult = 46",
        "cudaGetDeviceCount returned 46",
        "cuInit(0) returned 0x2e",
        "cuCtxCreate failed with error code 46",
        "Check failed: status == cudaSuccess (46 vs. 0)",
        "CUDA initialization failed with error code 46",
        "GPU 3: error code 46",
        "error 46 from cudaStreamCreate",
        "[46] Call to cuCtxSynchronize results in UNKNOWN_CUDA_ERROR",
        "cudaGetLastError() = 46",
        "cudaGetErrorString(46)",
    ],
)
def test_usual_wordings(line: str) -> None:
    assert found(46, line)


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (3, "cuInit() returned 3 with device_count=0"),
        (214, "Driver API error = 0214 from file <main.cpp>, line 88"),
        (719, "Error Code 1: Cuda Runtime (719)"),
        (803, "Couldn't init CUDA: 803"),
        (999, "OptiX error: CUDA ret=999"),
        (216, "cuDevicePrimaryCtxRetain -> 216"),
        (2, "cudaMalloc failed (2)"),
        (999, "CUDA error DRIVER: '999' in func 'run' line 978"),
        (
            800,
            "Error while calling cudaStreamCreate(&stream) in file gpu_data.cpp:231. code: 800, reason: operation not permitted",
        ),
    ],
)
def test_other_wordings(number: int, line: str) -> None:
    assert found(number, line)


@pytest.mark.parametrize(
    ("number", "line"),
    [
        (46, "CUDA error at kernel.cu:46"),
        (46, "CUDA error in line 46 : out of memory"),
        (46, "cuDNN error 46"),
        (46, "CUDA error 460"),
        (46, "cudaMalloc failed: 46.5 GB"),
        (46, "curl returned 46"),
        (2, "CUDA error: 2 GPUs found"),
        (2, "cudaGetDeviceCount returned 2"),
        (2, "make: *** [cuda.cu.o] Error 2"),
        (2, "command '/usr/local/cuda/bin/nvcc' failed with exit code 2"),
        (401, "HTTP Error 401: https://mirror.example/cuda/repos"),
    ],
)
def test_other_numbers(number: int, line: str) -> None:
    assert not found(number, line)


def test_a_line_can_be_passed_over_without_the_pattern() -> None:
    assert needs(wordings([2, 46])).words is not None
