"""Rule quality: what loading cannot see. One function per check; each yields what is wrong in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gpudoctor.engine.load import LoadedRule, Problem, RuleSet
from gpudoctor.engine.messages import rule_messages
from gpudoctor.engine.model import Cause, Rule
from gpudoctor.engine.required import needs
from gpudoctor.engine.templates import fill
from gpudoctor.report import Effect, Severity

_MOST_STEPS = 8
_ACTIONS = {"none", "restart-app", "reset-gpu", "restart-node", "isolate", "repair", "contact-vendor"}
Check = Callable[[Rule, RuleSet], Iterator[str]]


def lint(rules: RuleSet, only: set[str] | None = None) -> list[Problem]:
    """Every quality problem of the rules (of those in `only`, when given)."""
    return [
        Problem(loaded.path, text)
        for rule_id, loaded in sorted(rules.loaded.items())
        if only is None or rule_id in only
        for check in CHECKS
        for text in check(loaded.rule, rules)
    ]


def _own_causes(rule: Rule) -> list[Cause]:
    return [cause for cause in rule.causes if cause.rule is None]


def _examples(rule: Rule, rules: RuleSet) -> Iterator[str]:
    have = {example.expect.fires for example in rule.examples}
    for wanted in ("yes", "no", "unknown"):
        if wanted not in have:
            yield f"no example that expects `fires: {wanted}`"
    if unusual := have - {"yes", "no", "unknown"}:
        yield f"`fires` is yes, no or unknown, not {', '.join(sorted(unusual))}"
    known = {cause.id for cause in rule.causes} | {(cause.rule or "").replace("/", "-") for cause in rule.causes}
    for example in rule.examples:
        if example.expect.top is not None and example.expect.top not in known:
            yield f"example `{example.name}` expects the unknown cause `{example.expect.top}`"


def _references(rule: Rule, rules: RuleSet) -> Iterator[str]:
    if not any(reference.startswith("https://") for reference in rule.references):
        yield "no public reference (https://...)"


def _links(rule: Rule, rules: RuleSet) -> Iterator[str]:
    for cause in rule.causes:
        if cause.rule is not None and cause.rule not in rules.loaded:
            yield f"the cause `rule: {cause.rule}` names no rule"
    if rule.id in _reachable(rule.id, rules):
        yield "its `rule:` causes lead back to itself"


def _reachable(start: str, rules: RuleSet) -> set[str]:
    seen: set[str] = set()
    ahead = [start]
    while ahead:
        loaded: LoadedRule | None = rules.loaded.get(ahead.pop())
        for cause in loaded.rule.causes if loaded else []:
            if cause.rule and cause.rule not in seen:
                seen.add(cause.rule)
                ahead.append(cause.rule)
    return seen


def _causes(rule: Rule, rules: RuleSet) -> Iterator[str]:
    ids = [cause.id for cause in _own_causes(rule)]
    for cause_id in {i for i in ids if ids.count(i) > 1}:
        yield f"the cause id `{cause_id}` occurs twice"


def _steps(rule: Rule, rules: RuleSet) -> Iterator[str]:
    for cause in _own_causes(rule):
        if len(cause.steps) > _MOST_STEPS:
            yield f"cause `{cause.id}` has more than {_MOST_STEPS} steps"
        if not cause.steps and rule.severity != Severity.INFO:
            yield f"cause `{cause.id}` has no steps"
        if cause.steps and cause.steps[0].effect != Effect.READS:
            yield f"cause `{cause.id}`: the first step must only read"
        for step in cause.steps:
            commands = list(step.run.values()) if isinstance(step.run, dict) else [step.run or ""]
            if any("\n" in command for command in commands):
                yield f"cause `{cause.id}`: a command has more than one line"
            if step.effect == Effect.READS and any(map(_changes, commands)):
                yield f"cause `{cause.id}`: `{commands[0]}` changes something but says it reads"


def _changes(command: str) -> bool:
    return bool(
        re.search(
            r"\b(apt(-get)? (-\w+ )*install|(dnf|yum|zypper) (-\w+ )*install|pacman -S\w* |reboot|systemctl (re)?start"
            r"|dkms (install|build|autoinstall|remove)|modprobe (?!-n|-c|--show|--dry|--resolve)|rmmod|nvidia-smi (-r\b|--gpu-reset))",
            command,
        )
    )


def _messages(rule: Rule, rules: RuleSet) -> Iterator[str]:
    for _, message in rule_messages(rule):
        if needs(message.pattern).words is None:
            yield f"the message `{message.pattern}` has no literal of 3 letters: it would be tried on every line"


def _words(rule: Rule, rules: RuleSet) -> Iterator[str]:
    if rule.action not in _ACTIONS:
        yield f"unknown action `{rule.action}`; one of {', '.join(sorted(_ACTIONS))}"
    if len(fill(rule.title, lambda _: None)) > 100:
        yield "the title is longer than 100 characters"


CHECKS: tuple[Check, ...] = (_examples, _references, _links, _causes, _steps, _messages, _words)
