"""One word for the whole report, and what the exit code follows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudoctor.report import SEVERITIES, Finding, ProbeRun, ProbeState, Severity, Verdict


def walk(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Every finding, roots and what is folded under them."""
    for finding in findings:
        yield finding
        yield from walk(finding.consequences)


def at_or_above(findings: Iterable[Finding], level: Severity) -> bool:
    """Whether any finding is as severe as `level` or more; a guess is none."""
    bar = SEVERITIES.index(level)
    return any(SEVERITIES.index(f.severity) <= bar and not f.guess for f in walk(findings))


def unchecked(probes: Iterable[ProbeRun]) -> list[ProbeRun]:
    """Essential probes that gave no answer: their silence is never health."""
    return [p for p in probes if p.essential and p.state not in (ProbeState.OK, ProbeState.PARTIAL)]


def verdict(findings: list[Finding], probes: Iterable[ProbeRun]) -> Verdict:
    """fail before unknown before warn before pass."""
    if at_or_above(findings, Severity.ERROR):
        return Verdict.FAIL
    if unchecked(probes):
        return Verdict.UNKNOWN
    return Verdict.WARN if at_or_above(findings, Severity.WARNING) else Verdict.PASS
