"""The bus as lspci shows it, for recordings and texts without sysfs."""

from __future__ import annotations

import msgspec

from gpudoctor.facts import Pci, PciDevice
from gpudoctor.probes.ask import filter_shows, is_machine, said
from gpudoctor.probes.collect import quote
from gpudoctor.probes.pci_lspci import (
    BRIDGE_CLASSES,
    GPU_CLASSES,
    LspciFunction,
    function_of_filter,
    parse_lspci,
    upstream_of,
)
from gpudoctor.probes.pci_path import Link, narrowest
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, Source, Status

_LINES_FOR_ABSENCE = 5  # a paste of fewer functions may be an excerpt


def from_lspci(source: Source) -> Pci | None:
    """The bus as any lspci shows it; `None` where neither devices nor their absence is known."""
    detailed, short = source.run(*requests.LSPCI_VVV), source.run(*requests.LSPCI)
    answer = detailed if said(detailed) and parse_lspci(detailed.stdout) else short
    if not said(answer):
        return None
    functions = parse_lspci(answer.stdout)
    alone = function_of_filter(answer.stdout, answer.filtered_by) if not functions else None
    if alone is not None:
        # People name the address of the GPU that they ask about.
        return Pci(nvidia_devices=[_device_of(answer, alone, [alone], has_drivers=False)])
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
    switches = [f.bdf for f in functions if f.is_nvidia and f.class_code in BRIDGE_CLASSES]
    whole = answer.filtered_by is None
    proof = quote(answer, None, _words_for(answer, gpus))
    pci = Pci(
        nvidia_devices=gpus,
        nvswitches=switches if switches or whole else None,
        mellanox_devices=[f.bdf for f in functions if f.is_mellanox] if whole else None,
        evidence={"nvidia_devices": proof} if _shows_all(answer) else {},
    )
    return sizes_of(answer, functions, acs_of(answer, functions, pci))


def _shows_all(answer: CommandAnswer) -> bool:
    """Whether every NVIDIA GPU of the bus is in the output."""
    return answer.filtered_by is None or filter_shows_nvidia(answer.filtered_by)


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
    """Whether a grep with this pattern would have shown an NVIDIA GPU's line, be it a VGA or a 3D controller."""
    samples = (
        f"01:00.0 {name}: NVIDIA Corporation [10de:" for name in ("VGA compatible controller", "3D controller")
    )
    return all(filter_shows(pattern, sample) for sample in samples)


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
        name=None if function.name.endswith(" Device") else function.name or None,
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
        max_payload_bytes=function.max_payload_bytes,
        max_read_request_bytes=function.max_read_request_bytes,
        slot=function.slot,
        evidence=evidence,
    )


def acs_of(answer: CommandAnswer, functions: list[LspciFunction], pci: Pci) -> Pci:
    """Adds the PCI bridges on which ACS is on, where the output (root only) shows it."""
    if "ACSCtl" not in answer.stdout:
        return pci
    on = [function for function in functions if function.acs_on and function.class_code == "0604"]
    evidence = dict(pci.evidence)
    if on:
        evidence["acs_enabled_bridges"] = quote(answer, on[0].lines["acs"])
    return msgspec.structs.replace(pci, acs_enabled_bridges=[function.bdf for function in on], evidence=evidence)


def sizes_of(answer: CommandAnswer, functions: list[LspciFunction], pci: Pci) -> Pci:
    """Adds packet and read request sizes, where the output (root only) shows them."""
    shown = {function.bdf: function for function in functions if function.max_read_request_bytes is not None}
    if not shown:
        return pci
    devices = []
    for device in pci.nvidia_devices or []:
        function = shown.get(device.bdf)
        if function is not None and device.max_read_request_bytes is None:
            device = msgspec.structs.replace(
                device,
                max_payload_bytes=function.max_payload_bytes,
                max_read_request_bytes=function.max_read_request_bytes,
            )
        devices.append(device)
    cards = {f.bdf: f.max_read_request_bytes for f in shown.values() if f.is_mellanox and f.max_read_request_bytes}
    evidence = dict(pci.evidence)
    if cards:
        smallest = min(cards, key=lambda bdf: cards[bdf])
        evidence["nic_read_request_min_bytes"] = quote(answer, shown[smallest].lines["sizes"])
    return msgspec.structs.replace(
        pci,
        nvidia_devices=devices or pci.nvidia_devices,
        nic_read_request_min_bytes=min(cards.values(), default=None),
        evidence=evidence,
    )
