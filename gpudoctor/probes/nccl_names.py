"""Lists of names as NCCL reads them in NCCL_SOCKET_IFNAME and NCCL_IB_HCA.

`eth,ib` are prefixes; `=eth0,ib1` exact names; `^docker,lo` excludes; `^=eth0` excludes an exact name; `mlx5_0:1` is a port.
"""

from __future__ import annotations

import msgspec


class NameList(msgspec.Struct, frozen=True):
    """A parsed list; an item's port is None where any port will do."""

    exclude: bool
    exact: bool
    items: tuple[tuple[str, int | None], ...]

    def selects(self, name: str, port: int | None = None) -> bool:
        """Whether NCCL takes this interface or port; an empty list takes all."""
        if not self.items:
            return True
        return any(self.matches(item, name, port) for item in self.items) != self.exclude

    def matches(self, item: tuple[str, int | None], name: str, port: int | None = None) -> bool:
        """Whether one item of the list means this name, whatever the list is for."""
        wanted, wanted_port = item
        fits = name == wanted if self.exact else name.startswith(wanted)
        return fits and (wanted_port is None or port is None or wanted_port == port)


def parse_names(text: str) -> NameList:
    """Reads the value of the variable; never fails."""
    rest = text.strip().strip("\"'")
    exclude = rest.startswith("^")
    rest = rest.removeprefix("^")
    exact = rest.startswith("=")
    rest = rest.removeprefix("=")
    items: list[tuple[str, int | None]] = []
    for word in rest.split(","):
        name, _, port = word.strip().partition(":")
        if name:
            items.append((name, int(port) if port.isdecimal() else None))
    return NameList(exclude, exact, tuple(items))
