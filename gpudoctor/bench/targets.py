"""The devices that CUDA shows (CUDA_VISIBLE_DEVICES holds), joined with what is known of the GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudoctor.bench.model import Target
from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Facts, Gpu, PciDevice
from gpudoctor.knowledge import gpus as models
from gpudoctor.workers.bench_lines import Device, Start, read_line

_BDF = re.compile(r"(?i)(?:([0-9a-f]{4,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.([0-7]))?")
_GENERATION_BY_GTS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_MOST_DEVICES = 128


def address(text: str | None) -> str | None:
    """0000:3b:00.0, however it was written; None for anything else."""
    match = _BDF.fullmatch((text or "").strip())
    if match is None:
        return None
    return f"{int(match[1] or '0', 16):04x}:{int(match[2], 16):02x}:{int(match[3], 16):02x}.{match[4] or '0'}"


def devices_of(stdout: str) -> list[Device] | None:
    """The devices of a worker's `start` line; None when it did not get that far."""
    for text in stdout.splitlines():
        line = read_line(text)
        if isinstance(line, Start):
            return line.devices[:_MOST_DEVICES]
    return None


def targets_of(devices: Sequence[Device], facts: Facts) -> list[Target]:
    """One target a device, by ordinal."""
    known = {address(gpu.bdf): gpu for gpu in facts.gpus or [] if gpu.bdf}
    bus = {device.bdf: device for device in (facts.pci.nvidia_devices or [] if facts.pci else [])}
    return [
        _target(device, known.get(address(device.bdf)), bus.get(address(device.bdf) or ""))
        for device in sorted(devices, key=lambda device: device.ordinal)
    ]


def _target(device: Device, gpu: Gpu | None, pci: PciDevice | None) -> Target:
    device_id = (gpu.device_id if gpu else None) or (pci.device_id if pci else None)
    model = models.by_pci_id(device_id, pci.subsystem_id if pci else None)
    speed = pci.path_link_speed_max_gts if pci else None
    return Target(
        ordinal=device.ordinal,
        name=device.name,
        bdf=address(device.bdf),
        mig=device.uuid if device.uuid and device.uuid.startswith("MIG-") else None,
        uuid=device.uuid,
        memory_total_bytes=device.memory_total_bytes,
        gpu=gpu,
        device_id=device_id,
        model=model,
        numa_node=pci.numa_node if pci else None,
        path_generation_max=_GENERATION_BY_GTS.get(speed) if speed is not None else None,
        path_width_max=pci.path_link_width_max if pci else None,
    )


def chosen(targets: list[Target], wanted: tuple[str, ...] | None) -> list[Target]:
    """Those that were asked for by nvidia-smi's index, address or UUID. Raises GpudoctorError for one that CUDA does not show."""
    if wanted is None:
        return targets
    found: dict[int, Target] = {}
    for name in wanted:
        fitting = [target for target in targets if _is_named(target, name)]
        if not fitting:
            shown = ", ".join(f"{target.label} ({target.key})" for target in targets) or "none"
            raise GpudoctorError(f"--gpu {name}: CUDA shows no such GPU", f"it shows {shown}")
        found |= {target.ordinal: target for target in fitting}
    return [found[ordinal] for ordinal in sorted(found)]


def _is_named(target: Target, name: str) -> bool:
    if name.isdecimal():
        index = target.gpu.index if target.gpu is not None else None
        return int(name) == (target.ordinal if index is None else index)
    return name in (target.uuid, target.mig) or address(name) == target.bdf is not None
