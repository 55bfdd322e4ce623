"""Guesses: what a text that no rule knows is most like, and when none is made."""

import time
from pathlib import Path

import msgspec
import pytest

from gpudoctor.engine.diagnose import diagnose
from gpudoctor.engine.likeness import Likeness
from gpudoctor.engine.load import RuleSet
from gpudoctor.engine.verdict import at_or_above
from gpudoctor.facts import Document, DocumentKind, Facts, Host
from gpudoctor.report import Finding, Severity, Standing
from tests.engine.rule_text import rule_set

FAN = """\
id: gpu/fan
title: A fan does not turn
severity: critical
action: repair
symptom: {when: host.os_id == "other", messages: ["fan has failed"]}
causes:
  - id: cable
    title: The fan's cable touches the blades or has come off its socket
    supports: [{message: "rattl", because: it rattles, check: nvidia-smi -q -d TEMPERATURE}]
    against: [{when: host.os_id == "cableless", weight: decisive, because: it has no cable}]
    steps: [{say: "Since the GPU was moved: listen to the noise, then look at the fan's cable, which must be off the blades.", run: nvidia-smi}]
  - {id: worn, title: The bearings are worn, steps: [{say: Replace the fan., effect: replaces}]}
references: ["https://docs.nvidia.com/"]
examples: []
"""
DISK = """\
id: performance/disk
title: Training waits for the disk
severity: warning
symptom: {messages: ["the disk is slow"]}
causes:
  - {id: hdd, title: The pictures are read from a rotating hard disk, steps: [{say: Copy the training pictures to an SSD.}]}
  - {id: network, title: The data come over the network from a busy file server, steps: [{say: Cache them on a local SSD.}]}
references: ["https://docs.nvidia.com/"]
examples: []
"""
NORMAL = """\
id: gpu/zero-rpm
title: The fan stands still at rest, as it should, though the cable touches nothing and no blades rattle
severity: info
symptom: {messages: ["zero rpm"]}
causes:
  - {id: rest, title: "Nothing is wrong: fan, cable, blades and socket are fine", steps: [{say: Nothing to do.}]}
references: ["https://docs.nvidia.com/"]
examples: []
"""
ASKED = "Since we moved the GPU, its fan only makes a noise, as if a cable touches the blades or has come off the socket. What can I look at?"


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    return rule_set(tmp_path, FAN, DISK, NORMAL)


def guessed(
    rules: RuleSet, text: str, facts: Facts | None = None, kind: DocumentKind = DocumentKind.PASTE
) -> list[Finding]:
    return diagnose(rules, facts or Facts(), [Document("pasted text", kind, text)], guessing=True).findings


def test_an_unknown_text_is_told_what_it_is_like_as_a_guess_from_which_nothing_follows(rules: RuleSet) -> None:
    result = diagnose(rules, Facts(), [Document("pasted text", DocumentKind.PASTE, ASKED)], guessing=True)
    finding = result.findings[0]
    assert (finding.rule, finding.guess, finding.severity, finding.action) == ("gpu/fan", True, Severity.INFO, "none")
    assert finding.evidence[0].text == ASKED
    first = finding.causes[0]
    assert (first.id, first.standing) == ("cable", Standing.POSSIBLE)
    assert first.held[0].because.startswith("said in like words: ")
    assert "noise" in first.held[0].because.removeprefix("said in like words: ").split(", ")
    assert result.next_checks[0].run == "nvidia-smi -q -d TEMPERATURE"
    assert not at_or_above(result.findings, Severity.INFO)


def test_only_explaining_guesses(rules: RuleSet) -> None:
    assert diagnose(rules, Facts(), [Document("pasted text", DocumentKind.PASTE, ASKED)]).findings == []


def test_a_title_that_needs_what_is_not_told_is_no_guess(tmp_path: Path) -> None:
    rules = rule_set(tmp_path, FAN.replace("title: A fan does", "title: The fan of {host.hostname} does"))
    assert guessed(rules, ASKED) == []
    assert guessed(rules, ASKED, Facts(host=Host(hostname="n1")))[0].title == "The fan of n1 does not turn"


def test_a_guess_never_says_that_all_is_well(rules: RuleSet) -> None:
    assert "gpu/zero-rpm" not in [finding.rule for finding in guessed(rules, ASKED)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "the fan is loud",
        ASKED.replace("GPU", "car"),
        "The GPU's fan is quiet and the cable touches neither blades nor socket; all is well with it since we moved here.",
        "INFO 01-20 09:12:35 gpu.py:1434] the fan and its cable are not touched, the blades and the socket have come on",
    ],
)
def test_no_guess_without_somebodys_trouble_with_a_gpu(rules: RuleSet, text: str) -> None:
    assert guessed(rules, text) == []


@pytest.mark.parametrize(
    "text", ["İ" + ASKED.replace(" ", " İ"), ASKED * 50 + "1" * 100_000, (ASKED + " " + "1" * 900 + "\n") * 2_000]
)
def test_odd_texts_are_asked_about_too(rules: RuleSet, text: str) -> None:
    started = time.monotonic()
    guessed(rules, text)
    assert time.monotonic() - started < 5


def test_many_texts_take_no_longer_than_one(rules: RuleSet) -> None:
    documents = [Document(f"log {n}", DocumentKind.PASTE, (ASKED + "\n") * 1_000) for n in range(100)]
    started = time.monotonic()
    diagnose(rules, Facts(), documents, guessing=True)
    assert time.monotonic() - started < 20


def test_what_tools_print_is_not_guessed_about(rules: RuleSet) -> None:
    assert guessed(rules, ASKED, kind=DocumentKind.KERNEL_LOG) == []


def test_facts_speak_against_a_guess(rules: RuleSet) -> None:
    causes = [
        cause.id for finding in guessed(rules, ASKED, Facts(host=Host(os_id="cableless"))) for cause in finding.causes
    ]
    assert "cable" not in causes


def test_what_rules_know_leaves_no_room_for_guesses(rules: RuleSet) -> None:
    assert [(f.rule, f.guess) for f in guessed(rules, f"{ASKED}\nthe disk is slow\n")] == [
        ("performance/disk", False)
    ]


def test_of_a_long_log_only_lines_about_trouble_count(rules: RuleSet) -> None:
    noise = "pictures data network server disk local rotating copy training waits\n" * 5_000
    first = guessed(rules, noise + ASKED)[0]
    assert (first.rule, first.evidence[0].line) == ("gpu/fan", 5_001)


def test_words_of_causes_survive_being_kept(rules: RuleSet) -> None:
    likeness = Likeness.of(loaded.rule for loaded in rules.loaded.values())
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(likeness), type=Likeness)
    near = kept.nearest("noise of the cable since it was moved", 2)
    assert near == likeness.nearest("noise of the cable since it was moved", 2)
    assert (near[0].rule, near[0].cause) == ("gpu/fan", "cable")
    assert kept.nearest("", 2) == kept.nearest("xyzzy", 2) == []
