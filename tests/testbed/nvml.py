"""A fake libnvidia-ml.so.1, so that nvidia-smi, pynvml and py3nvml run for any GPU and any error."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path

from . import native, scenario_file
from .scenario_file import Scenario

SOURCES = native.HERE / "fake_nvml"

# NVML return codes that tests name.
SUCCESS, NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 0, 3, 4, 9, 12
GPU_IS_LOST, RESET_REQUIRED, OPERATING_SYSTEM, VERSION_MISMATCH, UNKNOWN = 15, 16, 17, 18, 999


@dataclass(frozen=True)
class FakeNvml:
    """The built library, and where scenario files go.

    Scenario keys: count, driver, nvml, cuda, init=CODE, topology[.A-B]=PIX|PXB|PHB|NODE|SYS, p2p[.A-B]=STATUS;
    err.FUNCTION=CODE, wedge.FUNCTION, crash.FUNCTION, delay.FUNCTION=MS (FUNCTION may be "init");
    gpu.KEY for every GPU and gpuN.KEY for one, KEY named as the fact it plays, in the fact's unit: name, bus_id,
    temperature_c, power_w, memory_used_mib, ... (device.c, health.c and links.c list all), and lost, procs, mig_devices.
    What is not said is a healthy, idle A100-SXM4-80GB.
    """

    folder: Path
    scratch: Path
    _numbers: itertools.count[int] = field(default_factory=itertools.count, compare=False, repr=False)

    @property
    def library(self) -> Path:
        return self.folder / "libnvidia-ml.so.1"

    def scenario(self, facts: Scenario | None = None) -> dict[str, str]:
        """The environment under which a program sees these GPUs."""
        path = scenario_file.write(self.scratch / f"nvml-{next(self._numbers)}", facts or {})
        return {"FAKE_NVML": str(path), "LD_LIBRARY_PATH": str(self.folder)}


def build(scratch: Path) -> FakeNvml:
    """Builds the library if need be; scenario files go to `scratch`."""
    # slurmd asks for the name without a version.
    folder = native.build_shared("libnvidia-ml.so.1", sorted(SOURCES.glob("*.c")), links=["libnvidia-ml.so"])
    return FakeNvml(folder, scratch)
