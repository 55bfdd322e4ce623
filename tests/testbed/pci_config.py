"""PCI configuration space as bytes: header, BARs, PCI Express capability, AER. Layout is that of the PCI specifications."""

from __future__ import annotations

import struct
from dataclasses import dataclass

CONFIG_SIZE = 4096
_EXPRESS = 0x68  # where the PCI Express capability is put
_POWER = 0x60
_SPEED_CODES = {"2.5 GT/s": 1, "5.0 GT/s": 2, "8.0 GT/s": 3, "16.0 GT/s": 4, "32.0 GT/s": 5, "64.0 GT/s": 6}

ENDPOINT, ROOT_PORT, UPSTREAM_PORT, DOWNSTREAM_PORT = 0, 4, 5, 6


@dataclass(frozen=True)
class Link:
    """Speeds as the kernel writes them, `16.0 GT/s`; `current` and `max` are (speed, width)."""

    current: tuple[str, int] = ("16.0 GT/s", 16)
    max: tuple[str, int] = ("16.0 GT/s", 16)


@dataclass(frozen=True)
class Bar:
    """A memory region; `address` 0 is one that the firmware did not assign."""

    address: int
    size: int
    prefetchable: bool = False


def _link_word(link: tuple[str, int]) -> int:
    speed, width = link
    return _SPEED_CODES[speed] | width << 4


def _express(config: bytearray, kind: int, link: Link) -> None:
    capability = 0x10 | kind << 20 | 2 << 16  # PCI Express, version 2, nothing after it
    struct.pack_into("<I", config, _EXPRESS, capability)
    struct.pack_into("<I", config, _EXPRESS + 4, 0x00008FE1)  # device capabilities
    struct.pack_into("<HH", config, _EXPRESS + 8, 0x2936, 0)  # device control and status
    struct.pack_into("<I", config, _EXPRESS + 12, _link_word(link.max))
    struct.pack_into("<HH", config, _EXPRESS + 16, 0x0040, _link_word(link.current) | 0x1000)
    struct.pack_into("<H", config, _EXPRESS + 48, _SPEED_CODES[link.max[0]])  # target speed


def _aer(config: bytearray, uncorrectable: int, correctable: int) -> None:
    struct.pack_into("<I", config, 0x100, 0x0001 | 2 << 16)
    struct.pack_into("<II", config, 0x104, uncorrectable, 0)
    struct.pack_into("<I", config, 0x110, correctable)


def _header(vendor: int, device: int, class_code: int, revision: int, bridge: bool, mastering: bool) -> bytearray:
    config = bytearray(CONFIG_SIZE)
    command, status = (0x0006 if mastering else 0x0000), 0x0010  # status: capabilities present
    struct.pack_into("<HHHH", config, 0, vendor, device, command, status)
    struct.pack_into("<I", config, 8, class_code << 8 | revision)
    config[0x0E] = 1 if bridge else 0
    config[0x34] = _POWER
    struct.pack_into("<BBH", config, _POWER, 0x01, _EXPRESS, 0x0003)  # power management, version 3
    return config


def endpoint(
    vendor: int,
    device: int,
    class_code: int,
    *,
    subsystem: tuple[int, int] = (0, 0),
    revision: int = 0xA1,
    link: Link | None = None,
    bars: tuple[Bar, ...] = (),
    mastering: bool = True,
    aer: tuple[int, int] = (0, 0),
) -> bytes:
    """A device: BAR 0 is 32-bit, the others 64-bit; `aer` is the (uncorrectable, correctable) status."""
    config = _header(vendor, device, class_code, revision, bridge=False, mastering=mastering)
    offset = 0x10
    for number, bar in enumerate(bars):
        wide = number > 0
        struct.pack_into(
            "<I", config, offset, (bar.address & 0xFFFFFFF0) | (4 if wide else 0) | (8 if bar.prefetchable else 0)
        )
        if wide:
            struct.pack_into("<I", config, offset + 4, bar.address >> 32)
        offset += 8 if wide else 4
    struct.pack_into("<HH", config, 0x2C, *subsystem)
    config[0x3D] = 1  # interrupt pin A
    _express(config, ENDPOINT, link or Link())
    _aer(config, *aer)
    return bytes(config)


def bridge(vendor: int, device: int, buses: tuple[int, int, int], kind: int, link: Link | None = None) -> bytes:
    """A port: `buses` are the primary, secondary and last subordinate bus behind it."""
    config = _header(vendor, device, 0x060400, 0x06, bridge=True, mastering=True)
    struct.pack_into("<BBB", config, 0x18, *buses)
    struct.pack_into("<HH", config, 0x20, 0x9000, 0x9FF0)  # memory window
    _express(config, kind, link or Link())
    _aer(config, 0, 0)
    return bytes(config)


def fallen_off_the_bus() -> bytes:
    """What is read of a device that no longer answers: all ones, which lspci shows as `rev ff`."""
    return b"\xff" * CONFIG_SIZE
