"""What every fact is: a frozen value that says where it was read."""

from typing import Any, TypeVar

import msgspec


class Evidence(msgspec.Struct, frozen=True):
    """Where something was read: a request such as `nvidia-smi -q -x`, a 1-based line (None: whole answer), the quoted line."""

    source: str
    text: str = ""
    line: int | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A group or item of facts. `evidence` maps a field name, or "" for the whole value, to where it was read."""

    evidence: dict[str, Evidence] = {}


_SomeFact = TypeVar("_SomeFact", bound=Fact)


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


def fill(first: _SomeFact, second: Fact) -> _SomeFact:
    """`first` with its unknown fields taken from `second`, evidence included."""
    if type(first) is not type(second):
        return first
    taken: dict[str, Any] = {}
    evidence = dict(first.evidence)
    for name in first.__struct_fields__:
        value = getattr(second, name)
        if name == "evidence" or value is None or getattr(first, name) not in (None, {}):
            continue
        taken[name] = value
        if name in second.evidence:
            evidence[name] = second.evidence[name]
    if "" in second.evidence and "" not in evidence:
        evidence[""] = second.evidence[""]
    if not taken and evidence == first.evidence:
        return first
    return msgspec.structs.replace(first, **taken, evidence=evidence)
