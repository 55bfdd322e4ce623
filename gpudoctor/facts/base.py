"""What every fact is: a frozen value that says where it was read."""

from typing import Any

import msgspec


class Evidence(msgspec.Struct, frozen=True):
    """Where something was read: a request such as `nvidia-smi -q -x`, a 1-based line (None: whole answer), the quoted line."""

    source: str
    text: str = ""
    line: int | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A group or item of facts. `evidence` maps a field name, or "" for the whole value, to where it was read."""

    evidence: dict[str, Evidence] = {}


def plain(value: Any) -> Any:
    """Plain JSON values of a fact without its evidence; None, a fact that is not known, stays None."""
    if isinstance(value, Fact):
        names = (name for name in value.__struct_fields__ if name != "evidence")
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
