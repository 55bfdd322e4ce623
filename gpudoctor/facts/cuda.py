"""CUDA libraries and the frameworks that use them."""

from gpudoctor.facts.base import Fact


class Library(Fact, frozen=True, kw_only=True):
    name: str  # libcuda, libcudart, libcudnn, libnccl, libcublas, ...
    version: str | None = None
    path: str | None = None
    size_bytes: int | None = None


class Cuda(Fact, frozen=True, kw_only=True):
    driver_cuda_version: str | None = None  # highest CUDA version this driver runs, "12.2"
    toolkits: list[str] | None = None  # installed toolkit versions
    nvcc_version: str | None = None
    libraries: list[Library] | None = None
    compat_package: str | None = None  # version of cuda-compat found
    env: dict[str, str] | None = None  # CUDA_*, NVIDIA_*, LD_LIBRARY_PATH, NCCL_* of this process
    visible_devices: str | None = None  # CUDA_VISIBLE_DEVICES
    error_code: int | None = None  # CUresult / cudaError number seen
    error_name: str | None = None


class Framework(Fact, frozen=True, kw_only=True):
    name: str  # torch, tensorflow, jax, cupy, ...
    version: str | None = None
    cuda_build: str | None = None  # "12.1"; "" for a CPU-only build
    cudnn_version: str | None = None
    nccl_version: str | None = None
    arch_list: list[str] | None = None  # sm_70, ...
    cuda_available: bool | None = None
    debug_build: bool | None = None
