"""The words that several formats share: the summary, effects, what could not be checked, findings that say the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.report import (
    MESSAGES,
    SEVERITIES,
    Effect,
    Finding,
    ProbeRun,
    ProbeState,
    RankedCause,
    Report,
    Severity,
    Standing,
    Step,
    Verdict,
    are_guesses,
)

EFFECTS = {
    Effect.READS: "",
    Effect.CHANGES: "[changes]",
    Effect.RESTARTS: "[restarts a service or job]",
    Effect.REBOOTS: "[reboots: every job ends]",
    Effect.REPLACES: "[hardware work]",
}

_STATES = {
    ProbeState.PARTIAL: "only partly read",
    ProbeState.NO_EVIDENCE: "nothing to read here",
    ProbeState.DENIED: "permission denied",
    ProbeState.TIMED_OUT: "no answer in time",
    ProbeState.CRASHED: "gpudoctor failed here",
    ProbeState.SKIPPED: "skipped",
}

_NOT_BROUGHT = "not in this evidence"
_NOTHING = (_NOT_BROUGHT, _STATES[ProbeState.NO_EVIDENCE])
_TO_BRING = {
    "nvidia_smi": "the output of `nvidia-smi -q`",
    "kernel_log": "the output of `dmesg`",
}
_LABELS = {"nvml": "GPUs (NVML)", "nvidia_smi": "GPUs (nvidia-smi)"}
PASTE = "pasted text"

_BAD = (Severity.CRITICAL, Severity.ERROR)
_BLIND = {ProbeState.DENIED, ProbeState.TIMED_OUT, ProbeState.CRASHED}


class NotChecked(msgspec.Struct, frozen=True):
    """A probe that could not tell: what, why, and what to do about it."""

    probe: str
    name: str
    why: str
    todo: str
    essential: bool


class Group(msgspec.Struct, frozen=True):
    """Findings of one rule with the same cause on several subjects: the first stands for all."""

    first: Finding
    others: list[Finding]


def not_checked(report: Report) -> list[NotChecked]:
    """Probes without a full answer that matter to the verdict, essential ones first."""
    live = report.source.startswith("live")
    if report.source == PASTE and report.findings and not are_guesses(report.findings):
        return []  # a paste is never everything, and it did what it was pasted for
    told = [
        NotChecked(run.name, label(run.name), _why(run, live), _todo(run, live), run.essential)
        for run in report.probes
        if _is_blind(run)
    ]
    # Both read the GPUs: where nvidia-smi said why it cannot, NVML's silence adds nothing.
    said_by_smi = any(item.probe == "nvidia_smi" for item in told)
    told = [item for item in told if not (item.probe == "nvml" and item.why in _NOTHING and said_by_smi)]
    return sorted(told, key=lambda item: not item.essential)


def label(probe: str) -> str:
    """A probe's name for readers."""
    return _LABELS.get(probe, probe.replace("_", " "))


def _is_blind(run: ProbeRun) -> bool:
    if run.state is ProbeState.NO_EVIDENCE:
        return run.essential
    return run.state in _BLIND or (run.state is ProbeState.PARTIAL and bool(run.problems))


def _why(run: ProbeRun, live: bool) -> str:
    told = (re.sub(r"^(\S+): (?=\1: )", "", problem) for problem in run.problems)  # "dmesg: dmesg: read failed"
    silent = _NOT_BROUGHT if run.state is ProbeState.NO_EVIDENCE and not live else _STATES.get(run.state, run.state)
    return "; ".join(dict.fromkeys(told)) or str(silent)


def _todo(run: ProbeRun, live: bool) -> str:
    if run.state is ProbeState.CRASHED:
        return "a fault of gpudoctor: please report it"
    if live and run.state is ProbeState.DENIED and "root" not in _why(run, live):
        return "run it as root"
    if not live and run.state is ProbeState.NO_EVIDENCE and not run.problems and run.name in _TO_BRING:
        return f"add {_TO_BRING[run.name]}"
    if run.name == MESSAGES:
        return "`gpudoctor check` on that machine looks at the rest"
    if live and run.state is ProbeState.TIMED_OUT:
        return "--deadline SECONDS waits longer"
    return ""


def summary(report: Report) -> str:
    """`1 root cause, 3 consequences; 1 thing could not be checked`."""
    roots = report.findings
    parts = _counted(
        (sum(worst(finding) in _BAD for finding in roots), "root cause", "root causes"),
        (sum(1 for finding in roots for _ in consequences(finding)), "consequence", "consequences"),
        (sum(worst(finding) is Severity.WARNING for finding in roots), "warning", "warnings"),
        (sum(worst(finding) is Severity.INFO for finding in roots), "note", "notes"),
    )
    blind = len(not_checked(report))
    if are_guesses(roots):
        parts = ["no rule knows this", *_counted((len(roots), "guess", "guesses"))]
    found = ", ".join(parts) or _nothing_found(report)
    return f"{found}; {blind} thing{'s' if blind > 1 else ''} could not be checked" if blind else found


def _nothing_found(report: Report) -> str:
    if report.verdict is Verdict.UNKNOWN:
        return "nothing wrong found so far"
    return "nothing wrong found"


def said(step: Step) -> str:
    """What a step says, with its effect where it does more than read."""
    return f"{step.say} {EFFECTS[step.effect]}".rstrip()


def _counted(*counts: tuple[int, str, str]) -> list[str]:
    return [f"{number} {one if number == 1 else many}" for number, one, many in counts if number]


def rated(finding: Finding) -> str:
    """The word before a finding: how bad it is; of a guess nobody knows."""
    return "maybe" if finding.guess else str(worst(finding))


def worst(finding: Finding) -> Severity:
    """A cause is as bad as the worst that it explains."""
    return min((f.severity for f in [finding, *consequences(finding)]), key=SEVERITIES.index)


def consequences(finding: Finding) -> Iterator[Finding]:
    """Everything folded under a finding, at any depth."""
    for below in finding.consequences:
        yield below
        yield from consequences(below)


def headline(finding: Finding) -> str:
    """The title, led by the subject where the title does not name it."""
    subject = finding.subject
    if subject in ("", "node"):
        return finding.title
    name = subject.split(" ", 1)[-1].lower()
    named = {name, name.removesuffix(".0")}  # the kernel log names GPUs without the function, 0000:3b:00
    return finding.title if any(word in finding.title.lower() for word in named) else f"{subject}: {finding.title}"


def standing_causes(finding: Finding) -> list[RankedCause]:
    """The causes still in question, best first."""
    return [cause for cause in finding.causes if cause.standing is not Standing.RULED_OUT and cause.title]


def ruled_out(finding: Finding) -> list[RankedCause]:
    """The causes that evidence speaks against, and (`against` empty) those that evidence for another leaves no room for."""
    return [cause for cause in finding.causes if cause.standing is Standing.RULED_OUT and cause.title]


def deciding_command(cause: RankedCause) -> str | None:
    """The command that would decide a cause: what an open clue names, else its first step that only reads."""
    for clue in cause.unknown:
        if clue.check:
            return clue.check
    return next((step.run for step in cause.steps if step.run and step.effect is Effect.READS), None)


def steps_to_do(finding: Finding, cause: RankedCause) -> list[Step]:
    """A cause's steps without the first ones, where these only read what the finding quotes already."""
    known = sources(finding)
    steps = cause.steps
    acts = next((index for index, step in enumerate(steps) if step.effect is not Effect.READS), 0)
    asked = [step for step in steps[:acts] if not (step.run and is_answered(step.run, known))]
    return [*asked, *steps[acts:]]


def is_answered(run: str, known: set[str]) -> bool:
    """Whether each command of a line is one whose output is known: `dkms status; sudo cat FILE | grep X`."""
    parts = (part.split("|")[0].strip().removeprefix("sudo ").removeprefix("cat ") for part in run.split(";"))
    return all(part.strip() in known for part in parts)


def sources(finding: Finding) -> set[str]:
    """What was read for a finding: `dkms status`, /proc/driver/nvidia/version."""
    clues = (clue for cause in finding.causes for clue in [*cause.held, *cause.against])
    quoted = [*finding.evidence, *(evidence for clue in clues for evidence in clue.evidence)]
    return {evidence.source for evidence in quoted}


def where(evidence: Evidence) -> str:
    """`dmesg:118`."""
    return evidence.source if evidence.line is None else f"{evidence.source}:{evidence.line}"


def grouped(findings: Iterable[Finding]) -> list[Group]:
    """Findings that differ in their subject only, together; order is that of the first of each."""
    groups: dict[tuple[object, ...], Group] = {}
    for finding in findings:
        first = next(iter(standing_causes(finding)), None)
        key = (finding.rule, finding.severity, first.id if first else None, first.standing if first else None)
        known = groups.get(key) if finding.subject != "node" else None
        if known:
            known.others.append(finding)
        else:
            groups[key if finding.subject != "node" else (*key, len(groups))] = Group(finding, [])
    return list(groups.values())


def further_checks(report: Report, shown: set[str]) -> dict[str, list[str]]:
    """What is asked, with the commands that would tell: those that are not on the page yet."""
    found: dict[str, list[str]] = {}
    for check in report.next_checks:
        if not check.run or check.run not in shown:
            found.setdefault(check.say, []).extend([check.run] if check.run else [])
    return found
