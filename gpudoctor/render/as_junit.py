"""JUnit XML for CI: one test case per root cause and per probe, so that a gate shows what failed and what was not checked."""

from __future__ import annotations

from gpudoctor.render.options import RenderOptions
from gpudoctor.render.words import consequences, headline, label, not_checked, said, standing_causes, where
from gpudoctor.report import SEVERITIES, Finding, ProbeState, Report


def render(report: Report, options: RenderOptions) -> str:
    """`failure`: a finding at or above the bar; `error`: essential and not checked; `skipped`: not checked, not essential."""
    bar = SEVERITIES.index(options.fail_on)
    cases: list[str] = []
    failures = errors = skipped = 0
    for finding in report.findings:
        failed = SEVERITIES.index(finding.severity) <= bar and not finding.guess
        failures += failed
        cases.append(_finding_case(finding, failed))
    blind = {item.probe: item for item in not_checked(report)}
    for run in report.probes:
        item = blind.get(run.name)
        body = ""
        if item and item.essential and not options.allow_unknown:
            errors += 1
            body = f"<error type={_quoted(str(run.state))} message={_quoted('could not check: ' + item.why)}/>"
        elif item or run.state in (ProbeState.NO_EVIDENCE, ProbeState.SKIPPED):
            skipped += 1
            body = f"<skipped message={_quoted(item.why if item else str(run.state).replace('_', ' '))}/>"
        cases.append(_case("gpudoctor.probes", label(run.name), body, run.seconds))
    seconds = sum(run.seconds for run in report.probes)
    attributes = (
        f'name="gpudoctor" tests="{len(cases)}" failures="{failures}" errors="{errors}" skipped="{skipped}" '
        f'time="{seconds:.3f}" timestamp={_quoted(report.generated)} hostname={_quoted(report.host or "unknown")}'
    )
    properties = (("source", report.source), ("verdict", str(report.verdict)), ("version", report.tool.version))
    return "\n".join(
        [
            '<?xml version="1.0" encoding="UTF-8"?>',
            "<testsuites>",
            f"<testsuite {attributes}>",
            "<properties>",
            *(f"<property name={_quoted(name)} value={_quoted(value)}/>" for name, value in properties),
            "</properties>",
            *cases,
            "</testsuite>",
            "</testsuites>",
            "",
        ]
    )


def _finding_case(finding: Finding, failed: bool) -> str:
    told = _text("\n".join(_story(finding)))
    title = headline(finding)
    if failed:
        body = f"<failure type={_quoted(str(finding.severity))} message={_quoted(title)}>{told}</failure>"
    else:
        body = f"<system-out>{told}</system-out>"
    name = finding.rule if finding.subject in ("", "node") else f"{finding.rule} [{finding.subject}]"
    return _case("gpudoctor." + finding.rule.split("/", 1)[0], name, body)


def _story(finding: Finding) -> list[str]:
    lines = [f"{'maybe' if finding.guess else finding.severity}: {headline(finding)}"]
    lines += [f"seen: {evidence.text} [{where(evidence)}]" for evidence in finding.evidence if evidence.text]
    for cause in standing_causes(finding):
        lines.append(f"{cause.standing}: {cause.title}")
        for sign, clues in (("+", cause.held), ("-", cause.against)):
            for clue in clues:
                sources = "".join(f" [{where(evidence)}]" for evidence in clue.evidence)
                lines.append(f"  {sign} {clue.because}{sources}")
        for number, step in enumerate(cause.steps, 1):
            lines.append(f"  {number}. {said(step)}")
            lines += [f"     {step.run}"] if step.run else []
    lines += [f"explains: {headline(below)} [{below.rule}]" for below in consequences(finding)]
    return lines


def _case(classname: str, name: str, body: str, seconds: float | None = None) -> str:
    time = "" if seconds is None else f' time="{seconds:.3f}"'
    head = f"<testcase classname={_quoted(classname)} name={_quoted(name)}{time}"
    return f"{head}>{body}</testcase>" if body else f"{head}/>"


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _quoted(text: str) -> str:
    escaped = _text(text).replace('"', "&quot;")
    return f'"{escaped}"'
