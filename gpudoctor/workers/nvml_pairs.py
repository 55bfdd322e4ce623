"""How GPUs see each other: where an NVLink ends, the nearest common bridge of two, and whether one may read or write the other."""

from __future__ import annotations

import ctypes
from typing import Any

from gpudoctor.workers.nvml_binding import Library, NvmlCode, as_text

MOST_GPUS = 16  # 120 pairs; more are not on one machine
# nvmlGpuTopologyLevel_t
LEVELS = {0: "INT", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
# nvmlGpuP2PStatus_t, in the words of `nvidia-smi topo -p2p`
STATUS = {0: "OK", 1: "CNS", 2: "GNS", 3: "TNS", 4: "DR", 5: "NS", 6: "U"}
REMOTE_KINDS = {0: "gpu", 1: "npu", 2: "switch"}  # nvmlIntNvLinkDeviceType_t
# nvmlGpuP2PCapsIndex_t
CAPABILITIES = (("read", 0), ("write", 1), ("nvlink", 2))


class _PciInfo(ctypes.Structure):
    """nvmlPciInfo_t."""

    _fields_ = (
        ("bus_id_legacy", ctypes.c_char * 16),
        ("numbers", ctypes.c_uint * 5),
        ("bus_id", ctypes.c_char * 32),
    )


def remote_end(nvml: Library, handle: Any, link: int) -> dict[str, str]:
    """What an active link leads to: the kind, and the PCI address (a switch that the guest does not see has none)."""
    found: dict[str, str] = {}
    try:
        kind = REMOTE_KINDS.get(nvml.number("nvmlDeviceGetNvLinkRemoteDeviceType", handle, link))
        if kind is not None:
            found["remote_kind"] = kind
        info = _PciInfo()
        nvml.call("nvmlDeviceGetNvLinkRemotePciInfo_v2", handle, ctypes.c_uint(link), ctypes.byref(info))
        address = as_text(info.bus_id)
        if address.strip("0:. "):
            found["remote"] = address
    except NvmlCode:
        pass
    return found


def read_pairs(nvml: Library, count: int) -> list[dict[str, Any]]:
    """One entry a pair, `a` < `b`; what NVML does not tell is left out."""
    handles = [nvml.ask("nvmlDeviceGetHandleByIndex", index) for index in range(count)]
    pairs: list[dict[str, Any]] = []
    for a in range(count):
        for b in range(a + 1, count):
            pairs.append({"a": a, "b": b, **_pair(nvml, handles[a], handles[b])})
    return pairs


def _pair(nvml: Library, one: Any, other: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        level = nvml.number("nvmlDeviceGetTopologyCommonAncestor", one, other)
        if level in LEVELS:
            found["ancestor"] = LEVELS[level]
    except NvmlCode:
        pass  # not told for slices and in some virtual machines
    for name, capability in CAPABILITIES:
        try:
            status = nvml.number("nvmlDeviceGetP2PStatus", one, other, capability)
        except NvmlCode:
            continue
        found[name] = STATUS.get(status, "U")
    return found
