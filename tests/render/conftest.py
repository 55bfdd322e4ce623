"""The sample report that every renderer lays out."""

from __future__ import annotations

import pytest

from gpudoctor.report import Report
from tests.render.sample_report import sample_report


@pytest.fixture
def report() -> Report:
    return sample_report()
