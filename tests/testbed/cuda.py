"""A fake libcuda.so.1: cuInit and device queries answer what a scenario says; no kernel runs."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from . import native, scenario_file
from .scenario_file import Scenario

SOURCES = native.HERE / "fake_cuda"


@dataclass(frozen=True)
class FakeCuda:
    """Scenario keys: init=CURESULT, driver=12020, count, gpu.name, gpu.compute_capability, gpu.memory_total_mib."""

    folder: Path
    scratch: Path
    _numbers: itertools.count[int] = field(default_factory=itertools.count, compare=False, repr=False)

    def scenario(self, facts: Scenario | None = None) -> dict[str, str]:
        """The environment under which a program sees this CUDA driver."""
        path = scenario_file.write(self.scratch / f"cuda-{next(self._numbers)}", facts or {})
        return {"FAKE_CUDA": str(path), "LD_LIBRARY_PATH": str(self.folder)}


def build(scratch: Path) -> FakeCuda:
    """Builds the library if need be; scenario files go to `scratch`."""
    sources = [*sorted(SOURCES.glob("*.c")), native.HERE / "fake_nvml" / "scenario.c"]
    return FakeCuda(native.build_shared("libcuda.so.1", sources, links=["libcuda.so"]), scratch)


def join(*environments: dict[str, str]) -> dict[str, str]:
    """One environment with several fakes: library folders are put one after the other."""
    joined: dict[str, str] = {}
    for environment in environments:
        for key, value in environment.items():
            both = key in {"LD_LIBRARY_PATH", "LD_PRELOAD"} and key in joined
            joined[key] = f"{joined[key]}:{value}" if both else value
    return joined
