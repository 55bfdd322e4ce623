"""The way from a device up to the root port: which link on it is the narrowest or slowest."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Link(msgspec.Struct, frozen=True):
    """A PCIe link as one end reports it; `None` where that is not known."""

    speed_gts: float | None = None
    width: int | None = None
    speed_max_gts: float | None = None
    width_max: int | None = None

    @property
    def text(self) -> str:
        return _words(self.speed_gts, self.width)

    @property
    def maximum_text(self) -> str:
        return _words(self.speed_max_gts, self.width_max)


class PathLimit(msgspec.Struct, frozen=True):
    speed_max_gts: float | None = None
    width_max: int | None = None
    bottleneck: str | None = None  # the first bridge that can do less than the device itself


def _words(speed: float | None, width: int | None) -> str:
    return f"{f'{speed:g} GT/s' if speed else 'unknown speed'} x{width if width else '?'}"


def narrowest(own: Link, bridges: Sequence[tuple[str, Link]]) -> PathLimit:
    """What the bridges (nearest first) leave of the device's own maximum."""
    speeds = [link.speed_max_gts for _, link in bridges if link.speed_max_gts]
    widths = [link.width_max for _, link in bridges if link.width_max]
    bottleneck = None
    for bdf, link in bridges:
        narrow = bool(own.width_max and link.width_max and link.width_max < own.width_max)
        slow = bool(own.speed_max_gts and link.speed_max_gts and link.speed_max_gts < own.speed_max_gts)
        if narrow or slow:
            bottleneck = bdf
            break
    return PathLimit(min(speeds, default=None), min(widths, default=None), bottleneck)
