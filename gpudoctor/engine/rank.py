"""Causes of one finding: clues weighed (weak 1, strong 3, decisive rules in or out), ranked, with steps filled in.

The sums are small and visible; there are no percentages. A clue that is unknown never scores: it becomes a next check.
"""

from __future__ import annotations

import msgspec

from gpudoctor.engine.load import LoadedRule, RuleSet
from gpudoctor.engine.match import Fired, Machine, Outcome
from gpudoctor.engine.model import Cause, Clue, RuleStep, Weight
from gpudoctor.engine.quoting import quotes
from gpudoctor.facts import Evidence
from gpudoctor.report import HeldClue, NextCheck, RankedCause, Standing, Step

_POINTS = {Weight.WEAK: 1, Weight.STRONG: 3, Weight.DECISIVE: 10}
_MOST_EVIDENCE = 3


class Weighed(msgspec.Struct):
    """A ranked cause with the commands that would decide its unknown clues."""

    cause: RankedCause
    checks: list[NextCheck]
    decided: bool = False  # a decisive clue holds for it


def rank(fired: Fired, machine: Machine, outcomes: dict[str, Outcome], rules: RuleSet) -> list[Weighed]:
    """All causes: likely and possible ones first, ruled-out ones last; ties keep the file's order."""
    own: list[Weighed] = []
    linked: list[Weighed] = []
    for cause in fired.loaded.rule.causes:
        if cause.rule is None:
            own.append(_weigh(cause, fired, machine))
        elif (one := _linked(cause, fired, machine, outcomes, rules)) is not None:
            linked.append(one)
    weighed = sorted(own, key=_order) + linked
    weighed.sort(key=lambda w: w.cause.standing == Standing.RULED_OUT)
    return _decided(_with_likely(weighed))


def _order(weighed: Weighed) -> tuple[bool, int]:
    return (not weighed.decided, -weighed.cause.score)


def _with_likely(weighed: list[Weighed]) -> list[Weighed]:
    """The first is likely when it is the only one left, or when evidence puts it before the next."""
    alive = [w for w in weighed if w.cause.standing != Standing.RULED_OUT]
    if not alive:
        return weighed
    first, rivals = alive[0], alive[1:]
    ahead = all(first.cause.score > other.cause.score for other in rivals)
    if first.decided or not rivals or (first.cause.score > 0 and ahead):
        first.cause = msgspec.structs.replace(first.cause, standing=Standing.LIKELY)
    return weighed


def _decided(weighed: list[Weighed]) -> list[Weighed]:
    """Where evidence decides for a cause, others for which nothing speaks are out: their steps would only mislead."""
    first = next(iter(weighed), None)
    if first is None or not first.decided:
        return weighed
    for other in weighed[1:]:
        cause = other.cause
        if cause.rule is None and cause.standing == Standing.POSSIBLE and not cause.held:
            other.cause = msgspec.structs.replace(cause, standing=Standing.RULED_OUT)
    return sorted(weighed, key=lambda w: w.cause.standing == Standing.RULED_OUT)


def _with_groups(cause: Cause, fired: Fired, machine: Machine) -> Fired:
    """With the named groups of the messages that speak for the cause, which fill its texts like the symptom's own."""
    found: dict[str, str] = {}
    for clue in cause.supports:
        for match in machine.find(fired.loaded, clue.message):
            found = match.groups | found
    return msgspec.structs.replace(fired, captured=found | (fired.captured or {})) if found else fired


def _weigh(cause: Cause, fired: Fired, machine: Machine) -> Weighed:
    fired = _with_groups(cause, fired, machine)
    title = machine.fill(fired, cause.title or "")
    held, unknown, checks = _clues(cause.supports, title, fired, machine)
    against, unknown_against, more_checks = _clues(cause.against, title, fired, machine)
    decisive = any(c.weight == Weight.DECISIVE for c in held)
    ruled_out = any(c.weight == Weight.DECISIVE for c in against)
    score = sum(_POINTS[Weight(c.weight)] for c in held) - sum(_POINTS[Weight(c.weight)] for c in against)
    ranked = RankedCause(
        id=cause.id or "",
        title=title,
        standing=Standing.RULED_OUT if ruled_out else Standing.POSSIBLE,
        score=score,
        held=held,
        against=against,
        unknown=unknown + unknown_against,
        steps=steps(cause.steps, fired, machine),
        references=cause.references,
    )
    return Weighed(ranked, checks + more_checks, decisive and not ruled_out)


def _clues(
    clues: list[Clue], title: str, fired: Fired, machine: Machine
) -> tuple[list[HeldClue], list[HeldClue], list[NextCheck]]:
    """Of the cause with this title: clues that hold, that are unknown, and the checks that would decide these."""
    held: list[HeldClue] = []
    unknown: list[HeldClue] = []
    checks: list[NextCheck] = []
    for clue in clues:
        truth, evidence = _holds(clue, fired, machine)
        if truth is False:
            continue
        decides = machine.fill(fired, clue.check, shell=True) if truth is None and clue.check else None
        told = HeldClue(
            because=machine.fill(fired, clue.because),
            weight=clue.weight.value,
            evidence=evidence[:_MOST_EVIDENCE],
            check=decides,
        )
        (held if truth else unknown).append(told)
        if decides:
            checks.append(NextCheck(say=_question(title), run=decides, why=told.because))
    return held, unknown, checks


def _question(title: str) -> str:
    return title.rstrip(".") + "?"


def _holds(clue: Clue, fired: Fired, machine: Machine) -> tuple[bool | None, list[Evidence]]:
    value = None
    if clue.when is not None:
        value = machine.evaluate(fired.loaded, clue.when, fired.item, fired.captured)
        if value is True:
            return True, quotes(clue.when, fired.loaded, machine.evaluator, fired.item)
    matches = machine.find(fired.loaded, clue.message)
    if matches:
        return True, [m.evidence for m in matches]
    return (False if value is False else None), []


def _linked(
    cause: Cause, fired: Fired, machine: Machine, outcomes: dict[str, Outcome], rules: RuleSet
) -> Weighed | None:
    """A cause that is another rule's finding: told while that rule fired or could not be evaluated."""
    rule_id = cause.rule or ""
    outcome = outcomes.get(rule_id)
    loaded = rules.loaded.get(rule_id)
    if outcome is None or loaded is None or outcome.fires is False:
        return None
    other = loaded.rule
    title = machine.fill(fired, cause.title or other.title)
    held, unknown, checks = _clues(cause.supports, title, fired, machine)
    against, _, _ = _clues(cause.against, title, fired, machine)
    if any(c.weight == Weight.DECISIVE for c in against):
        return None
    advice = _first_steps(loaded, fired, machine)
    if outcome.fires is None and advice and advice[0].run:
        checks.append(NextCheck(say=_question(title), run=advice[0].run, why=advice[0].say))
    ranked = RankedCause(
        id=rule_id.replace("/", "-"),
        title=title,
        standing=Standing.LIKELY if outcome.fires else Standing.POSSIBLE,
        held=held,
        against=against,
        unknown=unknown,
        steps=advice,
        references=other.references,
        rule=rule_id,
    )
    return Weighed(ranked, checks)


def _first_steps(other: LoadedRule, fired: Fired, machine: Machine) -> list[Step]:
    for cause in other.rule.causes:
        if cause.rule is None:
            foreign = other.each is not None and fired.loaded.each != other.each
            blank = Fired(other, fired.subject, [], None if foreign else fired.item, fired.captured)
            return steps(cause.steps, blank, machine)
    return []


def steps(templates: list[RuleStep], fired: Fired, machine: Machine) -> list[Step]:
    """Steps for this machine: those whose `when` is not known to be false, with commands by its package manager."""
    found: list[Step] = []
    for step in templates:
        if step.when is not None and machine.evaluate(fired.loaded, step.when, fired.item, fired.captured) is False:
            continue
        command = _command(step.run, machine)
        run = machine.fill(fired, command, shell=True) if command else None
        found.append(Step(say=machine.fill(fired, step.say), run=run, effect=step.effect))
    return found


def _command(run: str | dict[str, str] | None, machine: Machine) -> str | None:
    if not isinstance(run, dict):
        return run
    manager = machine.evaluator.value("host.package_manager")
    if manager in run:
        return run[manager]
    if manager in ("yum", "dnf") and ("dnf" in run or "yum" in run):
        return run.get("dnf") or run.get("yum")
    return next(iter(run.values())) if manager is None else None
