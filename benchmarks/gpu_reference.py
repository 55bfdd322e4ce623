"""Other ways to measure a copy within one GPU's memory, in one process: prints GB/s, read plus written, as JSON.

CuPy's own copy of an array; and nvbandwidth's two methods: the copy engine (16 copies in a row between two events) and the
multiprocessors (one block each, twelve 16-byte loads of a thread in flight). What was copied is compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from gpudoctor.workers.cuda_device import Cuda, Kernels, compile_for, summary

MIB = 1 << 20
SAMPLES = 9
SOURCE = r"""
struct alignas(16) Vector { unsigned long long low, high; };

extern "C" __global__ void fill(unsigned long long* words, unsigned long long count) {
    const unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads)
        words[i] = (i + 1) * 0x9e3779b97f4a7c15ull;
}

extern "C" __global__ void compare(const unsigned long long* a, const unsigned long long* b, unsigned long long count,
                                   unsigned long long* wrong) {
    const unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    for (unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads)
        if (a[i] != b[i]) *wrong = 1;
}

extern "C" __global__ void copy(const Vector* from, Vector* to, unsigned long long count) {
    const unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long at = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; at + 11 * threads < count; at += 12 * threads) {
        Vector held[12];
#pragma unroll
        for (int i = 0; i < 12; ++i) held[i] = from[at + i * threads];
#pragma unroll
        for (int i = 0; i < 12; ++i) to[at + i * threads] = held[i];
    }
    for (; at < count; at += threads) to[at] = from[at];
}
"""
Json = dict[str, Any]


def reference(ordinal: int) -> Json:
    """Each method's figure and whether its copy was right; a method that fails has its error instead."""
    cuda = Cuda()
    device = cuda.describe(ordinal)
    cuda.open_device(ordinal)
    module = cuda.function.Module()
    module.load(compile_for(SOURCE, device.compute_capability or "", "gpu_reference.cu"))
    kernels = Kernels(module)
    blocks = device.multiprocessors or 1
    size = max(MIB, min(1024 * MIB, cuda.free_bytes() // 4 // MIB * MIB))
    found: Json = {"size_bytes": size, "cupy": cuda.version, "cuda": cuda.versions()}
    with cuda.memory(size) as source, cuda.memory(size) as target, cuda.memory(16) as wrong:

        def engine() -> None:
            cuda.runtime.memcpyAsync(target, source, size, cuda.runtime.memcpyDeviceToDevice, 0)

        def multiprocessors() -> None:
            kernels.launch("copy", blocks, 512, source, target, size // 16)

        for name, work, loops in (
            ("framework_copy", lambda: _framework(cuda, source, target, size), 1),
            ("nvbandwidth_ce", engine, 16),
            ("nvbandwidth_sm", multiprocessors, 16),
        ):
            kernels.launch("fill", blocks * 8, 256, source, size // 8)
            cuda.fill(target, 0, size)
            cuda.fill(wrong, 0, 16)
            try:
                milliseconds = _median(cuda, work, loops)
                kernels.launch("compare", blocks * 8, 256, source, target, size // 8, wrong)
                found[f"{name}_right"] = not any(cuda.to_host(wrong, 8))
                found[name] = round(2 * size / (milliseconds * 1e6), 2)
            except Exception as error:
                found[f"{name}_error"] = f"{type(error).__name__}: {error}"[:300]
    return found


def _framework(cuda: Cuda, source: int, target: int, size: int) -> None:
    """CuPy copies one array into another."""
    cupy = cuda.cupy

    def array(pointer: int) -> Any:
        memory = cupy.cuda.UnownedMemory(pointer, size, cuda)
        return cupy.ndarray((size // 8,), dtype="uint64", memptr=cupy.cuda.MemoryPointer(memory, 0))

    cupy.copyto(array(target), array(source))


def _median(cuda: Cuda, work: Callable[[], None], loops: int) -> float:
    """Milliseconds of one copy: the median over samples of `loops` in a row, after a warm-up."""

    def run() -> None:
        for _ in range(loops):
            work()

    work()
    return summary([cuda.timed(run) for _ in range(SAMPLES)], loops).median_ms


if __name__ == "__main__":
    print(json.dumps(reference(int(sys.argv[1]) if len(sys.argv) > 1 else 0)))
