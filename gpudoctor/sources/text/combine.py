"""Several pasted outputs of one command are one answer: each grep of a log shows other lines, each section of -q others."""

from __future__ import annotations

import msgspec

from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Status
from gpudoctor.sources.foreign import lspci
from gpudoctor.sources.stored import Answers

_Numbered = list[tuple[int, str]]
_GPU = Lazy(r"^\s*GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:")
# Their lines belong together; two of them side by side are not one output.
_NOT_BY_LINE = frozenset(
    {known.NVIDIA_SMI, known.NVIDIA_SMI_XML, known.NVIDIA_SMI_TOPO, known.TORCH_CHECK, known.COLLECT_ENV}
)


def merge(answers: Answers, more: Answers) -> None:
    """Adds `more`, which was pasted later. Parts of one output are put together; of two whole ones the later counts."""
    for argv, later in more.commands.items():
        before = answers.commands.get(argv)
        both = before is not None and before.status is Status.OK and later.status is Status.OK
        if before is not None and both:
            answers.commands[argv] = _both(before, later)
        else:
            answers.add(later)
    for path, later_file in more.files.items():
        before_file = answers.files.get(path)
        both = before_file is not None and before_file.status is Status.OK and later_file.status is Status.OK
        if before_file is not None and both:
            answers.files[path] = _files(before_file, later_file)
        else:
            answers.add(later_file)
    answers.merge(msgspec.structs.replace(more, commands={}, files={}))


def _is_part(answer: CommandAnswer | FileAnswer) -> bool:
    return answer.truncated or answer.filtered_by is not None


def _both(before: CommandAnswer, later: CommandAnswer) -> CommandAnswer:
    if later.argv == known.NVIDIA_SMI_QUERY_GPU:
        return _columns(before, later)
    if later.argv == known.SINFO and _heading(before) != _heading(later):
        # the states of `sinfo` and the reasons of `sinfo -R` are about the same nodes; the later one is read first
        lines = [*_lines(later), *_lines(before)]
        return _with_lines(later, lines, None, cut=_is_part(before) or _is_part(later))
    if not _is_part(later):
        return later
    if not _is_part(before) or later.argv in _NOT_BY_LINE:
        return before
    if later.argv == known.NVIDIA_SMI_Q:
        return _with_lines(before, _sections(_lines(before), _lines(later)), None, cut=True)
    if later.argv in (known.LSPCI, known.LSPCI_VVV) and not (
        lspci.recognise(before.stdout) and lspci.recognise(later.stdout)
    ):
        return before if lspci.recognise(before.stdout) else later
    filtered, cut = _claims(before, later)
    return _with_lines(before, sorted({*_lines(before), *_lines(later)}), filtered, cut=cut)


def _heading(answer: CommandAnswer) -> list[str]:
    return answer.stdout.lstrip().partition("\n")[0].split()


def _files(before: FileAnswer, later: FileAnswer) -> FileAnswer:
    if not _is_part(later):
        return later
    if not _is_part(before):
        return before
    filtered, cut = _claims(before, later)
    lines = sorted({*_numbered(before.text, before.line_numbers), *_numbered(later.text, later.line_numbers)})
    text = "\n".join(line for _, line in lines)
    numbers = [number for number, _ in lines]
    # A cut file is partial as well as a filtered one: readers of files look at `truncated` alone.
    return FileAnswer(
        path=later.path,
        status=Status.OK,
        text=text + "\n" if text else "",
        truncated=cut or filtered is not None,
        filtered_by=filtered,
        line_numbers=numbers,
    )


def _claims(before: CommandAnswer | FileAnswer, later: CommandAnswer | FileAnswer) -> tuple[str | None, bool]:
    """What both together show all lines of, and whether they show all of nothing.

    A pattern claims that other lines with it do not exist, unless its output was also cut (head, an excerpt).
    """
    whole = isinstance(before, FileAnswer)  # files are marked truncated where they are filtered
    both = (before, later)
    complete = [a.filtered_by for a in both if a.filtered_by and (whole or not a.truncated)]
    simple = [pattern for pattern in complete if " && " not in pattern]
    if complete:
        return "|".join(dict.fromkeys(simple)) or complete[0], False
    patterns = [a.filtered_by for a in both if a.filtered_by]
    return ("|".join(dict.fromkeys(patterns)) if len(patterns) == 2 else None), True


def _numbered(text: str, numbers: list[int] | None) -> _Numbered:
    lines = text.removesuffix("\n").split("\n") if text else []
    return list(zip(numbers or range(1, len(lines) + 1), lines, strict=False))


def _lines(answer: CommandAnswer) -> _Numbered:
    return _numbered(answer.stdout, answer.line_numbers)


def _with_lines(answer: CommandAnswer, lines: _Numbered, filtered: str | None, *, cut: bool) -> CommandAnswer:
    return msgspec.structs.replace(
        answer,
        stdout="\n".join(line for _, line in lines),
        line_numbers=[number for number, _ in lines],
        filtered_by=filtered,
        truncated=cut,
    )


def _sections(before: _Numbered, later: _Numbered) -> _Numbered:
    """The sections of another `nvidia-smi -q -d X`, each under its GPU."""
    groups = _by_gpu(before)
    for name, lines in _by_gpu(later).items():
        if name == "":
            # Without a GPU's heading it is only sections; else the head that every output has.
            groups.setdefault("", []).extend(lines if len(_by_gpu(later)) == 1 else [])
        else:
            groups.setdefault(name, lines[:1]).extend(lines[1:])
    return [line for lines in groups.values() for line in lines]


def _by_gpu(lines: _Numbered) -> dict[str, _Numbered]:
    groups: dict[str, _Numbered] = {"": []}
    name = ""
    for line in lines:
        if _GPU.match(line[1]):
            name = line[1].strip()
        groups.setdefault(name, []).append(line)
    return groups


def _columns(before: CommandAnswer, later: CommandAnswer) -> CommandAnswer:
    """Two CSV queries over the same GPUs are one with the fields of both."""
    first, second = _lines(before), _lines(later)
    if len(first) != len(second) or before.truncated or later.truncated:
        return before if len(first) >= len(second) else later
    have = [field.strip() for field in first[0][1].split(",")]
    names = [field.strip() for field in second[0][1].split(",")]
    rows = [row.split(",") for _, row in second]
    new = [i for i, name in enumerate(names) if name not in have and all(len(row) == len(names) for row in rows)]
    lines = [
        (number, ", ".join([row, *(more[i].strip() for i in new)]))
        for (number, row), more in zip(first, rows, strict=True)
    ]
    return _with_lines(before, lines, None, cut=False)
