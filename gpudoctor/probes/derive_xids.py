"""Xids said again for the hardware and driver branch they came from: numbers have other meanings on old GPUs and branches."""

from __future__ import annotations

import msgspec

from gpudoctor.facts import Facts, Xid


def _architectures(facts: Facts) -> dict[str, str]:
    """Bus address without its function digit -> architecture, of every GPU that the driver or the bus shows."""
    devices = facts.pci.nvidia_devices or [] if facts.pci is not None else []
    named = [(d.bdf, d.architecture) for d in devices] + [(g.bdf, g.architecture) for g in facts.gpus or []]
    return {_place(bdf): architecture for bdf, architecture in named if bdf and architecture}


def _place(bdf: str) -> str:
    """0000:3b:00 for 00000000:3B:00.0, as Xid lines write it."""
    domain, _, rest = bdf.lower().rpartition(".")[0].partition(":") if "." in bdf else bdf.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def xid_meanings(facts: Facts) -> Facts:
    """Fills name, blame, meaning, advice and severity of Xids by architecture and driver branch where these are known."""
    if facts.kernel is None or not facts.kernel.xids:
        return facts
    from gpudoctor.knowledge.xids import annotate

    architectures = _architectures(facts)
    branch = facts.driver.branch if facts.driver is not None else None
    only = set(architectures.values())
    shared = only.pop() if len(only) == 1 else None

    def said(xid: Xid) -> Xid:
        architecture = architectures.get(_place(xid.bdf)) if xid.bdf else None
        return annotate(xid, architecture or shared, branch)

    if not architectures and branch is None:
        return facts
    xids = [said(xid) for xid in facts.kernel.xids]
    return msgspec.structs.replace(facts, kernel=msgspec.structs.replace(facts.kernel, xids=xids))
