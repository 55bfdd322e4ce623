"""Which of thousands of words are in a text, fast: most are told absent by four of their letters."""

from __future__ import annotations

import sys
from collections.abc import Collection

_SHORT_BYTES = 1 << 20  # in a longer text nearly all fours occur, and asking for them first gains nothing
_THREE_LETTERS = 0xFFFFFF


class Needles:
    """Words of at least three letters, made ready for searching."""

    def __init__(self, words: Collection[str]) -> None:
        self._words = list(words)
        self._letters = [word.encode() for word in self._words]
        self._firsts = [int.from_bytes(letters[:4], "little") for letters in self._letters]
        self._lasts = [int.from_bytes(letters[-4:], "little") for letters in self._letters]

    def in_text(self, text: bytes) -> set[str]:
        """Those that occur in the text."""
        if len(text) > _SHORT_BYTES or sys.byteorder == "big":
            return {word for word, letters in zip(self._words, self._letters, strict=True) if letters in text}
        seen = _fours(text)
        seen |= {four & _THREE_LETTERS for four in seen}  # for words of three letters
        ready = zip(self._words, self._letters, self._firsts, self._lasts, strict=True)
        return {word for word, letters, first, last in ready if first in seen and last in seen and letters in text}


def _fours(text: bytes) -> set[int]:
    """Every four bytes that stand together, as little-endian numbers."""
    padded = memoryview(text + bytes(4))
    found: set[int] = set()
    for start in range(4):
        fitting = padded[start : start + (len(padded) - start) // 4 * 4]
        found.update(fitting.cast("I"))
    return found
