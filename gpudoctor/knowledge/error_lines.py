"""What a line that tells of an error looks like, in any program's output."""

from __future__ import annotations

import re
from enum import IntEnum

from gpudoctor.lazy import Lazy

LONGEST = 160  # characters of a line that are looked at

# An exception with its words, or a program's last word.
_CERTAIN = Lazy(
    r"^\s*(?:\[?\w+\]?:?\s)*?(?:[\w.]+\.)?\w*(?:Error|Exception|Interrupt)\b:? \S"
    r"|\b(?:[Ff]atal|FATAL|[Pp]anic|CRITICAL)\b|[Ss]egmentation fault|[Cc]ore dumped|^Killed$|Aborted"
)
_LIKELY = Lazy(
    r"\berrors?\b ?[:!(\[]|\b(?:has )?(?:failed|failure)(?: to\b| with\b| because\b|:)|\b(?:cannot|couldn't|could not|unable to|permission denied|connection refused"
    r"|no such file|not found|timed out)\b|\bno devices\b",
    re.IGNORECASE,
)
# Counters at zero, headings of tables, options, code: the words without the trouble.
_HARMLESS = Lazy(
    r"\b(?:0|no|zero|without) (?:\w+ ){0,2}(?:errors?|failures?|failed)\b|\b(?:errors?|failed|failures?|invalid)\b[\w ]{0,40}[:=]?\s*(?:0|no|none|n/?a|not active|false)\s*$"
    r"|\b(?:errors?|fail(?:ed|ures?)?)\W{1,4}0\b|:\s*(?:0|No|None|N/A|OK|False|Disabled)\s*$|Uncorr\. ECC"
    r"|^\s*(?:#|//|\$|>>>|File \"|at |def |import |from |raise |except|return |if )|-\w*-?\w{0,20}error\b|error[_-](?:rate|count|level)|\?\s*$",
    re.IGNORECASE,
)


class Tells(IntEnum):
    """How surely a line tells of an error."""

    NOTHING = 0
    LIKELY = 1
    CERTAIN = 2


def tells(line: str) -> Tells:
    """Only the beginning of a long line is looked at."""
    head = line[:LONGEST]
    certain = _CERTAIN.search(head) is not None
    if not (certain or _LIKELY.search(head)) or _HARMLESS.search(head):
        return Tells.NOTHING
    return Tells.CERTAIN if certain else Tells.LIKELY
