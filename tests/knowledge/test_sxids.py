"""The SXid catalogue, and the severity word of the line before the table."""

from __future__ import annotations

from gpudoctor.facts import SXid
from gpudoctor.knowledge.sxids import ACTIONS, all_sxids, annotate_sxid, lookup_sxid


def test_every_number_is_complete() -> None:
    assert len(all_sxids()) >= 390
    for code in all_sxids():
        entry = lookup_sxid(code)
        assert entry is not None
        assert entry.meaning.endswith(".")
        assert entry.block
        assert entry.vendor_action in ACTIONS
        assert entry.kind in {"non_fatal", "potentially_fatal", "always_fatal", "depends_on_line"}
        assert entry.advice
        assert entry.action
    assert lookup_sxid(1) is None


def test_known_numbers() -> None:
    crossbar, refused = lookup_sxid(23001), lookup_sxid(12028)
    assert crossbar is not None
    assert crossbar.kind == "always_fatal"
    assert crossbar.action == "restart-node"
    assert refused is not None
    assert refused.kind == "non_fatal"


def test_the_lines_word_goes_before_the_table() -> None:
    assert annotate_sxid(SXid(code=20034, severity="fatal")).weight == "critical"
    assert annotate_sxid(SXid(code=20034, severity="non-fatal")).weight == "warning"
    assert annotate_sxid(SXid(code=12028, severity="fatal")).weight == "error"
    assert annotate_sxid(SXid(code=99999)) == SXid(code=99999)
