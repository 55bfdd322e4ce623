"""Which of thousands of words are in a text, fast: most are told absent by four of their letters."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from itertools import compress

import msgspec

_SHORT_BYTES = 1 << 20  # in a longer text nearly all fours occur, and asking for them first gains nothing
_THREE_LETTERS = 0xFFFFFF


class Needles(msgspec.Struct, frozen=True, array_like=True):
    """Words of at least three letters, made ready for searching; `firsts` are their first four letters as numbers."""

    words: list[bytes]
    firsts: bytes

    @classmethod
    def of(cls, words: Collection[str]) -> Needles:
        encoded = [word.encode() for word in words]
        return cls(encoded, _side_by_side(word[:4] for word in encoded))


class Haystack:
    """A text, made ready for being asked for words."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._has: dict[bytes, bool] = {}
        self._fours: set[int] | None = None
        if len(text) <= _SHORT_BYTES and sys.byteorder == "little":
            self._fours = _fours(text)
            self._fours |= {four & _THREE_LETTERS for four in self._fours}  # for words of three letters

    def which(self, needles: Needles) -> set[str]:
        """The words that occur in the text."""
        likely = needles.words
        if self._fours is not None:
            likely = list(compress(likely, map(self._fours.__contains__, memoryview(needles.firsts).cast("I"))))
            likely = self._with(_last, self._with(_middle, likely))
        return {word.decode() for word in likely if word in self._text}

    def has(self, word: bytes) -> bool:
        """Whether any word occurs in the text; the answer is remembered."""
        found = self._has.get(word)
        if found is None:
            likely = self._fours is None or len(word) < 3 or int.from_bytes(word[:4], "little") in self._fours
            found = self._has[word] = likely and word in self._text
        return found

    def _with(self, part: Callable[[bytes], bytes], words: list[bytes]) -> list[bytes]:
        fours = self._fours or set()
        return list(compress(words, map(fours.__contains__, memoryview(_side_by_side(map(part, words))).cast("I"))))


def _last(word: bytes) -> bytes:
    return word[-4:]


def _middle(word: bytes) -> bytes:
    start = max(len(word) // 2 - 2, 0)
    return word[start : start + 4]


def _side_by_side(fours: Iterable[bytes]) -> bytes:
    """To be read as numbers all at once, which is five times as fast as one by one."""
    return b"".join([four.ljust(4, b"\0") for four in fours])


def _fours(text: bytes) -> set[int]:
    """Every four bytes that stand together, as little-endian numbers."""
    padded = memoryview(text + bytes(4))
    found: set[int] = set()
    for start in range(4):
        fitting = padded[start : start + (len(padded) - start) // 4 * 4]
        found.update(fitting.cast("I"))
    return found
