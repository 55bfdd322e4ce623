"""Remembers every answer of a source, and writes them down as a directory (or `.tar.gz`) that a person can read and edit.

manifest.json                       every request with its status, exit code, seconds
files/proc/driver/nvidia/version    what was read
commands/nvidia-smi_-q_-x/stdout    what was said; stderr beside it
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from gpudoctor.facts import Document
from gpudoctor.sources.answers import ActiveSource, CommandAnswer, FileAnswer, ListAnswer, StatAnswer
from gpudoctor.sources.stored import documents_of, normal

if TYPE_CHECKING:
    from pathlib import Path

_Answer = TypeVar("_Answer", CommandAnswer, FileAnswer, ListAnswer, StatAnswer)


class Recorder:
    """A source that passes questions on and keeps the answers. The first answer to a question is the answer."""

    def __init__(self, source: ActiveSource) -> None:
        self.source = source
        self.kind = source.kind
        self.name = source.name
        self._lock = threading.Lock()
        self._commands: dict[tuple[str, ...], CommandAnswer] = {}
        self._files: dict[str, FileAnswer] = {}
        self._lists: dict[str, ListAnswer] = {}
        self._stats: dict[str, StatAnswer] = {}
        self._environment: dict[str, str] | None = source.environment()

    def read(self, path: str) -> FileAnswer:
        path = normal(path)
        return self._remember(self._files, path, lambda: self.source.read(path))

    def list(self, path: str) -> ListAnswer:
        path = normal(path)
        return self._remember(self._lists, path, lambda: self.source.list(path))

    def stat(self, path: str) -> StatAnswer:
        path = normal(path)
        return self._remember(self._stats, path, lambda: self.source.stat(path))

    def run(self, *argv: str, timeout: float = 5.0) -> CommandAnswer:
        return self._remember(self._commands, argv, lambda: self.source.run(*argv, timeout=timeout))

    def watch(
        self,
        *argv: str,
        seconds: float,
        timeout: float,
        on_line: Callable[[str], None] | None = None,
        stop: threading.Event | None = None,
    ) -> CommandAnswer:
        return self._remember(
            self._commands,
            argv,
            lambda: self.source.watch(*argv, seconds=seconds, timeout=timeout, on_line=on_line, stop=stop),
        )

    def env(self, name: str) -> str | None:
        return (self._environment or {}).get(name)

    def environment(self) -> dict[str, str] | None:
        return None if self._environment is None else dict(self._environment)

    def now(self) -> float:
        return self.source.now()

    def documents(self) -> Sequence[Document]:
        """For a live source those of the recorded answers: what the recording will say, too."""
        if self.kind != "live":
            return self.source.documents()
        with self._lock:
            return documents_of(self._commands, self._files)

    def _remember(self, table: dict[Any, _Answer], key: Any, ask: Callable[[], _Answer]) -> _Answer:
        with self._lock:
            known = table.get(key)
        if known is not None:
            return known
        answer = ask()
        with self._lock:
            return table.setdefault(key, answer)

    def save(self, path: Path, redact: bool = False) -> None:
        """Writes the recording: `.tar.gz` or `.tgz` as an archive, any other name as a directory. Raises GpudoctorError.

        Secrets are always removed. `redact` also replaces user and host names, addresses and serial numbers, the same
        one by the same stand-in everywhere.
        """
        from gpudoctor.sources.writing import Kept, write

        with self._lock:
            kept = Kept(
                commands=dict(self._commands),
                files=dict(self._files),
                lists=dict(self._lists),
                stats=dict(self._stats),
                environment=self._environment,
                now=self.now(),
                source=self.name,
            )
        write(path, kept, redact=redact)
