"""The Xid catalogue: what each error number of the driver means, who is to blame and what to do.

Facts come from NVIDIA's Xid catalogue (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), its older cause
table and the public kernel module headers (nverror.h). `vendor_action` is the vendor's bucket by its own name; `action` and
`advice` are ours, and `differs` says why where the two part.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

from gpudoctor.facts import Xid

VENDOR_BUCKETS = {
    "IGNORE": "nothing to do for the GPU",
    "IGNORE (sympathetic)": "a side effect: follow the error that came with it",
    "RESTART_APP": "restart the program",
    "RESTART_VM": "restart the virtual machine that owns the GPU",
    "RESTART_BM": "reboot or power-cycle the host",
    "RESET_GPU": "stop the work on the GPU and reset it",
    "CHECK_MECHANICALS": "check seating, power and cables",
    "CHECK_UVM": "reset the GPU if managed memory or vGPU is in use",
    "CHECK_APP/CUDA": "debug the program",
    "CHECK_NVLINK_FAILURE_FLOW": "ignore it if a link of the partition dropped in the last 30 seconds, else report it",
    "UPDATE_SWFW": "update driver and firmware",
    "CONTACT_SUPPORT": "open a support case",
    "INVESTIGATE_SW": "find the software that provoked it",
    "INVESTIGATE_SW_USER": "find out whether somebody did it on purpose",
    "INVESTIGATE_SW_USER_LINK_SI": "find out whether somebody did it on purpose, then check the link's signal quality",
    "INVESTIGATE_LINK_SI": "check the link's signal quality",
    "INVESTIGATE_LINK_SI_AND_CABLES": "check the link's cable, connector, heat and signal quality",
    "INVESTIGATE_PEER_DEVICE": "look at the other end of the link, which started it",
    "INVESTIGATE_HOST": "look at the host's own logs: this is a side effect",
    "SYMPATHETIC_REPORT_SOLO": "a side effect; report it only when nothing else is found",
    "REPORT_ISSUE (if seen >1 per day)": "report it when it comes more than once a day",
    "WORKFLOW_XID_13": "same GPC and TPC again: test the hardware; otherwise debug the program",
    "WORKFLOW_XID_31": "same GPU again with different programs: test the hardware; otherwise debug the program",
    "WORKFLOW_XID_45": "alone: restart the fabric manager; with another Xid: follow that one",
    "WORKFLOW_XID_48": "reset the GPU; for on-chip memory check the SRAM threshold flag",
    "WORKFLOW_NVLINK_ERR": "decode the registers of the line",
    "WORKFLOW_NVLINK5_ERR": "decode the words of the line",
    "XID_137_FLOW": "treat it as an illegal peer access: run the memory checker on the program",
    "XID_154": "do what the text of Xid 154 says",
    "XID_154_EVAL": "do what an Xid 154 with it says, else restart the program",
    "DRAIN_AND_RESET": "let running work end, then reset",
    "RUN_FIELDDIAG": "run the vendor's field diagnostic",
}
"""The vendor's bucket names in our words."""


class XidVariant(msgspec.Struct, frozen=True, kw_only=True):
    """Another meaning of the same number on some driver branches or architectures; set fields replace the entry's."""

    from_branch: int | None = None
    until_branch: int | None = None
    architectures: list[str] | None = None
    mnemonic: str | None = None
    name: str | None = None
    meaning: str | None = None
    blame: str | None = None
    severity: str | None = None
    action: str | None = None
    advice: str | None = None
    vendor_action: str | None = None
    differs: str | None = None


class XidEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One Xid. `blame` is who is to be looked at first; `causes` are all that the vendor's older table names."""

    code: int
    mnemonic: str
    name: str
    meaning: str
    blame: str  # application, driver, hardware, bus, system_memory, thermal, fabric, unknown
    severity: str  # critical, error, warning, info
    action: str  # none, restart-app, reset-gpu, restart-node, isolate, repair, contact-vendor
    advice: str
    causes: list[str] = []
    vendor_action: str | None = None  # the vendor's bucket; None: its catalogue says nothing
    vendor_investigates: str | None = None
    differs: str | None = None  # why our advice is not the vendor's
    companions: list[int] = []  # Xids that often come with it
    architectures: list[str] = []  # where it is in use; "older": before Ampere only
    status: str = "active"  # active, legacy, undocumented (only in the driver's header)
    recovery_since_branch: int | None = None  # first driver branch that adds an Xid 154 to it
    device_plugin_ignores: bool = False  # Kubernetes device plugin keeps the GPU in service by default
    variants: list[XidVariant] = []


@cache
def _catalogue() -> dict[int, XidEntry]:
    data = (Path(__file__).parent / "xid.json").read_bytes()
    return {entry.code: entry for entry in msgspec.json.decode(data, type=list[XidEntry])}


def all_codes() -> list[int]:
    """Every number in the catalogue, ascending."""
    return sorted(_catalogue())


def branch_number(branch: int | str | None) -> int | None:
    """The driver branch as a number: 535, "R535", "535.183.01" -> 535; None where there is none."""
    if branch is None or isinstance(branch, int):
        return branch
    match = re.match(r"\s*[Rr]?(\d{3})(?!\d)", branch)
    return int(match.group(1)) if match else None


def _applies(variant: XidVariant, architecture: str | None, branch: int | None) -> bool:
    """Whether a variant is known to hold; what is not known decides for the entry itself."""
    if variant.architectures is not None and architecture not in variant.architectures:
        return False
    if variant.from_branch is not None and (branch is None or branch < variant.from_branch):
        return False
    return not (variant.until_branch is not None and (branch is None or branch > variant.until_branch))


def lookup(code: int, architecture: str | None = None, driver_branch: int | str | None = None) -> XidEntry | None:
    """The entry of a number for this architecture ("ampere") and driver branch (535 or "535.183.01"); None: not in the catalogue."""
    entry = _catalogue().get(code)
    if entry is None:
        return None
    wanted = architecture.lower() if architecture else None
    branch = branch_number(driver_branch)
    for variant in entry.variants:
        if _applies(variant, wanted, branch):
            names = (
                "mnemonic",
                "name",
                "meaning",
                "blame",
                "severity",
                "action",
                "advice",
                "vendor_action",
                "differs",
            )
            changes = {name: value for name in names if (value := getattr(variant, name)) is not None}
            return msgspec.structs.replace(entry, **changes)
    return entry


def vendor_words(bucket: str | None) -> str | None:
    """What the vendor's bucket means, in words; None where there is no bucket."""
    return VENDOR_BUCKETS.get(bucket, bucket.replace("_", " ").lower()) if bucket else None


def decode(code: int, text: str, architecture: str | None = None) -> str | None:
    """What the rest of an Xid line says, as a sentence; None where nothing can be told. `text` is what follows the number."""
    from gpudoctor.knowledge.xid_decode import decode as decode_line

    return decode_line(code, text, architecture)


def _line_severity(entry: XidEntry, text: str) -> str:
    """The entry's severity, or for NVLink 5 (144 to 150) what the words of the line say."""
    if not (144 <= entry.code <= 150) or entry.blame != "fabric":
        return entry.severity
    from gpudoctor.knowledge.nvlink_decode import parse_nvlink5

    event = parse_nvlink5(entry.code, text)
    if event is None:
        return entry.severity
    if event.action == "IGNORE":
        return "warning"
    if event.action == "RESET_GPU" or event.fatal:
        return "critical"
    return "error"


def annotate(xid: Xid, architecture: str | None = None, driver_branch: int | str | None = None) -> Xid:
    """An Xid of a log with what the catalogue says of it; unchanged where the catalogue has no such number."""
    entry = lookup(xid.code, architecture, driver_branch)
    if entry is None:
        return xid
    return msgspec.structs.replace(
        xid,
        name=entry.name,
        blame=entry.blame,
        meaning=entry.meaning,
        advice=entry.advice,
        severity=_line_severity(entry, xid.text),
        decoded=decode(xid.code, xid.text, architecture),
        vendor_action=vendor_words(entry.vendor_action),
    )
