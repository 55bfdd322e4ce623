"""NVML return codes by number and name, and which of them are faults.

Names are those of nvmlReturn_t in nvml.h (https://docs.nvidia.com/deploy/nvml-api/group__nvmlDeviceEnumvs.html) without
their prefix. Standard library only: the NVML worker imports it.
"""

from __future__ import annotations

NAMES: dict[int, str] = {
    0: "SUCCESS",
    1: "UNINITIALIZED",
    2: "INVALID_ARGUMENT",
    3: "NOT_SUPPORTED",
    4: "NO_PERMISSION",
    5: "ALREADY_INITIALIZED",
    6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE",
    8: "INSUFFICIENT_POWER",
    9: "DRIVER_NOT_LOADED",
    10: "TIMEOUT",
    11: "IRQ_ISSUE",
    12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    19: "IN_USE",
    20: "MEMORY",
    21: "NO_DATA",
    22: "VGPU_ECC_NOT_SUPPORTED",
    23: "INSUFFICIENT_RESOURCES",
    24: "FREQ_NOT_SUPPORTED",
    25: "ARGUMENT_VERSION_MISMATCH",
    26: "DEPRECATED",
    27: "NOT_READY",
    28: "GPU_NOT_FOUND",
    29: "INVALID_STATE",
    30: "RESET_TYPE_NOT_SUPPORTED",
    999: "UNKNOWN",
}
CODES: dict[str, int] = {name: code for code, name in NAMES.items()}

# What nvmlErrorString says for a code, lower case; nvidia-smi prints these words in place of a value or after a failed start.
WORDS: dict[str, str] = {
    "uninitialized": "UNINITIALIZED",
    "invalid argument": "INVALID_ARGUMENT",
    "not supported": "NOT_SUPPORTED",
    "n/a": "NOT_SUPPORTED",
    "insufficient permissions": "NO_PERMISSION",
    "not found": "NOT_FOUND",
    "insufficient size": "INSUFFICIENT_SIZE",
    "insufficient external power": "INSUFFICIENT_POWER",
    "driver not loaded": "DRIVER_NOT_LOADED",
    "timeout": "TIMEOUT",
    "interrupt request issue": "IRQ_ISSUE",
    "nvml shared library not found": "LIBRARY_NOT_FOUND",
    "function not found": "FUNCTION_NOT_FOUND",
    "corrupted inforom": "CORRUPTED_INFOROM",
    "gpu is lost": "GPU_IS_LOST",
    "gpu requires reset": "RESET_REQUIRED",
    "gpu access blocked by the operating system": "OPERATING_SYSTEM",
    "driver/library version mismatch": "LIB_RM_VERSION_MISMATCH",
    "in use by another client": "IN_USE",
    "insufficient memory": "MEMORY",
    "no data": "NO_DATA",
    "vgpu ecc not supported": "VGPU_ECC_NOT_SUPPORTED",
    "insufficient resources": "INSUFFICIENT_RESOURCES",
    "invalid frequency": "FREQ_NOT_SUPPORTED",
    "argument version mismatch": "ARGUMENT_VERSION_MISMATCH",
    "requested functionality has been deprecated": "DEPRECATED",
    "not ready": "NOT_READY",
    "unknown error": "UNKNOWN",
    "err!": "UNKNOWN",
}

# A field that answers with one of these has a fault to tell of; any other code only means that there is no value.
FIELD_FAULTS = frozenset(
    {
        "INSUFFICIENT_POWER",
        "DRIVER_NOT_LOADED",
        "TIMEOUT",
        "IRQ_ISSUE",
        "CORRUPTED_INFOROM",
        "GPU_IS_LOST",
        "RESET_REQUIRED",
        "OPERATING_SYSTEM",
        "LIB_RM_VERSION_MISMATCH",
        "MEMORY",
        "UNKNOWN",
    }
)

# Where a device that had these answers is gone for the driver. A handle may fail for lesser reasons, such as rights.
LOST = frozenset({"GPU_IS_LOST", "UNKNOWN"})


def name_of(code: int) -> str:
    """The name of a return code; a code that is newer than this table as its number, `CODE_31`."""
    return NAMES.get(code, f"CODE_{code}")
