"""The one way from evidence to report; check, explain, facts, collect and demo all take it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gpudoctor import __version__
from gpudoctor.cli import exit_codes
from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Document, Expectation, Facts
from gpudoctor.report import MESSAGES, ProbeRun, ProbeState, Report, Severity, Tool, are_guesses

if TYPE_CHECKING:
    from gpudoctor.cli.active import Active, Tested
    from gpudoctor.engine.load import RuleSet
    from gpudoctor.sources import ActiveSource

_LONGEST_SECONDS = 86_400.0
_AHEAD_SECONDS = 12.0  # as the probes that ask the same allow
_LOOKING_SECONDS = 30.0  # for the probes, where active tests follow
PROFILES = ("host", "container", "training", "ci")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What to look at and for how long. `areas` None means everything."""

    areas: set[str] | None = None
    profile: str = "host"
    expectation: Expectation | None = None
    deadline_seconds: float = 30.0
    active: Active | None = None  # tests that put load on the GPUs
    explaining: bool = False  # a text is asked about: error lines in it that no rule knows are told


def open_evidence(paths: Sequence[Path], rules: RuleSet) -> ActiveSource:
    """A recording, or files from a ticket. Huge logs are thinned: a line without any message of any rule is left out."""
    from gpudoctor.sources import open_paths

    return open_paths(list(paths), rules.needles.words)


def open_machine(root: str | None, areas: set[str] | None = None) -> ActiveSource:
    """This machine. The slow commands are asked at once, so that they run while the rest is still being loaded."""
    import threading

    from gpudoctor.sources import open_live
    from gpudoctor.sources.requests import NVIDIA_SMI, WORKER_NVML

    source = open_live(root)
    for argv in () if areas else (WORKER_NVML, NVIDIA_SMI):
        # The probes ask the same again and get, or wait for, this answer.
        threading.Thread(target=source.run, args=argv, kwargs={"timeout": _AHEAD_SECONDS}, daemon=True).start()
    return source


def gather(source: ActiveSource, request: Request) -> tuple[Facts, list[ProbeRun]]:
    """Facts of a source and how each probe fared, with progress on a terminal."""
    from gpudoctor.cli.progress import Progress
    from gpudoctor.probes.run import run_probes

    _check_areas(request.areas)
    if not 0 < request.deadline_seconds <= _LONGEST_SECONDS:
        raise GpudoctorError(
            f"--deadline {request.deadline_seconds:g}: out of range", "seconds, more than 0 and at most a day"
        )
    progress = Progress()
    on_progress: Callable[[str, bool], None] | None = progress if source.kind == "live" else None
    try:
        facts, runs = run_probes(
            source,
            areas=request.areas,
            deadline_seconds=request.deadline_seconds,
            on_progress=on_progress,
            profile=request.profile,
        )
    finally:
        progress.end()
    return msgspec.structs.replace(facts, expect=request.expectation), runs


def _check_areas(areas: set[str] | None) -> None:
    from gpudoctor.probes import PROBES
    from gpudoctor.probes.run import group_of

    known = {probe.NAME for probe in PROBES} | {group_of(probe) for probe in PROBES}
    wrong = sorted((areas or set()) - known)
    if wrong:
        raise GpudoctorError(f"no such area: {', '.join(wrong)}", f"areas are {', '.join(sorted(known))}")


def gather_actively(source: ActiveSource, request: Request) -> tuple[Facts, list[ProbeRun], Tested | None]:
    """Facts and how each probe fared; then the active tests that were asked for, or that a recording holds."""
    begun = time.monotonic()
    active = request.active
    if active is None or not 0 < request.deadline_seconds <= _LONGEST_SECONDS:
        facts, runs = gather(source, request)
    else:  # what does not answer soon must not eat the tests' time
        looking = msgspec.structs.replace(request, deadline_seconds=min(request.deadline_seconds, _LOOKING_SECONDS))
        facts, runs = gather(source, looking)
    if active is None and source.kind == "recording":
        from gpudoctor.cli.active import recorded

        active = recorded(source, facts)
    if active is None:
        return facts, runs, None
    from gpudoctor.cli.active import tested

    done = tested(source, facts, active, begun=begun, deadline_seconds=request.deadline_seconds)
    return done.facts, [*runs, done.run], done


def examine(source: ActiveSource, rules: RuleSet, request: Request) -> Report:
    """Evidence to report."""
    return examine_actively(source, rules, request)[0]


def examine_actively(source: ActiveSource, rules: RuleSet, request: Request) -> tuple[Report, Tested | None]:
    """Evidence to report, with what became of active tests."""
    from gpudoctor.engine.diagnose import diagnose
    from gpudoctor.engine.verdict import verdict

    facts, runs, done = gather_actively(source, request)
    documents = source.documents()
    diagnosis = diagnose(rules, facts, documents, guessing=request.explaining)
    guessed = are_guesses(diagnosis.findings)
    if request.explaining and (guessed or not diagnosis.findings):
        runs = [*_unknown_messages(documents, guessed=guessed), *runs]
    report = Report(
        tool=Tool(version=__version__, rules=len(rules.loaded)),
        generated=datetime.fromtimestamp(source.now(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        source=source.name,
        host=facts.host.hostname if facts.host else None,
        verdict=verdict(diagnosis.findings, runs),
        findings=diagnosis.findings,
        probes=runs,
        next_checks=diagnosis.next_checks,
        bench=facts.bench,
    )
    return report, done


def _unknown_messages(documents: Sequence[Document], *, guessed: bool) -> list[ProbeRun]:
    """What was asked about and not understood counts as not checked."""
    from gpudoctor.engine.unexplained import unexplained

    problems = [f'no rule knows "{line.text}" [{line.source}:{line.line}]' for line in unexplained(documents)]
    if not problems and not guessed:
        return []
    problems = problems or ["no rule knows what this tells"]
    return [ProbeRun(name=MESSAGES, state=ProbeState.NO_EVIDENCE, problems=problems, essential=True)]


def exit_code(report: Report, fail_on: Severity, allow_unknown: bool) -> int:
    """1 for findings at or above the bar; else 3 where something essential was not checked; else 0."""
    from gpudoctor.engine.verdict import at_or_above, unchecked

    if at_or_above(report.findings, fail_on):
        return exit_codes.FOUND
    if unchecked(report.probes) and not allow_unknown:
        return exit_codes.NOT_CHECKED
    return exit_codes.PASSED
