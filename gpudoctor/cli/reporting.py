"""The end of check, explain and demo: the report laid out, written, and turned into an exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from gpudoctor.cli import exit_codes
from gpudoctor.cli.output import one_of, render_options, severity, write
from gpudoctor.cli.pipeline import Request, examine_actively, exit_code
from gpudoctor.render import FORMATS
from gpudoctor.report import Severity

if TYPE_CHECKING:
    from gpudoctor.engine.load import RuleSet
    from gpudoctor.report import Report
    from gpudoctor.sources import ActiveSource


class Reporting(msgspec.Struct, frozen=True, kw_only=True):
    """How the report is written and what makes the exit code 1."""

    format: str = "text"
    output: Path | None = None
    fail_on: Severity = Severity.ERROR
    allow_unknown: bool = False
    verbose: bool = False


def reporting(
    format: str,
    output: Path | None,
    *,
    fail_on: str = "error",
    allow_unknown: bool = False,
    verbose: bool = False,
) -> Reporting:
    """From the options of a command. Raises GpudoctorError for a format or level that does not exist."""
    return Reporting(
        format=one_of("--format", format, tuple(FORMATS)),
        output=output,
        fail_on=severity(fail_on),
        allow_unknown=allow_unknown,
        verbose=verbose,
    )


def report_on(source: ActiveSource, rules: RuleSet, request: Request, reporting: Reporting) -> int:
    """Examines, writes the report and gives the exit code."""
    report, tested = examine_actively(source, rules, request)
    return show(report, reporting, interrupted=tested is not None and tested.interrupted)


def show(report: Report, reporting: Reporting, *, interrupted: bool = False, tables_first: bool = False) -> int:
    """Writes a report and gives the exit code."""
    options = render_options(
        reporting.output,
        verbose=reporting.verbose,
        fail_on=reporting.fail_on,
        allow_unknown=reporting.allow_unknown,
    )
    if tables_first:
        options = msgspec.structs.replace(options, tables_first=True)
    write(FORMATS[reporting.format](report, options), reporting.output)
    return exit_codes.INTERRUPTED if interrupted else exit_code(report, reporting.fail_on, reporting.allow_unknown)
