"""Colour for terminals: a few SGR codes, or nothing. Meaning never rests on colour."""

from __future__ import annotations

_SEVERITY = {
    "critical": "1;31",
    "error": "1;31",
    "fail": "1;31",
    "warning": "1;33",
    "warn": "1;33",
    "unknown": "1;35",
    "info": "1;36",
    "pass": "1;32",
}


class Paint:
    """Wraps text in colour codes where `on`."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def _with(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.on and text else text

    def severity(self, text: str, level: str) -> str:
        return self._with(text, _SEVERITY.get(level, "1"))

    def strong(self, text: str) -> str:
        return self._with(text, "1")

    def dim(self, text: str) -> str:
        return self._with(text, "2")

    def command(self, text: str) -> str:
        """A command line; the indent stays plain, so that selecting a line looks the same."""
        bare = text.lstrip(" ")
        return text[: len(text) - len(bare)] + self._with(bare, "36")
