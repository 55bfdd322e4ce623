"""Every rule: its examples, its quality, and its commands."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor.engine.examples import run_examples
from gpudoctor.engine.lint import lint
from gpudoctor.engine.model import Rule
from gpudoctor.engine.templates import fill
from tests.rules.reading import bundled, read_text

RULES = sorted(bundled().rules)
# Programs that steps may name (VALUE stands for a placeholder): each is part of a distribution, of the driver, of CUDA, or of a documented tool.
KNOWN = set((Path(__file__).parent / "known_programs.txt").read_text().split())


@pytest.mark.parametrize("rule_id", RULES)
def test_examples(rule_id: str) -> None:
    results = run_examples(bundled().loaded[rule_id], read_text, bundled())
    assert [f"{r.example}: {r.problem}" for r in results if r.problem] == []


def test_quality() -> None:
    assert list(map(str, lint(bundled()))) == []


def without_placeholders(command: str) -> str:
    """<bus id> stands for a value that the reader puts in."""
    return re.sub(r"<[\w.\[\] ()+'\"-]+>", "VALUE", command)


def commands(rule: Rule) -> Iterator[str]:
    """Every command of a rule, with its templates' fallbacks or a stand-in value."""
    for cause in rule.causes:
        for clue in [*cause.supports, *cause.against]:
            if clue.check:
                yield without_placeholders(fill(clue.check, lambda _: None))
        for step in cause.steps:
            for run in step.run.values() if isinstance(step.run, dict) else [step.run]:
                if run:
                    yield without_placeholders(fill(run, lambda _: None))


@pytest.mark.parametrize("area", sorted({rule_id.split("/")[0] for rule_id in RULES}))
def test_commands_parse_as_shell_and_their_programs_are_known(area: str) -> None:
    problems = []
    for rule_id in RULES:
        if rule_id.split("/")[0] != area:
            continue
        for command in commands(bundled().rules[rule_id]):
            parsed = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True)
            if parsed.returncode:
                problems.append(f"{rule_id}: {command}: {parsed.stderr.strip()}")
            problems += [f"{rule_id}: {command}: unknown program {p}" for p in programs(command) if p not in KNOWN]
    assert problems == []


def programs(command: str) -> Iterator[str]:
    """The first word of each simple command, past sudo, assignments and wrappers. Raises nothing: bash has parsed it."""
    import bashlex

    try:
        trees = bashlex.parse(command)
    except Exception:  # constructs that bashlex does not know: bash -n has checked the syntax
        return
    ahead = list(trees)
    while ahead:
        node = ahead.pop()
        ahead += list(getattr(node, "parts", [])) + list(getattr(node, "list", []))
        if getattr(node, "command", None) is not None:
            ahead.append(node.command)
        if node.kind != "command":
            continue
        words = [p.word for p in node.parts if p.kind == "word"]
        while words and (
            words[0] in ("sudo", "env", "timeout", "watch", "nohup")
            or words[0].startswith("-")
            or "=" in words[0]
            or words[0].isdigit()
        ):
            words = words[1:]
        if words and re.fullmatch(r"[\w.+-]+", words[0]):
            yield words[0]
