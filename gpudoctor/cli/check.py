"""`gpudoctor check`: what is wrong with this machine, a recording of it, or the files of a ticket."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.cli import options


def check(
    areas: options.Areas = None,
    paths: options.From = None,
    root: options.Root = None,
    profile: options.Profile = "host",
    expect: options.Expect = None,
    rules: options.Rules = None,
    format: options.Format = "text",
    output: options.Output = None,
    fail_on: options.FailOn = "error",
    allow_unknown: options.AllowUnknown = False,
    level: options.Level = None,
    deadline: options.OptionalDeadline = None,
    verbose: options.Verbose = False,
) -> int:
    """Say what is wrong, why, and what to type next.

    Only looks: nothing on the machine is changed. --from reads the same from a recording or a ticket's attachments.
    With --level 2 or 3 the GPUs are put to work for seconds or minutes, to measure what they give.
    """
    from gpudoctor.cli.expect import read_expectation
    from gpudoctor.cli.levels import DEADLINES, active_of
    from gpudoctor.cli.output import one_of
    from gpudoctor.cli.pipeline import PROFILES, Request, open_evidence, open_machine
    from gpudoctor.cli.reporting import report_on, reporting
    from gpudoctor.errors import GpudoctorError

    if paths and root:
        raise GpudoctorError("--from and --root exclude each other", "--root is for the live machine")

    wanted = reporting(format, output, fail_on=fail_on, allow_unknown=allow_unknown, verbose=verbose)
    request = Request(
        areas=set(areas) if areas else None,
        profile=one_of("--profile", profile, PROFILES),
        expectation=read_expectation(expect) if expect else None,
        deadline_seconds=deadline if deadline is not None else DEADLINES[level or 1],
        active=active_of(level, root),
    )
    machine = None if paths else open_machine(root, request.areas)

    from gpudoctor.engine.load import load_rules  # after the machine was asked: this takes as long as its answers

    ruleset = load_rules(rules or [])
    return report_on(machine or open_evidence(paths or [], ruleset), ruleset, request, wanted)
