"""Building answers from text that came from elsewhere."""

from __future__ import annotations

from gpudoctor.lazy import Lazy
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status

Answer = CommandAnswer | FileAnswer | ListAnswer | StatAnswer
Request = tuple[str, ...] | str
# Commands and the line that only their output has.
Signs = tuple[tuple[tuple[str, ...], Lazy], ...]
HEAD_CHARACTERS = 65536  # of a file that a recogniser looks at
# A recogniser's result: a command line or a path, and what it answered.
Found = dict[Request, Answer]


def command(
    argv: tuple[str, ...],
    text: str,
    *,
    status: Status = Status.OK,
    partial: bool = False,
    lines: list[int] | None = None,
    filtered_by: str | None = None,
) -> Found:
    """One command's output. `lines`: each line's number in the original; `partial`: other lines may be missing."""
    answer = CommandAnswer(
        argv=argv, status=status, stdout=text, truncated=partial, line_numbers=lines, filtered_by=filtered_by
    )
    return {argv: answer}


def file(path: str, text: str, *, lines: list[int] | None = None, partial: bool = False) -> Found:
    """One file's content."""
    return {path: FileAnswer(path=path, status=Status.OK, text=text, truncated=partial, line_numbers=lines)}


def any_sign(text: str, signs: Signs) -> bool:
    """Whether one of the commands wrote some of the beginning."""
    head = text[:HEAD_CHARACTERS]
    return any(sign.search(head) for _, sign in signs)


def whole_text(text: str, signs: Signs) -> Found:
    """The whole text as the output of each command whose sign is in it."""
    found: Found = {}
    for argv, sign in signs:
        if sign.search(text):
            found |= command(argv, text)
    return found


def pick(text: str, wanted: list[int]) -> tuple[str, list[int]]:
    """The lines with these 0-based indexes as one text, and their 1-based numbers."""
    lines = text.split("\n")
    return "\n".join(lines[i] for i in wanted), [i + 1 for i in wanted]
