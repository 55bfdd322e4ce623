"""One finding as text: what was seen, why, the steps, what else it could be, what it explains."""

from __future__ import annotations

from gpudoctor.facts import Evidence
from gpudoctor.render.paint import Paint
from gpudoctor.render.safe import cells
from gpudoctor.render.words import (
    Group,
    consequences,
    deciding_command,
    headline,
    is_answered,
    rated,
    ruled_out,
    said,
    sources,
    standing_causes,
    steps_to_do,
    where,
)
from gpudoctor.render.wrap import command, quote, wrap
from gpudoctor.report import Finding, HeldClue, RankedCause, Standing, Step

_MOST_EVIDENCE = 2
_MOST_OTHERS = 4  # where the first cause is only possible; beside a likely one,
_MOST_RIVALS = 2
_MOST_SUBJECTS = 8


def finding_lines(group: Group, width: int, paint: Paint, verbose: bool, shown: set[str]) -> list[str]:
    """The finding's lines. Commands that it prints are added to `shown`."""
    finding = group.first
    quoted: set[str] = set()
    lines = _head(finding, width, paint)
    lines += _also(group.others, width)
    lines += _seen(finding, width, paint, verbose, quoted)
    causes = standing_causes(finding)
    for index, cause in enumerate(causes if verbose else causes[:1]):
        lines += _cause(cause, width, paint, verbose, quoted)
        lines += _steps(
            steps_to_do(finding, cause),
            width,
            paint,
            shown,
            "fix" if index == 0 and not finding.guess else "fix, if it is that",
        )
    if not verbose:
        lines += _others(finding, causes, width, paint, shown)
    lines += _ruled_out(finding, width, verbose)
    lines += _explains(finding, width)
    return lines


def _head(finding: Finding, width: int, paint: Paint) -> list[str]:
    word = rated(finding).upper()
    lead = f"{word}  "
    lines = wrap(headline(finding), width, lead, " " * len(lead))
    room = width - cells(lines[-1]) - cells(finding.rule)
    rule = paint.dim(finding.rule)
    lines[-1] = lines[-1] + " " * room + rule if room >= 2 else lines[-1]
    lines[0] = paint.severity(word, rated(finding)) + "  " + lines[0][len(lead) :]
    return lines if room >= 2 else [*lines, " " * max(len(lead), width - cells(finding.rule)) + rule]


def _also(others: list[Finding], width: int) -> list[str]:
    if not others:
        return []
    names = [other.subject for other in others]
    left = len(names) - _MOST_SUBJECTS
    told = ", ".join(names[:_MOST_SUBJECTS]) + (f" and {left} more" if left > 0 else "")
    return wrap(told, width, "  the same: ", "    ")


def _seen(finding: Finding, width: int, paint: Paint, verbose: bool, quoted: set[str]) -> list[str]:
    lines: list[str] = []
    for evidence in finding.evidence if verbose else finding.evidence[:_MOST_EVIDENCE]:
        if evidence.text and _key(evidence) not in quoted:
            quoted.add(_key(evidence))
            lines += _quoted(evidence, width, "  seen: " if not lines else "        ", paint)
    if finding.count > 1 and lines:
        lines.append(f"        ({finding.count} times)")
    return lines


def _key(evidence: Evidence) -> str:
    """The same line is quoted once, also where another reading of it kept other blanks."""
    return " ".join(evidence.text.split())


def _quoted(evidence: Evidence, width: int, first: str, paint: Paint) -> list[str]:
    rest = " " * len(first)
    lines = quote(evidence.text, width, rest)
    lines[0] = first + lines[0][len(first) :]
    return _sourced(lines, evidence, width, rest, paint)


def _sourced(lines: list[str], evidence: Evidence, width: int, rest: str, paint: Paint) -> list[str]:
    """The lines with `[source:line]` behind the last one, or under it where there is no room."""
    source = f"[{where(evidence)}]"
    if cells(lines[-1]) + 2 + cells(source) <= width:
        return [*lines[:-1], f"{lines[-1]}  {paint.dim(source)}"]
    return [*lines, rest + paint.dim(source)]


def _cause(cause: RankedCause, width: int, paint: Paint, verbose: bool, quoted: set[str]) -> list[str]:
    lines = wrap(cause.title, width, f"  {cause.standing}: ", "    ")
    for sign, clues in (("+", cause.held), ("-", cause.against)):
        for clue in clues:
            lines += _clue(clue, sign, width, paint, verbose, quoted)
    if verbose:
        for clue in cause.unknown:
            lines += wrap(f"not known: {clue.because}", width, "    ? ", "      ")
    return lines


def _clue(clue: HeldClue, sign: str, width: int, paint: Paint, verbose: bool, quoted: set[str]) -> list[str]:
    lines = wrap(clue.because, width, f"    {sign} ", "      ")
    for index, evidence in enumerate(clue.evidence if verbose else clue.evidence[:_MOST_EVIDENCE]):
        fits = index == 0 and cells(lines[-1]) + cells(where(evidence)) + 4 <= width
        lines = _sourced(lines, evidence, width, "", paint) if fits else lines
        if _key(evidence) in quoted:
            continue
        quoted.add(_key(evidence))
        if evidence.text not in clue.because:
            lines += quote(evidence.text, width, "        ")
        if not fits:
            lines = _sourced(lines, evidence, width, "        ", paint)
    return lines


def _steps(steps: list[Step], width: int, paint: Paint, shown: set[str], label: str) -> list[str]:
    lines = [f"  {label}"] if steps else []
    for number, step in enumerate(steps, 1):
        lines += wrap(said(step), width, f"    {number}. ", "       ")
        if step.run:
            shown.add(step.run)
            lines += [paint.command(line) for line in command(step.run, width, "         ")]
    return lines


def _others(finding: Finding, causes: list[RankedCause], width: int, paint: Paint, shown: set[str]) -> list[str]:
    """The other causes in question, each with the command that would decide it and was not run yet."""
    known = sources(finding)
    decided = bool(causes) and causes[0].standing is Standing.LIKELY
    told = [cause for cause in causes[1:] if not (decided and _is_remote(cause))]
    most = _MOST_RIVALS if decided else _MOST_OTHERS
    lines: list[str] = []
    for cause in told[:most]:
        word = "also likely" if cause.standing is Standing.LIKELY else "possible"
        decides = deciding_command(cause)
        if not decides or decides in shown or is_answered(decides, known):
            lines += wrap(cause.title, width, f"  {word}: ", "    ")
            continue
        shown.add(decides)
        inline = f"  {word}: {cause.title}; `{decides}` would tell"
        if cells(inline) <= width:
            lines.append(inline)
        else:
            lines += wrap(f"{cause.title}; this would tell:", width, f"  {word}: ", "    ")
            lines += [paint.command(line) for line in command(decides, width, "         ")]
    left = len(causes) - 1 - len(told[:most])
    return [*lines, f"  and {left} less likely: -v"] if left > 0 else lines


def _is_remote(cause: RankedCause) -> bool:
    """Another rule's finding that did not fire: worth a line only while nothing better is known."""
    return cause.rule is not None and cause.standing is not Standing.LIKELY and not cause.held


def _ruled_out(finding: Finding, width: int, verbose: bool) -> list[str]:
    causes = ruled_out(finding)
    if not causes:
        return []
    if not verbose:
        titles = "; ".join(cause.title for cause in causes if cause.against)
        return wrap(titles, width, "  ruled out: ", "    ") if titles else []
    lines: list[str] = []
    for cause in causes:
        why = "; ".join(clue.because for clue in cause.against) or "the evidence decides for another"
        lines += wrap(f"{cause.title} ({why})", width, "  ruled out: ", "    ")
    return lines


def _explains(finding: Finding, width: int) -> list[str]:
    titles = list(dict.fromkeys(headline(below) for below in consequences(finding)))
    return wrap("; ".join(titles), width, "  explains: ", "    ") if titles else []
