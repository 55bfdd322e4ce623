"""Markdown for tickets and merge requests. Captured text stands in code spans and fences: no HTML, links or mentions from it."""

from __future__ import annotations

import re

from gpudoctor.facts import Bench, Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.render.options import RenderOptions
from gpudoctor.render.paint import Paint
from gpudoctor.render.words import (
    Group,
    consequences,
    deciding_command,
    further_checks,
    grouped,
    headline,
    not_checked,
    rated,
    ruled_out,
    said,
    standing_causes,
    steps_to_do,
    summary,
    where,
)
from gpudoctor.report import HeldClue, RankedCause, Report, Step

# What starts markup anywhere in a line, a mention, a reference to an issue, or a link; and what does at a line's start.
_MARKUP = Lazy(r"[\\`*\[\]~|$]|(?<!\w)_|_(?!\w)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_REFERENCE = Lazy(r"@(?=\w)|[#!](?=\w)|:(?=//)|(?<=\bwww)\.", re.IGNORECASE)
_LINE_START = Lazy(r"^(?:[-+=]|#(?=[#\s]|$)|\d+(?=[.)](?:\s|$)))")


def render(report: Report, options: RenderOptions) -> str:
    """A report to paste into a ticket, GitHub, GitLab or a wiki."""
    lines = [
        f"## {str(report.verdict).upper()}: {escape(report.host or 'this machine')}",
        "",
        f"{escape(summary(report))}.",
        "",
        f"Evidence: {code(report.source)}, {escape(report.generated or 'time not known')}. "
        f"{escape(report.tool.name)} {escape(report.tool.version)}.",
    ]
    shown: set[str] = set()
    for group in grouped(report.findings):
        lines += ["", *_finding(group, shown)]
    blind = not_checked(report)
    if blind:
        lines += ["", "### Not checked", ""]
        for item in blind:
            todo = f" ({escape(item.todo)})" if item.todo else ""
            lines.append(f"- **{escape(item.name)}**: {escape(item.why)}{todo}")
    if report.bench is not None:
        lines += _measured(report.bench)
    checks = further_checks(report, shown)
    if checks:
        lines += ["", "### Next checks", ""]
        for number, (asked, runs) in enumerate(checks.items(), 1):
            lines += _item(f"{number}. ", escape(asked), runs)
    return "\n".join(lines) + "\n"


def _measured(bench: Bench) -> list[str]:
    """The tables of active tests, as they stand on a terminal."""
    from gpudoctor.render.bench_table import bench_lines

    _, *table = bench_lines(bench, 80, Paint(False), every=True) or [""]
    return ["", "### Measured", "", "```text", *(line.replace("`", "'") for line in table), "```"] if table else []


def _finding(group: Group, shown: set[str]) -> list[str]:
    finding = group.first
    lines = [f"### {rated(finding).capitalize()}: {escape(headline(finding))}", "", code(finding.rule)]
    if group.others:
        lines += ["", "The same: " + ", ".join(code(other.subject) for other in group.others) + "."]
    if finding.evidence:
        lines += ["", *_fence(finding.evidence)]
    causes = standing_causes(finding)
    for cause in causes[:1]:
        lines += ["", *_cause(cause), *_steps(steps_to_do(finding, cause), shown)]
    if causes[1:]:
        lines += ["", "Other causes:", ""]
        for cause in causes[1:]:
            decides = deciding_command(cause)
            shown.update([decides] if decides else [])
            tell = f"; {code(decides)} would tell" if decides else ""
            lines.append(f"- {cause.standing}: {escape(cause.title)}{tell}")
    out = [cause for cause in ruled_out(finding) if cause.against]
    if out:
        lines += ["", "Ruled out: " + "; ".join(escape(cause.title) for cause in out) + "."]
    below = list(dict.fromkeys(headline(item) for item in consequences(finding)))
    if below:
        lines += ["", "Explains: " + "; ".join(escape(title) for title in below) + "."]
    return lines


def _cause(cause: RankedCause) -> list[str]:
    lines = [f"**{str(cause.standing).capitalize()}: {escape(cause.title)}**"]
    clues = [*_clues("(+)", cause.held), *_clues("(-)", cause.against)]
    return [*lines, "", *clues] if clues else lines


def _clues(sign: str, clues: list[HeldClue]) -> list[str]:
    lines: list[str] = []
    for clue in clues:
        lines.append(f"- {sign} {escape(clue.because)}")
        for evidence in clue.evidence:
            quoted = f"{code(evidence.text)} " if evidence.text else ""
            lines.append(f"  - {quoted}({code(where(evidence))})")
    return lines


def _steps(steps: list[Step], shown: set[str]) -> list[str]:
    lines = ["", "Steps:", ""] if steps else []
    for number, step in enumerate(steps, 1):
        shown.update([step.run] if step.run else [])
        lines += _item(f"{number}. ", escape(said(step)), [step.run] if step.run else [])
    return lines


def _item(lead: str, text: str, runs: list[str]) -> list[str]:
    indent = " " * len(lead)
    return [lead + text, *(indent + line for line in fenced(runs, "sh"))] if runs else [lead + text]


def _fence(evidence: list[Evidence]) -> list[str]:
    return fenced([f"[{where(item)}] {item.text}" for item in evidence])


def fenced(lines: list[str], language: str = "") -> list[str]:
    """A fenced block with a fence longer than any in the text."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [fence + language, *lines, fence]


def code(text: str) -> str:
    """A code span that its content cannot end. A bar would end a table cell, so spans are not used in tables."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    ticks = "`" * (longest + 1)
    pad = " " if not text or text[0] == "`" or text[-1] == "`" else ""
    return f"{ticks}{pad}{text or ' '}{pad}{ticks}"


def escape(text: str) -> str:
    """Prose from rules and machines as plain words: no markup, HTML, link, mention or issue reference comes of it."""
    text = _MARKUP.sub(lambda match: "\\" + match[0], text)
    text = _LINE_START.sub(lambda match: match[0] + "\\" if match[0].isdecimal() else "\\" + match[0], text)
    text = re.sub("[&<>]", lambda match: _HTML[match[0]], text)
    return _REFERENCE.sub(lambda match: f"&#{ord(match[0])};", text)
