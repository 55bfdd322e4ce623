"""Which of thousands of words are in a text, fast: most are told absent by four of their letters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_SHORT_BYTES = 1 << 20  # in a longer text nearly all fours occur, and asking for them first gains nothing
_THREE_LETTERS = 0xFFFFFF


class Needle(NamedTuple):
    """A word of at least three letters, with its first and last four as numbers."""

    word: str
    letters: bytes
    first: int
    last: int

    @classmethod
    def of(cls, word: str) -> Needle:
        letters = word.encode()
        return cls(word, letters, int.from_bytes(letters[:4], "little"), int.from_bytes(letters[-4:], "little"))


def present(needles: Iterable[Needle], text: bytes) -> set[str]:
    """The words that occur in the text."""
    if len(text) > _SHORT_BYTES:
        return {one.word for one in needles if one.letters in text}
    seen = _fours(text)
    seen |= {four & _THREE_LETTERS for four in seen}  # for words of three letters
    return {word for word, letters, first, last in needles if first in seen and last in seen and letters in text}


def _fours(text: bytes) -> set[int]:
    """Every four bytes that stand together, as little-endian numbers."""
    padded = memoryview(text + bytes(4))
    found: set[int] = set()
    for start in range(4):
        fitting = padded[start : start + (len(padded) - start) // 4 * 4]
        found.update(fitting.cast("I"))
    return found
