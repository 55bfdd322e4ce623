"""Runs the examples inside rules: facts and / or pasted text in, what must come of it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gpudoctor.engine.diagnose import diagnose
from gpudoctor.engine.expressions import Evaluator, ExpressionError, facts_from
from gpudoctor.engine.load import LoadedRule, RuleSet
from gpudoctor.engine.match import Machine, match
from gpudoctor.engine.messages import Texts
from gpudoctor.engine.model import Example
from gpudoctor.engine.verdict import walk
from gpudoctor.facts import Document, Facts
from gpudoctor.report import Finding, Standing

ReadText = Callable[[str], tuple[Facts, Sequence[Document]]]


class ExampleResult(msgspec.Struct, frozen=True):
    """`problem` is None when the example came out as expected."""

    rule: str
    example: str
    problem: str | None


def run_examples(loaded: LoadedRule, read_text: ReadText, rules: RuleSet | None = None) -> list[ExampleResult]:
    """Each example of one rule. `read_text` turns pasted text into facts and documents (the engine does not read sources)."""
    return [
        ExampleResult(loaded.rule.id, example.name, _problem(loaded, example, read_text, rules))
        for example in loaded.rule.examples
    ]


def _problem(loaded: LoadedRule, example: Example, read_text: ReadText, rules: RuleSet | None) -> str | None:
    documents: Sequence[Document] = []
    try:
        facts = facts_from(example.facts)
    except ExpressionError as error:
        return f"its facts do not fit: {error}"
    if example.text is not None:
        from_text, documents = read_text(example.text)
        facts = _combined(from_text, facts) if example.facts else from_text
    outcome = match(loaded, Machine(facts, Evaluator(facts), Texts(documents, RuleSet({loaded.id: loaded}).needles)))
    fires = {True: "yes", False: "no", None: "unknown"}[outcome.fires]
    if fires != example.expect.fires:
        return f"fires: expected {example.expect.fires}, got {fires}"
    if fires != "yes":
        return None
    every = rules or RuleSet({loaded.rule.id: loaded})
    found = [f for f in walk(diagnose(every, facts, documents).findings) if f.rule == loaded.rule.id]
    return _about(example, found) if found else "fired alone, but not among the findings"


def _about(example: Example, found: list[Finding]) -> str | None:
    causes = [c for c in found[0].causes if c.standing != Standing.RULED_OUT]
    top = causes[0].id if causes else None
    if example.expect.top is not None and top != example.expect.top:
        return f"first cause: expected {example.expect.top}, got {top}"
    said = "\n".join(
        [found[0].title, *(c.title for c in causes)] + [f"{s.say} {s.run}" for c in causes for s in c.steps]
    )
    if example.expect.says is not None and example.expect.says not in said:
        return f"does not say {example.expect.says!r}"
    if example.expect.not_says is not None and example.expect.not_says in said:
        return f"says {example.expect.not_says!r}"
    return None


def _combined(base: Facts, over: Facts) -> Facts:
    """The example's own facts over those read from its text, group by group."""
    given = {n: getattr(over, n) for n in over.__struct_fields__ if n != "evidence" and getattr(over, n) is not None}
    return msgspec.structs.replace(base, **given)
