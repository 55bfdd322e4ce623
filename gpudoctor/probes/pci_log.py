"""GPUs that an attached or pasted kernel log names, with what it says of their BARs."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Document, PciDevice
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import quote_document
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.sources.answers import Source

_BDF = r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?)"
# NVRM: The NVIDIA GPU 0000:af:00.0 (PCI ID: 10de:1db5)
_NAMED = Lazy(rf"NVRM: The NVIDIA (?:GPU|probe routine)\D*?{_BDF}\s*\(PCI ID: (10de:[0-9a-f]{{4}})\)", re.IGNORECASE)
# NVRM: BAR1 is 0M @ 0x0 (PCI:0000:0a:00.0)
_NO_BAR = Lazy(rf"NVRM: BAR\d is 0M @ 0x0 \(PCI:{_BDF}\)", re.IGNORECASE)
# pci 0000:00:04.0: [10de:20b0] type 00 class 0x030200
_ENUMERATED = Lazy(rf"pci {_BDF}: \[(10de:[0-9a-f]{{4}})\] type \S+ class 0x(0300|0302|0380)", re.IGNORECASE)
# nvidia 0000:01:00.0: enabling device; NVRM: GPU 0000:01:00.0: RmInitAdapter failed!
_DRIVEN = Lazy(rf"(?:\bnvidia |NVRM: GPU (?:at PCI:)?|nvidia: probe of ){_BDF}[: ]", re.IGNORECASE)
# pci 0000:01:00.0: BAR 1: no space for [mem size 0x400000000 64bit pref]; a later "assigned" takes it back.
# pci 0000:01:00.0: BAR 1 [mem size 0x400000000 64bit pref]: can't assign; no space
_BAR_STATE = Lazy(
    rf"\b[\w-]+ {_BDF}: BAR ([0-5])(?: \[mem [^\]]*\])?: (?:(assigned)|(?:failed to|can't) assign|no space for)",
    re.IGNORECASE,
)
_QUICK = Lazy(r"NVRM|nvidia|10de:", re.IGNORECASE, needs=("nvrm", "nvidia", "10de:"))
_ADDRESS = Lazy(r":[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\b")


def devices_in_logs(source: Source) -> list[PciDevice]:
    """One device for each address that the driver or the bus named as an NVIDIA GPU."""
    devices: dict[str, PciDevice] = {}
    for document in source.documents():
        if not _QUICK.search(document.text):
            continue
        for index, line in enumerate(document.text.splitlines()):
            if not (_QUICK.search(line) and _ADDRESS.search(line)):
                continue
            for pattern in (_NAMED, _ENUMERATED, _NO_BAR, _DRIVEN):
                match = pattern.search(line)
                bdf = normal_bdf(match[1]) if match else None
                if match is None or bdf is None:
                    continue
                proof = quote_document(document, index)
                device = devices.get(bdf) or PciDevice(bdf=bdf, evidence={"": proof})
                if pattern in (_NAMED, _ENUMERATED):
                    code = match[3] if pattern is _ENUMERATED else device.class_code
                    device = msgspec.structs.replace(device, device_id=match[2].lower(), class_code=code)
                elif pattern is _NO_BAR:
                    evidence = {**device.evidence, "bar_unassigned": proof}
                    device = msgspec.structs.replace(device, bar_unassigned=True, evidence=evidence)
                devices[bdf] = device
        _with_bar_states(document, devices)
    return list(devices.values())


def _with_bar_states(document: Document, devices: dict[str, PciDevice]) -> None:
    """Marks the known devices of which the kernel could not place a memory region, and did not later."""
    if not devices or ": BAR " not in document.text:
        return
    failed: dict[tuple[str, str], int] = {}
    for index, line in enumerate(document.text.splitlines()):
        match = _BAR_STATE.search(line)
        bdf = normal_bdf(match[1]) if match else None
        if match is None or bdf is None:
            continue
        if match[3]:
            failed.pop((bdf, match[2]), None)
        elif "[io " not in line:
            failed.setdefault((bdf, match[2]), index)
    for (bdf, _), index in failed.items():
        device = devices.get(bdf)
        if device is not None and not device.bar_unassigned:
            evidence = {**device.evidence, "bar_unassigned": quote_document(document, index)}
            devices[bdf] = msgspec.structs.replace(device, bar_unassigned=True, evidence=evidence)


def completed(devices: list[PciDevice], logged: list[PciDevice]) -> list[PciDevice]:
    """Devices of lspci with what the log adds: ids and unassigned BARs."""
    by_bdf = {device.bdf: device for device in logged}
    done = []
    for device in devices:
        other = by_bdf.get(device.bdf)
        if other is not None:
            evidence = {**other.evidence, **device.evidence}
            device = msgspec.structs.replace(
                device,
                device_id=device.device_id or other.device_id,
                bar_unassigned=device.bar_unassigned or other.bar_unassigned,
                evidence=evidence,
            )
        done.append(device)
    return done
