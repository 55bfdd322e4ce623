"""NVIDIA devices on the PCI bus: sysfs first, lspci for names and where there is no sysfs."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence, Pci, PciDevice
from gpudoctor.probes import pci_sysfs as sysfs
from gpudoctor.probes.ask import is_machine, read_text, said
from gpudoctor.probes.collect import quote
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.probes.pci_from_lspci import acs_of, from_lspci, sizes_of
from gpudoctor.probes.pci_iommu import mode_of_command_line, with_iommu_of_logs
from gpudoctor.probes.pci_log import completed, devices_in_logs
from gpudoctor.probes.pci_lspci import BRIDGE_CLASSES, GPU_CLASSES, parse_lspci
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source, Status

NAME = "pci"


def probe(source: Source) -> Pci | None:
    """The bus. An empty list of devices means that the bus was seen and has none."""
    pci = _from_sysfs(source)
    if pci is None:
        pci = from_lspci(source)
    elif pci.nvidia_devices:
        pci = _named(source, pci)
        if len(pci.nvidia_devices or []) > 1:
            pci = _with_acs(source, pci)
    if pci is None or pci.nvidia_devices is None:
        devices = _from_driver_proc(source)
        if devices:
            pci = msgspec.structs.replace(pci or Pci(), nvidia_devices=devices)
    if not is_machine(source):
        pci = with_iommu_of_logs(source, _with_log(source, pci))
    return pci


def _from_sysfs(source: Source) -> Pci | None:
    listing = source.list(sysfs.DEVICES)
    if listing.status is not Status.OK:
        return None
    gpus: list[PciDevice] = []
    switches: list[str] = []
    mellanox: list[str] = []
    answered = 0
    for bdf in listing.names:
        vendor = read_text(source, f"{sysfs.DEVICES}/{bdf}/vendor")
        answered += vendor is not None
        if vendor not in ("0x10de", "0x15b3"):
            continue
        class_code = sysfs.class_of(source, bdf)
        if vendor == "0x15b3":
            mellanox.append(bdf)
        elif class_code in GPU_CLASSES:
            gpus.append(sysfs.read_device(source, bdf, class_code))
        elif class_code in BRIDGE_CLASSES:
            switches.append(bdf)
    if listing.names and not answered:
        return None
    if gpus:
        slots = sysfs.slots_of(source)
        gpus = [msgspec.structs.replace(gpu, slot=slots.get(gpu.bdf.rsplit(".", 1)[0])) for gpu in gpus]
    enabled, mode = _iommu(source, gpus)
    words = f"{len(listing.names)} functions, {len(gpus)} NVIDIA GPUs"
    return Pci(
        nvidia_devices=gpus,
        nvswitches=switches,
        mellanox_devices=mellanox,
        iommu_enabled=enabled,
        iommu_mode=mode,
        numa_cpus=_numa_cpus(source, gpus),
        evidence={"nvidia_devices": Evidence(source=sysfs.DEVICES, text=words)},
    )


def _numa_cpus(source: Source, gpus: list[PciDevice]) -> dict[str, str] | None:
    """The CPUs beside the GPUs; None where the machine has one NUMA node or does not tell."""
    nodes = sorted({gpu.numa_node for gpu in gpus if gpu.numa_node is not None and gpu.numa_node >= 0})
    found = {str(node): read_text(source, f"/sys/devices/system/node/node{node}/cpulist") for node in nodes}
    return {node: cpus for node, cpus in found.items() if cpus} or None


def _with_log(source: Source, pci: Pci | None) -> Pci | None:
    """A kernel log adds to what lspci showed; alone it names the devices that it speaks of."""
    logged = devices_in_logs(source)
    if not logged:
        return pci
    if pci is None or pci.nvidia_devices is None:
        return msgspec.structs.replace(pci or Pci(), nvidia_devices=logged)
    return msgspec.structs.replace(pci, nvidia_devices=completed(pci.nvidia_devices, logged))


def _iommu(source: Source, gpus: list[PciDevice]) -> tuple[bool | None, str | None]:
    groups = source.list("/sys/kernel/iommu_groups")
    if groups.status not in (Status.OK, Status.NOT_FOUND):
        return None, None
    if not groups.names:
        return False, "off"
    group = next((gpu.iommu_group for gpu in gpus if gpu.iommu_group is not None), groups.names[0])
    kind = read_text(source, f"/sys/kernel/iommu_groups/{group}/type") or ""
    mode = "passthrough" if kind == "identity" else "translated" if kind.startswith("DMA") else None
    if mode is None:  # kernels before 4.11 do not tell a group's type
        mode = mode_of_command_line(read_text(source, "/proc/cmdline") or "")
    return True, mode


def _named(source: Source, pci: Pci) -> Pci:
    """Adds the names and kernel modules that only lspci knows."""
    answer = source.run(*requests.LSPCI)
    if not said(answer):
        return pci
    functions = {function.bdf: function for function in parse_lspci(answer.stdout)}
    devices = []
    for device in pci.nvidia_devices or []:
        function = functions.get(device.bdf)
        if function is not None:
            device = msgspec.structs.replace(
                device,
                name=None if function.name.endswith(" Device") else function.name or None,
                kernel_modules=function.modules,
                revision_ff=device.revision_ff or function.dead,
                evidence={**device.evidence, "name": quote(answer, function.lines["name"])},
            )
        devices.append(device)
    return msgspec.structs.replace(pci, nvidia_devices=devices)


def _with_acs(source: Source, pci: Pci) -> Pci:
    answer = source.run(*requests.LSPCI_VVV)
    if not said(answer) or "ACSCtl" not in answer.stdout:
        return pci
    functions = parse_lspci(answer.stdout)
    return sizes_of(answer, functions, acs_of(answer, functions, pci))


def _from_driver_proc(source: Source) -> list[PciDevice]:
    """The devices that the loaded driver lists, where nothing else shows the bus."""
    devices = []
    for name in source.list("/proc/driver/nvidia/gpus").names:
        bdf = normal_bdf(name)
        if bdf is None:
            continue
        answer = source.read(f"/proc/driver/nvidia/gpus/{name}/information")
        model = re.search(r"(?m)^Model:\s+(.+)$", answer.text)
        evidence = {"": Evidence(source=answer.path, text=f"{bdf} {model[1].strip() if model else ''}".strip())}
        devices.append(PciDevice(bdf=bdf, name=model[1].strip() if model else None, evidence=evidence))
    return devices
