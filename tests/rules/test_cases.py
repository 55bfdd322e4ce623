"""Labelled problem reports: what a user would paste, and what the first answer must and must not say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpudoctor.report import Finding, RankedCause, Standing
from tests.rules.reading import explain

OWN = Path(__file__).parent.parent / "cases"
CORPUS = Path(os.environ.get("GPUDOCTOR_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus") / "cases"
MOST_STEPS = 8


def cases(folder: Path) -> list[dict[str, Any]]:
    return [case for file in sorted(folder.glob("*.yaml")) for case in yaml.safe_load_all(file.read_text()) if case]


def answers(text: str) -> list[str]:
    """The text of each cause in the report's order: finding, cause, its first steps."""
    return [_text(finding, cause) for root in explain(text).findings for finding, cause in _causes(root)]


def _causes(finding: Finding) -> Iterator[tuple[Finding, RankedCause]]:
    yield from ((finding, c) for c in finding.causes if c.standing != Standing.RULED_OUT)
    for below in finding.consequences:
        yield from _causes(below)


def _text(finding: Finding, cause: RankedCause) -> str:
    return "\n".join([finding.title, cause.title, *(f"{s.say}\n{s.run or ''}" for s in cause.steps[:MOST_STEPS])])


def right(text: str, case: dict[str, Any]) -> bool:
    return all(re.search(p, text, re.I) for p in case["must_mention"]) and not harmful(text, case)


def harmful(text: str, case: dict[str, Any]) -> bool:
    return any(re.search(p, text, re.I) for p in case.get("must_not") or [])


@pytest.mark.parametrize("case", [pytest.param(c, id=c["id"]) for c in cases(OWN)])
def test_own_report_gets_the_right_first_answer(case: dict[str, Any]) -> None:
    said = answers(case["input"])
    assert said, "nothing found"
    assert right(said[0], case), said[0]
    assert not any(harmful(text, case) for text in said[:3])


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the labelled public reports are not here (GPUDOCTOR_CORPUS)")
def test_public_reports() -> None:
    found = {case["id"]: answers(case["input"]) for case in cases(CORPUS)}
    every = cases(CORPUS)
    first = [c["id"] for c in every if not (found[c["id"]] and right(found[c["id"]][0], c))]
    third = [c["id"] for c in every if not any(right(text, c) for text in found[c["id"]][:3])]
    harm = [c["id"] for c in every if any(harmful(text, c) for text in found[c["id"]][:3])]
    assert harm == []
    assert len(third) <= 0.01 * len(every), third
    assert len(first) <= 0.05 * len(every), first
