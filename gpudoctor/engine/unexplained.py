"""Lines that look like errors where no rule found anything: silence about them would look like health."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpudoctor.facts import Document, DocumentKind, Evidence
from gpudoctor.lazy import Lazy

_MOST = 3
_LONGEST = 160
_LINES = 20_000  # of one text
# An exception with its words, or a program's last word.
_CERTAIN = Lazy(
    r"^\s*(?:\[?\w+\]?:?\s)*?(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)\b:? \S"
    r"|\b(?:[Ff]atal|FATAL|[Pp]anic|CRITICAL)\b|[Ss]egmentation fault|[Cc]ore dumped|^Killed$|Aborted"
)
_LIKELY = Lazy(
    r"\berrors?\b ?[:!(\[]|\b(?:failed|failure)(?: to\b| with\b|:)|\b(?:cannot|can't|could not|couldn't|unable to|denied|refused|no such|not found|timed out)\b",
    re.IGNORECASE,
)
# Counters at zero, headings of tables, options, code: the words without the trouble.
_HARMLESS = Lazy(
    r"\b(?:0|no|zero|without) (?:\w+ ){0,2}(?:errors?|failures?)\b|\b(?:errors?|fail(?:ed|ures?)?)\W{1,4}0\b"
    r"|:\s*(?:0|No|None|N/A|OK|False|Disabled)\s*$"
    r"|^\s*(?:#|//|\$|>>>|File \"|at |def |import |from |raise |except|return |if )|--\S*error|error[_-](?:rate|count|level)",
    re.IGNORECASE,
)


def unexplained(documents: Iterable[Document]) -> list[Evidence]:
    """Up to three lines, those that end a program first, later ones before earlier ones. Pasted texts and programs' logs only: kernel logs and tools' outputs are full of the words."""
    found: dict[str, tuple[bool, int, Evidence]] = {}
    for document in documents:
        if document.part or document.kind not in (DocumentKind.PASTE, DocumentKind.LOG):
            continue
        for index, line in enumerate(document.text.split("\n")[-_LINES:]):
            certain = _CERTAIN.search(line[:_LONGEST]) is not None
            if (certain or _LIKELY.search(line[:_LONGEST])) and not _HARMLESS.search(line):
                text = line.strip()[:_LONGEST]
                found[text] = (certain, index, Evidence(document.name, text, document.line_number(index)))
    return [evidence for _, _, evidence in sorted(found.values(), key=_order)][:_MOST]


def _order(one: tuple[bool, int, Evidence]) -> tuple[bool, int]:
    certain, index, _ = one
    return not certain, -index
