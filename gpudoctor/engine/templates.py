"""Texts with facts in them: `{expression // next expression // fallback}`. Values put into shell commands are quoted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

import msgspec

_PART = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class Slot(msgspec.Struct, frozen=True):
    """One `{expression // next expression // fallback}` of a template."""

    expressions: list[str]
    fallback: str | None


def slots(template: str) -> list[Slot]:
    """The expressions in a template, in order."""
    return [_slot(found.group(1)) for found in _PART.finditer(template) if found.group(1)]


def _slot(inner: str) -> Slot:
    parts = [part.strip() for part in inner.split("//")]
    return Slot(parts, None) if len(parts) == 1 else Slot(parts[:-1], parts[-1])


def fill(template: str, evaluate: Callable[[str], Any], *, shell: bool = False) -> str:
    """The template with the first known value of each slot; where none is known its fallback, or <expression>.

    With `shell`, values are quoted for a POSIX shell, so that nothing captured can become a command.
    """

    def replace(found: re.Match[str]) -> str:
        if found.group(0) in ("{{", "}}"):
            return found.group(0)[0]
        slot = _slot(found.group(1))
        for expression in slot.expressions:
            value = _printed(evaluate(expression))
            if value is not None:
                return shlex.quote(value) if shell else value
        return slot.fallback if slot.fallback is not None else f"<{slot.expressions[0]}>"

    return _PART.sub(replace, template) if "{" in template or "}}" in template else template


def _printed(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}".removesuffix(".0")
    if isinstance(value, list):
        return ", ".join(filter(None, map(_printed, value))) or None
    return _CONTROL.sub(" ", str(value))
