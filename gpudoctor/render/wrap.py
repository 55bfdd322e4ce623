"""Filling lines: prose wraps at spaces, commands never break where a paste would break."""

from __future__ import annotations

from gpudoctor.render.safe import cells, cut


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
    lines: list[str] = []
    line, indent = "", lead
    for word in _words(run):
        if line and cells(indent) + cells(line) + 1 + cells(word) + 2 > width:
            lines.append(f"{indent}{line} \\")
            line, indent = word, lead + "    "
        else:
            line = f"{line} {word}" if line else word
    return [*lines, indent + line]


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
