"""CEL behind one door: declare every fact as a typed variable, check expressions when rules load, evaluate to true, false or unknown.

An expression over a fact that is not known is unknown (None) unless `&&`, `||`, `exists` or `all` decide without it.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from cel_expr_python import cel
from cel_expr_python.ext import ext_strings

from gpudoctor.engine.fact_types import Path, each_types, fields, item_type, variable_types
from gpudoctor.engine.model import Compiled
from gpudoctor.facts import Fact, Facts, plain
from gpudoctor.lazy import Lazy

ITEM = "this_item"  # of a list, asked about alone
_ITEM = cel.Type.Map(cel.Type.STRING, cel.Type.DYN)
_SCALARS: dict[Any, Any] = {
    bool: cel.Type.BOOL,
    int: cel.Type.INT,
    float: cel.Type.DOUBLE,
    str: cel.Type.STRING,
}
_MACRO = Lazy(
    r"([A-Za-z_][\w.]*)\.(exists|all|filter|map|exists_one)\(\s*(\w+)\s*,",
    needs=("exists", "all", "filter", "map"),
)
_STRING = Lazy(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_PATH = Lazy(r"(?<![\w.])[a-z_]\w*(?:\.[a-z_]\w*)+(?!\w|\()")
_NAME = Lazy(r"(?<![\w.])[a-z_]\w*(?:\.[a-z_]\w*)*")
_XID_COUNT = Lazy(r"xid_count\(\s*(\d+)\s*\)")


class ExpressionError(Exception):
    """An expression that does not parse, or names a fact that does not exist, or compares different types."""


def _cel_type(annotation: Any) -> Any:
    origin = typing.get_origin(annotation)
    if origin is list:
        return cel.Type.List(_cel_type(typing.get_args(annotation)[0]))
    if origin is dict:
        return cel.Type.Map(cel.Type.STRING, _cel_type(typing.get_args(annotation)[1]))
    if isinstance(annotation, type) and issubclass(annotation, Fact):
        return _ITEM
    if isinstance(annotation, type) and issubclass(annotation, str):
        return cel.Type.STRING
    return _SCALARS[annotation]


def _version_key(text: str) -> str:
    """Dotted numbers as text that sorts like the version: 535.104 -> 000535.000104."""
    return ".".join(part.zfill(6) for part in re.findall(r"\d+", text)) or "0"


def _major(text: str) -> int:
    found = re.match(r"\D*(\d+)", text)
    return int(found.group(1)) if found else 0


def _functions() -> list[Any]:
    string = cel.Type.STRING
    return [
        cel.FunctionDecl("version", [cel.Overload("version_string", string, [string], False, _version_key)]),
        cel.FunctionDecl("major", [cel.Overload("major_string", cel.Type.INT, [string], False, _major)]),
    ]


@functools.cache
def declarations(each: str | None = None) -> Any:
    """The CEL environment in which expressions of node rules, or of rules over `each`, are checked."""
    declared = {path: _cel_type(annotation) for path, annotation in variable_types().items()}
    if each:
        declared |= {path: _cel_type(annotation) for path, annotation in each_types(each).items()}
    declared["kernel.xid_counts"] = cel.Type.Map(cel.Type.INT, cel.Type.INT)
    declared["m"] = cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    declared[ITEM] = _ITEM
    return cel.NewEnv(variables=declared, functions=_functions(), extensions=[ext_strings.ExtStrings()])


@functools.cache
def runtime() -> Any:
    """The CEL environment in which checked expressions are evaluated: their names need not be declared again."""
    return cel.NewEnv(variables={}, functions=_functions(), extensions=[ext_strings.ExtStrings()])


def _expand(expression: str) -> str:
    return _XID_COUNT.sub(r"(\1 in kernel.xid_counts ? kernel.xid_counts[\1] : 0)", expression)


def compile_expression(expression: str, each: str | None = None) -> Compiled:
    """Check and compile. Raises ExpressionError with the reason in one line."""
    _check_item_fields(expression, each)
    try:
        code = bytes(declarations(each).compile(_expand(expression)).serialize())
        return Compiled(code, _names(expression, each), paths(expression))
    except RuntimeError as error:
        first = str(error).split("\n", 1)[0]
        reason = re.sub(r"^.*ERROR: <input>:\d+:", "column ", first)
        raise ExpressionError(f"{reason.removesuffix(' [INVALID_ARGUMENT]')} in `{expression}`") from None


def _check_item_fields(expression: str, each: str | None) -> None:
    """Fields of items inside lists, which CEL itself leaves unchecked: gpus.exists(g, g.no_such_fact)."""
    text = _STRING.sub("''", expression)
    known: dict[str, type[Fact]] = {}
    types_of = variable_types() | (each_types(each) if each else {})
    for macro in _MACRO.finditer(text):
        path, variable = macro.group(1), macro.group(3)
        head, _, rest = path.partition(".")
        if head in known:
            annotation = fields(known[head]).get(rest)
        else:
            annotation = types_of.get(path)
        kind = typing.get_args(annotation)[0] if typing.get_origin(annotation) is list else None
        if isinstance(kind, type) and issubclass(kind, Fact):
            known[variable] = kind
    for variable, kind in known.items():
        for name in re.findall(rf"(?<![\w.]){variable}\.(\w+)(?!\w*\()", text):
            if name not in fields(kind):
                raise ExpressionError(f"{kind.__name__} has no fact `{name}` in `{expression}`")


def paths(expression: str) -> list[Path]:
    """Dotted names in an expression, in order, once each."""
    return list(dict.fromkeys(_PATH.findall(_STRING.sub("''", _expand(expression)))))


def _names(expression: str, each: str | None) -> list[Path]:
    """The declared variables in an expression: `gpus`, `driver.loaded`, `xid.code` of an item, `m` for a message's groups."""
    declared = {*variable_types(), "kernel.xid_counts", "m", ITEM}
    if each:
        declared |= set(each_types(each))
    found: list[Path] = []
    for token in _NAME.findall(_STRING.sub("''", _expand(expression))):
        parts = token.split(".")
        heads = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
        found += [name for name in heads if name in declared][:1]
    return list(dict.fromkeys(found))


def list_conditions(expression: str) -> Iterator[tuple[Path, str, str]]:
    """(list path, variable, condition) of each exists/filter/all macro: tells which items made it hold."""
    for macro in _MACRO.finditer(expression):
        depth, end = 1, macro.end()
        while end < len(expression) and depth:
            depth += {"(": 1, ")": -1}.get(expression[end], 0)
            end += 1
        yield macro.group(1), macro.group(3), expression[macro.end() : end - 1].strip()


def item_conditions(expression: str) -> dict[Path, str]:
    """List path -> an expression that says of one item of that list (ITEM) whether it made an exists/filter/all macro hold."""
    found: dict[Path, str] = {}
    for path, variable, condition in list_conditions(expression):
        if item_type(path):
            found.setdefault(path, f"[{ITEM}].exists({variable}, {condition})")
    return found


def _known(value: Any) -> Any:
    """Plain values without unknown fields: a missing key makes CEL say "unknown" where None would be a value."""
    if isinstance(value, dict):
        return {key: _known(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return value


def _as_declared(values: dict[Path, Any], declared: dict[Path, Any]) -> dict[Path, Any]:
    """Whole numbers of double facts as doubles: CEL does not mix the two."""
    return {
        path: float(value) if declared.get(path) is float and isinstance(value, int) else value
        for path, value in values.items()
    }


class Evaluator:
    """Evaluates compiled expressions on one machine's facts."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._values: dict[str, Any] = {}
        for group, content in _known(plain(facts)).items():
            if isinstance(content, dict):
                if any(type(value) is int for value in content.values()):
                    kind: type[Fact] = type(getattr(facts, group))
                    content = _as_declared(content, fields(kind))
                self._values |= {f"{group}.{name}": value for name, value in content.items()}
            else:
                self._values[group] = content
        if facts.kernel and facts.kernel.xids is not None:
            counts: dict[int, int] = {}
            for xid in facts.kernel.xids:
                counts[xid.code] = counts.get(xid.code, 0) + xid.count
            self._values["kernel.xid_counts"] = counts
        self._of_items: dict[Any, Any] = {}
        self._listed: dict[int, Any] = {}  # items of the facts' lists, by identity: they live as long as the facts

    def known(self, path: Path) -> bool:
        """Whether this fact (or the group that it names) is known."""
        return path in self._values

    def value(self, path: Path) -> Any:
        return self._values.get(path)

    def evaluate(
        self,
        compiled: Compiled,
        each: str | None = None,
        item: Fact | None = None,
        captured: dict[str, str] | None = None,
    ) -> Any:
        """The expression's value, or None when it is unknown. `captured` are a message's named groups."""
        own = self._own(compiled, each, item, captured)
        if compiled.names and not own and not any(name in self._values for name in compiled.names):
            return None
        if not own:
            return self._run(compiled, self._everything)
        return self._with(compiled, own)

    def holds_for(self, one: Fact, compiled: Compiled, each: str | None, item: Fact | None) -> bool:
        """Whether a condition on one item of a list (`item_conditions`) holds for `one`."""
        values = self._listed.get(id(one))
        if values is None:
            values = self._listed[id(one)] = _known(plain(one))
        own = self._own(compiled, each, item, None) | {ITEM: values}
        return self._with(compiled, own) is True

    def _with(self, compiled: Compiled, own: dict[Path, Any]) -> Any:
        # Items that agree in what the expression names (a hundred Xids of one GPU) are one question.
        key = (compiled.code, repr(own))
        if key not in self._of_items:
            shared = {name: self._values[name] for name in compiled.names if name in self._values}
            self._of_items[key] = self._run(compiled, runtime().Activation(shared | own))
        return self._of_items[key]

    def _run(self, compiled: Compiled, activation: Any) -> Any:
        result = runtime().deserialize(compiled.code).eval(activation)
        return None if result.type() == cel.Type.ERROR else result.plain_value()

    @functools.cached_property
    def _everything(self) -> Any:
        return runtime().Activation(self._values)

    def _own(
        self, compiled: Compiled, each: str | None, item: Fact | None, captured: dict[str, str] | None
    ) -> dict[Path, Any]:
        """The values that the item and the message's groups give for what the expression names."""
        found: dict[Path, Any] = {}
        if each and item is not None:
            prefix = f"{each}."
            for name in compiled.names:
                if name.startswith(prefix) and (value := getattr(item, name[len(prefix) :])) is not None:
                    found[name] = _known(plain(value))
            found = _as_declared(found, each_types(each))
        if captured is not None and "m" in compiled.names:
            found["m"] = captured
        return found


def facts_from(data: dict[str, object]) -> Facts:
    """Facts from a rule's example. Raises ExpressionError naming the field that does not fit."""
    try:
        return msgspec.convert(data, Facts, strict=False)
    except msgspec.ValidationError as error:
        raise ExpressionError(str(error)) from None
