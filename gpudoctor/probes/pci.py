"""NVIDIA devices on the PCI bus: sysfs first, lspci for names and where there is no sysfs."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence, Pci, PciDevice
from gpudoctor.probes import pci_sysfs as sysfs
from gpudoctor.probes.ask import is_machine, read_text, said
from gpudoctor.probes.collect import quote
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.probes.pci_lspci import GPU_CLASSES, LspciFunction, parse_lspci, upstream_of
from gpudoctor.probes.pci_path import Link, narrowest
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, Source, Status

NAME = "pci"
_BRIDGE_CLASSES = ("0680",)
_LINES_FOR_ABSENCE = 5  # a paste of fewer functions may be an excerpt


def probe(source: Source) -> Pci | None:
    """The bus. An empty list of devices means that the bus was seen and has none."""
    pci = _from_sysfs(source)
    if pci is None:
        pci = _from_lspci(source)
    elif pci.nvidia_devices:
        pci = _named(source, pci)
        if len(pci.nvidia_devices or []) > 1:
            pci = _with_acs(source, pci)
    if pci is None or pci.nvidia_devices is None:
        devices = _from_driver_proc(source) or _from_kernel_log(source)
        if devices:
            pci = msgspec.structs.replace(pci or Pci(), nvidia_devices=devices)
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
        elif class_code in _BRIDGE_CLASSES:
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
        evidence={"nvidia_devices": Evidence(source=sysfs.DEVICES, text=words)},
    )


def _iommu(source: Source, gpus: list[PciDevice]) -> tuple[bool | None, str | None]:
    groups = source.list("/sys/kernel/iommu_groups")
    if groups.status not in (Status.OK, Status.NOT_FOUND):
        return None, None
    if not groups.names:
        return False, "off"
    group = next((gpu.iommu_group for gpu in gpus if gpu.iommu_group is not None), groups.names[0])
    kind = read_text(source, f"/sys/kernel/iommu_groups/{group}/type") or ""
    mode = "passthrough" if kind == "identity" else "translated" if kind.startswith("DMA") else None
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
                name=function.name or None,
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
    return _acs_of(answer, parse_lspci(answer.stdout), pci)


def _acs_of(answer: CommandAnswer, functions: list[LspciFunction], pci: Pci) -> Pci:
    if "ACSCtl" not in answer.stdout:
        return pci
    on = [function for function in functions if function.acs_on and function.class_code == "0604"]
    evidence = dict(pci.evidence)
    if on:
        evidence["acs_enabled_bridges"] = quote(answer, on[0].lines["acs"])
    return msgspec.structs.replace(pci, acs_enabled_bridges=[function.bdf for function in on], evidence=evidence)


def _from_lspci(source: Source) -> Pci | None:
    detailed, short = source.run(*requests.LSPCI_VVV), source.run(*requests.LSPCI)
    answer = detailed if said(detailed) and parse_lspci(detailed.stdout) else short
    if not said(answer):
        return None
    functions = parse_lspci(answer.stdout)
    has_drivers = "Kernel driver in use:" in answer.stdout and answer.filtered_by is None
    gpus = [
        _device_of(answer, function, functions, has_drivers)
        for function in functions
        if function.is_nvidia and (function.class_code in GPU_CLASSES or function.class_code is None)
    ]
    if answer is detailed and said(short):
        gpus = _completed(gpus, parse_lspci(short.stdout))
    if not gpus and not _proves_absence(source, answer, functions):
        return None
    switches = [f.bdf for f in functions if f.is_nvidia and f.class_code in _BRIDGE_CLASSES]
    whole = answer.filtered_by is None
    pci = Pci(
        nvidia_devices=gpus,
        nvswitches=switches if switches or whole else None,
        mellanox_devices=[f.bdf for f in functions if f.is_mellanox] if whole else None,
        evidence={"nvidia_devices": quote(answer, None, _words_for(answer, gpus))},
    )
    return _acs_of(answer, functions, pci)


def _words_for(answer: CommandAnswer, gpus: list[PciDevice]) -> str:
    if gpus:
        return gpus[0].evidence[""].text
    return f"no NVIDIA GPU among {len(parse_lspci(answer.stdout))} functions" if answer.stdout.strip() else "(empty)"


def _completed(gpus: list[PciDevice], functions: list[LspciFunction]) -> list[PciDevice]:
    """A name that only the shorter listing resolved: -vvv and -nn may come from different machines' pci.ids."""
    names = {function.bdf: function for function in functions}
    done = []
    for gpu in gpus:
        other = names.get(gpu.bdf)
        if other is not None and gpu.device_id is None:
            gpu = msgspec.structs.replace(gpu, device_id=other.device_id)
        done.append(gpu)
    return done


def filter_shows_nvidia(pattern: str) -> bool:
    """Whether a grep with this pattern would have shown an NVIDIA GPU's line."""
    low = pattern.lower()
    return "nvidia" in low or "10de" in low or ("vga" in low and "3d" in low)


def _proves_absence(source: Source, answer: CommandAnswer, functions: list[LspciFunction]) -> bool:
    if answer.status is Status.FAILED and answer.filtered_by is None:
        return False
    if answer.filtered_by is not None:
        return filter_shows_nvidia(answer.filtered_by)
    if is_machine(source):
        return bool(functions)
    return len(functions) >= _LINES_FOR_ABSENCE


def _device_of(
    answer: CommandAnswer, function: LspciFunction, functions: list[LspciFunction], has_drivers: bool
) -> PciDevice:
    lines = function.lines
    evidence = {"": quote(answer, lines["name"]), "name": quote(answer, lines["name"])}
    for field, line in (("driver_in_use", "driver_in_use"), ("link_width", "link"), ("link_speed_gts", "link")):
        if line in lines:
            evidence[field] = quote(answer, lines[line])
    if "bar_unassigned" in lines:
        evidence["bar_unassigned"] = quote(answer, lines["bar_unassigned"])
    if function.dead:
        evidence["revision_ff"] = quote(answer, lines.get("dead", lines["name"]))
    own = Link(function.link_speed_gts, function.link_width, function.link_speed_max_gts, function.link_width_max)
    above = upstream_of(function, functions)
    path = narrowest(own, [(f.bdf, Link(None, None, f.link_speed_max_gts, f.link_width_max)) for f in above])
    if path.bottleneck is not None:
        bridge = next(f for f in above if f.bdf == path.bottleneck)
        evidence["path_bottleneck_bdf"] = quote(answer, bridge.lines.get("link_max"))
    return PciDevice(
        bdf=function.bdf,
        device_id=function.device_id,
        subsystem_id=function.subsystem_id,
        name=function.name or None,
        revision=function.revision,
        class_code=function.class_code,
        driver_in_use=function.driver if function.driver is not None else "" if has_drivers else None,
        kernel_modules=function.modules,
        link_speed_gts=function.link_speed_gts,
        link_width=function.link_width,
        link_speed_max_gts=function.link_speed_max_gts,
        link_width_max=function.link_width_max,
        path_link_speed_max_gts=path.speed_max_gts,
        path_link_width_max=path.width_max,
        path_bottleneck_bdf=path.bottleneck,
        upstream_bdfs=[f.bdf for f in above] or None,
        numa_node=function.numa_node,
        iommu_group=function.iommu_group,
        bar_unassigned=function.bar_unassigned if function.bars_seen else None,
        bar1_size_mib=max(function.bar_sizes_mib, default=None),
        revision_ff=function.dead if function.revision is not None else None,
        power_state=function.power_state,
        slot=function.slot,
        evidence=evidence,
    )


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


_NVRM_DEVICE = re.compile(
    r"NVRM: The NVIDIA (?:GPU|probe routine)\D*?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s*\(PCI ID: (10de:[0-9a-f]{4})\)",
    re.IGNORECASE,
)


def _from_kernel_log(source: Source) -> list[PciDevice]:
    """GPUs that the driver named with their PCI id in a pasted or attached kernel log."""
    if is_machine(source):
        return []
    devices: dict[str, PciDevice] = {}
    for document in source.documents():
        for index, line in enumerate(document.text.splitlines()):
            match = _NVRM_DEVICE.search(line) if "PCI ID" in line else None
            bdf = normal_bdf(match[1]) if match else None
            if match is None or bdf is None:
                continue
            numbers = document.line_numbers
            number = numbers[index] if numbers and index < len(numbers) else index + 1
            evidence = {"": Evidence(source=document.name, text=line.strip()[:400], line=number)}
            devices.setdefault(bdf, PciDevice(bdf=bdf, device_id=match[2].lower(), evidence=evidence))
    return list(devices.values())
