"""One line on a terminal's stderr that says what is still being waited for. Nothing in a pipe or log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


class Progress:
    """Called as probes start and end; erases its line when all are done."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._waiting: list[str] = []
        self._begun = time.monotonic()
        self._status: Status | None = None

    def __call__(self, name: str, done: bool) -> None:
        """`on_progress` of run_probes."""
        if not self._on:
            return
        if done:
            self._waiting = [other for other in self._waiting if other != name]
        else:
            self._waiting.append(name)
        # A quick run should not flicker; the first probe to end after a moment draws the line.
        if done and self._waiting and time.monotonic() - self._begun > 0.3:
            self._draw("waiting for " + ", ".join(self._waiting).replace("_", " "))

    def _draw(self, text: str) -> None:
        if self._status is None:
            from rich.console import Console

            self._status = Console(stderr=True).status("", spinner="line")
            self._status.start()
        self._status.update(text[:70])

    def end(self) -> None:
        """Takes the line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None
