"""A /sys with PCI devices: what the kernel shows, down to a configuration space that the genuine lspci decodes."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from . import pci_config
from .pci_config import Bar, Link

NVIDIA = 0x10DE
VGA, CONTROLLER_3D, ETHERNET, INFINIBAND, NVME, NVSWITCH = 0x030000, 0x030200, 0x020000, 0x020700, 0x010802, 0x068000

# BARs of a data-centre card: registers, memory window, doorbells.
_GPU_BARS = (Bar(0x9D000000, 1 << 24), Bar(0x20_0000_0000, 1 << 37, True), Bar(0x9E000000, 1 << 25, True))


@dataclass(frozen=True)
class Device:
    """One endpoint. `ports` are the bridges above it, root port first, each (address, vendor, device).

    `link` of None is a device whose link the kernel does not know; `answers` of False is one that fell off the bus.
    """

    bdf: str
    device: int
    vendor: int = NVIDIA
    class_code: int = CONTROLLER_3D
    subsystem: tuple[int, int] = (NVIDIA, 0x1463)
    revision: int = 0xA1
    link: Link | None = field(default_factory=Link)
    bars: tuple[Bar, ...] = _GPU_BARS
    driver: str | None = "nvidia"
    ports: tuple[tuple[str, int, int], ...] = ()
    numa_node: int = 0
    iommu_group: int | None = 42
    answers: bool = True
    enabled: bool = True
    runtime_status: str = "active"
    aer: tuple[int, int] = (0, 0)

    @property
    def host_bridge(self) -> str:
        first = self.ports[0][0] if self.ports else self.bdf
        return f"pci{first[:7]}"


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="utf-8")


def _link_to(path: Path, target: Path) -> None:
    """A relative symbolic link, as sysfs has them: it stays right when the whole tree is moved or bound elsewhere."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_symlink():
        path.symlink_to(os.path.relpath(target, path.parent))


def _write_link(folder: Path, link: Link | None) -> None:
    unknown = ("Unknown", 0)
    for name, (speed, width) in (
        ("current", link.current if link else unknown),
        ("max", link.max if link else unknown),
    ):
        _put(folder / f"{name}_link_speed", f"{speed} PCIe" if link else speed)
        _put(folder / f"{name}_link_width", str(width))


def _resource_lines(bars: tuple[Bar, ...]) -> str:
    """Thirteen regions: start, end, flags; a region that was not assigned starts at 0 but has flags."""
    lines = []
    for bar in bars:
        flags = 0x14220C if bar.prefetchable else 0x40200
        lines.append(f"0x{bar.address:016x} 0x{bar.address + bar.size - 1:016x} 0x{flags:016x}")
    empty = f"0x{0:016x} 0x{0:016x} 0x{0:016x}"
    return "\n".join([*lines, *[empty] * (13 - len(lines))])


class PciTree:
    """`sys` is a folder that stands for /sys."""

    def __init__(self, sys: Path) -> None:
        self.sys = sys
        self.devices = sys / "bus/pci/devices"
        self.devices.mkdir(parents=True, exist_ok=True)
        (sys / "bus/pci/slots").mkdir(exist_ok=True)

    @property
    def lspci_arguments(self) -> list[str]:
        """What makes the genuine lspci read this tree."""
        return ["-A", "linux-sysfs", "-O", f"sysfs.path={self.sys / 'bus/pci'}"]

    def add(self, device: Device) -> Path:
        """Writes the device and the bridges above it; returns its real folder below `sys`/devices."""
        folder = self.sys / "devices" / device.host_bridge
        for number, port in enumerate(device.ports):
            folder = self._add_port(folder, device, number, port)
        folder = folder / device.bdf
        self._common(folder, device.vendor, device.device, device.class_code, device.revision, device.subsystem)
        answering = pci_config.endpoint(
            device.vendor, device.device, device.class_code, subsystem=device.subsystem, revision=device.revision,
            link=device.link, bars=device.bars, mastering=device.driver is not None, aer=device.aer,
        )  # fmt: skip
        (folder / "config").write_bytes(answering if device.answers else pci_config.fallen_off_the_bus())
        if not device.answers:
            _put(folder / "revision", f"0x{device.revision:02x}")  # sysfs remembers what was read at boot
        _put(folder / "resource", _resource_lines(device.bars))
        _put(folder / "numa_node", str(device.numa_node))
        _put(folder / "enable", str(int(device.enabled)))
        _put(folder / "power/runtime_status", device.runtime_status)
        _put(folder / "power/control", "on")
        _write_link(folder, device.link)
        self._bind(folder, device)
        return folder

    def _add_port(self, parent: Path, device: Device, number: int, port: tuple[str, int, int]) -> Path:
        bdf, vendor, device_id = port
        folder = parent / bdf
        first, last = self._buses_behind(device, number)
        kind = (
            pci_config.ROOT_PORT
            if number == 0
            else (pci_config.UPSTREAM_PORT, pci_config.DOWNSTREAM_PORT)[(number + 1) % 2]
        )
        self._common(folder, vendor, device_id, 0x060400, 0x06, (0, 0))
        (folder / "config").write_bytes(
            pci_config.bridge(vendor, device_id, (int(bdf[5:7], 16), first, last), kind, device.link)
        )
        _put(folder / "resource", _resource_lines(()))
        _put(folder / "numa_node", str(device.numa_node))
        _put(folder / "secondary_bus_number", str(first))
        _put(folder / "subordinate_bus_number", str(last))
        _write_link(folder, device.link)
        _link_to(folder / "driver", self._driver("pcieport"))
        return folder

    @staticmethod
    def _buses_behind(device: Device, number: int) -> tuple[int, int]:
        below = device.ports[number + 1][0] if number + 1 < len(device.ports) else device.bdf
        return int(below[5:7], 16), int(device.bdf[5:7], 16)

    def _common(
        self, folder: Path, vendor: int, device: int, class_code: int, revision: int, subsystem: tuple[int, int]
    ) -> None:
        _put(folder / "vendor", f"0x{vendor:04x}")
        _put(folder / "device", f"0x{device:04x}")
        _put(folder / "class", f"0x{class_code:06x}")
        _put(folder / "revision", f"0x{revision:02x}")
        _put(folder / "subsystem_vendor", f"0x{subsystem[0]:04x}")
        _put(folder / "subsystem_device", f"0x{subsystem[1]:04x}")
        _put(folder / "irq", "16")
        _put(folder / "modalias", _modalias(vendor, device, class_code, subsystem))
        for kind in ("correctable", "nonfatal", "fatal"):
            _put(folder / f"aer_dev_{kind}", f"TOTAL_ERR_{'COR' if kind == 'correctable' else kind.upper()} 0")
        _link_to(self.devices / folder.name, folder)

    def _bind(self, folder: Path, device: Device) -> None:
        if device.driver is not None:
            _link_to(folder / "driver", self._driver(device.driver))
            _link_to(self._driver(device.driver) / device.bdf, folder)
        if device.iommu_group is not None:
            group = self.sys / "kernel/iommu_groups" / str(device.iommu_group)
            _put(group / "type", "DMA-FQ")
            (group / "devices").mkdir(exist_ok=True)
            _link_to(group / "devices" / device.bdf, folder)
            _link_to(folder / "iommu_group", group)

    def _driver(self, name: str) -> Path:
        folder = self.sys / "bus/pci/drivers" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _modalias(vendor: int, device: int, class_code: int, subsystem: tuple[int, int]) -> str:
    base, sub, interface = class_code >> 16, class_code >> 8 & 0xFF, class_code & 0xFF
    ids = f"v{vendor:08X}d{device:08X}sv{subsystem[0]:08X}sd{subsystem[1]:08X}"
    return f"pci:{ids}bc{base:02X}sc{sub:02X}i{interface:02X}"
