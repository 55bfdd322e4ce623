"""What NVML's mask on a GPU's place in the NVLink fabric says."""

from __future__ import annotations

# Fields of nvmlGpuFabricInfo's health mask: name, shift, bits, the values that are bad.
_HEALTH_FIELDS = (
    ("degraded_bandwidth", 0, 0x3, (1,)),
    ("route_recovery_in_progress", 2, 0x3, (1,)),
    ("route_unhealthy", 4, 0x3, (1,)),
    ("access_timeout_recovery", 6, 0x3, (1,)),
    ("incorrect_configuration", 8, 0xF, (2, 3, 4, 5, 6, 7, 8)),
    ("no_partition", 12, 0x3, (2,)),
    ("fabric_manager_disconnected", 14, 0x3, (2,)),
)


def health_of_mask(mask: int) -> str | None:
    """healthy, or the names of what is bad, joined with commas. None: the mask (0) says nothing."""
    if mask == 0:
        return None
    bad = [name for name, shift, bits, values in _HEALTH_FIELDS if (mask >> shift & bits) in values]
    return ", ".join(bad) or "healthy"
