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
    r"n[’']t\b|\b(?:does|did|is|are|was|were|has|have|can|could|will|would|still) not\b|\bnot (?:work|find|found|see|show|detect|recogni|start|us|visible"
    r"|available|able|possible|load|boot|support|enough)|\b(?:cannot|never|no longer|any ?more|fail\w*|errors?|faults?|faulty|unable|slow\w*|hang\w*|hung|crash\w*|wrong"
    r"|problems?|issues?|stuck|stall\w*|freez\w*|frozen|froze|dies|died|dead|kill\w*|lost|loses?|missing|refus\w*|denied|reject\w*|broken?|breaks|unexpected\w*"
    r"|time[sd]? ?out|drop\w*|falls|falling|strange|weird|gone|disappear\w*|vanish\w*|unavailable|ignor\w*|restarts by itself)\b",
    re.IGNORECASE,
)
# These tell of trouble where somebody asks, or speaks of what is theirs.
_MAYBE_TROUBLE = Lazy(
    r"\b(?:not|why|how|what|but|although|though|instead|low|stop\w*|resets?|restart\w*|reboot\w*|black|help|pending|wait\w*|without|only|takes|longer|nothing|off"
    r"|too|keeps)\b",
    re.IGNORECASE,
)
_SOMEBODY = Lazy(r"\?|\b(?:I|my|we|our|me|us)\b")
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
    if _PROGRAMS_LINE.search(line):
        return False
    if not (_TROUBLE.search(line) or (_MAYBE_TROUBLE.search(line) and _SOMEBODY.search(line))):
        return False
    said, small = len(_WORDS.findall(line)), len(_SMALL_WORDS.findall(line))
    return said >= 5 and small >= 2 and small >= 0.15 * said


def about_gpus(text: str) -> bool:
    """Whether any word in it is of GPUs, of what runs on them, or of what gives them out."""
    return _OF_GPUS.search(text) is not None
