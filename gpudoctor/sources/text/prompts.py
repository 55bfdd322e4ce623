"""Recognises shell prompts in a paste, and the command behind each."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.lazy import Lazy
from gpudoctor.sources.text.programs import ALSO_WORDS, PROGRAMS, SUBCOMMANDS

_WORD = r"(?P<command>\S.*)"
_ENVIRONMENTS = r"(?:\([\w.@/-]+\)\s*)*"
_CLOCK = r"(?:\[?\d\d:\d\d(?::\d\d)?\]?\s+)?"
_CERTAIN = (
    Lazy(
        rf"^{_CLOCK}{_ENVIRONMENTS}(?P<user>[\w.-]+)@(?P<host>[\w.-]+)[: ][^#$%>❯|=]{{0,100}}?\s?[#$%❯](?:\s+|(?=[a-z])){_WORD}$",
        needs=("@",),
    ),
    Lazy(
        rf"^{_CLOCK}{_ENVIRONMENTS}(?P<user>[\w.-]+)@(?P<host>[\w.-]+)[: ][~/][^#$%>❯|=]{{0,100}}>\s*{_WORD}$",
        needs=("@",),
    ),
    Lazy(rf"^{_ENVIRONMENTS}\[(?P<user>[\w.-]+)@(?P<host>[\w.-]+)[^\]]{{0,100}}\]\s?[#$%]\s*{_WORD}$", needs=("@",)),
    Lazy(rf"^{_ENVIRONMENTS}(?:sh|bash|ash|zsh|dash)-[\d.]+[#$]\s*{_WORD}$", needs=("sh",)),
    Lazy(rf"^{_ENVIRONMENTS}(?P<host>[A-Za-z][\w.-]*):[~/][\w./~-]*\s?[#$]\s+{_WORD}$", needs=(":",)),
    Lazy(rf"^PS [A-Za-z]:\\[^>]*>\s*{_WORD}$", needs=("PS ",)),
    Lazy(rf"^[A-Za-z]:\\[^>|]*>\s*{_WORD}$", needs=(":\\",)),
    Lazy(rf"^{_CLOCK}{_ENVIRONMENTS}[$❯]\s+{_WORD}$", needs=("$", "❯")),
    Lazy(rf"^{_CLOCK}{_ENVIRONMENTS}(?:~|/[\w./-]*)\s?[#$]\s+{_WORD}$", needs=("~", "/")),
)
_LIKELY = (
    Lazy(rf"^{_ENVIRONMENTS}[#%>]\s*{_WORD}$", needs=("#", "%", ">")),
    Lazy(rf"^\++\s+{_WORD}$", needs=("+",)),
    Lazy(rf"^{_ENVIRONMENTS}➜\s+\S+(?:\s+git:\(\S+\))?(?:\s+✗)?\s+{_WORD}$", needs=("➜",)),
    Lazy(rf"^{_ENVIRONMENTS}(?:λ|»|\S{{1,30}}[$❯])\s*{_WORD}$", needs=("λ", "»", "$", "❯")),
    Lazy(
        rf"^(?:[-*] |\d+[.)] |#+ )?(?:[Oo]utput (?:of|from) |[Rr]unning |[Rr]esult of |[Cc]ommand: )?[`*]{{1,3}}{_WORD}$",
        needs=("`", "*"),
    ),
)
_EMPTY = Lazy(
    rf"^{_CLOCK}{_ENVIRONMENTS}(?:[\w.-]+@[\w.-]+[: ][^#$%>❯|=]{{0,100}}?[#$%❯]|\[[\w.-]+@[\w.-]+[^\]]{{0,100}}\]\s?[#$%]|[$❯]|(?:sh|bash)-[\d.]+[#$])\s*$",
    needs=("$", "#", "%", "❯"),
)
_PYTHON = Lazy(r"^(?:>>> ?|In \[\d+\]: ?)(?P<code>.*)$")
_PYTHON_MORE = Lazy(r"^(?:\.\.\. ?|\s+\.\.\.: ?)(?P<code>.*)$")
_BARE_WORDS = (
    "nvidia-smi", "lspci", "lsmod", "dmesg", "uname -", "dkms status", "mokutil --sb-state", "modinfo nvidia", "ldconfig -p", "nvcc ",
    "gcc --version", "journalctl", "cat /", "docker ", "systemctl status ", "pip", "dpkg -l", "rpm -qa", "env", "free -", "df -h", "ulimit -",
    " /dev/nvidia", "ip a", "ibstat", "sinfo", "scontrol show node", "kubectl ", "nvidia-ctk --version", "snap list",
)  # fmt: skip
# A command alone on its line, perhaps as a heading, with nothing that a sentence would have.
_BARE = Lazy(
    r"^\s{0,3}(?:#+ |[-*] |\d+[.)] )?(?:[Oo]utput (?:of|from) |[Rr]esult of )?[`*\"']{0,3}(?P<command>(?:sudo )?(?:"
    r"nvidia-smi(?:\.exe)?(?: (?:-[\w-]+(?:[= ][\w.,]+)?|topo|nvlink|dmon|pmon|mig))*"
    r"|lspci(?: -[\w]+(?: [\w:.]+)?)*|lsmod|dmesg(?: -[\w-]+)*|uname -\w+|dkms status|mokutil --sb-state|modinfo nvidia|ldconfig -p|nvcc (?:--version|-V)|gcc --version"
    r"|journalctl(?: -[\w-]+(?: -?\w+)?)+|cat /[\w./-]+|docker (?:info|version|--version)|systemctl status [\w@.-]+|pip3? (?:list|freeze)|dpkg -l|rpm -qa|env|free -\w|df -h(?: /\S+)?"
    r"|ulimit -\w|ls(?: -\w+)? /dev/nvidia\*?|ip a(?:ddr)?|ibstat|sinfo(?: -\w+)?|scontrol show node(?: \S+)?|kubectl (?:get|describe) [\w /.-]+|nvidia-ctk --version|snap list"
    r")(?P<pipe> \| (?:grep|egrep|head|tail|less)\b[^.!?]*)?)[`*\"']{0,3}(?: output)?:?[`*]{0,3}\s*$",
    needs=_BARE_WORDS,
)
_BARE_PROGRAMS = frozenset(word.split()[0] for word in _BARE_WORDS if word[0] != " ") | {
    "nvidia-smi.exe",
    "pip3",
    "ls",
}
_MOST_BEFORE = 6  # words that may stand before the program, which are told from its own by its name
_SIGNS = frozenset("$#%>❯➜λ»`*")
_SIGN_WITHIN = 161  # characters
_CONTAINER_HOST = Lazy(r"[0-9a-f]{12}")


class Prompt(msgspec.Struct, frozen=True):
    """A line with a command. `container`: the prompt's host name is a container's."""

    command: str
    python: bool = False
    container: bool = False
    host: str | None = None


def prompt(line: str) -> Prompt | None:
    """The command in a line that is a prompt with one; an empty command for a prompt alone; None for any other line."""
    if not _has_sign(line):
        return _bare(line)
    python = _PYTHON.match(line)
    if python is not None:
        return Prompt(python["code"], python=True)
    unindented = line.lstrip(" ") if line.startswith("    ") else line
    for pattern in _CERTAIN:
        match = pattern.match(unindented)
        if match is not None and _is_command(match["command"]):
            host = match.groupdict().get("host")
            return Prompt(match["command"], container=bool(host and _CONTAINER_HOST.fullmatch(host)), host=host)
    for pattern in _LIKELY:
        match = pattern.match(line)
        if match is not None and _starts_with_program(match["command"].strip("`*: ")):
            return Prompt(match["command"].strip("`*: "))
    if _EMPTY.match(line):
        return Prompt("")
    return _bare(line)


def _has_sign(line: str) -> bool:
    """Most lines have none of a prompt's signs near their beginning."""
    return not _SIGNS.isdisjoint(line[:_SIGN_WITHIN].partition("|")[0]) or line.startswith(("+", "In ["))


def _bare(line: str) -> Prompt | None:
    if _BARE_PROGRAMS.isdisjoint(word.strip("`*\"':") for word in line.split(maxsplit=_MOST_BEFORE)[:_MOST_BEFORE]):
        return None
    found = _BARE.match(line)
    return Prompt(found["command"].strip("`*\"': ")) if found is not None else None


def python_more(line: str) -> str | None:
    """The code of a continuation line of the Python prompt."""
    match = _PYTHON_MORE.match(line)
    return match["code"] if match is not None else None


def _is_command(text: str) -> bool:
    """Whether something typed could be it: not an amount of money, a percentage or a lone sign."""
    return re.match(r"[A-Za-z_./~\"'({!][^=\s]*|[A-Z_][A-Z0-9_]*=", text) is not None


def _starts_with_program(text: str) -> bool:
    words = text.split()
    while words and (words[0] in ("sudo", "time") or re.fullmatch(r"[A-Z_][A-Z0-9_]*=\S*", words[0])):
        words.pop(0)
    if not words:
        return False
    name = words[0].rsplit("/", 1)[-1]
    if name not in PROGRAMS:
        return False
    # "# date of purchase", "> time is short": prose has no options, and its words follow each other.
    if len(words) == 1 or name not in ALSO_WORDS or words[1].startswith(("-", "/", "$", "'", '"')):
        return True
    return (
        words[1] in SUBCOMMANDS.get(name, ())
        or re.fullmatch(r"[\w/-]+\.(?:py|json|conf|toml|yaml|log|txt)", words[1]) is not None
    )
