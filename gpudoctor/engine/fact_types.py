"""The types of all facts, by the names under which expressions know them."""

from __future__ import annotations

import functools
import types
import typing
from typing import Any

from gpudoctor.engine.items import EACH
from gpudoctor.facts import Fact, Facts

Path = str  # of a fact: "driver.loaded", "gpus"


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [a for a in typing.get_args(annotation) if a is not type(None)]
        return kinds[0]
    return annotation


@functools.cache
def fields(struct: type[Fact]) -> dict[str, Any]:
    """Field name -> type without None, of one fact type."""
    hints: dict[str, Any] = {}
    for kind in reversed(struct.__mro__):
        hints |= vars(kind).get("__annotations__", {})  # facts' annotations are types: nothing in them is put off
    return {name: _without_none(hints[name]) for name in struct.__struct_fields__ if name != "evidence"}


@functools.cache
def variable_types() -> dict[Path, Any]:
    """Every fact path that rules may name -> its Python type."""
    found: dict[Path, Any] = {}
    for group, kind in fields(Facts).items():
        if isinstance(kind, type) and issubclass(kind, Fact):
            found |= {f"{group}.{name}": annotation for name, annotation in fields(kind).items()}
        else:
            found[group] = kind
    return found


@functools.cache
def item_type(path: Path) -> type[Fact] | None:
    """The fact type of a list's items, or None when `path` is no list of facts."""
    annotation = variable_types().get(path)
    if typing.get_origin(annotation) is not list:
        return None
    kind = typing.get_args(annotation)[0]
    return kind if isinstance(kind, type) and issubclass(kind, Fact) else None


@functools.cache
def each_types(each: str) -> dict[Path, Any]:
    """The names of an item's facts in rules over `each`: `gpu.index` -> its Python type."""
    kind = item_type(EACH[each].path)
    assert kind is not None
    return {f"{each}.{name}": annotation for name, annotation in fields(kind).items()}
