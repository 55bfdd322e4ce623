"""One rule file: YAML nodes to strings (so that 0000:03:00.0 stays an address), types from the model, expressions checked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import re2
import yaml

from gpudoctor.engine import templates
from gpudoctor.engine.expressions import ExpressionError, compile_expression, item_conditions
from gpudoctor.engine.items import EACH
from gpudoctor.engine.load import ANY_TEXT, LoadedRule, Prepared, Problem, SymptomPart, Whole
from gpudoctor.engine.messages import options, rule_messages
from gpudoctor.engine.model import Message, Rule
from gpudoctor.engine.required import Needs, needs
from gpudoctor.facts import DocumentKind
from gpudoctor.knowledge.cuda_errors import CUDA_WORDS, wordings

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Lines = dict[tuple[str | int, ...], int]
_MOST_BYTES = 1 << 20


def read_rule(root: Path, file: Path) -> tuple[LoadedRule | None, list[Problem]]:
    """The rule of one file and what is wrong with it. The rule is None when it cannot be understood at all."""
    try:
        text = _text(file)
        node = yaml.compose(text, Loader=_Loader)
    except UnicodeDecodeError:
        return None, [Problem(str(file), "not UTF-8 text")]
    except OSError as error:
        return None, [Problem(str(file), error.strerror or "cannot be read")]
    except ValueError as error:
        return None, [Problem(str(file), str(error))]
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file}:{mark.line + 1}" if mark else str(file)
        return None, [Problem(where, f"not YAML: {getattr(error, 'problem', None) or 'cannot be parsed'}")]
    lines: Lines = {}
    problems: list[Problem] = []
    if _has_alias(text):
        return None, [Problem(str(file), "YAML anchors and aliases are not allowed in rules")]
    data = _plain(node, (), lines, problems, file) if node is not None else None
    if problems:
        return None, problems
    if not isinstance(data, dict):
        return None, [Problem(f"{file}:1", "a rule is a mapping with id, title, severity, symptom, causes ...")]
    try:
        rule = msgspec.convert(_with_message_lists(data), Rule, strict=False)
    except msgspec.ValidationError as error:
        message, at = _located(str(error), lines)
        return None, [Problem(f"{file}:{at}", message)]
    return _checked(rule, root, file, lines)


def _has_alias(text: str) -> bool:
    """An alias can make a small file endless, or enormous."""
    return "*" in text and any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader))


def _text(file: Path) -> str:
    if file.stat().st_size > _MOST_BYTES:
        raise ValueError("larger than 1 MiB: not a rule")
    return file.read_text(encoding="utf-8")


def _plain(node: Any, path: tuple[str | int, ...], lines: Lines, problems: list[Problem], file: Path) -> Any:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in found:
                problems.append(Problem(f"{file}:{key_node.start_mark.line + 1}", f"`{key}` occurs twice"))
            found[key] = _plain(value_node, (*path, key), lines, problems, file)
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, (*path, i), lines, problems, file) for i, item in enumerate(node.value)]
    if node.value in ("", "null", "~") and node.style is None:
        return None
    return node.value


def _message_list(value: Any) -> Any:
    """A string, a mapping or a list of those, as YAML may give messages -> a list of Message data."""
    many = value if isinstance(value, list) else [value]
    return [{"pattern": one} if isinstance(one, str) else _with_wordings(one) for one in many]


def _with_wordings(message: Any) -> Any:
    """`cuda_error: [46]` stands for every way in which programs write the number."""
    numbers = message.get("cuda_error") if isinstance(message, dict) else None
    listed = numbers if isinstance(numbers, list) else [numbers]
    if not listed or "pattern" in message or not all(isinstance(one, str) and one.isdecimal() for one in listed):
        return message  # what is wrong with it, the model's check says
    return message | {"pattern": wordings(map(int, listed)), "cuda_error": listed}


def _with_message_lists(data: dict[str, Any]) -> dict[str, Any]:
    """`messages` and `message` may be one string: make them lists."""

    def clue(one: Any) -> Any:
        return one | {"message": _message_list(one["message"])} if isinstance(one, dict) and "message" in one else one

    def cause(one: Any) -> Any:
        if not isinstance(one, dict):
            return one
        lists = {k: [clue(c) for c in one[k]] for k in ("supports", "against") if isinstance(one.get(k), list)}
        return one | lists

    symptom = data.get("symptom")
    if isinstance(symptom, dict):
        lists = {name: _message_list(symptom[name]) for name in ("messages", "beside") if name in symptom}
        data = data | {"symptom": symptom | lists}
    if isinstance(data.get("causes"), list):
        data = data | {"causes": [cause(c) for c in data["causes"]]}
    return data


def _located(error: str, lines: Lines) -> tuple[str, int]:
    """msgspec's "... - at `$.causes[0].steps`" as the message and the line of that place."""
    message, _, place = error.partition(" - at `$")
    path: list[str | int] = []
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", place):
        path.append(name or int(index))
    while path and tuple(path) not in lines:
        path.pop()
    shown = place.rstrip("`").lstrip(".")
    return (f"{message} (at {shown})" if shown else message), lines.get(tuple(path), 1)


def _checked(rule: Rule, root: Path, file: Path, lines: Lines) -> tuple[LoadedRule, list[Problem]]:
    problems: list[Problem] = []
    of_symptom, of_rest = Prepared({}, {}), Prepared({}, {})

    def problem(path: tuple[str | int, ...], text: str) -> None:
        while path and path not in lines:
            path = path[:-1]
        problems.append(Problem(f"{file}:{lines.get(path, 1)}", text))

    each = rule.symptom.each
    if each and each not in EACH:
        problem(("symptom", "each"), f"unknown `each: {each}`; one of {', '.join(EACH)}")
        each = None
    expected = file.relative_to(root).with_suffix("").as_posix() if file != root else None
    if expected and rule.id != expected:
        problem(("id",), f"the id `{rule.id}` is not the file's path `{expected}`")
    if not rule.causes:
        problem(("causes",), "a rule needs at least one cause")
    if rule.symptom.when is None and not rule.symptom.messages:
        problem(("symptom",), "a symptom needs `when` or `messages`")
    for path, expression in _expressions(rule):
        prepared = of_symptom if path[0] == "symptom" else of_rest
        try:
            prepared.compiled[expression] = compile_expression(expression, each)
        except ExpressionError as error:
            problem(path, str(error))
            continue
        for condition in item_conditions(expression).values():
            # Where it needs more than its own item, the list is quoted as a whole.
            with contextlib.suppress(ExpressionError):
                prepared.compiled[condition] = compile_expression(condition, each)
    for path, message in rule_messages(rule):
        try:
            re2.compile(message.pattern, options())
        except re2.error as error:
            problem(path, f"not an RE2 pattern: {_re2_words(error)}")
        for kind in message.within or []:
            if kind not in set(DocumentKind):
                problem(path, f"`within: {kind}` is none of {', '.join(DocumentKind)}")
    for i, cause in enumerate(rule.causes):
        if (cause.rule is None) == (cause.id is None):
            problem(("causes", i), "a cause has an `id` (with `title`, `steps`) or names a `rule`")
        if cause.id is not None and cause.title is None:
            problem(("causes", i), f"the cause `{cause.id}` has no title")
        for kind in ("supports", "against"):
            for j, clue in enumerate(getattr(cause, kind)):
                if clue.when is None and not clue.message:
                    problem(("causes", i, kind, j), "a clue needs `when` or `message`")
    if not problems:
        for path, message in rule_messages(rule):
            prepared = of_symptom if path[0] == "symptom" else of_rest
            prepared.needs[message.pattern] = _needs(message)
    symptom = rule.symptom
    telling = {message.pattern for message in symptom.messages or []}
    known = of_symptom.needs | of_rest.needs
    loaded = LoadedRule(
        id=rule.id,
        kept_path=str(file),
        each=each,
        names=of_symptom.compiled[symptom.when].names if symptom.when in of_symptom.compiled else None,
        words=_words(needed for pattern, needed in known.items() if pattern in telling),
        clue_words=msgspec.Raw(
            msgspec.msgpack.encode(_words(needed for pattern, needed in known.items() if pattern not in telling))
        ),
        packed_symptom=memoryview(msgspec.msgpack.encode(SymptomPart(symptom, of_symptom))),
        packed_whole=memoryview(msgspec.msgpack.encode(Whole(rule, of_rest))),
    )
    return loaded, problems


def _words(all_needs: Iterable[Needs]) -> list[str]:
    return sorted({word for one in all_needs for word in one.words or [ANY_TEXT]})


def _expressions(rule: Rule) -> Iterator[tuple[tuple[str | int, ...], str]]:
    symptom = rule.symptom
    for name in ("when", "unless"):
        if (expression := getattr(symptom, name)) is not None:
            yield ("symptom", name), expression
    texts: list[tuple[tuple[str | int, ...], str | None]] = [
        (("title",), rule.title),
        (("symptom", "subject"), symptom.subject),
    ]
    for i, cause in enumerate(rule.causes):
        texts.append((("causes", i, "title"), cause.title))
        for kind in ("supports", "against"):
            for j, clue in enumerate(getattr(cause, kind)):
                if clue.when is not None:
                    yield ("causes", i, kind, j, "when"), clue.when
                texts.append((("causes", i, kind, j, "because"), clue.because))
                texts.append((("causes", i, kind, j, "check"), clue.check))
        for j, step in enumerate(cause.steps):
            if step.when is not None:
                yield ("causes", i, "steps", j, "when"), step.when
            texts.append((("causes", i, "steps", j, "say"), step.say))
            commands = step.run.values() if isinstance(step.run, dict) else [step.run]
            texts += [(("causes", i, "steps", j, "run"), command) for command in commands]
    for path, text in texts:
        for slot in templates.slots(text or ""):
            yield from ((path, expression) for expression in slot.expressions)


def _re2_words(error: Exception) -> str:
    words = error.args[0] if error.args else "cannot be compiled"
    return words.decode("utf-8", "replace") if isinstance(words, bytes) else str(words)


def _needs(message: Message) -> Needs:
    """Of the many ways to write a CUDA error, a name of CUDA's and the number are quickest told."""
    if not message.cuda_error:
        return needs(message.pattern)
    return Needs.of(list(CUDA_WORDS), [[[form.encode()] for n in message.cuda_error for form in (f"{n}", f"{n:x}")]])
