"""Messages: RE2 patterns looked for in all texts.

A pattern's necessary literals are found first, with a plain byte search, and RE2 runs on the lines that have one:
a thousand patterns then cost a thousand fast searches, and no pattern is compiled that cannot match.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import msgspec
import re2

from gpudoctor.engine.model import Message, Rule
from gpudoctor.engine.needles import Haystack, Needles
from gpudoctor.engine.required import Needs, end_of, occurs
from gpudoctor.facts import Document, Evidence
from gpudoctor.knowledge.cuda_errors import CUDA_WORDS, any_wording, may_tell_number

_MOST_LINES = 50  # of one document that are kept per pattern
_QUOTE_LENGTH = 400


class MessageMatch(msgspec.Struct, frozen=True):
    """A pattern found in a text: the line, and the pattern's named groups."""

    pattern: str
    evidence: Evidence
    groups: dict[str, str]


@functools.cache
def options() -> Any:
    """Case does not matter, and a captured text can never make matching slow."""
    chosen = re2.Options()
    chosen.case_sensitive = False
    chosen.log_errors = False
    return chosen


def rule_messages(rule: Rule) -> Iterator[tuple[tuple[str | int, ...], Message]]:
    """Every message of a rule, its symptom's and its clues', with its place in the rule's file."""
    for name in ("messages", "beside"):
        for i, message in enumerate(getattr(rule.symptom, name) or []):
            yield ("symptom", name, i), message
    for i, cause in enumerate(rule.causes):
        for kind in ("supports", "against"):
            for j, clue in enumerate(getattr(cause, kind)):
                for message in clue.message or []:
                    yield ("causes", i, kind, j), message


class Texts:
    """The documents of one diagnosis, made ready for searching for some words. Results are remembered by pattern."""

    def __init__(self, documents: Sequence[Document], needles: Needles) -> None:
        filled = [document for document in documents if document.text.strip()]
        wholes = _searchable([document for document in filled if not document.part], needles)
        self.words = {word for document in wholes for word in document.words}  # those that some document has
        parts = [document for document in filled if document.part]
        self._documents = wholes + _searchable(parts, Needles.of(self.words if parts else ()))
        self.any = bool(self._documents)
        self._found: dict[tuple[str, tuple[str, ...]], list[MessageMatch]] = {}

    def may_have(self, needs: Needs) -> bool:
        """Whether one of the words is there that a message needs. They are among those looked for."""
        return needs.words is None or not self.words.isdisjoint(needs.words)

    def find(self, message: Message, needs: Needs) -> list[MessageMatch]:
        """Every line in which the message occurs, in document order."""
        if not self.may_have(needs):
            return []
        key = (message.pattern, tuple(message.within or ()))
        if key not in self._found:
            self._found[key] = [
                match
                for document in self._documents
                if (document.kind in message.within if message.within else not document.part)
                for match in document.find(message, needs)
            ]
        return self._found[key]


def _searchable(documents: list[Document], needles: Needles) -> list[_Searchable]:
    return [_Searchable(document, needles) for document in documents]


class _Searchable:
    def __init__(self, document: Document, needles: Needles) -> None:
        self.name = document.name
        self.part = document.part
        self.kind = document.kind.value
        self._line_number = document.line_number
        self._bytes = document.text.encode("utf-8", "replace")
        self._lower = self._bytes.lower()  # ASCII only, so positions stay the same
        self._by_word: dict[str, list[int]] = {}
        self._haystack = Haystack(self._lower)
        self.words = self._haystack.which(needles)

    def find(self, message: Message, needs: Needs) -> list[MessageMatch]:
        if message.cuda_error and not self._cuda_error_lines:
            return []
        in_order = needs.in_order
        if not occurs(in_order, self._haystack.has):
            return []
        lines: Sequence[int] = self._lines_with(needs.words) if needs.words else range(len(self._lower_lines))
        if message.cuda_error:
            lines = [number for number in lines if number in self._cuda_error_lines]
        if not any(end_of(in_order, self._lower_lines[number]) >= 0 for number in lines):
            return []
        compiled = re2.compile(message.pattern, options())
        found: list[MessageMatch] = []
        for number in lines:
            text = self._line(number)
            match = compiled.search(text)
            if match:
                groups = {k: _text(v) for k, v in match.groupdict().items() if v is not None}
                line = self._line_number(number)
                quoted = _text(text).strip()[:_QUOTE_LENGTH]
                found.append(MessageMatch(message.pattern, Evidence(self.name, quoted, line), groups))
                if len(found) >= _MOST_LINES:
                    break
        return found

    def _lines_with(self, wanted: Sequence[str]) -> list[int]:
        return sorted({number for word in self.words.intersection(wanted) for number in self._lines_of(word)})

    def _lines_of(self, word: str) -> list[int]:
        """Numbers of the lines with a word; many messages look for the same."""
        lines = self._by_word.get(word)
        if lines is None:
            lines = self._by_word[word] = []
            needle, at = word.encode(), 0
            while (at := self._lower.find(needle, at)) >= 0:
                number = bisect_right(self._starts, at) - 1
                lines.append(number)
                at = self._starts[number + 1]
        return lines

    @functools.cached_property
    def _cuda_error_lines(self) -> set[int]:
        """Lines that give any number as a CUDA error: the pattern for one is large, and compiling it takes milliseconds."""
        likely = [number for number in self._lines_with(CUDA_WORDS) if may_tell_number(self._lower_lines[number])]
        if not likely:
            return set()
        compiled = re2.compile(any_wording(), options())
        return {number for number in likely if compiled.search(self._line(number)) is not None}

    @functools.cached_property
    def _lower_lines(self) -> list[bytes]:
        return self._lower.split(b"\n")

    @functools.cached_property
    def _starts(self) -> list[int]:
        """Where each line begins, and where one after the last would."""
        return list(accumulate((len(line) + 1 for line in self._lower_lines), initial=0))

    def _line(self, number: int) -> bytes:
        """Without its line end: RE2's `$` matches at the end of the text only."""
        return self._bytes[self._starts[number] : self._starts[number + 1]].rstrip(b"\r\n")


def _text(found: bytes) -> str:
    return found.decode("utf-8", "replace")
