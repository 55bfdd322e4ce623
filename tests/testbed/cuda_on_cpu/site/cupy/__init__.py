"""Stands in for CuPy on a machine without a GPU: the few low-level calls that the workers use, with the same signatures.

Kernels are compiled by g++ with the thread shim and run on the CPU, in an arena that plays the GPU's memory.
CUDA_ON_CPU is a JSON object: memory_mib, name, compute_capability, count, integrated, no_room_above (a malloc of more bytes fails),
stuck ([[offset, and_mask, or_mask], ...] on bytes), alias ([[offset, offset], ...] of 8-byte words that share a cell),
fail ({"function": code} of runtime functions), dies_after_launches (from then on every call gives an uncorrectable ECC
error), slow_ms (what a launch takes longer).
"""

from cupy import cuda as cuda

__version__ = "14.0.0"
