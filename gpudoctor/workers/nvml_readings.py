"""What is read of one GPU through NVML: a table of fact names and the getter that gives them, in the facts' units."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from gpudoctor.workers import nvml_compound as compound
from gpudoctor.workers.nvml_binding import UNKNOWN, Library, NvmlCode
from gpudoctor.workers.nvml_compound import INSUFFICIENT_SIZE, NOT_SUPPORTED

Reader = Callable[[Library, Any], tuple[Any, ...]]

_ARCHITECTURES = {2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper"}
_ARCHITECTURES |= {10: "blackwell", 13: "rubin"}
_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
# nvmlDeviceGpuRecoveryAction_t
_RECOVERY = {0: "none", 1: "gpu_reset", 2: "node_reboot", 3: "drain_p2p", 4: "drain_and_reset"}
_RECOVERY |= {5: "recover_imex_domain", 6: "bus_reset", 7: "system_reboot"}


def _number(name: str, *inputs: int, scale: float | None = None) -> Reader:
    def read(nvml: Library, handle: Any) -> tuple[Any, ...]:
        value = nvml.number(name, handle, *inputs)
        return (value if scale is None else round(value * scale, 3),)

    return read


def _wide(name: str, *inputs: int) -> Reader:
    return lambda nvml, handle: (nvml.number(name, handle, *inputs, wide=True),)


def _pair(name: str) -> Reader:
    return lambda nvml, handle: nvml.numbers(name, handle, count=2)


def _text(name: str, sized: bool = True) -> Reader:
    return lambda nvml, handle: (nvml.text(name, handle, sized=sized),)


def _named(name: str, names: dict[int, str]) -> Reader:
    def read(nvml: Library, handle: Any) -> tuple[Any, ...]:
        value = nvml.number(name, handle)
        return (names.get(value, f"unknown_{value}"),)

    return read


def _pci(nvml: Library, handle: Any) -> tuple[Any, ...]:
    info = nvml.ask("nvmlDeviceGetPciInfo", handle)
    number = int(info.pciDeviceId)  # device in the upper half, vendor in the lower
    bus_id = info.busId
    return (
        bus_id.decode() if isinstance(bus_id, bytes) else str(bus_id)
    ), f"{number & 0xFFFF:04x}:{number >> 16:04x}"


def _compute_capability(nvml: Library, handle: Any) -> tuple[Any, ...]:
    # called directly: py3nvml makes one float of it, which cannot tell 12.1 exactly
    major, minor = ctypes.c_int(), ctypes.c_int()
    nvml.call("nvmlDeviceGetCudaComputeCapability", handle, ctypes.byref(major), ctypes.byref(minor))
    return (f"{major.value}.{minor.value}",)


def _architecture(nvml: Library, handle: Any) -> tuple[Any, ...]:
    value = nvml.number("nvmlDeviceGetArchitecture", handle)
    if value not in _ARCHITECTURES:
        raise NvmlCode(NOT_SUPPORTED)
    return (_ARCHITECTURES[value],)


def _utilization(nvml: Library, handle: Any) -> tuple[Any, ...]:
    rates = nvml.ask("nvmlDeviceGetUtilizationRates", handle)
    return int(rates.gpu), int(rates.memory)


def _performance_state(nvml: Library, handle: Any) -> tuple[Any, ...]:
    state = nvml.number("nvmlDeviceGetPerformanceState", handle)
    if state > 15:  # NVML_PSTATE_UNKNOWN
        raise NvmlCode(NOT_SUPPORTED)
    return (f"P{state}",)


def _power_range(nvml: Library, handle: Any) -> tuple[Any, ...]:
    low, high = nvml.numbers("nvmlDeviceGetPowerManagementLimitConstraints", handle, count=2)
    return low / 1000, high / 1000


def _retired(cause: int) -> Reader:
    def read(nvml: Library, handle: Any) -> tuple[Any, ...]:
        count = ctypes.c_uint(0)
        try:
            nvml.call("nvmlDeviceGetRetiredPages", handle, ctypes.c_uint(cause), ctypes.byref(count), None)
        except NvmlCode as error:
            if error.code != INSUFFICIENT_SIZE:
                raise
        return (count.value,)

    return read


READINGS: tuple[tuple[tuple[str, ...], Reader], ...] = (
    (("uuid",), _text("nvmlDeviceGetUUID")),
    (("bdf", "device_id"), _pci),
    (("name",), _text("nvmlDeviceGetName")),
    (("serial",), _text("nvmlDeviceGetSerial")),
    (("minor",), _number("nvmlDeviceGetMinorNumber")),
    (("vbios",), _text("nvmlDeviceGetVbiosVersion")),
    (("inforom_image",), _text("nvmlDeviceGetInforomImageVersion")),
    (("board_part_number",), _text("nvmlDeviceGetBoardPartNumber")),
    (("architecture",), _architecture),
    (("compute_capability",), _compute_capability),
    (("memory_total_mib", "memory_used_mib", "memory_reserved_mib"), compound.memory),
    (("bar1_total_mib",), compound.bar1),
    (("temperature_c",), _number("nvmlDeviceGetTemperature", 0)),
    (("temperature_shutdown_c",), _number("nvmlDeviceGetTemperatureThreshold", 0)),
    (("temperature_slowdown_c",), _number("nvmlDeviceGetTemperatureThreshold", 1)),
    (("temperature_max_operating_c",), _number("nvmlDeviceGetTemperatureThreshold", 3)),
    (("temperature_margin_c",), lambda nvml, handle: (compound.margin(nvml, handle),)),
    (("fan_pct",), _number("nvmlDeviceGetFanSpeed")),
    (("power_w",), _number("nvmlDeviceGetPowerUsage", scale=0.001)),
    (("power_limit_w",), _number("nvmlDeviceGetEnforcedPowerLimit", scale=0.001)),
    (("power_limit_requested_w",), _number("nvmlDeviceGetPowerManagementLimit", scale=0.001)),
    (("power_limit_default_w",), _number("nvmlDeviceGetPowerManagementDefaultLimit", scale=0.001)),
    (("power_limit_min_w", "power_limit_max_w"), _power_range),
    (("utilization_gpu_pct", "utilization_memory_pct"), _utilization),
    (("sm_clock_mhz",), _number("nvmlDeviceGetClockInfo", 1)),
    (("sm_clock_max_mhz",), _number("nvmlDeviceGetMaxClockInfo", 1)),
    (("memory_clock_mhz",), _number("nvmlDeviceGetClockInfo", 2)),
    (("memory_clock_max_mhz",), _number("nvmlDeviceGetMaxClockInfo", 2)),
    (("performance_state",), _performance_state),
    (("throttle_mask",), compound.throttle_mask),
    (("persistence_mode",), _number("nvmlDeviceGetPersistenceMode")),
    (("compute_mode",), _named("nvmlDeviceGetComputeMode", _COMPUTE_MODES)),
    (("mig_mode", "mig_mode_pending"), _pair("nvmlDeviceGetMigMode")),
    (("mig_devices",), compound.mig_devices),
    (("ecc_mode", "ecc_mode_pending"), _pair("nvmlDeviceGetEccMode")),
    (("ecc_corrected_volatile",), _wide("nvmlDeviceGetTotalEccErrors", 0, 0)),
    (("ecc_uncorrected_volatile",), _wide("nvmlDeviceGetTotalEccErrors", 1, 0)),
    (("ecc_corrected_aggregate",), _wide("nvmlDeviceGetTotalEccErrors", 0, 1)),
    (("ecc_uncorrected_aggregate",), _wide("nvmlDeviceGetTotalEccErrors", 1, 1)),
    (("ecc_sram_uncorrected_aggregate",), _wide("nvmlDeviceGetMemoryErrorCounter", 1, 1, 7)),
    (("ecc_sram_threshold_exceeded",), compound.sram_threshold),
    (("retired_pages_single_bit",), _retired(0)),
    (("retired_pages_double_bit",), _retired(1)),
    (("retired_pages_pending",), _number("nvmlDeviceGetRetiredPagesPendingStatus")),
    (
        (
            "remapped_rows_correctable",
            "remapped_rows_uncorrectable",
            "remapped_rows_pending",
            "remapped_rows_failure",
        ),
        lambda nvml, handle: nvml.numbers("nvmlDeviceGetRemappedRows", handle, count=4),
    ),
    (("channel_repair_pending", "tpc_repair_pending"), compound.repairs),
    (("memory_unrepairable",), compound.unrepairable),
    (
        ("remap_banks_max", "remap_banks_high", "remap_banks_partial", "remap_banks_low", "remap_banks_none"),
        compound.histogram,
    ),
    (("pcie_generation",), _number("nvmlDeviceGetCurrPcieLinkGeneration")),
    (("pcie_generation_max",), _number("nvmlDeviceGetMaxPcieLinkGeneration")),
    (("pcie_generation_device_max",), _number("nvmlDeviceGetGpuMaxPcieLinkGeneration")),
    (("pcie_width",), _number("nvmlDeviceGetCurrPcieLinkWidth")),
    (("pcie_width_max",), _number("nvmlDeviceGetMaxPcieLinkWidth")),
    (("pcie_replay_count",), _number("nvmlDeviceGetPcieReplayCounter")),
    (
        (
            "fabric_state",
            "fabric_status_code",
            "fabric_health_mask",
            "fabric_health",
            "fabric_cluster_uuid",
            "fabric_clique",
        ),
        compound.fabric,
    ),
    (("display_active",), _number("nvmlDeviceGetDisplayActive")),
    (("virtualization_mode",), _named("nvmlDeviceGetVirtualizationMode", _VIRTUALIZATION)),
    (("addressing_mode",), compound.addressing),
    (("gsp_firmware_version",), _text("nvmlDeviceGetGspFirmwareVersion", sized=False)),
    (("nvlinks",), compound.nvlinks),
    (("processes",), compound.processes),
)

# Facts that only nvmlDeviceGetFieldValues knows: NVML_FI_DEV_* ids.
FIELD_READINGS: tuple[tuple[str, int], ...] = (
    ("temperature_memory_c", 82),
    ("temperature_shutdown_margin_c", 193),
    ("temperature_slowdown_margin_c", 194),
    ("temperature_max_operating_margin_c", 196),
    ("reset_required", 226),
    ("drain_and_reset_recommended", 227),
    ("recovery_action", 230),
)


def read_device(nvml: Library, handle: Any) -> tuple[dict[str, Any], dict[str, int], dict[str, str]]:
    """Values, NVML return codes of what gave none, and what went wrong in the binding itself."""
    values: dict[str, Any] = {}
    codes: dict[str, int] = {}
    broken: dict[str, str] = {}
    for names, reader in READINGS:
        try:
            values.update(zip(names, reader(nvml, handle), strict=True))
        except NvmlCode as error:
            codes.update(dict.fromkeys(names, error.code))
        except Exception as error:  # a binding that does not fit its library must cost one field, not the scan
            broken.update(dict.fromkeys(names, f"{type(error).__name__}: {error}"[:200]))
    try:
        answers = nvml.fields(handle, [(field, 0) for _, field in FIELD_READINGS])
    except NvmlCode as error:
        answers = [(error.code or UNKNOWN, 0)] * len(FIELD_READINGS)
    for (name, _), (code, value) in zip(FIELD_READINGS, answers, strict=True):
        if code:
            codes[name] = code
        else:
            values[name] = _RECOVERY.get(int(value), f"unknown_{value}") if name == "recovery_action" else value
    return values, codes, broken
