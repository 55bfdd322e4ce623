"""Which environment variables may be read: those that steer GPU work, and nothing else (environments hold secrets)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpudoctor.lazy import Lazy

_ALLOWED = Lazy(
    r"""(?:
      (?:CUDA|NVIDIA|NV|NVCC|NCCL|TORCH|TORCHELASTIC|PYTORCH|XLA|JAX|TF|UCX|GLOO|FI|RCCL|CUDNN|CUBLAS|CUPY|NUMBA|OMPI|HOROVOD|KMP|MKL|OMP|NUMEXPR
        |TRITON|NVSHMEM|NVTE|LIBCUDA|DCGM|OPENBLAS|PMIX|PMI|MPI|VLLM|CUFFT|NVIDIATF)_[A-Z0-9_]+
      | LD_LIBRARY_PATH | LD_PRELOAD | LIBRARY_PATH | PATH | HOME | container | VIRTUAL_ENV | CONDA_PREFIX | CONDA_DEFAULT_ENV | PYTHONPATH
      | MASTER_ADDR | MASTER_PORT | RANK | WORLD_SIZE | LOCAL_RANK | LOCAL_WORLD_SIZE | NODE_RANK | GROUP_RANK
      | GPU_DEVICE_ORDINAL | ROCR_VISIBLE_DEVICES | HIP_VISIBLE_DEVICES | KUBERNETES_SERVICE_HOST | WSL_DISTRO_NAME | WSL_INTEROP
      | SLURM_(?:JOB_ID|JOB_GPUS|STEP_GPUS|STEP_NUM_TASKS|STEP_NODELIST|STEP_TASKS_PER_NODE|GPUS\w*|GRES|JOB_NODELIST|NODELIST|NNODES|NTASKS\w*|NPROCS|PROCID|LOCALID|NODEID
        |CPUS_PER_TASK|CPUS_ON_NODE|JOB_CPUS_PER_NODE|MEM_PER_\w+|TRES_PER_TASK|GPU_BIND|CPU_BIND\w*|JOB_PARTITION)
      | COMPUTE_PROFILE | OPENCL_PROFILE | NSIGHT_CUDA_DEBUGGER
      | XDG_SESSION_TYPE | DOCKER_HOST | KUBECONFIG | __GLX_VENDOR_LIBRARY_NAME | __NV_PRIME_RENDER_OFFLOAD
    )\Z""",
    re.VERBOSE,
)


def is_gpu_related(name: str) -> bool:
    """Whether this variable's value may be read and recorded."""
    return _ALLOWED.match(name) is not None


def gpu_related(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that may be recorded, sorted by name."""
    return {name: environment[name] for name in sorted(environment) if is_gpu_related(name)}
