"""When driver branches end."""

from __future__ import annotations

import pytest

from gpudoctor.knowledge import driver_branches


@pytest.mark.parametrize(
    ("branch", "month"),
    [
        (470, "2024-07"),  # the vendor's table has the month
        (545, "2025-06"),  # a feature branch is over when the next production branch is
        (None, None),
        (999, None),
    ],
)
def test_ended_by(branch: int | None, month: str | None) -> None:
    assert driver_branches.ended_by(branch) == month


def test_every_branch_but_the_newest_has_an_end() -> None:
    newest = driver_branches.branches()[-1]
    for entry in driver_branches.branches():
        end = driver_branches.ended_by(entry.branch)
        assert end is not None or entry is newest
        assert end is None or len(end) == len("2026-06")
