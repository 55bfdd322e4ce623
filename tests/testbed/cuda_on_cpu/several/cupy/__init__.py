"""Stands in for CuPy on a machine without GPUs, like ../site, but with several GPUs, each a piece of host memory of its own,
links between them, and NCCL. What the scenario may say is in cupy_backends/cuda/api/state.py."""

from cupy import cuda as cuda

__version__ = "14.0.0"
