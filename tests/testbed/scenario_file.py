"""Writes the key=value files that the fake libraries read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool | None
Scenario: TypeAlias = Mapping[str, "Value | Scenario"]


def _text(value: Value) -> str:
    if value is None:
        return "na"
    return str(int(value)) if isinstance(value, bool) else str(value)


def flatten(scenario: Scenario, prefix: str = "") -> Iterator[tuple[str, str]]:
    """{"gpu0": {"name": "X"}} and {"gpu0.name": "X"} are the same line. True is 1, None is "na" (not supported)."""
    for key, value in scenario.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _text(value)


def write(path: Path, scenario: Scenario) -> Path:
    """Raises ValueError for a value that would spill into another line."""
    lines = []
    for key, value in flatten(scenario):
        if "\n" in key + value:
            raise ValueError(f"{key} holds a line break")
        lines.append(f"{key}={value}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path
