"""Ranking, ruling out, folding, next checks: on two small rules."""

from pathlib import Path

import pytest

from gpudoctor.engine.diagnose import Diagnosis, diagnose
from gpudoctor.engine.fold import contains
from gpudoctor.engine.load import RuleSet
from gpudoctor.facts import DkmsModule, Document, DocumentKind, Driver, Facts, Gpu, Host, Kernel, Pci, PciDevice, Xid
from gpudoctor.report import Standing
from tests.engine.rule_text import RULE, rule_set

OFF_BUS = """\
id: xid/off-bus
title: GPU {xid.bdf} has fallen off the bus
severity: critical
symptom: {each: xid, when: xid.code == 79}
causes:
  - {id: power, title: Power or link, steps: [{say: Look., run: "lspci -vv -s {xid.bdf}"}]}
references: ["https://docs.nvidia.com/"]
examples: []
"""
STOPPED = """\
id: xid/stopped
title: A channel on {xid.bdf} was stopped
severity: error
symptom: {each: xid, when: xid.code == 45}
causes:
  - rule: xid/off-bus
  - {id: killed, title: The program was killed, steps: [{say: Look., run: dmesg}]}
references: ["https://docs.nvidia.com/"]
examples: []
"""
PASTE = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


@pytest.fixture
def rules(tmp_path: Path) -> RuleSet:
    return rule_set(tmp_path, RULE, OFF_BUS, STOPPED)


def no_driver(**driver: object) -> Facts:
    return Facts(
        host=Host(kernel_release="6.8.0-51-generic"),
        pci=Pci(nvidia_devices=[PciDevice(bdf="0000:3b:00.0")]),
        driver=Driver(loaded=False, **driver),  # type: ignore[arg-type]
    )


def built_for(kernel: str) -> list[DkmsModule]:
    return [DkmsModule(module="nvidia", version="535", kernel=kernel, state="installed")]


def paste(text: str) -> list[Document]:
    return [Document("pasted text", DocumentKind.PASTE, text)]


def test_evidence_puts_a_cause_first_and_fills_its_steps(rules: RuleSet) -> None:
    facts = no_driver(version="535.183.01", dkms=built_for("6.8.0-49-generic"), module_for_running_kernel=False)
    (finding,) = diagnose(rules, facts, []).findings
    assert finding.title == "The driver is not running on 6.8.0-51-generic"
    first = finding.causes[0]
    assert (first.id, first.standing) == ("not-built", Standing.LIKELY)
    assert first.held[0].because == "DKMS built it for another kernel"
    assert first.steps[1].run == "sudo dkms install nvidia/535.183.01"


def test_a_decisive_clue_against_rules_a_cause_out(rules: RuleSet) -> None:
    facts = no_driver(dkms=built_for("6.8.0-49-generic"), module_for_running_kernel=True)
    (finding,) = diagnose(rules, facts, []).findings
    assert [(c.id, c.standing) for c in finding.causes] == [
        ("not-loaded", Standing.LIKELY),
        ("not-built", Standing.RULED_OUT),
    ]


def test_a_decisive_clue_for_a_cause_leaves_no_room_for_those_that_nothing_speaks_for(tmp_path: Path) -> None:
    """But what evidence also speaks for stays possible."""
    decisive = RULE.replace(
        '{message: "modprobe: FATAL", weight: weak,', '{message: "modprobe: FATAL", weight: decisive,'
    )
    rules = rule_set(tmp_path, decisive)
    text = paste(PASTE + "\nmodprobe: FATAL: Module nvidia not found\n")
    (finding,) = diagnose(rules, Facts(), text).findings
    standings = [(cause.id, cause.standing) for cause in finding.causes]
    assert standings == [("not-loaded", Standing.LIKELY), ("not-built", Standing.RULED_OUT)]
    (finding,) = diagnose(rules, no_driver(dkms=built_for("6.8.0-49-generic")), text).findings
    standings = [(cause.id, cause.standing) for cause in finding.causes]
    assert standings == [("not-loaded", Standing.LIKELY), ("not-built", Standing.POSSIBLE)]


def test_groups_of_a_clues_message_fill_its_cause(tmp_path: Path) -> None:
    named = RULE.replace('"modprobe: FATAL"', "'Module (?P<module>\\w+) not found'").replace(
        "title: Not loaded", 'title: "{m.module // The module} is not there"'
    )
    rules = rule_set(tmp_path, named)
    text = PASTE + "\nmodprobe: FATAL: Module nvidia_uvm not found\n"
    (finding,) = diagnose(rules, Facts(), paste(text)).findings
    assert finding.causes[0].title == "nvidia_uvm is not there"
    (finding,) = diagnose(rules, Facts(), paste(PASTE)).findings
    assert "The module is not there" in [cause.title for cause in finding.causes]


def test_a_message_alone_leaves_causes_possible_and_names_the_deciding_command(rules: RuleSet) -> None:
    result = diagnose(rules, Facts(), paste(PASTE))
    (finding,) = result.findings
    assert {c.standing for c in finding.causes} == {Standing.POSSIBLE}
    assert finding.evidence[0].line == 1
    assert [check.run for check in result.next_checks] == ["dkms status"]
    assert finding.causes[0].steps[1].run == "sudo dkms install nvidia/VERSION"


def test_a_message_clue_decides_in_pasted_text(rules: RuleSet) -> None:
    (finding,) = diagnose(rules, Facts(), paste(PASTE + "\nmodprobe: FATAL: Module nvidia not found\n")).findings
    assert finding.causes[0].id == "not-loaded"
    assert finding.causes[0].held[0].evidence[0].line == 2


def xids(*codes: tuple[int, str]) -> Facts:
    return Facts(kernel=Kernel(xids=[Xid(code=code, bdf=bdf) for code, bdf in codes]))


def shape(result: Diagnosis) -> list[tuple[str, str, list[str]]]:
    return [(f.rule, f.subject, [c.rule for c in f.consequences]) for f in result.findings]


def test_a_consequence_goes_under_its_cause_on_the_same_gpu_only(rules: RuleSet) -> None:
    result = diagnose(rules, xids((45, "0000:3b:00"), (79, "0000:3b:00"), (45, "0000:5e:00")), [])
    assert shape(result) == [
        ("xid/off-bus", "gpu 0000:3b:00.0", ["xid/stopped"]),
        ("xid/stopped", "gpu 0000:5e:00.0", []),
    ]


def test_repeated_xids_of_one_gpu_are_one_finding_with_a_count(rules: RuleSet) -> None:
    (finding,) = diagnose(rules, xids((45, "0000:3b:00"), (45, "0000:3b:00")), []).findings
    assert finding.count == 2


def test_no_facts_and_no_text_give_no_findings_but_say_so(rules: RuleSet) -> None:
    result = diagnose(rules, Facts(), [])
    assert result.findings == []
    assert set(result.unknown_rules) == set(rules.rules)


def test_the_same_input_gives_the_same_report(rules: RuleSet) -> None:
    facts = xids((45, "0000:3b:00"), (79, "0000:3b:00"))
    assert diagnose(rules, facts, paste(PASTE)) == diagnose(rules, facts, paste(PASTE))


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("node", "gpu 0000:3b:00.0", True),
        ("gpu 0000:3b:00.0", "process 42", True),
        ("gpu 0000:3b:00.0", "gpu 0000:5e:00.0", False),
        ("process 42", "node", False),
    ],
)
def test_containment(outer: str, inner: str, expected: bool) -> None:
    assert contains(outer, inner) is expected


def test_facts_without_evidence_still_show_their_value(rules: RuleSet) -> None:
    facts = Facts(gpus=[Gpu(index=0)], pci=Pci(nvidia_devices=[]), driver=Driver(loaded=False))
    assert diagnose(rules, facts, []).findings == []
    (finding,) = diagnose(rules, no_driver(), []).findings
    assert "driver.loaded = false" in [e.text for e in finding.evidence]
