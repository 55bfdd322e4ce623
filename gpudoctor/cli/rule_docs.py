"""The rules' pages under docs/rules/: one Markdown file a rule, and indexes by area, symptom and Xid. Generated, committed, compared."""

from __future__ import annotations

import re
from pathlib import Path

from gpudoctor.cli.rule_page import as_markdown, plain_template
from gpudoctor.engine.load import RuleSet
from gpudoctor.engine.model import Rule
from gpudoctor.errors import GpudoctorError
from gpudoctor.render.as_markdown import code, escape

_NOTE = "<!-- Written by `gpudoctor rules docs` from rules/. Do not edit. -->"
_XID = re.compile(r"\b(?:xid|m)\.code (?:==|in) (\[[\d, ]+\]|\d+)|xid_count\((\d+)\)")


def pages(ruleset: RuleSet) -> dict[str, str]:
    """File name below docs/rules/ -> Markdown."""
    rules = [ruleset.loaded[rule_id].rule for rule_id in sorted(ruleset.loaded)]
    written = {f"{rule.id}.md": f"{_NOTE}\n\n{as_markdown(rule)}" for rule in rules}
    return {
        "README.md": _by_area(rules),
        "by-symptom.md": _by_symptom(rules),
        "by-xid.md": _by_xid(rules),
        **written,
    }


def _link(rule: Rule) -> str:
    return f"[{rule.id}]({rule.id}.md)"


def _title(rule: Rule) -> str:
    return escape(plain_template(rule.title))


def _by_area(rules: list[Rule]) -> str:
    lines = [_NOTE, "", "# Rules by area", ""]
    lines += [
        f"{len(rules)} rules. Also [by symptom](by-symptom.md) and [by Xid](by-xid.md). [How to write one](../writing-rules.md)."
    ]
    area = ""
    for rule in rules:
        if rule.id.split("/")[0] != area:
            area = rule.id.split("/")[0]
            lines += ["", f"## {area}", "", "| rule | severity | trouble |", "| --- | --- | --- |"]
        lines.append(f"| {_link(rule)} | {rule.severity} | {_title(rule)} |")
    return "\n".join(lines) + "\n"


def _by_symptom(rules: list[Rule]) -> str:
    """What one sees, in alphabetical order of the messages: a reader searches the page for the words on the screen."""
    messages = [(message.shown, rule) for rule in rules for message in rule.symptom.messages or []]
    rows = sorted(messages, key=lambda row: (re.sub(r"\W", "", row[0]).lower(), row[1].id))
    lines = [_NOTE, "", "# Rules by message", "", "| a line that has (RE2) | rule |", "| --- | --- |"]
    lines += [f"| {code(pattern).replace('|', chr(92) + '|')} | {_link(rule)} |" for pattern, rule in rows]
    return "\n".join(lines) + "\n"


def _by_xid(rules: list[Rule]) -> str:
    found: dict[int, list[Rule]] = {}
    for rule in rules:
        for many, one in _XID.findall(rule.symptom.when or ""):
            for number in re.findall(r"\d+", many or one):
                found.setdefault(int(number), []).append(rule)
    lines = [_NOTE, "", "# Rules by Xid", "", "`gpudoctor xid CODE` explains every documented code.", ""]
    lines += ["| Xid | rules |", "| --- | --- |"]
    for number in sorted(found):
        links = ", ".join(dict.fromkeys(_link(rule) for rule in found[number]))
        lines.append(f"| {number} | {links} |")
    return "\n".join(lines) + "\n"


def stale(directory: Path, wanted: dict[str, str]) -> list[str]:
    """Names of pages that are missing, out of date, or of a rule that is no more."""
    old = [name for name, text in wanted.items() if _read(directory / name) != text]
    there = (path.relative_to(directory).as_posix() for path in directory.rglob("*.md"))
    return old + sorted(name for name in there if name not in wanted)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None


def write_pages(directory: Path, wanted: dict[str, str]) -> None:
    """Writes what changed and removes pages of rules that are no more."""
    try:
        for name in stale(directory, wanted):
            if name in wanted:
                (directory / name).parent.mkdir(parents=True, exist_ok=True)
                (directory / name).write_text(wanted[name], encoding="utf-8")
            else:
                (directory / name).unlink()
    except OSError as error:
        raise GpudoctorError(f"cannot write {directory}: {error.strerror or error}") from error
