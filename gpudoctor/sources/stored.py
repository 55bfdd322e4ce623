"""A source whose answers are already there: what a recording, a foreign file or a pasted text was turned into."""

from __future__ import annotations

import fnmatch
import posixpath
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from gpudoctor.facts import Document, DocumentKind
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status
from gpudoctor.sources.worker_words import worker_document

_KERNEL_LOGS = (requests.DMESG, requests.JOURNAL_KERNEL, requests.SYSLOG)
_ALWAYS_SEARCHED = (requests.NVIDIA_SMI, *_KERNEL_LOGS)


class Answers(msgspec.Struct, kw_only=True):
    """What is known so far, by request. Recognisers and the recorder fill it; the first good answer wins."""

    commands: dict[tuple[str, ...], CommandAnswer] = {}
    files: dict[str, FileAnswer] = {}
    lists: dict[str, ListAnswer] = {}
    stats: dict[str, StatAnswer] = {}
    absent_globs: list[str] = []  # `ls` of this glob was complete: a path that matches it and was not seen is absent
    environment: dict[str, str] | None = None

    def add(self, answer: CommandAnswer | FileAnswer | ListAnswer | StatAnswer) -> None:
        """Keeps `answer` unless there is already one at least as good for the same request."""
        if isinstance(answer, CommandAnswer):
            _keep(self.commands, answer.argv, answer)
        elif isinstance(answer, FileAnswer):
            _keep(self.files, answer.path, answer)
        elif isinstance(answer, ListAnswer):
            _keep(self.lists, answer.path, answer)
        else:
            _keep(self.stats, answer.path, answer)

    def merge(self, other: Answers) -> None:
        """Adds what `other` knows."""
        for table in (other.commands, other.files, other.lists, other.stats):
            for answer in table.values():
                self.add(answer)
        self.absent_globs += [glob for glob in other.absent_globs if glob not in self.absent_globs]
        if other.environment is not None:
            self.environment = {**other.environment, **(self.environment or {})}

    def __bool__(self) -> bool:
        return bool(
            self.commands
            or self.files
            or self.lists
            or self.stats
            or self.absent_globs
            or self.environment is not None
        )


# How much an answer says: a complete one beats an excerpt, data beats a failure, anything beats silence.
_WORTH = {
    Status.OK: 4,
    Status.FAILED: 3,
    Status.NOT_FOUND: 2,
    Status.DENIED: 2,
    Status.TIMEOUT: 1,
    Status.NOT_RECORDED: 0,
}


def _worth(answer: CommandAnswer | FileAnswer | ListAnswer | StatAnswer) -> float:
    partial = getattr(answer, "truncated", False) or getattr(answer, "filtered_by", None) is not None
    return _WORTH[answer.status] - (0.5 if partial else 0.0)


_Key = TypeVar("_Key")
_Answer = TypeVar("_Answer", CommandAnswer, FileAnswer, ListAnswer, StatAnswer)


def _keep(table: dict[_Key, _Answer], key: _Key, answer: _Answer) -> None:
    known = table.get(key)
    if known is None or _worth(answer) > _worth(known):
        table[key] = answer


class StoredSource:
    """Answers from memory; everything else was not recorded."""

    def __init__(
        self,
        kind: str,
        name: str,
        answers: Answers,
        *,
        now: float,
        documents: Sequence[Document] | None = None,
        unrecognised: Sequence[str] = (),
    ) -> None:
        self.kind = kind
        self.name = name
        self.answers = answers
        self.unrecognised = tuple(unrecognised)  # files that were given but not understood, with the reason
        self._now = now
        self._documents = documents

    def read(self, path: str) -> FileAnswer:
        path = normal(path)
        known = self.answers.files.get(path)
        if known is not None:
            return known
        return FileAnswer(path=path, status=self._absence(path))

    def list(self, path: str) -> ListAnswer:
        path = normal(path)
        return self.answers.lists.get(path) or ListAnswer(path=path, status=self._absence(path))

    def stat(self, path: str) -> StatAnswer:
        path = normal(path)
        return self.answers.stats.get(path) or StatAnswer(path=path, status=self._absence(path))

    def _absence(self, path: str) -> Status:
        known = self.answers.stats.get(path)
        if known is not None:
            return known.status if known.status is not Status.OK else Status.NOT_RECORDED
        if any(fnmatch.fnmatchcase(path, glob) for glob in self.answers.absent_globs):
            return Status.NOT_FOUND
        return Status.NOT_RECORDED

    def run(self, *argv: str, timeout: float = 5.0) -> CommandAnswer:
        return self.answers.commands.get(argv) or CommandAnswer(argv=argv, status=Status.NOT_RECORDED)

    def watch(
        self,
        *argv: str,
        seconds: float,
        timeout: float,
        on_line: Callable[[str], None] | None = None,
        stop: threading.Event | None = None,
    ) -> CommandAnswer:
        """What the worker said then."""
        return self.run(*argv)

    def env(self, name: str) -> str | None:
        return (self.answers.environment or {}).get(name)

    def environment(self) -> dict[str, str] | None:
        return None if self.answers.environment is None else dict(self.answers.environment)

    def now(self) -> float:
        return self._now

    def documents(self) -> Sequence[Document]:
        if self._documents is not None:
            return self._documents
        return documents_of(self.answers.commands, self.answers.files)


def normal(path: str) -> str:
    """The path as requests are keyed: no `//`, `/./`, `..` or trailing slash."""
    return posixpath.normpath(path) if path else path


def documents_of(
    commands: Mapping[tuple[str, ...], CommandAnswer], files: Mapping[str, FileAnswer]
) -> list[Document]:
    """The texts of a live machine (or its recording) that messages are looked for in, in an order that every run repeats.

    Failed commands, nvidia-smi's text and kernel logs; files only where they are logs. Of a log that was asked for again
    on a later occasion only the last: it has the lines of the first.
    """
    found = [_command_document(answer) for answer in _latest(commands) if _is_searched(answer)]
    logs = (answer for answer in files.values() if answer.status is Status.OK and _is_log(answer.path))
    found += [Document(answer.path, DocumentKind.LOG, answer.text, answer.line_numbers) for answer in logs]
    return sorted((document for document in found if document.text), key=lambda document: document.name)


def _latest(commands: Mapping[tuple[str, ...], CommandAnswer]) -> list[CommandAnswer]:
    last: dict[tuple[str, ...], CommandAnswer] = {}
    for argv, answer in commands.items():
        plain = requests.without_labels(argv)
        if plain not in _KERNEL_LOGS:
            last[argv] = answer
        elif plain not in last or (answer.status is Status.OK and len(answer.stdout) >= len(last[plain].stdout)):
            last[plain] = answer
    return list(last.values())


def _is_searched(answer: CommandAnswer) -> bool:
    if answer.argv[:2] == requests.WORKER_NVML_SAMPLE:
        return False  # numbers only
    return answer.status in (Status.FAILED, Status.TIMEOUT) or (
        requests.without_labels(answer.argv) in _ALWAYS_SEARCHED and answer.status is Status.OK
    )


def _command_document(answer: CommandAnswer) -> Document:
    if requests.is_bench_worker(answer.argv):
        return worker_document(answer)
    kernel = requests.without_labels(answer.argv) in _KERNEL_LOGS and answer.status is Status.OK
    kind = DocumentKind.KERNEL_LOG if kernel else DocumentKind.COMMAND
    return Document(answer.request, kind, answer.text, answer.line_numbers)


def _is_log(path: str) -> bool:
    """Package managers' logs are none: they give facts, and a package's name is no message."""
    return (path.startswith("/var/log/") or path.endswith(".log")) and path not in requests.PACKAGE_LOGS


def filled(answers: Iterable[CommandAnswer | FileAnswer | ListAnswer | StatAnswer]) -> Answers:
    """Answers with each of these added."""
    result = Answers()
    for answer in answers:
        result.add(answer)
    return result
