"""NCCL as CuPy shows it: the stand-in, or with NCCL_ON_CPU=genuine the real library, which will find no GPUs."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path

available = True

if os.environ.get("NCCL_ON_CPU") == "genuine":

    def _load(name: str) -> None:
        """The genuine extension module `name`, though a package of that name comes first in the path."""
        relative = Path(*name.split("."))
        for folder in sys.path:
            for suffix in importlib.machinery.EXTENSION_SUFFIXES:
                file = Path(folder, f"{relative}{suffix}")
                if file.exists():
                    spec = importlib.util.spec_from_file_location(name, file)
                    assert spec is not None
                    assert spec.loader is not None
                    sys.modules[name] = module = importlib.util.module_from_spec(spec)
                    spec.loader.exec_module(module)
                    return
        raise ImportError(name)

    _stand_in = sys.modules["cupy_backends.cuda.api.runtime"]
    _load("cupy_backends.cuda.api.runtime")  # whose C functions NCCL's module asks for while it loads
    from cuda.pathfinder import load_nvidia_dynamic_lib

    load_nvidia_dynamic_lib("nccl")
    _load("cupy_backends.cuda.libs.nccl")
    sys.modules["cupy_backends.cuda.api.runtime"] = _stand_in
from cupy_backends.cuda.libs.nccl import *  # noqa: E402, F403
