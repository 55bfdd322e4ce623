"""Captured text made harmless: no terminal codes, no control characters, no reordering of what a reader sees."""

from __future__ import annotations

import unicodedata
from typing import TypeVar

import msgspec

from gpudoctor.lazy import Lazy

T = TypeVar("T")

# CSI; OSC, DCS, SOS, PM, APC with their payload where it is closed on the same line; two-character escapes. What is not
# closed loses its introducer only, so that hostile text cannot make the rest of a line vanish.
_TERMINAL = Lazy("\x1b\\[[0-?]*[ -/]*[@-~]?|\x1b[\\]PX^_][^\x07\x1b\x9c\r\n]*(?:\x07|\x1b\\\\|\x9c)|\x1b[ -/]*[0-~]?")
# Characters that end or reorder a line for the reader, or are not seen at all.
_SPACE = Lazy("[\t\n\x0b\x0c\r\x1c-\x1f\x85\u2028\u2029]+")
_UNSEEN = Lazy(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e0fff]"
)
_SURROGATE = Lazy("[\ud800-\udfff]")


def clean(text: str) -> str:
    """One line that shows what it is: terminal codes dropped, line ends and tabs a space, unseen characters dropped."""
    if text.isascii() and text.isprintable():
        return text
    text = _TERMINAL.sub("", text)
    text = _SPACE.sub(" ", text)
    text = _UNSEEN.sub("", text)
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def clean_values(value: T) -> T:
    """The same value (structs, lists, dicts) with every string cleaned; enumerations and numbers untouched."""
    return _clean(value)  # type: ignore[return-value]


def _clean(value: object) -> object:
    if type(value) is str:
        return clean(value)
    if isinstance(value, msgspec.Struct):
        return type(value)(**{name: _clean(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value


def cells(text: str) -> int:
    """Columns that a terminal needs for a cleaned text."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """At most `width` columns; what is cut off is marked with three dots."""
    if cells(text) <= width:
        return text
    room = max(0, width - 3)
    used = 0
    for index, character in enumerate(text):
        used += _cell(character)
        if used > room:
            return text[:index].rstrip() + "..."
    return text
