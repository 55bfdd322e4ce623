"""What a line that tells of trouble looks like: of an error in a program's output, and in a person's own words."""

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
_WORDS = Lazy(r"[A-Za-z’']+")
_SMALL_WORDS = Lazy(
    r"\b(?:the|an?|is|are|was|were|i|my|we|our|it|this|that|but|when|after|does|do|not|with|and|to|of|in|on|for|if|how|why|what|have|has|can|be"
    r"|or|as|at|by|then|there|so|no|still|just|any|from)\b",
    re.IGNORECASE,
)
_PROGRAMS_LINE = Lazy(
    r"^\W{0,2}\d[\d:,./TZ -]{4,}|^\s*\[|^\s*[|+]|^(?:INFO|WARNING|DEBUG|ERROR|[IWEF]\d{4})\b|\s[IW]\S*\]"
)
_TROUBLE = Lazy(
    r"n[’']t\b|\b(?:not|cannot|never|no longer|fail\w*|errors?|faults?|unable|slow\w*|hang\w*|hung|crash\w*|wrong|problems?|issues?|stuck|stall\w*"
    r"|freez\w*|frozen|froze|dies|died|dead|kill\w*|lost|loses?|missing|refus\w*|denied|reject\w*|broken?|breaks|unexpected\w*|time[sd]? ?out|instead"
    r"|low|drop\w*|falls|falling|stop\w*|resets?|restart\w*|reboot\w*|black|help|strange|weird|why|pending|wait\w*|without|only|takes|longer|nothing"
    r"|how|what|but|although|though|gone|disappear\w*|vanish\w*|unavailable|ignor\w*|off|too|keeps)\b",
    re.IGNORECASE,
)
_OF_GPUS = Lazy(
    r"gpu|cuda|nvidia|nvlink|nvswitch|nccl|tensor|torch|cupy|jax\b|vllm|llama|geforce|[rg]tx|tesla|quadro|graphics|slurm|sbatch|srun|infiniband|mlx\d|\bmig\b"
    r"|\b[ahblv]\d{2,3}s?\b",
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


def complains(line: str) -> bool:
    """Whether a line is somebody's sentence about trouble, no program's message."""
    if _PROGRAMS_LINE.search(line) or _TROUBLE.search(line) is None:
        return False
    said, small = len(_WORDS.findall(line)), len(_SMALL_WORDS.findall(line))
    return said >= 5 and small >= 2 and small >= 0.15 * said


def about_gpus(text: str) -> bool:
    """Whether any word in it is of GPUs, of what runs on them, or of what gives them out."""
    return _OF_GPUS.search(text) is not None
