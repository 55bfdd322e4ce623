"""The rules' pages under docs/rules/: one Markdown file an area, and an index. Generated, committed, compared."""

from __future__ import annotations

from pathlib import Path

from gpudoctor.cli.rule_page import as_markdown, plain_template
from gpudoctor.engine.load import RuleSet
from gpudoctor.engine.model import Rule
from gpudoctor.errors import GpudoctorError
from gpudoctor.render.as_markdown import escape

_NOTE = "<!-- Written by `gpudoctor rules docs` from rules/. Do not edit. -->"


def pages(ruleset: RuleSet) -> dict[str, str]:
    """File name -> Markdown."""
    areas: dict[str, list[Rule]] = {}
    for rule_id in sorted(ruleset.loaded):
        areas.setdefault(rule_id.split("/")[0], []).append(ruleset.loaded[rule_id].rule)
    written = {f"{area}.md": _area(area, rules) for area, rules in areas.items()}
    return {"README.md": _index(areas), **written}


def _index(areas: dict[str, list[Rule]]) -> str:
    count = sum(map(len, areas.values()))
    lines = [_NOTE, "", "# Rules", "", f"{count} rules. [How to write one](../writing-rules.md)."]
    for area, rules in areas.items():
        lines += ["", f"## [{area}]({area}.md)", "", "| rule | severity | trouble |", "| --- | --- | --- |"]
        lines += [f"| {rule.id} | {rule.severity} | {escape(plain_template(rule.title))} |" for rule in rules]
    return "\n".join(lines) + "\n"


def _area(area: str, rules: list[Rule]) -> str:
    return "\n".join([_NOTE, "", f"# Rules: {area}", "", *(as_markdown(rule) for rule in rules)])


def stale(directory: Path, wanted: dict[str, str]) -> list[str]:
    """Names of pages that are missing, out of date, or of an area that is no more."""
    old = [name for name, text in wanted.items() if _read(directory / name) != text]
    return old + sorted(path.name for path in directory.glob("*.md") if path.name not in wanted)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def write_pages(directory: Path, wanted: dict[str, str]) -> None:
    """Writes what changed and removes pages of areas that are no more."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in stale(directory, wanted):
            if name in wanted:
                (directory / name).write_text(wanted[name], encoding="utf-8")
            else:
                (directory / name).unlink()
    except OSError as error:
        raise GpudoctorError(f"cannot write {directory}: {error.strerror or error}") from error
