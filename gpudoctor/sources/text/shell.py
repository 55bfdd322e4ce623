"""Reads a command line as a user typed it: what ran, where, and what the pipe left of its output."""

from __future__ import annotations

import re
import shlex

import msgspec

from gpudoctor.lazy import Lazy
from gpudoctor.sources.text.programs import PROGRAMS

_ASSIGNMENT = Lazy(r"[A-Za-z_]\w*=.*", re.DOTALL)
_REDIRECTION = Lazy(r"(?:\d|&)?>>?(?:&\d|&-)?")
# Wrappers that run the rest on the same machine: how many arguments of their own follow, by option.
_TRANSPARENT = frozenset({"sudo", "doas", "time", "nice", "nohup", "stdbuf", "unbuffer", "env", "timeout", "watch", "command", "exec", "ionice", "taskset", "optirun", "primusrun", "prime-run", "wsl", "wsl.exe"})  # fmt: skip
_WITH_VALUE = {
    "sudo": {"-u", "-g", "-h", "-p", "-C", "-D"},
    "watch": {"-n", "--interval"},
    "timeout": {"-s", "-k", "--signal", "--kill-after"},
    "taskset": {"-c"},
    "nice": {"-n"},
    "env": {"-u", "-C", "-S"},
    "wsl": {"-d", "--distribution", "-u", "--user"},
    "wsl.exe": {"-d", "--distribution", "-u", "--user"},
}
_ELSEWHERE = {
    "docker": "docker-run", "podman": "docker-run", "nerdctl": "docker-run", "nvidia-docker": "docker-run", "ctr": "docker-run", "crictl": "docker-run", "docker-compose": "docker-run",
    "kubectl": "kubectl-exec", "oc": "kubectl-exec", "ssh": "ssh", "pdsh": "ssh", "clush": "ssh", "srun": "srun", "mpirun": "srun", "mpiexec": "srun", "singularity": "docker-run",
    "apptainer": "docker-run", "enroot": "docker-run", "lxc": "docker-run", "incus": "docker-run", "pct": "docker-run", "chroot": "docker-run", "nsenter": "docker-run",
    "machinectl": "docker-run", "flux": "srun", "toolbox": "docker-run", "distrobox": "docker-run", "ansible": "ssh",
}  # fmt: skip
_ENTERING = {"run", "exec", "shell", "start", "create", "attach", "up", "compose", "logs", "debug"}
_PASS = frozenset({"cat", "less", "more", "tee", "column", "sort", "most", "bat", "strings", "uniq", "iconv"})


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """One command. `elsewhere`: it ran in a container, on another host or in a job.

    `filtered_by`: only lines that match this grep pattern are shown; `cut`: only a part of the output is; `counted`: only
    how many lines there are; `rewritten`: the shown lines are not the command's own.
    """

    argv: tuple[str, ...]
    elsewhere: str | None = None
    filtered_by: str | None = None
    cut: bool = False
    counted: bool = False
    rewritten: bool = False
    awk: str | None = None
    numbered: bool = False
    repeats: bool = False  # `uniq -c`: each line begins with how often it came


def parse(command: str) -> list[Invocation]:
    """The commands of a line; those that print nothing (cd, export) are left out."""
    found = []
    for words in _commands(_words(command)):
        stages = _split(words, {"|", "|&"})
        first = _without_wrappers(_without_redirections(stages[0]))
        if not first:
            continue
        if (
            first[0] in ("sh", "bash", "zsh")
            and len(first) >= 3
            and re.fullmatch(r"-\w*c", first[1])
            and len(stages) == 1
        ):
            found += parse(first[2])
            continue
        if (
            first[0] in ("cd", "export", "source", ".", "sleep", "clear", "unset", "module", "exit", "set", "alias")
            and len(stages) == 1
            and not (first == ["export"] or first == ["set"] or first[1:2] == ["list"])
        ):
            continue
        found.append(_invocation(first, [_without_wrappers(_without_redirections(stage)) for stage in stages[1:]]))
    return found


def _words(command: str) -> list[str]:
    command = re.sub(r"(?<=\s)#\s.*$", "", command)
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars="|;&")
        lexer.whitespace_split = True
        lexer.commenters = ""
        return list(lexer)
    except ValueError:  # an apostrophe in prose, a quote that goes on in the next line
        return re.sub(r"([|;])", r" \1 ", command).split()


def _split(words: list[str], at: set[str]) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word in at:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _commands(words: list[str]) -> list[list[str]]:
    return [part for part in _split(words, {";", "&&", "||", "&", ";;"}) if part]


def _without_redirections(words: list[str]) -> list[str]:
    result: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif _REDIRECTION.fullmatch(word):
            skip = not word.endswith(("&1", "&2", "&-"))
        elif not re.match(r"(?:\d|&)?>>?\S+$|<\S*$", word):
            result.append(word)
    return [word for word in result if word not in ("1", "2") or len(result) > 1]


def _without_wrappers(words: list[str]) -> list[str]:
    """The command without sudo, environment assignments and the like, its program without directory and `.exe`."""
    while words:
        name = words[0].rsplit("/", 1)[-1]
        if _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        elif (
            name in _TRANSPARENT
            and not (name == "env" and len(words) == 1)
            and not (name == "command" and words[1:2] == ["-v"])
        ):
            rest = _after_options(words[1:], _WITH_VALUE.get(name, set()))
            if name == "timeout" or (name == "taskset" and rest and re.fullmatch(r"[\d,x-]+", rest[0])):
                rest = rest[1:]
            if not rest or (name == "env" and not any(not _ASSIGNMENT.fullmatch(word) for word in rest)):
                return [name, *words[1:]]
            words = rest
        else:
            return [name.removesuffix(".exe"), *words[1:]]
    return words


def _after_options(words: list[str], with_value: set[str]) -> list[str]:
    while words and words[0].startswith("-") and words[0] != "--":
        words = words[2:] if words[0] in with_value else words[1:]
    return words[1:] if words[:1] == ["--"] else words


def _invocation(argv: list[str], stages: list[list[str]]) -> Invocation:
    elsewhere = _elsewhere(argv)
    filters: list[str] = []
    cut = counted = rewritten = numbered = repeats = False
    awk: str | None = None
    for stage in stages:
        name, options = (stage[0], stage[1:]) if stage else ("cat", [])
        if name in ("grep", "egrep", "fgrep", "zgrep", "rg", "findstr", "Select-String"):
            grep = parse_grep(options)
            filters += [grep.pattern] if grep.pattern and not grep.inverted else []
            cut |= grep.inverted or grep.limited
            counted |= grep.counted
            rewritten |= grep.only_matching
            numbered |= grep.numbered
        elif name in ("head", "tail") or (
            name == "sed" and any(re.fullmatch(r"(?:\d+(?:,\d+)?|/.*/(?:,/.*/)?)p", o) for o in options)
        ):
            cut = True
        elif name == "wc":
            counted = True
        elif name == "awk":
            awk, rewritten = " ".join(options), True
        elif name == "uniq" and options == ["-c"]:
            repeats = True
        elif name not in _PASS or "-c" in options:
            rewritten = True
    return Invocation(
        argv=tuple(argv),
        elsewhere=elsewhere,
        filtered_by=" && ".join(filters) or None,
        cut=cut,
        counted=counted,
        rewritten=rewritten,
        awk=awk,
        numbered=numbered,
        repeats=repeats,
    )


def inner(argv: tuple[str, ...]) -> Invocation | None:
    """The command that a wrapper runs inside: `docker exec NAME nvidia-smi -L` runs `nvidia-smi -L`."""
    if "--" in argv:
        words = list(argv[argv.index("--") + 1 :])
    else:
        start = next(
            (
                i
                for i, word in enumerate(argv)
                if i >= 2 and word.rsplit("/", 1)[-1] in PROGRAMS and not argv[i - 1].startswith("--name")
            ),
            None,
        )
        words = list(argv[start:]) if start is not None else []
    found = parse(shlex.join(words)) if words else []
    return found[0] if len(found) == 1 and found[0].elsewhere is None else None


def _elsewhere(argv: list[str]) -> str | None:
    """What the command runs in, where that is another place than the machine the paste is of."""
    place = _ELSEWHERE.get(argv[0])
    if place is None or len(argv) < 2:
        return None
    if place in ("ssh", "srun") or argv[0] in ("chroot", "nsenter", "nvidia-docker"):
        return place
    words = [word for word in argv[1:] if not word.startswith("-")]
    if argv[0] in ("kubectl", "oc"):
        return place if any(word in ("exec", "logs", "run", "debug") for word in words[:4]) else None
    return place if any(word in _ENTERING for word in words[:3]) else None


_SHELLS = frozenset({"bash", "sh", "zsh", "ash", "dash", "fish"})


def enters_container(command: str) -> bool:
    """Whether what is typed next is typed inside a container: `docker exec -it NAME bash`, `docker run -it IMAGE`."""
    found = parse(command)
    if len(found) != 1 or found[0].elsewhere not in ("docker-run", "kubectl-exec"):
        return False
    argv = found[0].argv
    inside = inner(argv)
    if inside is not None:
        return inside.argv[0] in _SHELLS and len(inside.argv) <= 2
    interactive = any(re.fullmatch(r"-[a-z]*t[a-z]*|--tty", word) for word in argv)
    return interactive and any(word in ("run", "shell", "attach") for word in argv[1:3])


class Grep(msgspec.Struct, frozen=True, kw_only=True):
    """A grep's options."""

    pattern: str | None = None
    files: tuple[str, ...] = ()
    inverted: bool = False
    counted: bool = False
    only_matching: bool = False
    numbered: bool = False
    limited: bool = False


_GREP_VALUES = {"-A", "-B", "-C", "-m", "-e", "-f", "--include", "--exclude", "--max-count", "--regexp"}


def parse_grep(options: list[str]) -> Grep:
    """The pattern (in extended syntax) and files of a grep's arguments."""
    patterns: list[str] = []
    rest: list[str] = []
    flags = ""
    limited = False
    words = iter(options)
    for word in words:
        if word in _GREP_VALUES:
            value = next(words, "")
            patterns += [value] if word in ("-e", "--regexp") else []
            limited |= word in ("-m", "--max-count")
        elif word.startswith("--"):
            flags += {"--count": "c", "--invert-match": "v", "--only-matching": "o", "--line-number": "n"}.get(
                word, ""
            )
        elif word.startswith("-") and len(word) > 1:
            limited |= re.match(r"-\w*m\d", word) is not None
            flags += re.sub(r"[ABCm]?\d+", "", word[1:])
        else:
            rest.append(word)
    if not patterns and rest:
        patterns.append(rest.pop(0))
    return Grep(
        pattern="|".join(patterns).replace(r"\|", "|") or None,
        files=tuple(rest),
        inverted="v" in flags,
        counted="c" in flags,
        only_matching="o" in flags,
        numbered="n" in flags,
        limited=limited,
    )
