"""Watches all GPUs while something else runs: clocks, power, temperature and link, a line a GPU each round. JSON lines.

`--seconds S` is how long at most; SIGTERM ends it at once. Only cheap getters: what is measured meanwhile must not suffer.
`--hold` prints nothing: it keeps the GPUs open, so that without persistence mode the driver does not start each of them anew
for every process that uses it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

from gpudoctor.workers.nvml_binding import Library, NvmlCode, choose
from gpudoctor.workers.nvml_compound import throttle_mask

EVERY_SECONDS = 0.5
_READINGS: tuple[tuple[str, Callable[[Library, Any], Any]], ...] = (
    ("sm_clock_mhz", lambda nvml, handle: nvml.number("nvmlDeviceGetClockInfo", handle, 1)),
    ("memory_clock_mhz", lambda nvml, handle: nvml.number("nvmlDeviceGetClockInfo", handle, 2)),
    ("temperature_c", lambda nvml, handle: nvml.number("nvmlDeviceGetTemperature", handle, 0)),
    ("power_w", lambda nvml, handle: round(nvml.number("nvmlDeviceGetPowerUsage", handle) / 1000, 1)),
    ("throttle_mask", lambda nvml, handle: throttle_mask(nvml, handle)[0]),
    ("utilization_gpu_pct", lambda nvml, handle: int(nvml.ask("nvmlDeviceGetUtilizationRates", handle).gpu)),
    ("pcie_generation", lambda nvml, handle: nvml.number("nvmlDeviceGetCurrPcieLinkGeneration", handle)),
    ("pcie_width", lambda nvml, handle: nvml.number("nvmlDeviceGetCurrPcieLinkWidth", handle)),
)


def sample(nvml: Library, handle: Any) -> dict[str, Any]:
    """What the GPU answers; a getter that fails is left out."""
    values: dict[str, Any] = {}
    for name, read in _READINGS:
        with contextlib.suppress(NvmlCode):
            values[name] = read(nvml, handle)
    return values


def _handles(nvml: Library) -> list[tuple[int, str, Any]]:
    found: list[tuple[int, str, Any]] = []
    for index in range(int(nvml.ask("nvmlDeviceGetCount"))):
        with contextlib.suppress(NvmlCode):
            handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
            bus_id = nvml.ask("nvmlDeviceGetPciInfo", handle).busId
            found.append((index, bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id), handle))
    return found


def main(arguments: list[str]) -> int:
    seconds = float(arguments[arguments.index("--seconds") + 1]) if "--seconds" in arguments else 60.0
    binding, problems = choose()
    if binding is None:
        print("; ".join(problems), file=sys.stderr)
        return 1
    try:
        binding.module.nvmlInit()
        nvml = Library(binding.module)
        handles = _handles(nvml)
    except (binding.module.NVMLError, NvmlCode) as error:
        print(f"NVML: {error}", file=sys.stderr)
        return 1
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        for index, bdf, handle in [] if "--hold" in arguments else handles:
            line = {"kind": "sample", "index": index, "bdf": bdf, "at": round(passed, 2)}
            sys.stdout.write(json.dumps({**line, "values": sample(nvml, handle)}) + "\n")
        sys.stdout.flush()
        time.sleep(EVERY_SECONDS)
    return 0


def _stop(number: int, frame: FrameType | None) -> None:
    os._exit(0)  # lines are flushed as they are written; a call that hangs in the driver must not hold up the end


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
