"""Twenty reports as people write them, and the whole answer each gets: what a reviewer reads when rules or renderers change.

`pytest tests/rules/test_golden_answers.py --update-golden` writes them anew; the diff is what the reporter would read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.cli.pipeline import Request, examine
from gpudoctor.render import FORMATS, RenderOptions
from gpudoctor.sources import open_text
from tests.rules.reading import bundled

ANSWERS = Path(__file__).parents[1] / "golden_answers"
REPORTS = sorted(ANSWERS.glob("*.txt"))
_WIDTH = 80
_COMMAND = re.compile(r"^ {5,}\S")  # a command that cannot be broken without breaking it


def answer(report: Path) -> str:
    """What `gpudoctor explain -` says to a report at 80 columns, without colour."""
    text = report.read_text(encoding="utf-8")
    return FORMATS["text"](examine(open_text(text), bundled(), Request()), RenderOptions(width=_WIDTH))


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.stem)
def test_the_answer_is_the_golden_one(report: Path, golden: Callable[[Path, str], None]) -> None:
    golden(report.with_suffix(".out"), answer(report))


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.stem)
def test_the_answer_is_fit_to_read(report: Path) -> None:
    told = report.with_suffix(".out").read_text(encoding="utf-8")
    prose = [line for line in told.splitlines() if not _COMMAND.match(line)]
    assert all(len(line) <= _WIDTH for line in prose)
    assert len(told.splitlines()) <= 75, "nobody reads more than a page at night"
    assert not re.search(r"\(unknown\)|\.\)\.|<expression>|: others|\.\.\.\?", told)


def test_there_are_twenty_and_no_answer_without_a_report() -> None:
    assert len(REPORTS) == 20
    assert {path.stem for path in ANSWERS.glob("*.out")} == {path.stem for path in REPORTS}
