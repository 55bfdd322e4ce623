"""The sample report, and golden files: `--update-golden` rewrites them, and the diff is what a reviewer reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.report import Report
from tests.render.sample_report import sample_report

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def report() -> Report:
    return sample_report()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares text with a golden file, or writes the file with --update-golden."""

    def compare(path: Path, text: str) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: pytest --update-golden rewrites it"

    return compare
