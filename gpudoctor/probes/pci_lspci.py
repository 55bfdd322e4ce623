"""Reads lspci in its forms: plain, -nn, -n, -k, -vvv, with or without domains, with hex dumps."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from gpudoctor.lazy import Lazy

# Class names of pci.ids that matter here, for output without -nn.
_CLASS_CODES = {
    "vga compatible controller": "0300",
    "3d controller": "0302",
    "display controller": "0380",
    "audio device": "0403",
    "multimedia audio controller": "0401",
    "host bridge": "0600",
    "pci bridge": "0604",
    "bridge": "0680",
    "infiniband controller": "0207",
    "ethernet controller": "0200",
    "usb controller": "0c03",
    "serial bus controller": "0c80",
}
GPU_CLASSES = ("0300", "0302", "0380")
BRIDGE_CLASSES = ("0680",)  # NVSwitches
_ADDRESS = r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})\.(?P<function>[0-7])"
_HEADER = Lazy(
    rf"^\s{{0,8}}{_ADDRESS}\s+(?P<class>[A-Z0-9][^:\[]*?)(?:\s\[(?P<code>[0-9a-f]{{4}})\])?: (?P<name>.+?)"
    r"(?: \[(?P<id>[0-9a-f]{4}:[0-9a-f]{4})\])?(?: \(rev (?P<rev>[0-9a-f]{2})\))?(?: \(prog-if [^)]*\))?\s*$",
    re.IGNORECASE,
)
_NUMERIC = Lazy(
    rf"^\s{{0,8}}{_ADDRESS}\s+(?:Class )?(?P<code>[0-9a-f]{{4}}): (?P<id>[0-9a-f]{{4}}:[0-9a-f]{{4}})(?: \(rev (?P<rev>[0-9a-f]{{2}})\))?",
    re.IGNORECASE,
)
_NAMED_BY_ID = Lazy(r"\bDevice ([0-9a-f]{4})\b", re.IGNORECASE)
_LINK = Lazy(r"Speed\s+(\d+(?:\.\d+)?|unknown)\s*(?:GT/s)?[^,]*,\s*Width\s+x(\d+)", re.IGNORECASE)
_REGION = Lazy(r"Region (\d): (?:\[virtual\] )?Memory at (\S+)(.*)")
_SIZE = Lazy(r"\[size=(\d+)([KMGT]?)\]")
_SIZE_MIB = {"": 1 / 1024**2, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}


class LspciFunction(msgspec.Struct, kw_only=True):
    """One function of lspci's output. `lines` gives, by field name, the index of the line it was read from."""

    bdf: str
    class_code: str | None = None
    name: str = ""
    device_id: str | None = None  # "10de:20b2"
    subsystem_id: str | None = None
    revision: str | None = None
    driver: str | None = None
    modules: list[str] | None = None
    link_speed_max_gts: float | None = None
    link_width_max: int | None = None
    link_speed_gts: float | None = None
    link_width: int | None = None
    numa_node: int | None = None
    iommu_group: int | None = None
    slot: str | None = None
    power_state: str | None = None
    bar_sizes_mib: list[int] = []
    bars_seen: bool = False
    bar_unassigned: bool = False
    secondary_bus: int | None = None
    acs_on: bool = False
    max_payload_bytes: int | None = None  # in use (DevCtl), not what the device could (DevCap)
    max_read_request_bytes: int | None = None
    dead: bool = False  # configuration space reads all ones
    lines: dict[str, int] = {}

    @property
    def is_nvidia(self) -> bool:
        if self.device_id is not None:
            return self.device_id.startswith("10de:")
        return self.name.lower().startswith("nvidia")

    @property
    def is_mellanox(self) -> bool:
        if self.device_id is not None:
            return self.device_id.startswith("15b3:")
        return self.name.startswith("Mellanox")


def parse_lspci(text: str) -> list[LspciFunction]:
    """Every function named in the text; lines that belong to none are skipped."""
    functions: list[LspciFunction] = []
    for index, line in enumerate(text.splitlines()):
        header = _parse_header(line)
        if header is not None:
            header.lines["name"] = index
            functions.append(header)
        elif functions:
            _read_detail(functions[-1], line.strip(), index)
    return functions


def function_of_filter(text: str, filtered_by: str | None) -> LspciFunction | None:
    """The function that `lspci -vv -s 05:00.0 | grep LnkSta` speaks of: its address is only in the command."""
    match = re.search(rf"(?<![\w:.]){_ADDRESS}(?!\w)", (filtered_by or "").replace("\\", ""), re.IGNORECASE)
    if match is None:
        return None
    parts = match.groupdict()
    bdf = f"{int(parts['domain'] or '0', 16):04x}:{parts['bus']}:{parts['device']}.{parts['function']}".lower()
    function = LspciFunction(bdf=bdf, lines={"name": 0})
    for index, line in enumerate(text.splitlines()):
        _read_detail(function, line.strip(), index)
    return function if len(function.lines) > 1 else None


def _has_class_number(line: str) -> bool:
    """Whether `0302:` stands where lspci without -n has a name."""
    words = line.split(maxsplit=2)
    return len(words) > 1 and (words[1].lower() == "class" or words[1][4:] == ":")


def _parse_header(line: str) -> LspciFunction | None:
    match = (_NUMERIC.match(line) if _has_class_number(line) else None) or _HEADER.match(line)
    if match is None:
        return None
    parts = match.groupdict()
    bdf = f"{int(parts['domain'] or '0', 16):04x}:{parts['bus']}:{parts['device']}.{parts['function']}".lower()
    name = (parts.get("name") or "").strip()
    device_id = parts["id"].lower() if parts["id"] else None
    if device_id is None and name.lower().startswith("nvidia"):
        unknown = _NAMED_BY_ID.search(name)
        device_id = f"10de:{unknown[1].lower()}" if unknown else None
    code = parts["code"] or _CLASS_CODES.get((parts.get("class") or "").strip().lower())
    revision = parts["rev"].lower() if parts["rev"] else None
    return LspciFunction(
        bdf=bdf,
        class_code=code.lower() if code else None,
        name=name,
        device_id=device_id,
        revision=revision,
        dead=revision == "ff",
        lines={},
    )


def _read_detail(function: LspciFunction, line: str, index: int) -> None:
    if line.startswith("Kernel driver in use:"):
        function.driver = line.split(":", 1)[1].strip()
        function.lines["driver_in_use"] = index
    elif line.startswith("Kernel modules:"):
        function.modules = [name.strip() for name in line.split(":", 1)[1].split(",") if name.strip()]
    elif line.startswith("Subsystem:"):
        match = re.search(r"\[([0-9a-f]{4}:[0-9a-f]{4})\]", line)
        function.subsystem_id = match[1] if match else None
    elif line.startswith(("LnkCap:", "LnkSta:")):
        _read_link(function, line, index)
    elif line.startswith("NUMA node:"):
        function.numa_node = _number(line)
    elif line.startswith("IOMMU group:"):
        function.iommu_group = _number(line)
    elif line.startswith("Physical Slot:"):
        function.slot = line.split(":", 1)[1].strip() or None
    elif line.startswith("Region "):
        _read_region(function, line, index)
    elif line.startswith("Bus: primary="):
        match = re.search(r"secondary=([0-9a-f]{2})", line)
        function.secondary_bus = int(match[1], 16) if match else None
    elif line.startswith("Status: D"):
        function.power_state = line.split()[1]
    elif line.startswith("MaxPayload ") and "MaxReadReq" in line:  # the second line of DevCtl
        sizes = re.match(r"MaxPayload (\d+) bytes, MaxReadReq (\d+) bytes", line)
        if sizes is not None:
            function.max_payload_bytes, function.max_read_request_bytes = int(sizes[1]), int(sizes[2])
            function.lines["sizes"] = index
    elif line.startswith("ACSCtl:"):
        function.acs_on = "SrcValid+" in line or "ReqRedir+" in line
        function.lines["acs"] = index
    elif line.startswith("!!! Unknown header type 7f"):
        function.dead = True
        function.lines["dead"] = index


def _number(line: str) -> int | None:
    word = line.split(":", 1)[1].strip()
    return int(word) if word.lstrip("-").isdecimal() else None


def _read_link(function: LspciFunction, line: str, index: int) -> None:
    match = _LINK.search(line)
    if match is None:
        return
    speed = float(match[1]) if match[1].lower() != "unknown" else None
    width = int(match[2]) or None
    if line.startswith("LnkCap:"):
        function.link_speed_max_gts, function.link_width_max = speed, width
        function.lines["link_max"] = index
    else:
        function.link_speed_gts, function.link_width = speed, width
        function.lines["link"] = index


def _read_region(function: LspciFunction, line: str, index: int) -> None:
    match = _REGION.match(line)
    if match is None:
        return
    function.bars_seen = True
    if match[2] in ("<unassigned>", "<ignored>"):
        function.bar_unassigned = True
        function.lines["bar_unassigned"] = index
    size = _SIZE.search(match[3])
    if size is not None:
        function.bar_sizes_mib = [*function.bar_sizes_mib, int(int(size[1]) * _SIZE_MIB[size[2]])]


def upstream_of(function: LspciFunction, functions: Iterable[LspciFunction]) -> list[LspciFunction]:
    """The bridges from a function up to the root port, by the bus numbers that -v shows; empty when they are not shown."""
    by_bus = {(f.bdf[:4], f.secondary_bus): f for f in functions if f.secondary_bus}
    path: list[LspciFunction] = []
    current = function
    while len(path) < 32:
        bridge = by_bus.get((current.bdf[:4], int(current.bdf[5:7], 16)))
        if bridge is None or bridge in path:
            return path
        path.append(bridge)
        current = bridge
    return path
