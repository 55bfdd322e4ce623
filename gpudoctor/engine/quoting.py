"""The evidence behind an expression that held: the lines that its facts were read from."""

from __future__ import annotations

from typing import Any

from gpudoctor.engine.expressions import Evaluator, item_conditions
from gpudoctor.engine.load import LoadedRule
from gpudoctor.facts import Evidence, Fact

_MOST_ITEMS = 64  # of a list that are tried one by one
_MOST_QUOTES = 4
_MOST_OF_LIST = 2  # of a list that an expression names as a whole


def quotes(expression: str, loaded: LoadedRule, evaluator: Evaluator, item: Fact | None = None) -> list[Evidence]:
    """Up to four quotes for the facts that an expression of the rule names, in its order."""
    found: list[Evidence] = []
    each = loaded.each
    conditions = item_conditions(expression)
    whole = loaded.compiled(expression)
    paths = whole.paths if whole is not None else []

    def of_list(path: str) -> list[Evidence]:
        compiled = loaded.compiled(conditions[path])
        holding = [
            one
            for one in _listed(path, evaluator)[:_MOST_ITEMS]
            if compiled is not None and evaluator.holds_for(one, compiled, each, item)
        ]
        return [quote for one in holding for quote in _whole(one, path)] or _of_group(path, evaluator)

    for path in paths:
        head, _, name = path.partition(".")
        if each and head == each and item is not None:
            found += _of_field(item, name, path)
        elif path in conditions:
            found += of_list(path)
        else:
            found += _of_group(path, evaluator)
    for path in conditions:
        if path not in paths:
            found += of_list(path)
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


def _listed(path: str, evaluator: Evaluator) -> list[Fact]:
    value: Any = evaluator.facts
    for name in path.split("."):
        value = getattr(value, name, None)
    return value if isinstance(value, list) else []


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
