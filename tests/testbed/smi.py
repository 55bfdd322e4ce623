"""The genuine nvidia-smi, of several generations, on the fake NVML."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import real_parts
from .nvml import FakeNvml
from .scenario_file import Scenario

# Driver and CUDA version that belong to the binary.
_VERSIONS: dict[str, Scenario] = {
    "470": {"driver": "470.256.02", "nvml": "11.470.256.02", "cuda": 11040},
    "535": {"driver": "535.309.01", "nvml": "12.535.309.01", "cuda": 12020},
    "550": {"driver": "550.163.01", "nvml": "12.550.163.01", "cuda": 12040},
}


@dataclass(frozen=True)
class GenuineSmi:
    generation: str
    fake: FakeNvml

    @property
    def path(self) -> Path:
        return real_parts.smi_path(self.generation)

    def environment(self, scenario: Scenario | None = None) -> dict[str, str]:
        """What a program needs so that the nvidia-smi on its PATH is this one, with these GPUs."""
        fakes = self.fake.scenario({**_VERSIONS[self.generation], **(scenario or {})})
        return {**fakes, "PATH": f"{self.path.parent}:{os.environ.get('PATH', '/usr/bin:/bin')}"}

    def run(self, *arguments: str, scenario: Scenario | None = None) -> subprocess.CompletedProcess[str]:
        """Raises TimeoutExpired after 20 s (a scenario that wedges)."""
        environment = {**os.environ, **self.environment(scenario), "LC_ALL": "C"}
        command = [str(self.path), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
