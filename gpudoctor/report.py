"""The report: data only. The engine fills it, renderers lay it out."""

from enum import StrEnum

import msgspec

from gpudoctor.facts import Bench, Evidence


class Severity(StrEnum):
    """How bad a finding is; the order of `SEVERITIES`."""

    CRITICAL = "critical"
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


SEVERITIES = (Severity.CRITICAL, Severity.ERROR, Severity.WARNING, Severity.INFO)


class Verdict(StrEnum):
    FAIL = "fail"
    WARN = "warn"
    PASS = "pass"
    UNKNOWN = "unknown"


class Standing(StrEnum):
    LIKELY = "likely"
    POSSIBLE = "possible"
    RULED_OUT = "ruled-out"


class Effect(StrEnum):
    """What a step does to the machine."""

    READS = "reads"
    CHANGES = "changes"
    RESTARTS = "restarts"  # a service, container or job
    REBOOTS = "reboots"
    REPLACES = "replaces"  # hardware


class ProbeState(StrEnum):
    OK = "ok"
    PARTIAL = "partial"
    NO_EVIDENCE = "no_evidence"
    DENIED = "denied"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    SKIPPED = "skipped"


MESSAGES = "messages"  # the name under which error lines that no rule knows stand among the probes


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to do, filled in for this machine. `run` is one line of shell or None."""

    say: str
    run: str | None = None
    effect: Effect = Effect.READS


class HeldClue(msgspec.Struct, frozen=True, kw_only=True):
    """A clue with the evidence that it rests on."""

    because: str
    weight: str = "weak"  # weak, strong, decisive
    evidence: list[Evidence] = []
    check: str | None = None  # for an unknown clue: the command whose output would decide it


class RankedCause(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    title: str
    standing: Standing
    score: int = 0
    held: list[HeldClue] = []
    against: list[HeldClue] = []
    unknown: list[HeldClue] = []
    steps: list[Step] = []
    references: list[str] = []
    rule: str | None = None  # this cause is another rule's finding


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    rule: str
    subject: str  # "node", "gpu 0000:3b:00.0", "process 4242"
    severity: Severity
    title: str
    action: str = "none"
    explain: str | None = None
    evidence: list[Evidence] = []
    causes: list[RankedCause] = []
    references: list[str] = []
    consequences: list["Finding"] = []
    count: int = 1
    guess: bool = False  # no rule knows the text: it only speaks in words like this rule's


def are_guesses(findings: list[Finding]) -> bool:
    """Whether these are guesses: they are never beside other findings."""
    return any(finding.guess for finding in findings)


class ProbeRun(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    state: ProbeState
    seconds: float = 0.0
    problems: list[str] = []
    essential: bool = False


class NextCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose output would decide between causes. `say`: the cause that it asks about; `why`: the clue that it gives."""

    say: str
    run: str | None = None
    why: str = ""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "gpudoctor"
    version: str = ""
    rules: int = 0


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`schema` 1. `source` says where the evidence came from: "live", "recording PATH", "files ...", "pasted text"."""

    schema: int = 1
    tool: Tool = Tool()
    generated: str = ""
    source: str = "live"
    host: str | None = None
    verdict: Verdict = Verdict.UNKNOWN
    findings: list[Finding] = []
    probes: list[ProbeRun] = []
    next_checks: list[NextCheck] = []
    bench: Bench | None = None  # active tests, when they were asked for
