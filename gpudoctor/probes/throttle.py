"""Why the clocks are held down, by one name each, whatever NVML's mask or nvidia-smi's label is called this year."""

from __future__ import annotations

# nvmlClocksEventReason* bits. The old mask values 0x200 and 0x400 are not given by any call of today.
_BITS = (
    (0x1, "idle"),
    (0x2, "app_clocks"),
    (0x4, "sw_power_cap"),
    (0x8, "hw_slowdown"),
    (0x10, "sync_boost"),
    (0x20, "sw_thermal"),
    (0x40, "hw_thermal"),
    (0x80, "hw_power_brake"),
    (0x100, "display"),
)

# Label of `nvidia-smi -q` or tag of its XML (without its prefix), lower case, words joined with one blank.
_LABELS = {
    "idle": "idle",
    "gpu idle": "idle",
    "applications clocks setting": "app_clocks",
    "application clocks setting": "app_clocks",
    "sw power cap": "sw_power_cap",
    "hw slowdown": "hw_slowdown",
    "hw thermal slowdown": "hw_thermal",
    "hw power brake slowdown": "hw_power_brake",
    "hw power brake": "hw_power_brake",
    "sync boost": "sync_boost",
    "sw thermal slowdown": "sw_thermal",
    "display clock setting": "display",
    "display clocks setting": "display",
}


def reasons_of_mask(mask: int) -> list[str]:
    """The reasons whose bit is set."""
    return [name for bit, name in _BITS if mask & bit]


def reason_of_label(label: str) -> str | None:
    """The reason that a label names: "HW Thermal Slowdown" is hw_thermal."""
    return _LABELS.get(" ".join(label.lower().replace("_", " ").split()))
