"""One line on a terminal's stderr that says what is still being waited for. Nothing in a pipe or log."""

from __future__ import annotations

import sys
import time


class Progress:
    """Called as probes start and end; erases its line when all are done."""

    def __init__(self) -> None:
        self._on = sys.stderr.isatty()
        self._waiting: list[str] = []
        self._begun = time.monotonic()
        self._drawn = False

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
        sys.stderr.write("\r\x1b[K" + text[:78])
        sys.stderr.flush()
        self._drawn = True

    def end(self) -> None:
        """Takes the line away."""
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._drawn = False
