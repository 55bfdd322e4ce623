"""Regular expressions that are compiled when first used: a run needs few of them, and compiling all costs more than the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


class Lazy:
    """A pattern with the methods of `re.Pattern` that are used here."""

    __slots__ = ("_compiled", "_flags", "_pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self._pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    def _get(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._pattern, self._flags)
        return self._compiled

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self._get().match(text, start)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self._get().search(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._get().fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._get().finditer(text)

    def findall(self, text: str) -> list[str]:
        return self._get().findall(text)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        return self._get().sub(replacement, text, count)

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        return self._get().split(text, maxsplit)
