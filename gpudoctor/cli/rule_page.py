"""A rule's page: what the rule says, for people. `explain RULE` prints it, docs/rules/ holds it as Markdown."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.engine.model import Cause, Clue, Rule, RuleStep
from gpudoctor.render.as_markdown import code, escape, fenced
from gpudoctor.render.safe import clean
from gpudoctor.render.words import EFFECTS
from gpudoctor.render.wrap import wrap

ACTIONS = {
    "none": "nothing to do with the node",
    "restart-app": "restart the application",
    "reset-gpu": "reset the GPU",
    "restart-node": "restart the node",
    "isolate": "take the node out of service",
    "repair": "repair or replace hardware",
    "contact-vendor": "contact the vendor",
}
_TEMPLATE = re.compile(r"(?<!\{)\{([^{}]*)\}(?!\})")


def as_json(rule: Rule) -> str:
    """The rule as it was loaded."""
    return msgspec.json.format(msgspec.json.encode(rule), indent=2).decode() + "\n"


def plain_template(text: str) -> str:
    """`{host.kernel_release // (uname -r)}` as people read it: the fallback, else the name in angle brackets."""

    def shown(match: re.Match[str]) -> str:
        _, bar, fallback = match[1].partition("//")
        return fallback.strip() if bar else f"<{match[1].strip()}>"

    return _TEMPLATE.sub(shown, text).replace("{{", "{").replace("}}", "}")


def commands(step: RuleStep) -> list[str]:
    """A step's commands; those that depend on the package manager are marked with it."""
    if isinstance(step.run, dict):
        return [f"{plain_template(run)}    # {manager}" for manager, run in step.run.items()]
    return [plain_template(step.run)] if step.run else []


def as_text(rule: Rule, width: int) -> str:
    """The page for a terminal."""
    lines = [f"{rule.id}  ({rule.severity})", *wrap(plain_template(rule.title), width)]
    if rule.explain:
        lines += ["", *wrap(rule.explain, width)]
    lines += ["", f"for the node: {ACTIONS.get(rule.action, rule.action)}", "", "fires"]
    for text in _fires(rule):
        lines += wrap(text, width, "  - ", "    ")
    for number, cause in enumerate(rule.causes, 1):
        lines += ["", *_cause_text(cause, number, width)]
    lines += ["", "references", *(f"  {reference}" for reference in rule.references)]
    return "\n".join(clean(line) for line in lines) + "\n"


def _fires(rule: Rule) -> list[str]:
    symptom = rule.symptom
    told = [f"when {' '.join(symptom.when.split())}"] if symptom.when else []
    told += [f"when a text has: {message.shown}" for message in symptom.messages or []]
    told += [f"and a text has, beside it: {message.shown}" for message in symptom.beside or []]
    told += [f"unless {' '.join(symptom.unless.split())}"] if symptom.unless else []
    return told


def _cause_text(cause: Cause, number: int, width: int) -> list[str]:
    if cause.rule:
        return [f"cause {number}: explained by {cause.rule}"]
    lines = wrap(plain_template(cause.title or cause.id or ""), width, f"cause {number}: ", "         ")
    for sign, clues in (("+", cause.supports), ("-", cause.against)):
        for clue in clues:
            lines += wrap(plain_template(_clue(clue)), width, f"  {sign} ", "    ")
    for index, step in enumerate(cause.steps, 1):
        lines += wrap(f"{plain_template(step.say)} {EFFECTS[step.effect]}", width, f"  {index}. ", "     ")
        lines += [f"       {run}" for run in commands(step)]
    return lines


def _clue(clue: Clue) -> str:
    tail = f" ({clue.weight})" if clue.weight != "strong" else ""
    return clue.because + tail


def as_markdown(rule: Rule) -> str:
    """The page for docs/rules/."""
    lines = [
        f"# {escape(plain_template(rule.title))}",
        "",
        f"{code(rule.id)}, {rule.severity}; {ACTIONS[rule.action]}.",
    ]
    if rule.explain:
        lines += ["", escape(" ".join(rule.explain.split()))]
    lines += ["", "Fires:", "", *(f"- {code(text)}" for text in _fires(rule))]
    for number, cause in enumerate(rule.causes, 1):
        lines += ["", *_cause_markdown(cause, number)]
    lines += ["", "References: " + "; ".join(map(_reference, rule.references)) + "."]
    return "\n".join(lines) + "\n"


def _cause_markdown(cause: Cause, number: int) -> list[str]:
    if cause.rule:
        return [f"**Cause {number}:** explained by {code(cause.rule)}"]
    lines = [f"**Cause {number}: {escape(plain_template(cause.title or cause.id or ''))}**"]
    clues = [
        f"- {'speaks for it' if clue in cause.supports else 'speaks against it'}: {escape(plain_template(_clue(clue)))}"
        for clue in [*cause.supports, *cause.against]
    ]
    lines += ["", *clues] if clues else []
    lines += [""] if cause.steps else []
    for index, step in enumerate(cause.steps, 1):
        lead = f"{index}. "
        lines.append(f"{lead}{escape(plain_template(step.say))} {escape(EFFECTS[step.effect])}".rstrip())
        runs = commands(step)
        lines += [" " * len(lead) + line for line in fenced(runs, "sh")] if runs else []
    return lines


def _reference(reference: str) -> str:
    return f"<{reference}>" if reference.startswith("https://") else escape(reference)
