"""One rule on one machine's facts and texts: does it fire, on what, and what was seen."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudoctor.engine.expressions import Evaluator
from gpudoctor.engine.items import EACH, full_bdf, items
from gpudoctor.engine.load import ANY_TEXT, LoadedRule
from gpudoctor.engine.messages import MessageMatch, Texts
from gpudoctor.engine.model import Message
from gpudoctor.engine.quoting import quotes
from gpudoctor.engine.templates import fill
from gpudoctor.facts import Evidence, Fact, Facts

_MOST_EVIDENCE = 5


class Fired(msgspec.Struct):
    """A rule that fired: on `subject`, with the item of `each` and the message's groups that fill its texts."""

    loaded: LoadedRule
    subject: str
    evidence: list[Evidence]
    item: Fact | None = None
    captured: dict[str, str] | None = None
    count: int = 1


class Outcome(msgspec.Struct):
    """fires is True, False, or None: unknown."""

    fires: bool | None
    fired: list[Fired]


class Machine(msgspec.Struct, frozen=True):
    """What rules are matched against."""

    facts: Facts
    evaluator: Evaluator
    texts: Texts

    def evaluate(
        self, loaded: LoadedRule, expression: str, item: Fact | None, captured: dict[str, str] | None
    ) -> Any:
        """The value of one of a rule's expressions; None when it is unknown."""
        compiled = loaded.compiled(expression)
        if compiled is None:
            return None
        return self.evaluator.evaluate(compiled, loaded.each, item, captured)

    def may_tell(self, loaded: LoadedRule) -> bool:
        """Whether one of the symptom's messages may be in a text."""
        return ANY_TEXT in loaded.words or not self.texts.words.isdisjoint(loaded.words)

    def knows(self, loaded: LoadedRule) -> bool:
        """Whether any of the facts is known that the symptom is about."""
        if loaded.each is not None:
            return items(self.facts, loaded.each) is not None
        if loaded.names == []:  # such as `true`
            return True
        return any(self.evaluator.known(name) for name in loaded.names or [])

    def find(self, loaded: LoadedRule, messages: list[Message] | None) -> list[MessageMatch]:
        return [match for m in messages or [] for match in self.texts.find(m, loaded.needs(m.pattern))]

    def fill(self, fired: Fired, template: str, *, shell: bool = False) -> str:
        """A text of a rule that fired, with this machine's values."""
        return fill(template, lambda e: self.evaluate(fired.loaded, e, fired.item, fired.captured), shell=shell)


def match(loaded: LoadedRule, machine: Machine) -> Outcome:
    """Evaluate the symptom: over facts, per item with `each`, or by messages; `unless` silences it."""
    told = machine.may_tell(loaded)
    if not told and not machine.knows(loaded):
        by_messages = loaded.each is None and loaded.names is None
        return Outcome(False if by_messages and machine.texts.any else None, [])
    symptom = loaded.symptom
    fired: list[Fired] = []
    known: list[bool | None] = []
    if symptom.when is not None and symptom.each is None:
        held = _truth(machine.evaluate(loaded, symptom.when, None, None))
        known.append(held)
        if held:
            fired.append(_node(loaded, machine))
    elif symptom.each is not None:
        fired += _over_items(loaded, machine, known)
    if symptom.messages:
        beside = symptom.beside or []
        told = told and all(machine.texts.may_have(loaded.needs(also.pattern)) for also in beside)
        found = machine.find(loaded, symptom.messages) if told else []
        if found and not all(machine.find(loaded, [also]) for also in beside):
            found = []
        if symptom.when is None:  # otherwise the facts decide; a text without the message proves nothing
            known.append(bool(found) if machine.texts.any else None)
        _add_messages(loaded, machine, fired, found)
    if symptom.unless is not None:
        fired = [f for f in fired if _truth(machine.evaluate(loaded, symptom.unless, f.item, f.captured)) is not True]
    if fired:
        return Outcome(True, _merged(fired))
    if any(k is None for k in known) and not any(k is True for k in known):
        return Outcome(None, [])
    return Outcome(False, [])


def _truth(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _node(loaded: LoadedRule, machine: Machine) -> Fired:
    one = Fired(loaded, "node", quotes(loaded.symptom.when or "", loaded, machine.evaluator))
    return _named(one, machine)


def _named(one: Fired, machine: Machine) -> Fired:
    """With the subject that the rule gives it, if any, in place of the usual one."""
    if one.loaded.symptom.subject:
        one.subject = machine.fill(one, one.loaded.symptom.subject)
    return one


def _over_items(loaded: LoadedRule, machine: Machine, known: list[bool | None]) -> list[Fired]:
    symptom = loaded.symptom
    each = symptom.each or ""
    everything = items(machine.facts, each)
    if everything is None:
        known.append(None)
        return []
    fired: list[Fired] = []
    for item in everything:
        held = _truth(machine.evaluate(loaded, symptom.when, item, None)) if symptom.when else None
        known.append(held)
        if held:
            evidence = quotes(symptom.when or "", loaded, machine.evaluator, item)
            one = Fired(loaded, EACH[each].subject(item), evidence, item, None, getattr(item, "count", 1) or 1)
            fired.append(_named(one, machine))
    return fired


def _add_messages(loaded: LoadedRule, machine: Machine, fired: list[Fired], found: list[MessageMatch]) -> None:
    """Message matches become findings of their own, or evidence of the one that facts already gave."""
    for hit in found:
        bdf = hit.groups.get("bdf")
        one = _named(
            Fired(loaded, f"gpu {full_bdf(bdf)}" if bdf else "node", [hit.evidence], None, hit.groups), machine
        )
        twin = next((f for f in fired if f.subject == one.subject or one.subject == "node"), None)
        if twin is None:
            fired.append(one)
        else:
            twin.captured = hit.groups | (twin.captured or {})
            if hit.evidence not in twin.evidence and len(twin.evidence) < _MOST_EVIDENCE:
                twin.evidence.append(hit.evidence)


def _merged(fired: list[Fired]) -> list[Fired]:
    """One finding per subject: several Xid entries of one GPU are one finding with a count."""
    by_subject: dict[str, Fired] = {}
    for one in fired:
        first = by_subject.get(one.subject)
        if first is None:
            by_subject[one.subject] = one
            continue
        first.count += one.count
        first.evidence += [e for e in one.evidence if e not in first.evidence]
        first.evidence = first.evidence[:_MOST_EVIDENCE]
    return list(by_subject.values())
