"""Pasted commands about files: cat, grep FILE, ls, stat, which, readlink."""

from __future__ import annotations

import posixpath
import re

from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status
from gpudoctor.sources.foreign.listing import LONG_LINE, stat_of_line
from gpudoctor.sources.stored import Answers, normal
from gpudoctor.sources.text.clean import Line
from gpudoctor.sources.text.shell import Grep, Invocation, parse_grep

_LOGS = Lazy(r"/var/log/(?:syslog|kern\.log|messages|kernel\.log)(?:\.\d+)?$")
_GONE = Lazy(r"^(?:ls|cat|stat|head|tail|grep|file|less|find|readlink): (?:cannot (?:access|open|stat|statx)(?: file)? )?['\"`‘]?(?P<path>/[^'\"’:]+)['\"’]?(?: for reading)?: (?P<why>No such file|Permission denied|Not a directory|Is a directory)", needs=("No such file", "Permission denied", " a directory"))  # fmt: skip


def add(answers: Answers, invocation: Invocation, lines: list[Line]) -> bool:
    """Adds what such a command says of files; False when it is another command."""
    name, arguments = invocation.argv[0], list(invocation.argv[1:])
    paths = [a for a in arguments if a.startswith("/")]
    if name in ("cat", "less", "more", "head", "tail", "bat") and len(paths) == 1 and "*" not in paths[0]:
        return _cat(answers, invocation, paths[0], lines, cut=name in ("head", "tail"))
    if name in ("grep", "egrep", "fgrep", "zgrep"):
        return _grep(answers, parse_grep(arguments), invocation, lines)
    if name == "ls" and paths:
        _ls(answers, arguments, paths, invocation, lines)
        return not all(p.startswith("/dev/nvidia") for p in paths)
    if (
        name == "stat"
        and len(paths) == 1
        and not any(a.startswith("-") for a in arguments)
        and _absences(answers, lines)
    ):
        return True
    if name in ("which", "type", "whereis") or (name == "command" and arguments[:1] == ["-v"]):
        return _which(answers, [a for a in arguments if not a.startswith("-")], lines)
    return False


def _absences(answers: Answers, lines: list[Line]) -> bool:
    """ "No such file or directory" and "Permission denied" of any of these commands."""
    seen = False
    for line in lines:
        match = _GONE.match(line.text)
        if match is None or match["why"] == "Is a directory":
            continue
        seen = True
        path = match["path"].strip()
        status = Status.DENIED if match["why"] == "Permission denied" else Status.NOT_FOUND
        if "*" in path and status is Status.NOT_FOUND:
            answers.absent_globs.append(path)
            continue
        path = normal(path)
        answers.add(StatAnswer(path=path, status=status))
        answers.add(FileAnswer(path=path, status=status))
    return seen


def _cat(answers: Answers, invocation: Invocation, path: str, lines: list[Line], *, cut: bool) -> bool:
    if lines and _absences(answers, lines):
        return True
    if invocation.rewritten or (invocation.counted and [line.text.strip() for line in lines] != ["0"]):
        return False
    shown = [] if invocation.counted else _unnumbered(lines) if invocation.numbered else lines
    _add_file(answers, path, shown, cut=cut or invocation.cut, filtered_by=invocation.filtered_by)
    return True


def _grep(answers: Answers, grep: Grep, invocation: Invocation, lines: list[Line]) -> bool:
    """`grep PATTERN FILE`. An empty result or a count of zero says that no line matches."""
    if (
        len(grep.files) != 1
        or not grep.files[0].startswith("/")
        or "*" in grep.files[0]
        or grep.inverted
        or invocation.rewritten
    ):
        return False
    if lines and _absences(answers, lines):
        return True
    if grep.only_matching:
        return False
    shown = lines
    if grep.counted or invocation.counted:
        if [line.text.strip() for line in lines] != ["0"]:
            return False
        shown = []
    shown = _unnumbered(shown) if grep.numbered else shown
    filters = " && ".join(p for p in (grep.pattern, invocation.filtered_by) if p)
    _add_file(answers, grep.files[0], shown, cut=grep.limited or invocation.cut, filtered_by=filters or None)
    return True


def _add_file(answers: Answers, path: str, lines: list[Line], *, cut: bool, filtered_by: str | None) -> None:
    text = "\n".join(line.text for line in lines)
    numbers = [line.number for line in lines]
    path = normal(path)
    partial = cut or filtered_by is not None
    answers.add(
        FileAnswer(
            path=path,
            status=Status.OK,
            text=text + "\n" if text else "",
            truncated=partial,
            filtered_by=filtered_by,
            line_numbers=numbers,
        )
    )
    if _LOGS.match(path):
        answers.add(
            CommandAnswer(
                argv=known.SYSLOG,
                status=Status.OK,
                stdout=text,
                truncated=True,
                filtered_by=filtered_by,
                line_numbers=numbers,
            )
        )


def _unnumbered(lines: list[Line]) -> list[Line]:
    return [Line(line.number, re.sub(r"^\d+[:-]", "", line.text)) for line in lines]


def _ls(answers: Answers, options: list[str], paths: list[str], invocation: Invocation, lines: list[Line]) -> None:
    _absences(answers, lines)
    shown = [
        line.text
        for line in lines
        if line.text.strip() and not _GONE.match(line.text) and not re.match(r"total \d", line.text)
    ]
    if invocation.counted or invocation.rewritten:
        if [line.strip() for line in shown] != ["0"]:
            return
        shown = []
    entries = [entry for line in shown for entry in _entries(line)]
    for entry in entries:
        if entry.path.startswith("/"):
            answers.add(entry)
    complete = not invocation.cut and invocation.filtered_by is None
    for path in paths:
        if "*" in path or "?" in path:
            _add_glob(answers, path, entries, complete)
        elif (len(paths) == 1 and "-d" not in options and entries and not any(e.path == path for e in entries)) or (
            len(paths) == 1 and not entries and not lines and (complete or invocation.filtered_by)
        ):
            _add_directory(answers, path, entries, invocation)


def _entries(line: str) -> list[StatAnswer]:
    """One per name: a line of `ls -l`, or names in columns."""
    if LONG_LINE.match(line):
        found = stat_of_line(line)
        return [found] if found is not None else []
    if re.search(r"[:|]\s", line) or line.rstrip().endswith(":"):
        return []
    return [StatAnswer(path=name, status=Status.OK) for name in line.split()]


def _add_glob(answers: Answers, glob: str, entries: list[StatAnswer], complete: bool) -> None:
    """What matches a glob of `ls`; everything else that would match it is absent."""
    if not complete:
        return
    answers.absent_globs.append(glob)
    folder, pattern = posixpath.split(glob)
    if "*" in folder:
        return
    names = sorted({posixpath.basename(e.path) for e in entries if posixpath.dirname(e.path) == folder})
    answers.add(ListAnswer(path=normal(folder), status=Status.OK, names=names, filtered_by=pattern))


def _add_directory(answers: Answers, path: str, entries: list[StatAnswer], invocation: Invocation) -> None:
    names = sorted({entry.path for entry in entries if "/" not in entry.path and entry.path not in (".", "..")})
    cut = "(cut)" if invocation.cut else None
    answers.add(
        ListAnswer(path=normal(path), status=Status.OK, names=names, filtered_by=invocation.filtered_by or cut)
    )
    for entry in entries:
        if entry.path in names:
            renamed = posixpath.join(normal(path), entry.path)
            answers.add(
                StatAnswer(**{f: getattr(entry, f) for f in entry.__struct_fields__ if f != "path"}, path=renamed)
            )


def _which(answers: Answers, names: list[str], lines: list[Line]) -> bool:
    """Where each program is; not shown means not on the PATH."""
    for name in names:
        hits = [
            line
            for line in lines
            if re.search(rf"(?:^|[ /]){re.escape(name)}$", line.text)
            and "/" in line.text
            and "no " not in line.text[:4]
        ]
        status = Status.OK if hits else Status.NOT_FOUND
        text = hits[0].text if hits else ""
        numbers = [line.number for line in hits[:1]]
        answers.add(CommandAnswer(argv=("which", name), status=status, stdout=text, line_numbers=numbers))
    return bool(names)
