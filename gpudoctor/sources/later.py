"""The same machine on a later occasion: some commands are asked again under a label, all else is answered as before."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpudoctor.facts import Document
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, Source, StatAnswer
from gpudoctor.sources.requests import labelled


class Later:
    """A source whose `commands` are run once more; their answers read as if they were the first ones."""

    def __init__(self, source: Source, label: str, commands: frozenset[tuple[str, ...]]) -> None:
        self.kind = source.kind
        self.name = source.name
        self._source = source
        self._label = label
        self._commands = commands

    def run(self, *argv: str, timeout: float = 5.0) -> CommandAnswer:
        if argv not in self._commands:
            return self._source.run(*argv, timeout=timeout)
        answer = self._source.run(*labelled(argv, self._label), timeout=timeout)
        return msgspec.structs.replace(answer, argv=argv)

    def read(self, path: str) -> FileAnswer:
        return self._source.read(path)

    def list(self, path: str) -> ListAnswer:
        return self._source.list(path)

    def stat(self, path: str) -> StatAnswer:
        return self._source.stat(path)

    def env(self, name: str) -> str | None:
        return self._source.env(name)

    def environment(self) -> dict[str, str] | None:
        return self._source.environment()

    def now(self) -> float:
        return self._source.now()

    def documents(self) -> Sequence[Document]:
        return self._source.documents()
