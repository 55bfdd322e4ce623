"""Whole hosts for `--root DIR`, each in one state that users know. All have two A100 cards unless they say otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from . import nvml, uname_shim
from .nvml import FakeNvml
from .pci_config import Bar, Link
from .pci_tree import Device
from .root_tree import DRIVER, KERNEL, RootTree
from .scenario_file import Scenario

MODEL = "NVIDIA A100-SXM4-80GB"
NEW_KERNEL = "6.1.0-23-amd64"
CARDS = (
    Device("0000:3b:00.0", 0x20B2, ports=(("0000:3a:00.0", 0x8086, 0x347A),), iommu_group=41),
    Device("0000:af:00.0", 0x20B2, ports=(("0000:ae:00.0", 0x8086, 0x347A),), iommu_group=42, numa_node=1),
)


def _host(root: Path, cards: tuple[Device, ...] = CARDS, driver: str | None = None, kernel: str = KERNEL) -> RootTree:
    """Base system and cards, all bound to `driver`."""
    tree = RootTree(root, kernel)
    tree.add_base()
    for card in cards:
        tree.pci.add(replace(card, driver=driver))
    return tree


def _with_driver(tree: RootTree, version: str = DRIVER, cards: tuple[Device, ...] = CARDS) -> RootTree:
    tree.add_libraries(version)
    tree.add_module_on_disk(version)
    tree.add_loaded_driver(version)
    for number, card in enumerate(cards):
        tree.add_gpu_of_driver(number, card.bdf, MODEL, version)
    return tree


def healthy_host(root: Path) -> RootTree:
    """Driver installed by DKMS for the running kernel, loaded, bound to both cards; nodes there."""
    tree = _with_driver(_host(root, driver="nvidia"))
    tree.write("/etc/modprobe.d/nvidia-blacklists-nouveau.conf", "blacklist nouveau\n")
    return tree


def no_card(root: Path) -> RootTree:
    """No NVIDIA device on the bus, no driver."""
    return _host(root, cards=())


def card_no_driver(root: Path) -> RootTree:
    """Cards there, nothing of NVIDIA's installed."""
    return _host(root)


def nouveau_bound(root: Path) -> RootTree:
    """NVIDIA's driver is installed, but nouveau has the cards."""
    tree = _host(root, driver="nouveau")
    tree.add_libraries()
    tree.add_module_on_disk()
    tree.add_nouveau()
    return tree


def built_for_another_kernel(root: Path, *, headers: bool = False) -> RootTree:
    """The kernel was updated and booted; DKMS has the module for the old one only (headers of the new one: as told)."""
    tree = _host(root, kernel=NEW_KERNEL)
    tree.add_kernel(KERNEL, headers=True)
    if not headers:
        tree.path(f"/lib/modules/{NEW_KERNEL}/build").unlink()
    tree.add_libraries()
    tree.add_module_on_disk(kernel=KERNEL)
    return tree


def build_failed(root: Path) -> RootTree:
    """DKMS tried to build for the running kernel; the compiler refused."""
    tree = _host(root)
    tree.add_libraries()
    tree.add_dkms(DRIVER, KERNEL, "failed")
    return tree


def library_mismatch(root: Path, *, library: str = "550.90.07") -> RootTree:
    """The driver was updated under a running module: libraries and module on disk are newer than the loaded one."""
    tree = _host(root, driver="nvidia")
    tree.add_loaded_driver(DRIVER)
    tree.add_libraries(library)
    tree.add_module_on_disk(library)
    for number, card in enumerate(CARDS):
        tree.add_gpu_of_driver(number, card.bdf, MODEL)
    return tree


def module_rejected(root: Path) -> RootTree:
    """Secure Boot is on and refused the unsigned module, which is installed for this kernel."""
    tree = _host(root)
    tree.add_libraries()
    tree.add_module_on_disk()
    tree.set_secure_boot(True)
    tree.write("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n")
    tree.write("/var/log/dmesg", "[   12.345678] Loading of module with unavailable key is rejected\n")
    return tree


def off_the_bus(root: Path) -> RootTree:
    """The second card stopped answering: its configuration space reads all ones."""
    cards = (CARDS[0], replace(CARDS[1], answers=False, link=None))
    return _with_driver(_host(root, cards, driver="nvidia"), cards=cards)


def slow_link(root: Path) -> RootTree:
    """The first card's link trained at x8 of x16."""
    cards = (replace(CARDS[0], link=Link(("16.0 GT/s", 8), ("16.0 GT/s", 16))), CARDS[1])
    return _with_driver(_host(root, cards, driver="nvidia"), cards=cards)


def no_address_space(root: Path) -> RootTree:
    """The firmware gave the first card no memory window; the driver did not take it."""
    small = replace(CARDS[0], bars=(Bar(0x9D000000, 1 << 24), Bar(0, 1 << 37, True), Bar(0, 1 << 25, True)))
    tree = _host(root, (small, CARDS[1]))
    tree.add_libraries()
    tree.add_module_on_disk()
    return tree


def vfio_bound(root: Path) -> RootTree:
    """The cards are set aside for virtual machines."""
    tree = _host(root, driver="vfio-pci")
    tree.append("/proc/modules", "vfio_pci 16384 2 - Live 0x0000000000000000\n")
    return tree


Maker: TypeAlias = Callable[[Path], RootTree]
ALL: tuple[Maker, ...] = (
    healthy_host, no_card, card_no_driver, nouveau_bound, built_for_another_kernel, build_failed, library_mismatch,
    module_rejected, off_the_bus, slow_link, no_address_space, vfio_bound,
)  # fmt: skip
_WITH_DRIVER = (healthy_host, off_the_bus, slow_link)


def environment(make: Maker, tree: RootTree, fake: FakeNvml) -> dict[str, str]:
    """What a program must be run with so that the kernel's and the driver's live answers fit the host's files too."""
    code = nvml.SUCCESS if make in _WITH_DRIVER else nvml.DRIVER_NOT_LOADED
    if make is library_mismatch:
        code = nvml.VERSION_MISMATCH
    scenario: dict[str, Scenario | str | int] = {
        "init": code,
        "count": len(CARDS),
        "driver": DRIVER,
        "nvml": f"12.{DRIVER}",
        "gpu.nvlinks": 12,
        "gpu.nvlink_remote": "switch",
    }
    for number, card in enumerate(CARDS):
        scenario[f"gpu{number}"] = {"bus_id": f"0000{card.bdf.upper()}", "minor_number": number}
    if make is off_the_bus:
        scenario["gpu1"] = {"bus_id": f"0000{CARDS[1].bdf.upper()}", "lost": True}
    if make is slow_link:
        scenario["gpu0"] = {"bus_id": f"0000{CARDS[0].bdf.upper()}", "pcie_width": 8}
    return {**fake.scenario(scenario), **uname_shim.environment(tree.kernel)}
