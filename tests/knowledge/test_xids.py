"""The Xid catalogue: every number has meaning, blame and action; meanings follow architecture and driver branch."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpudoctor.engine.expressions import Evaluator
from gpudoctor.engine.load import LoadedRule, load_rules
from gpudoctor.engine.match import Machine, match
from gpudoctor.engine.messages import Texts
from gpudoctor.engine.needles import Needles
from gpudoctor.facts import Driver, Facts, Gpu, Kernel, Xid
from gpudoctor.knowledge.xids import VENDOR_BUCKETS, all_codes, annotate, branch_number, lookup, vendor_words
from gpudoctor.probes.derive_xids import xid_meanings

BLAMES = {"application", "driver", "hardware", "bus", "system_memory", "thermal", "fabric", "unknown"}
ACTIONS = {"none", "restart-app", "reset-gpu", "restart-node", "isolate", "repair", "contact-vendor"}


def test_every_number_is_complete() -> None:
    codes = all_codes()
    assert codes == list(range(1, 177))
    for code in codes:
        entry = lookup(code)
        assert entry is not None
        assert entry.name
        assert entry.meaning.endswith(".")
        assert entry.advice.endswith(".")
        assert entry.blame in BLAMES
        assert entry.action in ACTIONS
        assert entry.severity in {"critical", "error", "warning", "info"}
        assert entry.vendor_action is None or entry.vendor_action in VENDOR_BUCKETS
        assert entry.vendor_investigates is None or entry.vendor_investigates in VENDOR_BUCKETS


@pytest.mark.parametrize(
    ("code", "vendor", "action", "blame"),
    [
        (13, "RESTART_APP", "restart-app", "application"),
        (31, "RESTART_APP", "restart-app", "application"),
        (48, "WORKFLOW_XID_48", "reset-gpu", "hardware"),
        (79, "RESTART_BM", "restart-node", "bus"),
        (94, "RESTART_APP", "restart-app", "hardware"),
        (95, "RESET_GPU", "reset-gpu", "hardware"),
        (109, "RESET_GPU", "reset-gpu", "driver"),
        (119, "RESET_GPU", "reset-gpu", "driver"),
    ],
)
def test_vendor_and_own_action(code: int, vendor: str, action: str, blame: str) -> None:
    entry = lookup(code)
    assert entry is not None
    assert (entry.vendor_action, entry.action, entry.blame) == (vendor, action, blame)


@pytest.mark.parametrize("code", [32, 43, 63, 64, 137, 157, 160, 161])
def test_where_our_advice_differs_it_says_why(code: int) -> None:
    entry = lookup(code)
    assert entry is not None
    assert entry.differs is not None
    assert "vendor" in entry.differs.lower()


@pytest.mark.parametrize("code", [13, 31, 43, 45, 69, 137])
def test_programs_faults_never_ask_for_a_new_board(code: int) -> None:
    entry = lookup(code)
    assert entry is not None
    assert entry.action in {"none", "restart-app"}
    assert entry.severity in {"warning", "error"}


def test_numbers_with_two_meanings() -> None:
    def name(code: int, **where: object) -> str:
        entry = lookup(code, **where)  # type: ignore[arg-type]
        assert entry is not None
        return entry.name

    assert "repair" in name(63, architecture="ampere").lower()
    assert "page" in name(63, architecture="volta").lower()
    assert "page" in name(64, architecture="Turing").lower()
    assert "key rotation" in name(144, driver_branch="550.90.07").lower()
    assert "nvlink" in name(144, driver_branch=575).lower()
    assert "fast-path" in name(139, driver_branch="R535").lower()
    assert "optical" in name(139, driver_branch=560).lower()
    assert "nvlink" in name(144).lower()


def test_unknown_numbers_and_branches() -> None:
    assert lookup(0) is None
    assert lookup(9999) is None
    assert [branch_number(b) for b in (535, "535", "R550", "570.86.15", "x", "", None)] == [
        535,
        535,
        550,
        570,
        None,
        None,
        None,
    ]
    assert vendor_words(None) is None
    assert vendor_words("SOMETHING_NEW") == "something new"


def test_annotation_follows_the_words_of_nvlink5_lines() -> None:
    harmless = "SAW_MVB Nonfatal XC0 i0 Link 04 (0x00000001 0x00000004 0x00000000 0x00000000 0x00000000 0x00000000)"
    down = "NETIR_LINK_DOWN Fatal XC0 i0 Link 09 (0x00400011 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)"
    assert annotate(Xid(code=144, text=harmless)).severity == "warning"
    assert annotate(Xid(code=149, text=down)).severity == "critical"
    assert annotate(Xid(code=149, text="")).severity == "critical"
    assert annotate(Xid(code=9999)) == Xid(code=9999)


def test_facts_say_xids_for_their_gpu_and_branch() -> None:
    facts = Facts(
        gpus=[Gpu(index=0, bdf="00000000:3B:00.0", architecture="volta")],
        driver=Driver(branch=535),
        kernel=Kernel(xids=[Xid(code=63, bdf="0000:3b:00")]),
    )
    said = xid_meanings(facts)
    assert said.kernel is not None
    assert said.kernel.xids is not None
    assert said.kernel.xids[0].name == "Page retirement recorded"


@pytest.fixture(scope="module")
def xid_rules() -> list[LoadedRule]:
    return [one for rule, one in load_rules().loaded.items() if rule.startswith("xid/")]


@pytest.mark.parametrize("code", [*range(1, 181), 412])
def test_every_xid_in_a_log_leads_to_a_finding(code: int, xid_rules: list[LoadedRule]) -> None:
    facts = Facts(kernel=Kernel(xids=[annotate(Xid(code=code, bdf="0000:3b:00"))]))
    machine = Machine(facts, Evaluator(facts), Texts([], Needles.of([])))
    assert any(match(one, machine).fires for one in xid_rules)


def test_the_catalogue_costs_nothing_until_asked() -> None:
    program = "import sys, gpudoctor.knowledge.xids as x; print('gpudoctor.knowledge.xid_decode' in sys.modules, x._catalogue.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "0"]
