"""Running the program on recorded nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.bench.nodes import Node
from tests.cli.conftest import Gpudoctor, gpudoctor

__all__ = ["Report", "gpudoctor", "report_on"]


class Report:
    """What `check` says of a recording."""

    def __init__(self, data: dict[str, Any], code: int, text: str) -> None:
        self.data = data
        self.code = code
        self.text = text  # 80 columns

    @property
    def verdict(self) -> str:
        return str(self.data["verdict"])

    @property
    def roots(self) -> list[tuple[str, str]]:
        """Rule and subject of what stands at the top."""
        return [(finding["rule"], finding["subject"]) for finding in self.data["findings"]]

    @property
    def rules(self) -> list[str]:
        """Every rule that fired, folded ones too."""

        def walk(findings: list[dict[str, Any]]) -> list[str]:
            return [rule for f in findings for rule in (f["rule"], *walk(f["consequences"]))]

        return walk(self.data["findings"])

    def finding(self, rule: str) -> dict[str, Any]:
        def find(findings: list[dict[str, Any]]) -> dict[str, Any] | None:
            for one in findings:
                found = one if one["rule"] == rule else find(one["consequences"])
                if found:
                    return found
            return None

        found = find(self.data["findings"])
        assert found is not None, f"{rule} is not among {self.rules}"
        return found

    @property
    def bench(self) -> dict[str, Any]:
        return dict(self.data["bench"])

    def figures(self, test: str, metric: str | None = None) -> list[dict[str, Any]]:
        return [f for f in self.bench["figures"] if f["test"] == test and metric in (None, f["metric"])]

    @property
    def tests_run(self) -> dict[str, Any]:
        return next(run for run in self.data["probes"] if run["name"] == "active tests")


@pytest.fixture
def report_on(gpudoctor: Gpudoctor, tmp_path: Path) -> Callable[..., Report]:
    """`report_on(node, *arguments)`: check --from its recording."""
    numbers = iter(range(1000))

    def run(node: Node, *arguments: str) -> Report:
        folder = node.write(tmp_path / f"node{next(numbers)}")
        text = gpudoctor("check", "--from", folder, *arguments)
        result = gpudoctor("check", "--from", folder, "--format", "json", *arguments)
        assert result.returncode == text.returncode
        assert "fault of gpudoctor" not in result.stderr
        return Report(json.loads(result.stdout), result.returncode, text.stdout)

    return run
