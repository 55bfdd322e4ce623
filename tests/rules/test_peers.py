"""What other GPU checkers look at: each row of peers.yaml has what covers it here, and that exists."""

from __future__ import annotations

import os
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer.main
import yaml

from gpudoctor.cli.application import application
from gpudoctor.facts import Facts
from tests.rules.reading import bundled

ROOT = Path(__file__).parents[2]
FEATURES = Path(os.environ.get("GPUDOCTOR_FEATURES") or ROOT.parent / "shared" / "features.md")
ROWS: dict[str, list[dict[str, Any]]] = yaml.safe_load((Path(__file__).parent / "peers.yaml").read_text())
# A section here and its heading in the table of features.
HEADINGS = {
    "hardware": "Hardware / PCIe / host",
    "driver": "Driver / kernel",
    "nvml": "NVML health",
    "nvlink": "NVLink / NVSwitch / fabric",
    "cuda": "CUDA / frameworks",
    "log": "Log analysis",
}
COVERS = ("rules", "facts", "commands", "tests")


def rows() -> Iterator[dict[str, Any]]:
    for section in ROWS.values():
        yield from section


def named(kind: str) -> list[str]:
    return sorted({name for row in rows() for name in row.get(kind, [])})


def struct_in(annotation: Any) -> type[msgspec.Struct] | None:
    """The fact type inside `list[Xid] | None`."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return annotation
    inner = (struct_in(part) for part in typing.get_args(annotation))
    return next((found for found in inner if found is not None), None)


def is_fact(path: str) -> bool:
    at: type[msgspec.Struct] | None = Facts
    for name in path.split("."):
        hints = typing.get_type_hints(at) if at is not None else {}
        if name not in hints:
            return False
        at = struct_in(hints[name])
    return True


def test_rows_have_cover_or_a_reason() -> None:
    bare = [row["row"] for row in rows() if not any(row.get(kind) for kind in COVERS) and not row.get("reason")]
    assert bare == []
    assert {key for row in rows() for key in row} <= {"row", "reason", *COVERS}


def test_rules_exist() -> None:
    assert [rule for rule in named("rules") if rule not in bundled().rules] == []


def test_facts_exist() -> None:
    assert [path for path in named("facts") if not is_fact(path)] == []
    assert not is_fact("gpus.no_such_fact")
    assert not is_fact("gpus.serial.deeper")


def test_commands_exist() -> None:
    known = set(typer.main.get_command(application([])).commands)  # type: ignore[attr-defined]
    assert [command for command in named("commands") if command not in known] == []


def test_tests_exist() -> None:
    assert [path for path in named("tests") if not (ROOT / path).is_file()] == []


@pytest.mark.skipif(not FEATURES.is_file(), reason="the table of features is not here (GPUDOCTOR_FEATURES)")
def test_no_row_of_the_table_is_left_out() -> None:
    counts: dict[str, int] = {}
    heading = ""
    for line in FEATURES.read_text().splitlines():
        first = line.strip("|").split("|")[0].strip() if line.startswith("|") else ""
        if match := re.fullmatch(r"\*\*(.+)\*\*", first):
            heading = match[1]
        elif first and heading:
            counts[heading] = counts.get(heading, 0) + 1
        elif not line.startswith("|"):
            heading = ""
    assert {section: len(ROWS[section]) for section in HEADINGS} == {
        section: counts[name] for section, name in HEADINGS.items()
    }
