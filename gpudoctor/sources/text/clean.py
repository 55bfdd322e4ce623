"""Makes pasted text plain: no terminal codes, Markdown, quoting or odd spaces; lines that a terminal wrapped are joined.

Every line keeps its number in what the user pasted.
"""

from __future__ import annotations

import itertools
import re

import msgspec

from gpudoctor.lazy import Lazy
from gpudoctor.sources.terminal import TERMINAL_CODES
from gpudoctor.sources.text.prompts import prompt

# What is left of a colour code when the escape character got lost on the way: "[01;31m", "[K".
_ANSI_REST = Lazy(r"\[(?<![\w\]]\[)(?:\d{1,2}(?:;\d{1,3})*m|K\b|0?m(?![a-z]))", needs=("[",))
_UNSEEN = dict.fromkeys(
    [*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F, *range(0x200B, 0x2010), 0x2060, 0xFEFF, *range(0x202A, 0x202F)]
)  # fmt: skip
_BACKSPACE = Lazy(r"[^\x08\n]\x08", needs=("\x08",))
_SAME = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2007": " ", "\u3000": " ", "\u2009": " ", "\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2010": "-", "\u2011": "-", "\u2028": "\n"})  # fmt: skip
_FENCE = Lazy(r"^[ \t]*(?:```+|~~~+)[\w+. -]*$")
_DETAILS = Lazy(r"^[ \t]*</?(?:details|summary|pre|code|p|br|div)\b[^>]*>[ \t]*$", re.IGNORECASE, needs=("<",))
_QUOTE = Lazy(r"^[ \t]{0,3}>[ ]?(?![>])", needs=(">",))
_ENTITIES = (("&gt;", ">"), ("&lt;", "<"), ("&quot;", '"'), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&"))
# Frames and columns: such a line is whole whatever its length.
_ENTITY = Lazy(r"&(?:gt|lt|quot|amp|nbsp|#39);", needs=("&",))
_INLINE_TAGS = Lazy(r"</?(?:pre|code|kbd)\b[^>\n]*>", re.IGNORECASE)
_NUMBERED = Lazy(r"^\s*(\d+)(?:[:|.]? {1,2}|\t|$)")
_TABLE_EDGE = Lazy(r"[|+]\s*$|^\s*[|+]|\S\s{3,}\S+\s{2,}\S")
# A line that starts something of its own is no continuation.
_STARTS_ANEW = Lazy(
    r"^\s*$|^\s*[-*•]\s|^\s{4,}\S+\s*:|^\[|^<\d>|^[A-Z][a-z]{2} [ \d]\d \d\d:|^\d{4}-\d\d-\d\d|^(?:kern|user|daemon)\s*:|^\S*[$#%❯]\s|^>>> |^\s*[|+]|^(?:kernel|NVRM|nvidia\S*):"
    r"|^(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d |^[A-Z][A-Z_0-9]+=|^ii |^\S+:\d+:\d+|^GPU \d+: |^Traceback|^\s+(?:at|File) |^(?:ERROR|WARNING|INFO|Error|Warning)\b|^\w+Error: "
)


class Line(msgspec.Struct, frozen=True):
    """A line, and its 1-based number in the paste."""

    number: int
    text: str


def clean(text: str) -> list[Line]:
    """The plain lines of a paste, wrapped ones joined."""
    return joined(plain_lines(text))


def plain_lines(text: str) -> list[Line]:
    """The lines without terminal codes, Markdown and quoting; as many as in the paste."""
    text = text.replace("\r\n", "\n").translate(_SAME)
    while _BACKSPACE.search(text):
        text = _BACKSPACE.sub("", text)
    text = _ANSI_REST.sub("", TERMINAL_CODES.sub("", text)).translate(_UNSEEN)
    if _ENTITY.search(text):
        for entity, character in _ENTITIES:
            text = text.replace(entity, character)
    lines = [_last_painted(line).rstrip() for line in text.split("\n")]
    if "<pre" in text or "<code" in text:
        lines = [_INLINE_TAGS.sub("", line) for line in lines]
    if _is_numbered(lines):
        lines = [_NUMBERED.sub("", line) for line in lines]
    if _is_quoted(lines):
        lines = [_QUOTE.sub("", line) for line in lines]
    fenced = any(_FENCE.match(line) for line in lines)
    lines = ["" if _FENCE.match(line) or (fenced and _DETAILS.match(line)) else line for line in lines]
    return [Line(number, line) for number, line in enumerate(lines, 1)]


def _last_painted(line: str) -> str:
    """A progress bar repaints its line with carriage returns: the last text is what was seen."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def _is_quoted(lines: list[str]) -> bool:
    """Whether this is a quoted mail or comment rather than a few `> ` prompts."""
    filled = [line for line in lines if line.strip()]
    quoted = sum(1 for line in filled if _QUOTE.match(line) and not line.startswith(">>>"))
    return len(filled) >= 3 and quoted * 10 >= len(filled) * 9


def _is_numbered(lines: list[str]) -> bool:
    """Whether it was copied with an editor's or `cat -n`'s line numbers: every line has the next one."""
    numbers = [_NUMBERED.match(line) for line in lines if line.strip()]
    if len(numbers) < 3 or not all(numbers):
        return False
    values = [int(match[1]) for match in numbers if match]
    return all(after == before + 1 for before, after in itertools.pairwise(values))


def joined(lines: list[Line]) -> list[Line]:
    """Joins what a terminal of 60 to 250 columns broke: lines of exactly its width, of which there are none longer."""
    width = _terminal_width(lines)
    if width is None:
        return lines
    result: list[Line] = []
    grows = False
    for line in lines:
        if grows and _goes_on(lines[line.number - 2].text, line.text):
            before = result.pop()
            # Trailing blanks are lost in copying, so a line one short of the width broke at a space.
            gap = " " if len(lines[line.number - 2].text) < width else ""
            result.append(Line(before.number, before.text + gap + line.text))
        else:
            result.append(line)
        grows = width - 1 <= len(line.text) <= width and not _TABLE_EDGE.search(line.text)
    return result


_LAST_WORDS = ("--format=csv", "csv,noheader", ",nounits")  # with which a query of nvidia-smi ends


def _goes_on(before: str, line: str) -> bool:
    """Whether `line` can be the rest of `before`. Lines that begin alike are entries of a log; a tab begins a detail."""
    if line.startswith("\t") or _STARTS_ANEW.match(line) or _TABLE_EDGE.search(line) or before[:5] == line[:5]:
        return False
    if before.endswith((")'", ')"')):  # a one-line program (python -c '...') that ends here
        return False
    if before.endswith(_LAST_WORDS) and not line.startswith(","):
        return False
    return not (before.endswith((".", ":", ";")) and line[:1].isupper())


def _terminal_width(lines: list[Line]) -> int | None:
    by_length: dict[int, list[str]] = {}
    for line in lines:
        by_length.setdefault(len(line.text), []).append(line.text)
    counted = ((length, _whole(by_length[length])) for length in sorted(by_length, reverse=True))
    longest, full = next(((length, count) for length, count in counted if count), (0, 0))
    if not 60 <= longest <= 250:
        return None
    full += _whole(by_length.get(longest - 1, []))  # a blank at the end is lost in copying
    # One line at the maximum proves nothing, unless it is a usual width.
    return longest if full >= 3 or (longest in (80, 100, 120, 132)) else None


def _whole(texts: list[str]) -> int:
    """How many are no rows of a table, which may have any length."""
    return sum(_TABLE_EDGE.search(text) is None for text in texts)


_BROKEN_BETWEEN_WORDS = Lazy(r"[a-z]+,? \w|[\"'(]\w[\w. ]*[\"')]\S? ")
_MOST_JOINED = 6


def unbroken(lines: list[Line]) -> list[Line]:
    """Sentences that a mail program or a narrow page broke between words, each as one more line with its first number.

    They come in addition: whether two lines are one sentence is a guess.
    """
    found: list[Line] = []
    i = 0
    while i < len(lines):
        end = i + 1
        while end < len(lines) and end - i < _MOST_JOINED and _may_be_one(lines[end - 1].text, lines[end].text):
            end += 1
        if end - i > 1:
            found.append(Line(lines[i].number, " ".join(line.text.strip() for line in lines[i:end])))
        i = end
    return found


def _may_be_one(before: str, line: str) -> bool:
    return (
        40 <= len(before) <= 200
        and _BROKEN_BETWEEN_WORDS.match(line) is not None
        and not before.endswith((".", ";", "{", "}", "|", ">", ":"))
        and _goes_on(before, line)
        and not _TABLE_EDGE.search(before)
        and prompt(before) is None
    )
