"""`scontrol show node` and `sinfo` in its forms: default, -N, -R, and with bars, with or without a heading."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources.foreign.answer import Found, command
from gpudoctor.sources.requests import SCONTROL_SHOW_NODE, SINFO

KIND = DocumentKind.COMMAND

_SCONTROL = Lazy(
    r"^\s*NodeName=\S+ .*(?:CoresPerSocket|State|Arch)=|^\s*State=[A-Z]\w\S* .*ThreadsPerCore=|^\s*Gres=gpu\S*\s*$|^\s*CfgTRES=cpu=|^\s*Reason=\S.*\[\w+@\d{4}-",
    re.MULTILINE,
    needs=("NodeName=", "State=", "Gres=gpu", "CfgTRES=", "Reason="),
)
_STATE = (
    r"(?:alloc\w*|idle|mix\w*|down|drain\w*|drng|comp\w*|inval|maint|resv|reserved|plnd|planned|unk\w*)[*~#!%$@^\-]?"
)
_HEADING = Lazy(
    r"^(?=.*\bSTATE\b)(?=.*\b(?:NODELIST|HOSTNAMES)\b).*\b(?:PARTITION|GRES|AVAIL|CPUS|REASON)\b|^REASON\s+USER\s+TIMESTAMP\s+NODELIST",
    re.MULTILINE,
    needs=("PARTITION", "GRES", "AVAIL", "CPUS", "REASON"),
)
_ROW = Lazy(
    rf"^\S+\s*\|\s*gpu:\S+.*\|\s*{_STATE}\s*(?:\||$)|^\S+\s+(?:up|down|drain|inact)\s+\S+\s+\d+\s+{_STATE}\s+\S+\s*$",
    re.MULTILINE,
    needs=("alloc", "idle", "mix", "down", "dr", "comp", "inval", "maint", "res", "pl", "unk"),
)


def recognise(text: str) -> bool:
    """Whether one of them wrote some of this."""
    head = text[:65536]
    return any(pattern.search(head) for pattern in (_SCONTROL, _HEADING, _ROW))


def requests(text: str) -> Found:
    """Either or both."""
    found: Found = {}
    if _SCONTROL.search(text):
        found |= command(SCONTROL_SHOW_NODE, text)
    if _HEADING.search(text) or _ROW.search(text):
        found |= command(SINFO, text)
    return found
