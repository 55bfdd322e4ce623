"""Regular expressions that are compiled when first used: a run needs few of them, and compiling all costs more than the run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator


class Lazy:
    """A pattern with the methods of `re.Pattern` that are used here.

    `needs` are words of which every match contains one: in a text without them the pattern is neither compiled nor tried.
    They are in small letters where the pattern is made to ignore case.
    """

    __slots__ = ("_compiled", "_folds", "flags", "needs", "pattern")

    def __init__(self, pattern: str, flags: int = 0, *, needs: tuple[str, ...] = ()) -> None:
        self.pattern = pattern
        self.needs = needs
        self.flags = flags
        self._folds = bool(needs) and bool(flags & re.IGNORECASE)
        self._compiled: re.Pattern[str] | None = None

    def _get(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self.flags)
        return self._compiled

    def _cannot(self, text: str) -> bool:
        if self._folds:
            text = text.lower()
        for word in self.needs:  # a generator for `any` costs more than most searches
            if word in text:
                return False
        return bool(self.needs)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return None if self._cannot(text) else self._get().match(text, start)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        return None if self._cannot(text) else self._get().search(text, start)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return None if self._cannot(text) else self._get().fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return iter(()) if self._cannot(text) else self._get().finditer(text)

    def findall(self, text: str) -> list[str]:
        return [] if self._cannot(text) else self._get().findall(text)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str, count: int = 0) -> str:
        return text if self._cannot(text) else self._get().sub(replacement, text, count)

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        return [text] if self._cannot(text) else self._get().split(text, maxsplit)
