"""What a renderer may know about where its output goes. Measured by the caller, so that rendering stays pure."""

from __future__ import annotations

import msgspec

from gpudoctor.report import Severity


class RenderOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`width` in columns; `verbose` lays out every cause; findings at or above `fail_on` count as failures in JUnit.

    `tables_first`: measured figures come before the findings, with a row for each GPU.
    """

    width: int = 80
    colour: bool = False
    verbose: bool = False
    fail_on: Severity = Severity.ERROR
    allow_unknown: bool = False
    tables_first: bool = False
