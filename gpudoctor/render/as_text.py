"""Text for a terminal, a log or a mail: the verdict, then causes with proof and steps, then what is not known."""

from __future__ import annotations

from itertools import islice

from gpudoctor.render.options import RenderOptions
from gpudoctor.render.paint import Paint
from gpudoctor.render.safe import cut
from gpudoctor.render.text_finding import finding_lines
from gpudoctor.render.words import further_checks, grouped, label, not_checked, summary
from gpudoctor.render.wrap import command, wrap
from gpudoctor.report import ProbeState, Report, Verdict

_MOST_CHECKS = 4
_MOST_LINES = 3  # of a reason why something could not be checked
LABEL = "NOT CHECKED  "


def render(report: Report, options: RenderOptions) -> str:
    """The whole report, ending in a line end. The report's strings must be clean already."""
    paint = Paint(options.colour)
    width = max(40, options.width)
    lines = _verdict(report, width, paint)
    if options.tables_first:
        lines += _measured(report, width, paint, every=True)
    shown: set[str] = set()
    for group in grouped(report.findings):
        lines += ["", *finding_lines(group, width, paint, options.verbose, shown)]
    lines += _not_checked(report, width, paint, verbose=options.verbose)
    lines += _next_checks(report, width, paint, options.verbose, shown)
    if not options.tables_first:
        lines += _measured(report, width, paint, every=options.verbose)
    lines += _checked(report, width, options.verbose)
    lines += _more(report, paint, options.verbose)
    return "\n".join(lines) + "\n"


def _measured(report: Report, width: int, paint: Paint, *, every: bool) -> list[str]:
    if report.bench is None:
        return []
    from gpudoctor.render.bench_table import bench_lines

    lines = bench_lines(report.bench, width, paint, every=every)
    return ["", *lines] if lines else []


def _verdict(report: Report, width: int, paint: Paint) -> list[str]:
    word = str(report.verdict).upper()
    host = report.host or ("this evidence" if not report.source.startswith("live") else "this machine")
    lines = wrap(f"{host}: {summary(report)}", width, f"{word}  ", " " * (len(word) + 2))
    lines[0] = paint.severity(word, str(report.verdict)) + lines[0][len(word) :]
    if not report.source.startswith("live"):
        lines += [paint.dim(line) for line in wrap(f"from {report.source}", width, " " * (len(word) + 2))]
    return lines


def _not_checked(report: Report, width: int, paint: Paint, verbose: bool) -> list[str]:
    items = not_checked(report)
    lines: list[str] = [""] if items else []
    for index, item in enumerate(items):
        todo = f" ({item.todo})" if item.todo else ""
        lead = LABEL if index == 0 else " " * len(LABEL)
        told = wrap(f"{item.name}: {item.why}{todo}", width, lead, " " * (len(LABEL) + 2))
        if len(told) > _MOST_LINES and not verbose:
            told = [*told[: _MOST_LINES - 1], cut(told[_MOST_LINES - 1] + " ...", width)]
        if index == 0:
            told[0] = paint.severity(LABEL.rstrip(), "unknown") + told[0][len(LABEL.rstrip()) :]
        lines += told
    return lines


def _next_checks(report: Report, width: int, paint: Paint, verbose: bool, shown: set[str]) -> list[str]:
    checks = further_checks(report, shown)
    if not checks:
        return []
    lines = ["", paint.strong("NEXT CHECKS")]
    for number, (asked, runs) in enumerate(islice(checks.items(), None if verbose else _MOST_CHECKS), 1):
        lines += wrap(asked, width, f"  {number}. ", "     ")
        for run in runs:
            lines += [paint.command(line) for line in command(run, width, "       ")]
    left = len(checks) - _MOST_CHECKS
    if left > 0 and not verbose:
        lines.append(f"  and {left} more with -v")
    return lines


def _checked(report: Report, width: int, verbose: bool) -> list[str]:
    """Where nothing is wrong, what that rests on; with `verbose`, every probe with its time."""
    if verbose:
        lines = ["", "PROBES"]
        for run in report.probes:
            lines += wrap(f"{run.state} {run.seconds:.2f} s", width, f"  {run.name:<16}")
        return lines if report.probes else []
    read = [label(run.name) for run in report.probes if run.state in (ProbeState.OK, ProbeState.PARTIAL)]
    if report.verdict not in (Verdict.PASS, Verdict.UNKNOWN) or not report.probes:
        return []
    return ["", *wrap(", ".join(read) or "nothing", width, "checked: ", "         ")]


def _more(report: Report, paint: Paint, verbose: bool) -> list[str]:
    if not report.findings or verbose:
        return []
    return ["", paint.dim("more: -v shows every cause; gpudoctor explain RULE explains a rule")]
