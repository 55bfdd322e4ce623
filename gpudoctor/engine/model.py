"""The rule as data. One YAML file is one rule; docs/writing-rules.md says how to write one."""

from enum import StrEnum

import msgspec

from gpudoctor.report import Effect, Severity


class Weight(StrEnum):
    """How much a clue says: weak 1, strong 3; decisive rules a cause in (supports) or out (against)."""

    WEAK = "weak"
    STRONG = "strong"
    DECISIVE = "decisive"


class Compiled(msgspec.Struct, frozen=True, array_like=True):
    """A checked expression, as data that can be kept on disk, and the facts that it names."""

    code: bytes
    names: list[str]
    paths: list[str]  # its dotted names as they are written, items' too, for quotes


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An RE2 pattern looked for in texts, line by line; `within` limits it to kinds of document (DocumentKind).

    `cuda_error` in place of the pattern: any of these numbers, in the words of knowledge/cuda_errors.py.
    """

    pattern: str
    within: list[str] | None = None
    cuda_error: list[int] | None = None

    @property
    def shown(self) -> str:
        """For a reader of the rule's page."""
        return f"CUDA error {', '.join(map(str, self.cuda_error))}" if self.cuda_error else self.pattern


class Clue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Evidence for or against a cause: a CEL expression over facts, a message in any text, or either of both."""

    because: str
    weight: Weight = Weight.STRONG
    when: str | None = None
    message: list[Message] | None = None  # YAML: a string, a mapping or a list of those
    check: str | None = None  # a command whose output would decide this clue when it is unknown


class RuleStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step before it is filled in. `run` is one command, or one by package manager (apt, dnf, yum, zypper, pacman, apk)."""

    say: str
    run: str | dict[str, str] | None = None
    effect: Effect = Effect.READS
    when: str | None = None  # shown unless this is known to be false


class Cause(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A possible cause, or (`rule`) the finding of another rule that explains this one."""

    id: str | None = None
    title: str | None = None
    rule: str | None = None
    supports: list[Clue] = []
    against: list[Clue] = []
    steps: list[RuleStep] = []
    references: list[str] = []


class Symptom(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the rule fires: `when` over facts (per item with `each`), or any of `messages` in a text; never when `unless` is true."""

    when: str | None = None
    messages: list[Message] | None = None
    unless: str | None = None
    beside: list[Message] | None = None  # `messages` count only where each of these occurs in some text as well
    each: str | None = None
    subject: str | None = None  # template; default: "node", or the item's own name


class Example(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A test inside the rule: facts and / or pasted text, and what must come of it."""

    class Expect(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        fires: str  # yes, no, unknown
        top: str | None = None  # id of the first cause
        says: str | None = None  # must occur in the finding's text
        not_says: str | None = None

    name: str
    expect: Expect
    facts: dict[str, object] = {}
    text: str | None = None


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    title: str
    severity: Severity
    symptom: Symptom
    causes: list[Cause]
    references: list[str]
    examples: list[Example]
    action: str = "none"  # none, restart-app, reset-gpu, restart-node, isolate, repair, contact-vendor
    explain: str | None = None  # two or three sentences for the rule's page
    area: str | None = None  # default: first part of the id
    tags: list[str] = []
