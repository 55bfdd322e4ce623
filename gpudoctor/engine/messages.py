"""Messages: RE2 patterns looked for in all texts.

A pattern's necessary literals are found first, with a plain byte search, and RE2 runs on the lines that have one:
a thousand patterns then cost a thousand fast searches, and no pattern is compiled that cannot match.
"""

from __future__ import annotations

import re._constants as sre
import re._parser as sre_parser
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import re2

from gpudoctor.engine.model import Message, Rule
from gpudoctor.facts import Document, Evidence

_MOST_LINES = 50  # of one document that are kept per pattern
_QUOTE_LENGTH = 400
_SHORT_BYTES = 1 << 20


class MessageMatch(msgspec.Struct, frozen=True):
    """A pattern found in a text: the line, and the pattern's named groups."""

    pattern: str
    evidence: Evidence
    groups: dict[str, str]


def literals(pattern: str) -> list[str] | None:
    """Lower-case literals of which every match contains at least one; None when the pattern has none of 3 letters."""
    best = _required(sre_parser.parse(pattern))
    if best is None or min(map(len, best)) < 3:
        return None
    return sorted(best)


def further_literals(pattern: str) -> list[list[str]]:
    """Besides `literals`, other sets of which every match contains at least one each: a line without them is passed over."""
    chosen = literals(pattern)
    sets = [sorted(found) for found in _all_required(sre_parser.parse(pattern)) if min(map(len, found)) >= 3]
    return [found for index, found in enumerate(sets) if found != chosen and found not in sets[:index]]


def _all_required(parsed: Iterable[Any]) -> list[set[str]]:
    """Every set of literals of which a match must contain one, of the parts that stand one after another."""
    found: list[set[str]] = []
    run = ""
    for op, value in parsed:
        if op is sre.LITERAL and value < 128:
            run += chr(value).lower()
            continue
        found.append({run})
        run = ""
        if op is sre.SUBPATTERN:
            found += _all_required(value[3])
        elif op is sre.MAX_REPEAT and value[0] > 0:
            found += _all_required(value[2])
        elif op is sre.BRANCH:
            branches = [_required(branch) for branch in value[1]]
            if all(branches):
                found.append({literal for branch in branches if branch for literal in branch})
    return [one for one in [*found, {run}] if one and all(one)]


def _required(parsed: Iterable[Any]) -> set[str] | None:
    """The set that thins best: of long literals, and few."""
    return max(_all_required(parsed), key=lambda c: (min(map(len, c)), -len(c)), default=None)


def options() -> Any:
    """Case does not matter, and a captured text can never make matching slow."""
    chosen = re2.Options()
    chosen.case_sensitive = False
    chosen.log_errors = False
    return chosen


def rule_messages(rule: Rule) -> list[Message]:
    """Every message of a rule: its symptom's and its clues'."""
    found = [*(rule.symptom.messages or []), *(rule.symptom.beside or [])]
    for cause in rule.causes:
        for clue in [*cause.supports, *cause.against]:
            found += clue.message or []
    return found


class Texts:
    """The documents of one diagnosis, made ready for searching. Results are remembered by pattern."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._documents = [_Searchable(d) for d in documents if d.text.strip()]
        self._found: dict[tuple[str, tuple[str, ...]], list[MessageMatch]] = {}
        self.any = bool(self._documents)
        self._words: dict[str, bool] = {}

    def find(
        self, message: Message, known_literals: list[str] | None = None, further: Sequence[list[str]] = ()
    ) -> list[MessageMatch]:
        """Every line in which the message occurs, in document order. `further`: as `further_literals` gives them."""
        key = (message.pattern, tuple(message.within or ()))
        if key not in self._found:
            wanted = known_literals if known_literals is not None else literals(message.pattern)
            # Most messages end here; a word of several messages is looked for once.
            if wanted and not any(map(self._has, wanted)):
                self._found[key] = []
                return []
            self._found[key] = [
                match
                for document in self._documents
                if not message.within or document.kind in message.within
                for match in document.find(message.pattern, wanted, further)
            ]
        return self._found[key]

    def _has(self, word: str) -> bool:
        known = self._words.get(word)
        if known is None:
            known = self._words[word] = any(document.has(word.encode()) for document in self._documents)
        return known


class _Searchable:
    def __init__(self, document: Document) -> None:
        self.name = document.name
        self.kind = document.kind.value
        self._line_number = document.line_number
        self._bytes = document.text.encode("utf-8", "replace")
        self._lower = self._bytes.lower()  # ASCII only, so positions stay the same
        self._starts: list[int] | None = None
        self._threes: set[bytes] | None = None

    def find(self, pattern: str, wanted: list[str] | None, further: Sequence[list[str]]) -> list[MessageMatch]:
        lines: Sequence[int] = self._lines_with(wanted) if wanted else range(len(self._line_starts()))
        if further and lines:
            lines = self._with_all(lines, further)
        if not lines:
            return []
        compiled = re2.compile(pattern, options())
        found: list[MessageMatch] = []
        for number in lines:
            text = self._line(number)
            match = compiled.search(text)
            if match:
                groups = {k: v for k, v in match.groupdict().items() if v is not None}
                line = self._line_number(number)
                quoted = text.strip()[:_QUOTE_LENGTH]
                found.append(MessageMatch(pattern, Evidence(self.name, quoted, line), groups))
                if len(found) >= _MOST_LINES:
                    break
        return found

    def has(self, needle: bytes) -> bool:
        return self._may_hold(needle) and needle in self._lower

    def _lines_with(self, wanted: list[str]) -> list[int]:
        lines: set[int] = set()
        for literal in wanted:
            needle, at = literal.encode(), 0
            if not self._may_hold(needle):
                continue
            while (at := self._lower.find(needle, at)) >= 0:
                number = bisect_right(self._line_starts(), at) - 1
                lines.add(number)
                at = self._line_end(number)
        return sorted(lines)

    def _with_all(self, lines: Sequence[int], further: Sequence[list[str]]) -> list[int]:
        """Those lines that have one of each set."""
        sets = [[word.encode() for word in words] for words in further]
        starts, left = self._line_starts(), []
        for number in lines:
            line = self._lower[starts[number] : self._line_end(number)]
            if all(any(word in line for word in words) for words in sets):
                left.append(number)
        return left

    def _may_hold(self, needle: bytes) -> bool:
        """False when letters of `needle` are nowhere together in a short text: a thousand searches through it cost more."""
        if len(self._lower) > _SHORT_BYTES:
            return True
        if self._threes is None:
            text = self._lower
            self._threes = {text[at : at + 3] for at in range(len(text) - 2)}
        # The first and the last three tell nearly as much as all of them, at a fraction of the cost.
        return needle[:3] in self._threes and needle[-3:] in self._threes

    def _line_starts(self) -> list[int]:
        if self._starts is None:
            self._starts, at = [0], 0
            while (at := self._bytes.find(b"\n", at)) >= 0:
                at += 1
                self._starts.append(at)
        return self._starts

    def _line_end(self, number: int) -> int:
        starts = self._line_starts()
        return starts[number + 1] if number + 1 < len(starts) else len(self._bytes)

    def _line(self, number: int) -> str:
        return self._bytes[self._line_starts()[number] : self._line_end(number)].decode("utf-8", "replace")
