"""The rules' pages under docs/rules/ say what the rules say."""

from __future__ import annotations

from pathlib import Path

from gpudoctor.cli.rule_docs import pages, stale, write_pages
from tests.rules.reading import bundled

DOCS = Path(__file__).parents[2] / "docs" / "rules"


def test_pages_are_up_to_date() -> None:
    assert stale(DOCS, pages(bundled())) == [], "run `gpudoctor rules docs`"


def test_every_rule_has_a_page_and_is_in_the_indexes() -> None:
    wanted = pages(bundled())
    for rule_id, rule in bundled().rules.items():
        assert f"{rule_id}.md" in wanted
        assert f"[{rule_id}]({rule_id}.md)" in wanted["README.md"]
        if rule.symptom.messages:
            assert f"[{rule_id}]({rule_id}.md)" in wanted["by-symptom.md"]
    assert "| 79 | [xid/fallen-off-bus]" in wanted["by-xid.md"]


def test_a_changed_and_a_left_over_page_are_noticed_and_mended(tmp_path: Path) -> None:
    wanted = pages(bundled())
    write_pages(tmp_path, wanted)
    assert stale(tmp_path, wanted) == []
    (tmp_path / "README.md").write_text("old")
    (tmp_path / "gone").mkdir()
    (tmp_path / "gone" / "rule.md").write_text("of a rule that is no more")
    assert stale(tmp_path, wanted) == ["README.md", "gone/rule.md"]
    write_pages(tmp_path, wanted)
    assert stale(tmp_path, wanted) == []
