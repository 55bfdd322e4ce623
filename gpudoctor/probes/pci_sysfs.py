"""Reads PCI functions from sysfs: no root needed, nothing to parse, the path up to the root port included."""

from __future__ import annotations

import re

from gpudoctor.facts import Evidence, PciDevice
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import is_absent, read_text
from gpudoctor.probes.pci_path import Link, narrowest
from gpudoctor.sources.answers import Source, Status

DEVICES = "/sys/bus/pci/devices"
# Flags of include/linux/ioport.h, as the `resource` file prints them.
_IORESOURCE_MEM = 0x200
_IORESOURCE_UNSET = 0x20000000
_BARS = 6  # lines of `resource` that are the function's own BARs; the ROM, SR-IOV and bridge windows follow
_BDF = Lazy(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def parse_speed(text: str | None) -> float | None:
    """GT/s in "16.0 GT/s PCIe" or "8 GT/s"; `None` for "Unknown"."""
    match = re.match(r"(\d+(?:\.\d+)?)\s*GT/s", text or "")
    return float(match[1]) if match else None


def parse_width(text: str | None) -> int | None:
    """Lanes; 0 and 255 stand for "unknown" in sysfs."""
    return int(text) if text and text.isdecimal() and 0 < int(text) < 64 else None


def parse_resource(text: str) -> tuple[bool | None, int | None]:
    """Whether a memory BAR has no address, and the size of the largest one in MiB, from sysfs' `resource`."""
    unassigned: bool | None = None
    largest = 0
    for line in text.splitlines()[:_BARS]:
        words = line.split()
        if len(words) != 3:
            continue
        try:
            start, end, flags = (int(word, 16) for word in words)
        except ValueError:
            continue
        if not flags & _IORESOURCE_MEM:
            continue
        missing = bool(flags & _IORESOURCE_UNSET) or (start == 0 and end > 0)
        unassigned = bool(unassigned) or missing
        largest = max(largest, end - start + 1)
    return unassigned, largest // 1024**2 or None


def upstream_bdfs(target: str | None) -> list[str]:
    """Bridges from the device up to the root port, from the link ../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0."""
    found = [part for part in (target or "").split("/") if _BDF.fullmatch(part)]
    return found[-2::-1] if len(found) > 1 else []


def class_of(source: Source, bdf: str) -> str | None:
    """The class, four digits, such as 0302."""
    text = read_text(source, f"{DEVICES}/{bdf}/class")
    return text.removeprefix("0x").lower()[:4] if text else None


def read_device(source: Source, bdf: str, class_code: str | None) -> PciDevice:
    """Everything that sysfs tells about one GPU."""
    base = f"{DEVICES}/{bdf}"
    evidence: dict[str, Evidence] = {}
    device = (read_text(source, f"{base}/device") or "").removeprefix("0x").lower()
    evidence[""] = Evidence(source=base, text=f"{bdf} vendor 10de device {device} class {class_code}")
    resource = source.read(f"{base}/resource")
    unassigned, largest = parse_resource(resource.text) if resource.status is Status.OK else (None, None)
    if unassigned:
        evidence["bar_unassigned"] = Evidence(source=f"{base}/resource", text="a memory BAR has no address")
    link = source.stat(base)
    upstream = upstream_bdfs(link.target)
    own = _link(source, bdf)
    evidence["link_width"] = Evidence(
        source=f"{base}/current_link_width", text=f"{own.text} now, {own.maximum_text} at most"
    )
    evidence["link_speed_gts"] = evidence["link_width"]
    bridges = [(name, _link(source, name)) for name in upstream]
    path = narrowest(own, bridges)
    if path.bottleneck is not None:
        bridge = dict(bridges)[path.bottleneck]
        words = f"{path.bottleneck} can do {bridge.maximum_text} at most"
        evidence["path_bottleneck_bdf"] = Evidence(source=f"{DEVICES}/{path.bottleneck}/max_link_width", text=words)
    dead = _is_dead(source, base)
    if dead:
        evidence["revision_ff"] = Evidence(source=f"{base}/config", text="configuration space reads ff")
    counts = {name: _aer_total(source, base, name, evidence) for name in ("correctable", "nonfatal", "fatal")}
    subsystem = tuple(
        (read_text(source, f"{base}/{name}") or "").removeprefix("0x")
        for name in ("subsystem_vendor", "subsystem_device")
    )
    numa = read_text(source, f"{base}/numa_node")
    enable = read_text(source, f"{base}/enable")
    return PciDevice(
        bdf=bdf,
        device_id=f"10de:{device}" if device else None,
        subsystem_id=":".join(subsystem) if all(subsystem) else None,
        revision=(read_text(source, f"{base}/revision") or "").removeprefix("0x") or None,
        class_code=class_code,
        driver_in_use=_driver(source, base),
        link_speed_gts=own.speed_gts,
        link_width=own.width,
        link_speed_max_gts=own.speed_max_gts,
        link_width_max=own.width_max,
        path_link_speed_max_gts=path.speed_max_gts,
        path_link_width_max=path.width_max,
        path_bottleneck_bdf=path.bottleneck,
        upstream_bdfs=upstream if link.target else None,
        numa_node=int(numa) if numa and re.fullmatch(r"-?\d+", numa) else None,
        iommu_group=_iommu_group(source, base),
        bar_unassigned=unassigned,
        bar1_size_mib=largest,
        revision_ff=dead,
        aer_correctable=counts["correctable"],
        aer_nonfatal=counts["nonfatal"],
        aer_fatal=counts["fatal"],
        power_state=read_text(source, f"{base}/power_state"),
        enabled=enable != "0" if enable is not None else None,
        evidence=evidence,
    )


def _aer_total(source: Source, base: str, kind: str, evidence: dict[str, Evidence]) -> int | None:
    """The total of aer_dev_correctable and its likes; the quote names what was counted."""
    path = f"{base}/aer_dev_{kind}"
    text = read_text(source, path)
    match = re.search(r"(?m)^TOTAL_ERR_\w+ (\d+)$", text or "")
    if match is None:
        return None
    counted = re.findall(r"(?m)^((?!TOTAL)\w+ [1-9]\d*)$", text or "")
    evidence[f"aer_{kind}"] = Evidence(source=path, text=", ".join(counted)[:200] or match[0])
    return int(match[1])


def _link(source: Source, bdf: str) -> Link:
    base = f"{DEVICES}/{bdf}"
    return Link(
        speed_gts=parse_speed(read_text(source, f"{base}/current_link_speed")),
        width=parse_width(read_text(source, f"{base}/current_link_width")),
        speed_max_gts=parse_speed(read_text(source, f"{base}/max_link_speed")),
        width_max=parse_width(read_text(source, f"{base}/max_link_width")),
    )


def _driver(source: Source, base: str) -> str | None:
    link = source.stat(f"{base}/driver")
    if link.status is Status.OK and link.target:
        return link.target.rsplit("/", 1)[-1]
    return "" if is_absent(link) else None


def _iommu_group(source: Source, base: str) -> int | None:
    target = (source.stat(f"{base}/iommu_group").target or "").rsplit("/", 1)[-1]
    return int(target) if target.isdecimal() else None


def _is_dead(source: Source, base: str) -> bool | None:
    """A device that does not answer reads as ff bytes, which decode to replacement characters."""
    config = source.read(f"{base}/config")
    if config.status is not Status.OK or len(config.text) < 4:
        return None
    return config.text[:4] == "\ufffd" * 4


def slots_of(source: Source) -> dict[str, str]:
    """Physical slot names by address without function, "0000:3b:00" -> "5"."""
    slots: dict[str, str] = {}
    for name in source.list("/sys/bus/pci/slots").names:
        address = read_text(source, f"/sys/bus/pci/slots/{name}/address")
        if address:
            slots[address] = name
    return slots
