"""Asks a source and reads statuses the same way everywhere: what proves absence and what proves nothing."""

from __future__ import annotations

import re

from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, Source, StatAnswer, Status


def is_absent(answer: FileAnswer | ListAnswer | StatAnswer | CommandAnswer) -> bool:
    """True when the answer proves that the thing is not there."""
    return answer.status is Status.NOT_FOUND


def said(answer: CommandAnswer) -> bool:
    """True when a command ran and there is text to read, whatever its exit code."""
    return answer.status in (Status.OK, Status.FAILED)


def filter_shows(pattern: str | None, sample: str) -> bool:
    """Whether output filtered with this grep pattern (None: not filtered) would have shown a line like `sample`."""
    if pattern is None:
        return True
    try:
        return re.search(pattern, sample, re.IGNORECASE) is not None
    except re.error:
        return pattern.lower() in sample.lower()


def is_machine(source: Source) -> bool:
    """True for a live machine or a recording of one: there, files are the first choice and commands cost time."""
    return source.kind in ("live", "recording")


def exists(source: Source, path: str) -> bool | None:
    """Whether a path exists; `None` when that is not known."""
    answer = source.stat(path)
    if answer.status is Status.OK:
        return True
    return False if is_absent(answer) else None


def read_text(source: Source, path: str) -> str | None:
    """The text of a file, stripped; `None` unless it was read."""
    answer = source.read(path)
    return answer.text.strip() if answer.status is Status.OK else None


def first_file(source: Source, *paths: str) -> FileAnswer | None:
    """The first of the files that was read."""
    for path in paths:
        answer = source.read(path)
        if answer.status is Status.OK:
            return answer
    return None


def first_command(source: Source, *requests: tuple[str, ...], timeout: float = 5.0) -> CommandAnswer | None:
    """The first of the commands that has something to say."""
    for request in requests:
        answer = source.run(*request, timeout=timeout)
        if said(answer):
            return answer
    return None
