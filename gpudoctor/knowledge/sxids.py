"""The SXid catalogue: error numbers of NVSwitch.

Facts come from the public switch driver (ctrl_dev_nvswitch.h, intr_lr10.c, intr_ls10.c of NVIDIA/open-gpu-kernel-modules), the
error appendix of the Fabric Manager user guide (https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html)
and NVSentinel's table. The severity word in the log line counts more than this table.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from gpudoctor.facts import SXid

ACTIONS = {
    "IGNORE": ("none", "nothing to do for a single one; watch how often it comes"),
    "RESET_FABRIC": (
        "restart-node",
        "stop all GPU work, then reset all GPUs and switches together or reboot the host",
    ),
    "WORKFLOW_NVLINK_POTENTIALY_FATAL_ERR": (
        "restart-app",
        "restart the job or guest that uses the port; when the same port fails again run the hardware diagnostics",
    ),
    "RESTART_VM": ("restart-app", "restart the guest, or on bare metal the job, that owns the GPU on that port"),
    "RESET_GPU": ("reset-gpu", "reset the GPU at the other end of the link"),
    "CHECK_FM_CONFIG": ("repair", "check the partitions and routing of the fabric manager"),
    "CHECK_THERMALS": ("repair", "check airflow, fans and inlet temperature"),
    "CHECK_LINK_MECHANICAL_CONNECTIONS": ("repair", "check the seating of module, cable or board connector"),
    "INVESTIGATE_LINK_SI": ("repair", "check the signal quality of the link"),
    "RUN_FIELDDIAG": ("contact-vendor", "run the vendor's field diagnostic"),
    "UNEXPECTED_ERR_REPORT_ISSUE": ("contact-vendor", "open a support case: it should not happen"),
    "REPORT_ISSUE": ("contact-vendor", "open a support case"),
}
"""Vendor bucket -> our action class and what to do, in words."""


class SXidEntry(msgspec.Struct, frozen=True, kw_only=True, rename={"kind": "class"}):
    """One SXid. `kind`: non_fatal, potentially_fatal, always_fatal, depends_on_line (the line's own word decides)."""

    code: int
    block: str  # part of the switch
    meaning: str
    kind: str
    severity: str  # critical, error, warning, info
    vendor_action: str
    mnemonic: str | None = None
    driver_words: list[str] = []  # severity words that the open driver prints
    disputed: bool = False  # the sources do not agree on it
    confidence: str = "high"

    @property
    def action(self) -> str:
        """Our action class."""
        return ACTIONS[self.vendor_action][0]

    @property
    def advice(self) -> str:
        """What to do, as a clause."""
        return ACTIONS[self.vendor_action][1]


@cache
def _catalogue() -> dict[int, SXidEntry]:
    data = (Path(__file__).parent / "sxid.json").read_bytes()
    return {entry.code: entry for entry in msgspec.json.decode(data, type=list[SXidEntry])}


def all_sxids() -> list[int]:
    """Every number in the catalogue, ascending."""
    return sorted(_catalogue())


def lookup_sxid(code: int) -> SXidEntry | None:
    """The entry of a number; None: not in the catalogue."""
    return _catalogue().get(code)


def annotate_sxid(sxid: SXid) -> SXid:
    """An SXid of a log with what the catalogue says of it; unchanged where the catalogue has no such number.

    The severity word of the line goes before the table: what is potentially fatal there can be non-fatal here.
    """
    entry = lookup_sxid(sxid.code)
    if entry is None:
        return sxid
    weight = entry.severity
    word = (sxid.severity or "").lower()
    if word in ("non-fatal", "nonfatal", "non_fatal", "correctable") and weight in ("critical", "error"):
        weight = "warning"
    elif word == "fatal" and weight in ("info", "warning"):
        weight = "error"
    return msgspec.structs.replace(sxid, meaning=entry.meaning, advice=entry.advice, weight=weight)
