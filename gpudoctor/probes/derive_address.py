"""The PCI address of a GPU that the driver has lost, by elimination: it cannot tell it itself any more."""

from __future__ import annotations

import msgspec

from gpudoctor.facts import Evidence, Facts


def lost_gpu_address(facts: Facts) -> Facts:
    """Gives the one lost GPU without an address the one address on the bus that no other GPU has; never guesses between two."""
    nameless = [gpu for gpu in facts.gpus or [] if gpu.bdf is None and gpu.lost]
    devices = (facts.pci.nvidia_devices if facts.pci else None) or []
    taken = {gpu.bdf for gpu in facts.gpus or []}
    free = [device for device in devices if device.bdf not in taken]
    if len(nameless) != 1 or len(free) != 1 or len(devices) != len(facts.gpus or []):
        return facts
    lost = nameless[0]
    told = Evidence(
        source="/sys/bus/pci/devices", text=f"{free[0].bdf} is the one NVIDIA GPU that no other index has"
    )
    named = msgspec.structs.replace(lost, bdf=free[0].bdf, evidence={**lost.evidence, "bdf": told})
    return msgspec.structs.replace(facts, gpus=[named if gpu is lost else gpu for gpu in facts.gpus or []])
