"""Collects one group's fields with the evidence of each; what is already known is not overwritten."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from gpudoctor.facts import Document, Evidence, Fact
from gpudoctor.sources.answers import CommandAnswer, FileAnswer

Group = TypeVar("Group", bound=Fact)
LINE_LIMIT = 400  # characters of a quoted line


class Collected:
    """Fields of one group of facts. The first value set for a field stays: ask the best evidence first."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.evidence: dict[str, Evidence] = {}

    def set(self, name: str, value: object, evidence: Evidence | None = None) -> None:
        """Sets a field that is not known yet; `None` is ignored."""
        if value is None or name in self.values:
            return
        self.values[name] = value
        if evidence is not None:
            self.evidence[name] = evidence

    def get(self, name: str) -> Any:
        return self.values.get(name)

    def build(self, kind: type[Group]) -> Group | None:
        """The group, or `None` when nothing is known."""
        return kind(**self.values, evidence=self.evidence) if self.values else None


def quote(answer: FileAnswer | CommandAnswer, index: int | None = None, text: str | None = None) -> Evidence:
    """Evidence from line `index` (0-based) of an answer; without an index, the whole answer with its first line or `text`."""
    source = answer.path if isinstance(answer, FileAnswer) else answer.request
    body = answer.text
    if index is None:
        first = body.strip().split("\n", 1)[0] if text is None else text
        return Evidence(source=source, text=first.strip()[:LINE_LIMIT])
    lines = _lines(body)
    line = lines[index] if 0 <= index < len(lines) else ""
    numbers = answer.line_numbers
    number = numbers[index] if numbers is not None and index < len(numbers) else index + 1
    return Evidence(source=source, text=line.strip()[:LINE_LIMIT], line=number)


def quote_document(document: Document, index: int) -> Evidence:
    """Evidence from line `index` (0-based) of a document."""
    lines = _lines(document.text)
    line = lines[index] if index < len(lines) else ""
    return Evidence(source=document.name, text=line.strip()[:LINE_LIMIT], line=document.line_number(index))


@lru_cache(maxsize=2)
def _lines(text: str) -> list[str]:
    """The lines of a text; many quotes come from one large answer."""
    return text.splitlines()


def find_line(text: str, needle: str) -> int | None:
    """Index of the first line that contains `needle`."""
    return next((index for index, line in enumerate(text.splitlines()) if needle in line), None)
