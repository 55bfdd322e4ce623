"""A block of a paste (a command and its output) as answers to the canonical requests."""

from __future__ import annotations

import re

from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import CommandAnswer, Status
from gpudoctor.sources.foreign import kernel_log, nvidia_smi, small_files
from gpudoctor.sources.stored import Answers
from gpudoctor.sources.text import places, values
from gpudoctor.sources.text.blocks import Block
from gpudoctor.sources.text.clean import Line
from gpudoctor.sources.text.requests_of import meaning
from gpudoctor.sources.text.shell import Invocation, inner, parse

_NOT_FOUND = Lazy(
    r"(?:^|[:\s])(?P<program>[\w.+/-]+): (?:command )?not found\b|^[Cc]ommand '(?P<ubuntu>[\w.+-]+)' not found|^zsh: command not found: (?P<zsh>\S+)"
    r"|bash: (?P<bash>[\w./+-]+): No such file or directory|'(?P<windows>[\w.-]+)' is not recognized|program '(?P<old>[\w.+-]+)' is currently not installed",
    needs=("not found", "No such file", "not recognized", "not installed"),
)
_FAILED = Lazy(
    r"^(?:[\w.+-]+: )?(?:error|fatal|ERROR|FATAL|Error|E)[:!]\s|^(?:docker: |ERROR: )?Error response from daemon|^(?:\S+: ){1,3}(?:Operation not permitted|[Pp]ermission denied)"
    r"|^(?:Got )?permission denied|^(?:ERROR: )?Cannot connect to|^Unit \S+ could not be found|^[\w-]+: (?:cannot |ERROR|FATAL)|^\S+: \S+: No such file or directory|^Failed to |^Error from server"
)


def answers_of(block: Block) -> Answers:
    """What a block with a command answers. A command elsewhere (container, other host) says nothing of this machine."""
    answers = Answers()
    if block.command is None or block.line is None:
        return answers
    if block.python:
        return answers  # see values.python_session: all of a session is one answer
    found = parse(block.command)
    lines = block.trimmed()
    if block.container:
        if len(found) == 1:
            answers.add(_command(("docker-run", *found[0].argv), lines, filtered_by=found[0].filtered_by))
        return answers
    if len(found) == 1:
        _one(answers, found[0], lines, block.line)
    elif len(found) > 1 and all(invocation.elsewhere is None for invocation in found):
        _several(answers, found, lines, block.line)
    elif found:
        answers.add(_command((found[0].elsewhere or "several", *found[0].argv), lines))
    return answers


def _several(answers: Answers, found: list[Invocation], lines: list[Line], prompt: Line) -> None:
    """`a; b`: a line for each where the numbers agree, else only what one of them prints alone."""
    filled = [line for line in lines if line.text.strip()]
    if len(filled) == len(found):
        for invocation, line in zip(found, filled, strict=True):
            _one(answers, invocation, [line], prompt)
    else:
        answers.add(_command(("several", *found[0].argv), lines))


def _one(answers: Answers, invocation: Invocation, lines: list[Line], prompt: Line) -> None:
    argv = invocation.argv
    if invocation.elsewhere is not None:
        inside = inner(argv) if invocation.elsewhere in ("docker-run", "kubectl-exec") else None
        filters = [i.filtered_by for i in (inside, invocation) if i is not None and i.filtered_by]
        place = (invocation.elsewhere, *(inside.argv if inside else argv))
        answers.add(_command(place, lines, filtered_by=" && ".join(filters) or None))
        return
    meant = meaning(argv)
    if _missing_program(argv[0], lines):
        for request in meant.requests:
            answers.add(_command(request, lines, status=Status.NOT_FOUND))
        return
    if places.add(answers, invocation, lines) or values.add(answers, invocation, lines, prompt):
        return
    filtered = " && ".join(p for p in (meant.filtered_by, invocation.filtered_by) if p) or None
    shown = _shown(invocation, lines)
    if shown is None:
        # Not the command's own lines: it must not pass for its output.
        key = "count" if invocation.counted else "piped"
        answers.add(_command((key, *argv), lines, partial=True, filtered_by=filtered))
        return
    partial = meant.partial or invocation.cut
    if argv[0] == "systemctl" and argv[1:2] == ("status",):
        _units(answers, meant.requests, shown, partial, filtered)
        return
    if argv[0] == "nvidia-smi":
        shown = [line for line in shown if not kernel_log.BARE_LINE.match(line.text)]
        whole = any(line.text.lstrip().startswith("| NVIDIA-SMI") for line in shown)
        failed = _status(argv, shown) is Status.FAILED
        partial |= meant.requests == (known.NVIDIA_SMI,) and bool(shown) and not whole and not failed
    for request in meant.requests:
        answers.add(_command(request, shown, partial=partial, filtered_by=filtered, status=_status(request, shown)))


def _units(
    answers: Answers, requests: tuple[tuple[str, ...], ...], lines: list[Line], partial: bool, filtered: str | None
) -> None:
    """`systemctl status a b`: each unit's own lines, by its heading or by its name in them."""
    text = "\n".join(line.text for line in lines)
    for request in requests:
        unit = f"{request[-1]}.service"
        own = lines
        if len(requests) > 1:
            found = small_files.units(text).get(request)
            if isinstance(found, CommandAnswer) and found.line_numbers:
                own = [lines[number - 1] for number in found.line_numbers]
            else:
                own = [line for line in lines if unit in line.text]
        status = _status(request, own)
        answers.add(_command(request, own, partial=partial, filtered_by=filtered, status=status))


def _shown(invocation: Invocation, lines: list[Line]) -> list[Line] | None:
    """The command's own lines; none for a count of zero; None where the pipe rewrote them."""
    if invocation.counted:
        return [] if [line.text.strip() for line in lines] == ["0"] and invocation.filtered_by else None
    if (
        invocation.awk is not None
        and invocation.argv[0] in ("dpkg", "dpkg-query")
        and re.search(r"\$2\W+\$3", invocation.awk)
    ):
        state = "" if re.search(r"\$1\W", invocation.awk) else "ii  "
        return [Line(line.number, f"{state}{line.text.strip()}") for line in lines]
    if invocation.rewritten:
        return None
    if invocation.repeats:
        matches = [(line.number, re.match(r"\s*(\d+) (.*)", line.text)) for line in lines]
        return [Line(number, match[2]) for number, match in matches if match for _ in range(min(int(match[1]), 1024))]
    if invocation.numbered:
        return [Line(line.number, re.sub(r"^\d+[:-]", "", line.text)) for line in lines]
    return lines


def _missing_program(name: str, lines: list[Line]) -> bool:
    """Whether the shell did not find this program."""
    for line in lines[:3]:
        match = _NOT_FOUND.search(line.text)
        if match is not None:
            said = next(group for group in match.groups() if group)
            return said.rsplit("/", 1)[-1] in (name, f"{name}.exe")
    return False


def _status(request: tuple[str, ...], lines: list[Line]) -> Status:
    text = "\n".join(line.text for line in lines[:20])
    if request[0] == "nvidia-smi":
        return Status.FAILED if nvidia_smi.is_error(text) else Status.OK
    if request in (known.DMESG, known.JOURNAL_KERNEL, known.SYSLOG):
        first = lines[0].text if lines else ""
        return (
            Status.FAILED
            if re.match(r"dmesg: |journalctl: |Hint: You are currently not seeing", first)
            else Status.OK
        )
    if request[0] in ("modprobe",):
        return Status.FAILED if lines else Status.OK
    return Status.FAILED if any(_FAILED.search(line.text) for line in lines[:3]) else Status.OK


def _command(
    argv: tuple[str, ...],
    lines: list[Line],
    *,
    status: Status = Status.OK,
    partial: bool = False,
    filtered_by: str | None = None,
) -> CommandAnswer:
    text = "\n".join(line.text for line in lines)
    return CommandAnswer(
        argv=argv,
        status=status,
        stdout=text,
        truncated=partial,
        filtered_by=filtered_by,
        line_numbers=[line.number for line in lines],
    )
