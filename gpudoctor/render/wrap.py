"""Filling lines: prose wraps at spaces, commands never break where a paste would break."""

from __future__ import annotations

from gpudoctor.render.safe import cells, cut

_OPERATORS = ("&&", "||", "|", ";")
_MORE = "    "  # before the further lines of one command


def wrap(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """Lines of at most `width` columns, the first one led by `first`, the others by `rest`. A long word keeps its own line."""
    lines: list[str] = []
    lead, line = first, ""
    for word in text.split():
        if line and cells(lead) + cells(line) + 1 + cells(word) > width:
            lines.append(lead + line)
            lead, line = rest, word
        else:
            line = f"{line} {word}" if line else word
    if line or not lines:
        lines.append((lead + line).rstrip())
    return lines


def quote(text: str, width: int, lead: str, most: int = 2) -> list[str]:
    """A quoted line of evidence: wrapped, at most `most` lines, cut with dots."""
    lines = wrap(text, width, lead, lead)
    if len(lines) > most:
        lines = [
            *lines[: most - 1],
            cut(" ".join([lines[most - 1], *(line.strip() for line in lines[most:])]), width),
        ]
    return [cut(line, width) for line in lines]


def command(run: str, width: int, lead: str) -> list[str]:
    """A command to copy: one line, or broken before an argument with a backslash at the line's end."""
    if cells(lead) + cells(run) <= width or not _may_break(run):
        return [lead + run]
    whole = width - cells(lead) - len(_MORE) - 2
    lines: list[str] = []
    for part in _parts(_words(run)):
        if lines and cells(lines[-1]) + 1 + cells(part) <= whole:
            lines[-1] += f" {part}"
        elif cells(part) <= whole:
            lines.append(part)
        else:
            lines += _filled(part, whole)
    return [
        lead + (_MORE if index else "") + line + (" \\" if index + 1 < len(lines) else "")
        for index, line in enumerate(lines)
    ]


def _parts(words: list[str]) -> list[str]:
    """The commands of a line, each with the operator that follows it: the natural places to break."""
    parts: list[list[str]] = [[]]
    for word in words:
        parts[-1].append(word)
        if word in _OPERATORS or word.endswith(";"):
            parts.append([])
    return [" ".join(part) for part in parts if part]


def _filled(part: str, width: int) -> list[str]:
    lines: list[str] = []
    for word in _words(part):
        if lines and cells(lines[-1]) + 1 + cells(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def _may_break(run: str) -> bool:
    """Not where a backslash at a line's end would mean something else: comments, here-documents, odd quoting."""
    return "#" not in run and "<<" not in run and "\\" not in run and "`" not in run


def _words(run: str) -> list[str]:
    """Split at single spaces outside quotes and parentheses; anything unbalanced stays one word."""
    words: list[str] = []
    word, quoted, depth = "", "", 0
    for character in run:
        if quoted:
            quoted = "" if character == quoted else quoted
        elif character in "'\"":
            quoted = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == " " and depth == 0:
            words.append(word)
            word = ""
            continue
        word += character
    words.append(word)
    return words
