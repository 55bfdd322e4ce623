"""The evidence behind an expression that held: the lines that its facts were read from."""

from __future__ import annotations

from typing import Any

from gpudoctor.engine.expressions import (
    Evaluator,
    ExpressionError,
    compile_expression,
    list_conditions,
    paths,
)
from gpudoctor.facts import Evidence, Fact

_MOST_ITEMS = 64  # of a list that are tried one by one
_MOST_QUOTES = 4
_MOST_OF_LIST = 2  # of a list that an expression names as a whole


def quotes(
    expression: str, evaluator: Evaluator, each: str | None = None, item: Fact | None = None
) -> list[Evidence]:
    """Up to four quotes for the facts that `expression` names, in its order."""
    found: list[Evidence] = []
    listed = {path: (variable, condition) for path, variable, condition in list_conditions(expression)}
    for path in paths(expression):
        head, _, name = path.partition(".")
        if each and head == each and item is not None:
            found += _of_field(item, name, path)
        elif path in listed:
            found += _of_items(path, *listed[path], evaluator)
        else:
            found += _of_group(path, evaluator)
    for path, (variable, condition) in listed.items():
        if path not in paths(expression):
            found += _of_items(path, variable, condition, evaluator)
    return _once(found)[:_MOST_QUOTES]


def _once(found: list[Evidence]) -> list[Evidence]:
    kept: list[Evidence] = []
    for one in found:
        if one not in kept:
            kept.append(one)
    return kept


def _of_field(value: Fact, name: str, path: str) -> list[Evidence]:
    evidence = value.evidence.get(name) or value.evidence.get("")
    if evidence is not None:
        return [evidence]
    content = getattr(value, name, None)
    if isinstance(content, list) and content and all(isinstance(one, Fact) for one in content):
        return [quote for one in content[:_MOST_OF_LIST] for quote in _whole(one, path)]
    return [] if content is None else [Evidence("facts", f"{path} = {_shown(content)}")]


def _of_group(path: str, evaluator: Evaluator) -> list[Evidence]:
    group_name, _, name = path.partition(".")
    group = getattr(evaluator.facts, group_name, None)
    if not isinstance(group, Fact) or not name or getattr(group, name, None) is None:
        return []
    return _of_field(group, name, path)


def _of_items(path: str, variable: str, condition: str, evaluator: Evaluator) -> list[Evidence]:
    value: Any = evaluator.facts
    for name in path.split("."):
        value = getattr(value, name, None)
    if not isinstance(value, list):
        return []
    holding = [
        one
        for i, one in enumerate(value[:_MOST_ITEMS])
        if isinstance(one, Fact) and _holds(f"[{path}[{i}]].exists({variable}, {condition})", evaluator)
    ]
    found = [quote for one in holding for quote in _whole(one, path)]
    return found or _of_group(path, evaluator)


def _holds(expression: str, evaluator: Evaluator) -> bool:
    try:
        return evaluator.holds(compile_expression(expression)) is True
    except ExpressionError:  # a condition that needs more than its own item
        return False


def _whole(item: Fact, path: str) -> list[Evidence]:
    first = item.evidence.get("") or next(iter(item.evidence.values()), None)
    return [first] if first else [Evidence("facts", f"{path}: {_shown(item)}")]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fact):
        names = [n for n in value.__struct_fields__ if n != "evidence" and getattr(value, n) not in (None, [], {})]
        return ", ".join(f"{n} {_shown(getattr(value, n))}" for n in names[:5])
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value[:6])) + (", ..." if len(value) > 6 else "") + "]"
    return str(value)
