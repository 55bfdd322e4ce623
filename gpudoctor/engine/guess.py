"""Guesses for a text that no rule knows: causes that speak in like words.

A guess is a note without an action: it fails no check, nothing is done for it, and none says that all is well.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudoctor.engine.likeness import Near, stems
from gpudoctor.engine.load import LoadedRule, RuleSet
from gpudoctor.engine.match import Fired, Machine, Outcome
from gpudoctor.engine.rank import Weighed, rank
from gpudoctor.facts import Document, DocumentKind, Evidence
from gpudoctor.knowledge.error_lines import about_gpus, complains, tells
from gpudoctor.report import Finding, HeldClue, NextCheck, Severity, Standing

_LOOKED_AT = 40  # causes, the nearest
_MOST_CAUSES = 3
_LEAST_WORDS = 8  # known ones; of fewer too much would be made
_LEAST_SHARE = 0.055
_NEAR = 0.7  # of the nearest: what is less like the text is no guess beside it
_OF_OUR_TESTS = "bench/"
_WHOLE_LINES = 120  # of a longer text only the lines about trouble
_LONGEST_LINE = 1_000
_MOST_LINES = 2_000  # of all texts, their ends


class _Asked(msgspec.Struct, frozen=True):
    """What somebody asks about."""

    text: str
    lines: list[Evidence]


def guesses(
    documents: Sequence[Document], rules: RuleSet, outcomes: dict[str, Outcome], machine: Machine
) -> list[tuple[Finding, list[NextCheck]]]:
    """Findings that are guesses, with the checks that would decide; none where little was said."""
    asked = _asked(documents)
    if asked is None:
        return []
    known = rules.likeness.places.keys()
    spelled = stems(asked.text)
    if len(spelled.keys() & known) < _LEAST_WORDS:
        return []
    by_rule: dict[str, list[tuple[Near, Weighed]]] = {}
    least = _LEAST_SHARE
    left = _MOST_CAUSES
    for near in rules.likeness.nearest(asked.text, _LOOKED_AT):
        if near.share < least or not left:
            break
        if cause := _cause(near, rules, outcomes, machine):
            by_rule.setdefault(near.rule, []).append((near, cause))
            least = max(least, near.share * _NEAR)  # the first is the nearest
            left -= 1
    return [_guess(rules.loaded[rule], causes, asked, spelled, machine) for rule, causes in by_rule.items()]


def _asked(documents: Sequence[Document]) -> _Asked | None:
    """The text with its lines about trouble; None where it has none, or is not about GPUs."""
    whole: list[str] = []
    telling: list[Evidence] = []
    left = _MOST_LINES
    for document in documents:
        if document.part or document.kind not in (DocumentKind.PASTE, DocumentKind.LOG):
            continue
        lines = document.text.split("\n")
        for index in range(max(0, len(lines) - left), len(lines)):
            line = lines[index][:_LONGEST_LINE].strip()
            if len(whole) <= _WHOLE_LINES:
                whole.append(line)
            if complains(line) or tells(line):
                telling.append(Evidence(document.name, line, document.line_number(index)))
        left = max(0, left - len(lines))
    text = "\n".join(whole if len(whole) <= _WHOLE_LINES else (line.text for line in telling))
    return _Asked(text, telling) if telling and about_gpus(text) else None


def _cause(near: Near, rules: RuleSet, outcomes: dict[str, Outcome], machine: Machine) -> Weighed | None:
    """The cause as it would be ranked; None where it is no trouble, facts speak against it, or a title needs what is not told."""
    loaded = rules.loaded[near.rule]
    rule = loaded.rule
    if (
        rule.severity is Severity.INFO
        or rule.id.startswith(_OF_OUR_TESTS)
        or (rule.symptom.when is not None and outcomes[rule.id].fires is False)
    ):
        return None
    if rule.symptom.unless is not None and machine.evaluate(loaded, rule.symptom.unless, None, None) is True:
        return None
    fired = Fired(loaded, "node", [])
    for weighed in rank(fired, machine, outcomes, rules):
        cause = weighed.cause
        if cause.id == near.cause and cause.rule is None:
            unfilled = "<" in cause.title + machine.fill(fired, rule.title)
            return None if cause.standing is Standing.RULED_OUT or unfilled else weighed
    return None


def _guess(
    loaded: LoadedRule, causes: list[tuple[Near, Weighed]], asked: _Asked, spelled: dict[str, str], machine: Machine
) -> tuple[Finding, list[NextCheck]]:
    rule = loaded.rule
    words = set(causes[0][0].words)
    telling = max(asked.lines, key=lambda line: len(words & stems(line.text).keys()))
    finding = Finding(
        rule=rule.id,
        subject="node",
        severity=Severity.INFO,
        title=machine.fill(Fired(loaded, "node", []), rule.title),
        guess=True,
        explain=rule.explain,
        evidence=[telling],
        causes=[
            msgspec.structs.replace(
                weighed.cause,
                standing=Standing.POSSIBLE,
                held=[HeldClue(because=f"said in like words: {', '.join(spelled[word] for word in near.words)}"), *weighed.cause.held],
            )
            for near, weighed in causes
        ],
        references=rule.references,
    )  # fmt: skip
    return finding, [check for _, weighed in causes for check in weighed.checks]
