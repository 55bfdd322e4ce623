"""`dcgmi diag -j`: one result per test and outcome.

DCGM 3 nests `gpu_ids` and text warnings below "DCGM GPU Diagnostic", DCGM 4 has entities and warning objects below
"DCGM Diagnostic": the document is walked for tests rather than read by a schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpudoctor.facts import DcgmResult, Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.sources.answers import CommandAnswer

SIGN = Lazy(r'"DCGM (?:GPU )?Diagnostic"\s*:')
_OUTCOMES = {"pass": "pass", "fail": "fail", "warn": "warn", "skip": "skip"}


def parse_json(answer: CommandAnswer) -> list[DcgmResult]:
    """The results, and the versions as further rows; empty where there is no such document or it is damaged."""
    import json

    sign = SIGN.search(answer.stdout)
    start = answer.stdout.rfind("{", 0, sign.start()) if sign else -1
    if start < 0:
        return []
    try:
        document, _ = json.JSONDecoder().raw_decode(answer.stdout, start)
    except (ValueError, RecursionError):
        return []
    found = list(_versions(answer, document))
    for test in _tests(document):
        found += _results(answer, test)
    return found


def _tests(value: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Every object that has a name and a list of results."""
    if depth > 6:
        return
    if isinstance(value, dict):
        if isinstance(value.get("name"), str) and isinstance(value.get("results"), list):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _tests(item, depth + 1)


def _results(answer: CommandAnswer, test: dict[str, Any]) -> list[DcgmResult]:
    """GPUs of one outcome together, with what is said of them."""
    gpus: dict[str, list[int]] = {}
    words: dict[str, list[str]] = {}
    for result in test["results"]:
        outcome = _OUTCOMES.get(str(result.get("status", "")).lower()[:4]) if isinstance(result, dict) else None
        if outcome is None:
            continue
        numbers = re.findall(r"\d+", str(result.get("gpu_ids", result.get("entity_id", ""))))
        gpus.setdefault(outcome, []).extend(int(n) for n in numbers[:64])
        words.setdefault(outcome, []).extend(_words(result))
    name = test["name"]
    quoted = {"": _quote(answer, f'"{name}"')}
    return [
        DcgmResult(
            test=name,
            result=outcome,
            gpus=numbers or None,
            message=" ".join(dict.fromkeys(words[outcome])) or None,
            evidence=quoted,
        )
        for outcome, numbers in gpus.items()
    ]


def _words(result: dict[str, Any]) -> Iterator[str]:
    for key in ("warnings", "info"):
        for item in result.get(key) if isinstance(result.get(key), list) else [result.get(key)]:  # type: ignore[union-attr]
            text = item.get("warning") if isinstance(item, dict) else item
            if isinstance(text, str) and text:
                yield text


def _versions(answer: CommandAnswer, document: Any) -> Iterator[DcgmResult]:
    for name, key in (("DCGM Version", r"(?:DCGM Version|version)"), ("Driver Version Detected",) * 2):
        match = re.search(rf'"{key}"\s*:\s*"(\d[\d.]*)"', answer.stdout)
        if match and isinstance(document, dict):
            yield DcgmResult(test=name, result=match.group(1), evidence={"": _quote(answer, match.group())})


def _quote(answer: CommandAnswer, needle: str) -> Evidence:
    place = max(answer.stdout.find(needle), 0)
    line = answer.stdout.count("\n", 0, place)
    lines = answer.stdout.splitlines()
    text = lines[line].strip() if line < len(lines) else ""
    return Evidence(source=answer.request, line=line + 1, text=text[:400])
