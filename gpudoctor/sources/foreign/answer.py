"""Building answers from text that came from elsewhere."""

from __future__ import annotations

from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status

Answer = CommandAnswer | FileAnswer | ListAnswer | StatAnswer
Request = tuple[str, ...] | str
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


def pick(text: str, wanted: list[int]) -> tuple[str, list[int]]:
    """The lines with these 0-based indexes as one text, and their 1-based numbers."""
    lines = text.split("\n")
    return "\n".join(lines[i] for i in wanted), [i + 1 for i in wanted]
