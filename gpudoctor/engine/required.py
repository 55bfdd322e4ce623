"""What a text must have for an RE2 pattern to match: plain words, which are looked for before any pattern is compiled."""

from __future__ import annotations

import re
import re._constants as sre
import re._parser as sre_parser
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from gpudoctor.lazy import Lazy

_POSIX_CLASS = Lazy(r"\[:\^?\w+:\]", needs=("[:",))
# In nearly every text about GPUs: of two words that a pattern needs, the other one thins better.
_COMMON = frozenset(
    b"gpu gpus cuda nvidia nvidia-smi driver drivers device devices kernel module version memory error errors fail failed status unknown available"
    b" torch python container docker linux ubuntu system program process task load loaded start started boot reboot run running time speed train"
    b" training install installed enabled disabled usage util could does not no the a and for with from to in of is".split()
)
Required = list[Any]  # in this order: words, and lists of alternatives, each of which is a Required


class Needs(msgspec.Struct, frozen=True, array_like=True):
    """What a line must have for a pattern to match, in small letters."""

    words: list[str] | None  # one of these, of 3 letters or more; None where the pattern has none
    packed: msgspec.Raw  # `in_order` as MessagePack: most of it is never asked for

    @classmethod
    def of(cls, words: list[str] | None, in_order: Required) -> Needs:
        return cls(words, msgspec.Raw(msgspec.msgpack.encode(in_order)))

    @property
    def in_order(self) -> Required:
        """And all of this; empty where `words` say as much."""
        return msgspec.msgpack.decode(self.packed, type=Required)


def needs(pattern: str) -> Needs:
    """Parses an RE2 pattern. What only RE2 knows (`[[:alpha:]]`, `\\pL`, `\\z`) needs nothing that is known here."""
    required = _parsed(pattern)
    return Needs.of(_words(required), required if _says_more(required) else [])


def _parsed(pattern: str) -> Required:
    if _POSIX_CLASS.search(pattern):  # Python reads its first half as a set of letters
        return []
    try:
        return _required(sre_parser.parse(pattern))
    except re.error:
        return []


def _words(required: Required) -> list[str] | None:
    """Of these every match contains at least one: long ones, and few."""
    best = _best(required)
    return None if best is None or min(map(len, best)) < 3 else sorted(word.decode() for word in best)


def _says_more(required: Required) -> bool:
    """Whether a line that has one of the words may still lack something."""
    if len(required) != 1 or isinstance(required[0], bytes):
        return len(required) > 1
    return any(len(branch) > 1 or not isinstance(branch[0], bytes) for branch in required[0])


def _required(parsed: Iterable[Any]) -> Required:
    found: Required = []
    run = b""
    for op, value in parsed:
        if op is sre.LITERAL and (letter := _caseless(chr(value))):
            run += letter.encode()
            continue
        found.append(run)
        run = b""
        if op is sre.SUBPATTERN:
            found += _required(value[3])
        elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] > 0:
            found += _required(value[2])
        elif op is sre.BRANCH:
            branches = [_required(branch) for branch in value[1]]
            if all(branches):
                found.append(branches)
    return [one for one in [*found, run] if len(one) > 1 or isinstance(one, list)]


def _caseless(letter: str) -> str | None:
    """As a text in small letters has it; None where only ASCII's letters are made small there."""
    if letter.isascii():
        return letter.lower()
    return letter if letter.lower() == letter.upper() == letter.casefold() else None


def _best(required: Required) -> set[bytes] | None:
    """The set that thins best."""
    sets = [
        {one} if isinstance(one, bytes) else {word for branch in one for word in _best(branch) or ()}
        for one in required
    ]
    return max(sets, key=lambda c: (min(map(_weight, c)), min(map(len, c)), -len(c)), default=None)


def _weight(word: bytes) -> int:
    """How well a word thins: by its length, but the common ones hardly."""
    common = _COMMON.issuperset(word.replace(b":", b" ").split())
    return min(len(word), 3) if common else len(word)


def occurs(required: Required, has: Callable[[bytes], bool]) -> bool:
    """Whether a text that `has` some words has all that is required, in whatever order and lines."""
    for one in required:  # plain loops: generators take twice the time, and this is asked for every pattern
        if isinstance(one, bytes):
            if not has(one):
                return False
        else:
            for branch in one:
                if occurs(branch, has):
                    break
            else:
                return False
    return True


def end_of(required: Required, line: bytes, at: int = 0) -> int:
    """Where, from `at` on, the first way ends in which the line has all that is required, in order; -1: it does not."""
    for one in required:
        if isinstance(one, bytes):
            found = line.find(one, at)
            if found < 0:
                return -1
            at = found + len(one)
        else:
            best = -1
            for branch in one:
                word = branch[0]
                if len(branch) == 1 and isinstance(word, bytes):  # most are: a call for each would double the time
                    found = line.find(word, at)
                    end = found + len(word) if found >= 0 else -1
                else:
                    end = end_of(branch, line, at)
                if 0 <= end < best or best < 0 <= end:
                    best = end
            if best < 0:
                return -1
            at = best
    return at
