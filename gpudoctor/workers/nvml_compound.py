"""Readers of one GPU that fill a structure, take several calls, or differ between versions of the library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from gpudoctor.workers.nvml_binding import FUNCTION_NOT_FOUND, Library, NvmlCode
from gpudoctor.workers.nvml_pairs import remote_end

NOT_SUPPORTED = 3
INSUFFICIENT_SIZE = 7
ARGUMENT_VERSION_MISMATCH = 25
_MIB = 1048576
_ALL_ONES = 2**64 - 1
_LINKS = 18  # NVML_NVLINK_MAX_LINKS: an upper bound, absent links answer with an error
_ADDRESSING = {0: "none", 1: "hmm", 2: "ats"}
_FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
_FABRIC_HEALTH = {1: "healthy", 2: "unhealthy", 3: "limited_capacity"}


class _MemoryV2(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def memory(nvml: Library, handle: Any) -> tuple[Any, ...]:
    """Total, used and reserved. The first version of the call counts what the driver reserves as used."""
    info = _MemoryV2(version=ctypes.sizeof(_MemoryV2) | 2 << 24)
    try:
        nvml.call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(info))
    except NvmlCode as error:
        if error.code not in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
            raise
        old = nvml.ask("nvmlDeviceGetMemoryInfo", handle)
        return int(old.total) // _MIB, int(old.used) // _MIB, None
    return info.total // _MIB, info.used // _MIB, info.reserved // _MIB


def bar1(nvml: Library, handle: Any) -> tuple[Any, ...]:
    return (int(nvml.ask("nvmlDeviceGetBAR1MemoryInfo", handle).bar1Total) // _MIB,)


def throttle_mask(nvml: Library, handle: Any) -> tuple[Any, ...]:
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


margin = _versioned("nvmlDeviceGetMarginTemperature")
_addressing_mode = _versioned("nvmlDeviceGetAddressingMode")


def addressing(nvml: Library, handle: Any) -> tuple[Any, ...]:
    return (_ADDRESSING.get(_addressing_mode(nvml, handle), "unknown"),)


def mig_devices(nvml: Library, handle: Any) -> tuple[Any, ...]:
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


def sram_threshold(nvml: Library, handle: Any) -> tuple[Any, ...]:
    status = _SramStatus(version=ctypes.sizeof(_SramStatus) | 1 << 24)
    nvml.call("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
    return (status.exceeded,)


class _Repairs(ctypes.Structure):
    """nvmlRepairStatus_v1_t."""

    _fields_ = (("version", ctypes.c_uint), ("channel", ctypes.c_uint), ("tpc", ctypes.c_uint))


def repairs(nvml: Library, handle: Any) -> tuple[Any, ...]:
    """Whether a repair of a memory channel and of a compute unit waits for a reset."""
    status = _Repairs(version=ctypes.sizeof(_Repairs) | 1 << 24)
    nvml.call("nvmlDeviceGetRepairStatus", handle, ctypes.byref(status))
    return status.channel, status.tpc


_unrepairable = _versioned("nvmlDeviceGetUnrepairableMemoryFlag_v1")


def unrepairable(nvml: Library, handle: Any) -> tuple[Any, ...]:
    """nvmlUnrepairableMemoryStatus_v1_t: whether the memory cannot be repaired any more."""
    return (_unrepairable(nvml, handle),)


def histogram(nvml: Library, handle: Any) -> tuple[Any, ...]:
    banks = (ctypes.c_uint * 5)()
    nvml.call("nvmlDeviceGetRowRemapperHistogram", handle, banks)
    return tuple(banks)


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


def fabric(nvml: Library, handle: Any) -> tuple[Any, ...]:
    """State, status code (with a meaning only in state 3), health mask and health, cluster and clique."""
    for version, size in ((3, 40), (2, 36)):
        info = _Fabric(version=size | version << 24)
        try:
            nvml.call("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
        except NvmlCode as error:
            if error.code not in (FUNCTION_NOT_FOUND, ARGUMENT_VERSION_MISMATCH):
                raise
            continue
        status = info.status if info.state == 3 else None
        health = _FABRIC_HEALTH.get(info.health)
        return _FABRIC_STATES.get(info.state), status, info.mask, health, *_domain(info)
    info = _Fabric()
    nvml.call("nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(info, _Fabric.cluster.offset))
    status = info.status if info.state == 3 else None
    return _FABRIC_STATES.get(info.state), status, None, None, *_domain(info)


def _domain(info: _Fabric) -> tuple[str | None, int | None]:
    """The cluster's UUID and the clique of a GPU that is registered; all zeros on boards whose NVLink ends in the machine."""
    digits = bytes(info.cluster).hex()
    if info.state != 3 or not digits.strip("0"):
        return None, None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])), int(info.clique)


def nvlinks(nvml: Library, handle: Any) -> tuple[Any, ...]:
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
                found[name] = nvml.number(
                    "nvmlDeviceGetNvLinkErrorCounter", handle, found["link"], counter, wide=True
                )
            except NvmlCode:
                break  # newer links count otherwise
        if found["active"]:
            found |= remote_end(nvml, handle, found["link"])
    _add_bit_errors(nvml, handle, links)
    return (links,)


_BIT_ERROR_FIELDS = (("effective_ber", 220), ("symbol_ber", 222))  # NVML_FI_DEV_NVLINK_COUNT_*


def _add_bit_errors(nvml: Library, handle: Any, links: list[dict[str, Any]]) -> None:
    """Bit error rates of NVLink 5; earlier links have none."""
    wanted = [(field, link["link"]) for link in links if link["active"] for _, field in _BIT_ERROR_FIELDS]
    names = [(link, name) for link in links if link["active"] for name, _ in _BIT_ERROR_FIELDS]
    try:
        answers = nvml.fields(handle, wanted) if wanted else []
    except NvmlCode:
        return
    for (link, name), (code, value) in zip(names, answers, strict=True):
        if code == 0:
            link[name] = bit_error_rate(int(value))


def bit_error_rate(raw: int) -> float:
    """NVML's packed rate: the mantissa in bits 8 to 11, the negative power of ten in bits 0 to 7."""
    return float(f"{raw >> 8 & 0xF}e-{raw & 0xFF}")


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


def processes(nvml: Library, handle: Any) -> tuple[Any, ...]:
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
        name = _process_name(nvml, process["pid"])
        if name is not None:
            process["name"] = name
    return (list(found.values()),)


def _process_name(nvml: Library, pid: int) -> str | None:
    """NVML's name of a process; where it has none (another user's, an old driver) the operating system's."""
    try:
        return nvml.text("nvmlSystemGetProcessName", pid)
    except NvmlCode:
        import psutil  # rarely needed, and not cheap to load

        try:
            return str(psutil.Process(pid).name())
        except (psutil.Error, OSError):
            return None
