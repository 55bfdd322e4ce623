"""What a level of check means: 1 looks, 2 measures for seconds, 3 for minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.errors import GpudoctorError

if TYPE_CHECKING:
    from gpudoctor.cli.active import Active

# What a level may take when nobody sets a deadline.
DEADLINES = {1: 30.0, 2: 300.0, 3: 1800.0}


def active_of(level: int | None, root: str | None = None) -> Active | None:
    """The active tests of a level; None for level 1."""
    if level is None or level < 2:
        return None
    if root is not None:
        raise GpudoctorError(
            f"--level {level} and --root exclude each other",
            "active tests run on the GPUs of this container: leave out --root",
        )
    from gpudoctor.cli.active import Active

    return Active(level=level)
