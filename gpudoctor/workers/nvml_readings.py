"""What is read of one GPU through NVML: a table of fact names and the getter that gives them, in the facts' units."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from gpudoctor.workers.nvml_binding import FUNCTION_NOT_FOUND, UNKNOWN, Library, NvmlCode

Reader = Callable[[Library, Any], tuple[Any, ...]]

NOT_SUPPORTED = 3
INSUFFICIENT_SIZE = 7
ARGUMENT_VERSION_MISMATCH = 25
_MIB = 1048576
_ALL_ONES = 2**64 - 1
_LINKS = 18  # NVML_NVLINK_MAX_LINKS: an upper bound, absent links answer with an error
_ARCHITECTURES = {2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper"}
_ARCHITECTURES |= {10: "blackwell", 13: "rubin"}
_COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
_VIRTUALIZATION = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
_ADDRESSING = {0: "none", 1: "hmm", 2: "ats"}
_FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
_FABRIC_HEALTH = {1: "healthy", 2: "unhealthy", 3: "limited_capacity"}
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


class _MemoryV2(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def _memory(nvml: Library, handle: Any) -> tuple[Any, ...]:
    """Total, used and reserved. The first version of the call counts what the driver reserves as used."""
    memory = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
    try:
        nvml.call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(memory))
    except NvmlCode as error:
        if error.code not in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
            raise
        old = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
        return int(old.total) // _MIB, int(old.used) // _MIB, None
    return memory.total // _MIB, memory.used // _MIB, memory.reserved // _MIB


def _bar1(nvml: Library, handle: Any) -> tuple[Any, ...]:
    return (int(nvml.ask("nvmlDeviceGetBAR1MemoryInfo", handle).bar1Total) // _MIB,)


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


def _throttle_mask(nvml: Library, handle: Any) -> tuple[Any, ...]:
    try:
        return (nvml.number("nvmlDeviceGetCurrentClocksEventReasons", handle, wide=True),)
    except NvmlCode as error:
        if error.code != FUNCTION_NOT_FOUND:
            raise
        return (nvml.number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, wide=True),)


class _Versioned(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint), ("value", ctypes.c_int))


def _versioned(name: str) -> Callable[[Library, Any], int]:
    def read(nvml: Library, handle: Any) -> int:
        answer = _Versioned(version=ctypes.sizeof(_Versioned) | 1 << 24)
        nvml.call(name, handle, ctypes.byref(answer))
        return int(answer.value)

    return read


_margin = _versioned("nvmlDeviceGetMarginTemperature")
_addressing_mode = _versioned("nvmlDeviceGetAddressingMode")


def _addressing(nvml: Library, handle: Any) -> tuple[Any, ...]:
    return (_ADDRESSING.get(_addressing_mode(nvml, handle), "unknown"),)


def _mig_devices(nvml: Library, handle: Any) -> tuple[Any, ...]:
    current, _ = nvml.numbers("nvmlDeviceGetMigMode", handle, count=2)
    if not current:
        return (0,)
    found = 0
    for index in range(nvml.number("nvmlDeviceGetMaxMigDeviceCount", handle)):
        mig = ctypes.c_void_p()
        try:
            nvml.call("nvmlDeviceGetMigDeviceHandleByIndex", handle, ctypes.c_uint(index), ctypes.byref(mig))
        except NvmlCode:
            continue  # the indices may have gaps
        found += 1
    return (found,)


class _SramStatus(ctypes.Structure):
    """nvmlEccSramErrorStatus_v1_t: eleven counters, then the flag."""

    _fields_ = (("version", ctypes.c_uint), ("counters", ctypes.c_ulonglong * 11), ("exceeded", ctypes.c_uint))


def _sram_threshold(nvml: Library, handle: Any) -> tuple[Any, ...]:
    status = _SramStatus(version=ctypes.sizeof(_SramStatus) | 1 << 24)
    nvml.call("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
    return (status.exceeded,)


def _histogram(nvml: Library, handle: Any) -> tuple[Any, ...]:
    banks = (ctypes.c_uint * 5)()
    nvml.call("nvmlDeviceGetRowRemapperHistogram", handle, banks)
    return tuple(banks)


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


class _Fabric(ctypes.Structure):
    """nvmlGpuFabricInfo_v3_t; version 2 ends before `health`, and the first one has neither version nor mask."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("cluster", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("clique", ctypes.c_uint),
        ("state", ctypes.c_uint),
        ("mask", ctypes.c_uint),
        ("health", ctypes.c_ubyte),
    )


def _fabric(nvml: Library, handle: Any) -> tuple[Any, ...]:
    """State, status code (with a meaning only in state 3), health mask and health."""
    for version, size in ((3, 40), (2, 36)):
        info = _Fabric(version=size | version << 24)
        try:
            nvml.call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
        except NvmlCode as error:
            if error.code not in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
                raise
            continue
        status = info.status if info.state == 3 else None
        return _FABRIC_STATES.get(info.state), status, info.mask, _FABRIC_HEALTH.get(info.health)
    info = _Fabric()
    nvml.call("nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(info, _Fabric.cluster.offset))
    return _FABRIC_STATES.get(info.state), info.status if info.state == 3 else None, None, None


def _nvlinks(nvml: Library, handle: Any) -> tuple[Any, ...]:
    """Every link that the GPU has: state, speed in GB/s, and the error counters of the links before Blackwell."""
    links: list[dict[str, Any]] = []
    for link in range(_LINKS):
        try:
            state = nvml.number("nvmlDeviceGetNvLinkState", handle, link)
        except NvmlCode as error:
            if error.code in (NOT_SUPPORTED, 2):
                continue
            raise
        links.append({"link": link, "active": bool(state)})
    for found, (code, speed) in zip(links, _link_speeds(nvml, handle, links), strict=True):
        if code == 0 and found["active"]:
            found["speed_gbps"] = round(speed / 1000, 3)
        for counter, name in ((0, "replay_errors"), (1, "recovery_errors"), (2, "crc_errors")):
            try:
                found[name] = nvml.number("nvmlDeviceGetNvLinkErrorCounter", handle, found["link"], counter, wide=True)
            except NvmlCode:
                break  # newer links count otherwise
    return (links,)


def _link_speeds(nvml: Library, handle: Any, links: list[dict[str, Any]]) -> list[tuple[int, float | int]]:
    try:
        return nvml.fields(handle, [(164, link["link"]) for link in links]) if links else []
    except NvmlCode as error:
        return [(error.code, 0)] * len(links)


class _Process(ctypes.Structure):
    """nvmlProcessInfo_v2_t, which v3 shares; the first version ends after `memory`."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class _ProcessV1(ctypes.Structure):
    _fields_ = (("pid", ctypes.c_uint), ("memory", ctypes.c_ulonglong))


def _list_processes(nvml: Library, handle: Any, kind: str) -> list[tuple[int, int | None]]:
    for suffix, structure in (("_v3", _Process), ("_v2", _Process), ("", _ProcessV1)):
        entries = (structure * 512)()
        count = ctypes.c_uint(512)
        name = f"nvmlDeviceGet{kind}RunningProcesses{suffix}"
        try:
            nvml.call(name, handle, ctypes.byref(count), entries)
        except NvmlCode as error:
            if error.code == FUNCTION_NOT_FOUND:
                continue
            raise
        return [(e.pid, None if e.memory == _ALL_ONES else e.memory // _MIB) for e in entries[: count.value]]
    raise NvmlCode(FUNCTION_NOT_FOUND)


def _processes(nvml: Library, handle: Any) -> tuple[Any, ...]:
    found: dict[int, dict[str, Any]] = {}
    for kind, word in (("Compute", "C"), ("Graphics", "G"), ("MPSCompute", "M+C")):
        try:
            listed = _list_processes(nvml, handle, kind)
        except NvmlCode:
            if kind == "Compute":
                raise
            continue
        for pid, memory in listed:
            known = found.setdefault(pid, {"pid": pid, "memory_used_mib": memory, "kind": word})
            if word == "G" and known["kind"] == "C":
                known["kind"] = "C+G"
    for process in found.values():
        try:
            process["name"] = nvml.text("nvmlSystemGetProcessName", process["pid"])
        except NvmlCode:
            continue
    return (list(found.values()),)


READINGS: tuple[tuple[tuple[str, ...], Reader], ...] = (
    (("uuid",), _text("nvmlDeviceGetUUID")),
    (("bdf", "device_id"), _pci),
    (("name",), _text("nvmlDeviceGetName")),
    (("serial",), _text("nvmlDeviceGetSerial")),
    (("minor",), _number("nvmlDeviceGetMinorNumber")),
    (("vbios",), _text("nvmlDeviceGetVbiosVersion")),
    (("board_part_number",), _text("nvmlDeviceGetBoardPartNumber")),
    (("architecture",), _architecture),
    (("compute_capability",), _compute_capability),
    (("memory_total_mib", "memory_used_mib", "memory_reserved_mib"), _memory),
    (("bar1_total_mib",), _bar1),
    (("temperature_c",), _number("nvmlDeviceGetTemperature", 0)),
    (("temperature_shutdown_c",), _number("nvmlDeviceGetTemperatureThreshold", 0)),
    (("temperature_slowdown_c",), _number("nvmlDeviceGetTemperatureThreshold", 1)),
    (("temperature_max_operating_c",), _number("nvmlDeviceGetTemperatureThreshold", 3)),
    (("temperature_margin_c",), lambda nvml, handle: (_margin(nvml, handle),)),
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
    (("throttle_mask",), _throttle_mask),
    (("persistence_mode",), _number("nvmlDeviceGetPersistenceMode")),
    (("compute_mode",), _named("nvmlDeviceGetComputeMode", _COMPUTE_MODES)),
    (("mig_mode", "mig_mode_pending"), _pair("nvmlDeviceGetMigMode")),
    (("mig_devices",), _mig_devices),
    (("ecc_mode", "ecc_mode_pending"), _pair("nvmlDeviceGetEccMode")),
    (("ecc_corrected_volatile",), _wide("nvmlDeviceGetTotalEccErrors", 0, 0)),
    (("ecc_uncorrected_volatile",), _wide("nvmlDeviceGetTotalEccErrors", 1, 0)),
    (("ecc_corrected_aggregate",), _wide("nvmlDeviceGetTotalEccErrors", 0, 1)),
    (("ecc_uncorrected_aggregate",), _wide("nvmlDeviceGetTotalEccErrors", 1, 1)),
    (("ecc_sram_uncorrected_aggregate",), _wide("nvmlDeviceGetMemoryErrorCounter", 1, 1, 7)),
    (("ecc_sram_threshold_exceeded",), _sram_threshold),
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
    (
        ("remap_banks_max", "remap_banks_high", "remap_banks_partial", "remap_banks_low", "remap_banks_none"),
        _histogram,
    ),
    (("pcie_generation",), _number("nvmlDeviceGetCurrPcieLinkGeneration")),
    (("pcie_generation_max",), _number("nvmlDeviceGetMaxPcieLinkGeneration")),
    (("pcie_generation_device_max",), _number("nvmlDeviceGetGpuMaxPcieLinkGeneration")),
    (("pcie_width",), _number("nvmlDeviceGetCurrPcieLinkWidth")),
    (("pcie_width_max",), _number("nvmlDeviceGetMaxPcieLinkWidth")),
    (("pcie_replay_count",), _number("nvmlDeviceGetPcieReplayCounter")),
    (("fabric_state", "fabric_status_code", "fabric_health_mask", "fabric_health"), _fabric),
    (("display_active",), _number("nvmlDeviceGetDisplayActive")),
    (("virtualization_mode",), _named("nvmlDeviceGetVirtualizationMode", _VIRTUALIZATION)),
    (("addressing_mode",), _addressing),
    (("gsp_firmware_version",), _text("nvmlDeviceGetGspFirmwareVersion", sized=False)),
    (("nvlinks",), _nvlinks),
    (("processes",), _processes),
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
