"""Facts and texts to findings: match every rule, rank causes, fold consequences under roots, say what to check next."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudoctor.engine.expressions import Evaluator
from gpudoctor.engine.fold import fold
from gpudoctor.engine.load import RuleSet
from gpudoctor.engine.match import Fired, Machine, match
from gpudoctor.engine.messages import Texts
from gpudoctor.engine.rank import Weighed, rank
from gpudoctor.facts import Document, Facts
from gpudoctor.report import Finding, NextCheck, Standing

_MOST_CHECKS = 6
_CAUSES_TO_DECIDE = 3


class Diagnosis(msgspec.Struct, frozen=True):
    """Findings (roots in order, consequences below them), checks that would decide, and rules that could not be evaluated."""

    findings: list[Finding]
    next_checks: list[NextCheck]
    unknown_rules: list[str]


def diagnose(rules: RuleSet, facts: Facts, documents: Sequence[Document], *, guessing: bool = False) -> Diagnosis:
    """Pure: the same rules, facts and texts give the same diagnosis. `guessing`: with guesses where nothing is found."""
    machine = Machine(facts, Evaluator(facts), Texts(documents, rules.needles))
    outcomes = {rule_id: match(loaded, machine) for rule_id, loaded in rules.loaded.items()}
    findings: list[Finding] = []
    checks: dict[tuple[str, str], list[NextCheck]] = {}
    for outcome in outcomes.values():
        for fired in outcome.fired:
            weighed = rank(fired, machine, outcomes, rules)
            finding = _finding(fired, machine, weighed)
            findings.append(finding)
            checks[finding.rule, finding.subject] = _undecided(weighed)
    roots = fold(findings)
    if guessing and not roots:
        from gpudoctor.engine.guess import guesses  # seldom needed

        guessed = guesses(documents, rules, outcomes, machine)
        roots = [finding for finding, _ in guessed]
        checks |= {(finding.rule, finding.subject): asked for finding, asked in guessed}
    unknown = [rule_id for rule_id, outcome in outcomes.items() if outcome.fires is None]
    return Diagnosis(roots, _next_checks(roots, checks), unknown)


def _finding(fired: Fired, machine: Machine, weighed: list[Weighed]) -> Finding:
    rule = fired.loaded.rule
    return Finding(
        rule=rule.id,
        subject=fired.subject,
        severity=rule.severity,
        title=machine.fill(fired, rule.title),
        action=rule.action,
        explain=rule.explain,
        evidence=fired.evidence,
        causes=[w.cause for w in weighed],
        references=rule.references,
        count=fired.count,
    )


def _undecided(weighed: list[Weighed]) -> list[NextCheck]:
    """Checks only while causes are open: a decided finding needs none."""
    alive = [w for w in weighed if w.cause.standing != Standing.RULED_OUT]
    if len(alive) < 2 or alive[0].decided:
        return []
    return [check for w in alive[:_CAUSES_TO_DECIDE] for check in w.checks]


def _next_checks(roots: list[Finding], checks: dict[tuple[str, str], list[NextCheck]]) -> list[NextCheck]:
    found: dict[str | None, NextCheck] = {}
    for root in roots:
        for check in checks.get((root.rule, root.subject), []):
            found.setdefault(check.run, check)
    return list(found.values())[:_MOST_CHECKS]
