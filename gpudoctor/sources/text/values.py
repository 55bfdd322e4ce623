"""Pasted commands that print a single value or a few: environment, limits, memory, a module's field, CSV queries, Python."""

from __future__ import annotations

import re

from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import CommandAnswer, Status
from gpudoctor.sources.environment import is_gpu_related
from gpudoctor.sources.foreign import kernel_log
from gpudoctor.sources.stored import Answers
from gpudoctor.sources.text.blocks import Block
from gpudoctor.sources.text.clean import Line
from gpudoctor.sources.text.shell import Invocation

_VARIABLE = Lazy(r"^(?:export |declare -x )?(?P<name>[A-Za-z_]\w*)=(?P<value>.*)$")
_LIMITS = {"-l": "max locked memory           (kbytes, -l)", "-n": "open files                          (-n)", "-v": "virtual memory          (kbytes, -v)", "-u": "max user processes                  (-u)", "-s": "stack size                  (kbytes, -s)"}  # fmt: skip
_SIZES = {"": 1 / 1024, "B": 1 / 1048576, "K": 1 / 1024, "M": 1, "G": 1024, "T": 1048576}
_ASKS_FRAMEWORK = Lazy(
    r"\b(?:torch|tensorflow|tf|jax|jaxlib|cupy|numba|pycuda|paddle|mxnet|onnxruntime|transformers|bitsandbytes|keras|llama_cpp)\b"
)


def add(answers: Answers, invocation: Invocation, lines: list[Line], prompt: Line) -> bool:
    """Adds what such a command says; False when it is another command."""
    name, arguments = invocation.argv[0], invocation.argv[1:]
    if name in ("env", "printenv", "export", "set") and not invocation.rewritten:
        return _environment(answers, invocation, lines)
    if name == "echo" and len(arguments) == 1:
        return _echo(answers, arguments[0], lines)
    if name == "ulimit" and len(arguments) == 1 and arguments[0] in _LIMITS and len(lines) == 1:
        return _put(
            answers, known.ULIMIT, [Line(lines[0].number, f"{_LIMITS[arguments[0]]} {lines[0].text.strip()}")]
        )
    if name == "free" and arguments not in (("-m",), ("--mebi",)):
        return _put(
            answers, known.FREE, [Line(line.number, _in_mib(line.text, arguments)) for line in lines], partial=False
        )
    if name == "modinfo" and arguments[:1] in (("-F",), ("--field",)) and len(arguments) == 3:
        module = re.sub(r"^nvidia[-_](?:current|tesla)[\w.-]*$", "nvidia", arguments[2])
        return _put(
            answers,
            ("modinfo", module),
            [Line(line.number, f"{arguments[1]}:        {line.text.strip()}") for line in lines],
        )
    if name == "nvidia-smi" and any(re.match("--query-(?:gpu|(?:compute-)?apps)", a) for a in arguments):
        return _query(answers, invocation, lines, prompt)
    if name == "systemctl" and arguments[:1] in (("is-active",), ("is-failed",)) and len(arguments) == len(lines) + 1:
        for unit, line in zip(arguments[1:], lines, strict=True):
            _put(
                answers,
                (*known.SYSTEMCTL_STATUS, unit.removesuffix(".service")),
                [Line(line.number, f"     Active: {line.text.strip()}")],
            )
        return True
    if name in ("python", "python3", "python2") and arguments[:1] == ("-c",) and len(arguments) > 1:
        return _put(answers, known.TORCH_CHECK, [Line(prompt.number, f">>> {arguments[1]}"), *lines], partial=False)
    return False


def _put(
    answers: Answers, argv: tuple[str, ...], lines: list[Line], *, partial: bool = True, status: Status = Status.OK
) -> bool:
    text = "\n".join(line.text for line in lines)
    numbers = [line.number for line in lines]
    answers.add(CommandAnswer(argv=argv, status=status, stdout=text, truncated=partial, line_numbers=numbers))
    return True


def _environment(answers: Answers, invocation: Invocation, lines: list[Line]) -> bool:
    arguments = invocation.argv[1:]
    environment = dict(answers.environment or {})
    if arguments and "=" in arguments[0]:
        return False  # export A=B sets
    if arguments and invocation.argv[0] == "printenv":
        values = [line.text for line in lines if line.text.strip()]
        if len(values) == len(arguments):
            environment |= {n: v for n, v in zip(arguments, values, strict=True) if is_gpu_related(n)}
            answers.environment = environment
        return True
    for line in lines:
        match = _VARIABLE.match(line.text.strip())
        if match is not None and is_gpu_related(match["name"]):
            environment[match["name"]] = match["value"].strip("'\"")
    answers.environment = environment
    text = "\n".join(line.text for line in lines)
    answers.add(
        CommandAnswer(
            argv=known.ENV,
            status=Status.OK,
            stdout=text,
            truncated=invocation.cut,
            filtered_by=invocation.filtered_by,
            line_numbers=[line.number for line in lines],
        )
    )
    return True


def _echo(answers: Answers, argument: str, lines: list[Line]) -> bool:
    """echo $NAME: an empty line is an empty or unset variable."""
    match = re.fullmatch(r"\"?\$\{?([A-Za-z_]\w*)\}?\"?", argument)
    if match is None or len(lines) > 1:
        return False
    if is_gpu_related(match[1]) and lines:
        answers.environment = {**(answers.environment or {}), match[1]: lines[0].text.strip()}
    return True


def _in_mib(line: str, arguments: tuple[str, ...]) -> str:
    """A line of `free` with its sizes as whole MiB, as `free -m` prints them."""
    if not re.match(r"\s*(?:Mem|Swap|Total|-/\+)", line):
        return line
    unit = {"-b": "B", "-k": "K", "-g": "G", "-t": "K"}.get(arguments[0] if arguments else "-k", "K")

    def convert(match: re.Match[str]) -> str:
        size = match[2] or ("" if "-h" not in " ".join(arguments) else "B")
        factor = _SIZES[size if size else unit]
        return str(round(float(match[1]) * factor)).rjust(len(match.group()))

    return re.sub(r"(?<![\w.])(\d+(?:\.\d+)?)([KMGTB]?)i?B?(?![\w.])", convert, line)


def _query(answers: Answers, invocation: Invocation, lines: list[Line], prompt: Line) -> bool:
    """CSV of --query-gpu or --query-compute-apps, always with a header line: without one in the paste, the command names the fields."""
    text = " ".join(invocation.argv)
    fields = re.search(r"--query-(?:gpu|((?:compute-)?apps))[= ](\S+)", text)
    if fields is None or "csv" not in text or invocation.rewritten:
        return False
    shown = [line for line in lines if line.text.strip() and not kernel_log.BARE_LINE.match(line.text)]
    if invocation.repeats:
        matches = [(line.number, re.match(r"\s*(\d+) (.*)", line.text)) for line in shown]
        shown = [
            Line(number, match[2]) for number, match in matches if match for _ in range(min(int(match[1]), 1024))
        ]
    if "noheader" in text or not (shown and re.match(rf"\s*{re.escape(fields[2].split(',')[0])}", shown[0].text)):
        shown = [Line(prompt.number, ", ".join(fields[2].split(","))), *shown]
    if len(shown) == 1:
        return False
    looped = re.search(r"(?:^| )(?:-l|-lms|--loop(?:-ms)?)(?:[= ]\d|\d| |$)", text) is not None
    partial = invocation.cut or invocation.filtered_by is not None or looped or "-i" in invocation.argv
    request = known.NVIDIA_SMI_QUERY_APPS if fields[1] else known.NVIDIA_SMI_QUERY_GPU
    return _put(answers, request, shown, partial=partial)


def python_session(blocks: list[Block], own: list[Answers]) -> CommandAnswer | None:
    """All pasted Python as one answer, `python -c` included: `>>> code` lines, each with what it printed."""
    lines: list[Line] = []
    for block, answers in zip(blocks, own, strict=True):
        checked = answers.commands.get(known.TORCH_CHECK)
        if checked is not None:
            lines += [
                Line(*pair) for pair in zip(checked.line_numbers or [], checked.stdout.split("\n"), strict=False)
            ]
        elif block.python and block.line is not None:
            code = (block.command or "").split("\n")
            lines.append(Line(block.line.number, f">>> {code[0]}"))
            lines += [Line(block.line.number, f"... {more}") for more in code[1:]]
            lines += block.trimmed()
    if not any(_ASKS_FRAMEWORK.search(line.text) for line in lines):
        return None
    text = "\n".join(line.text for line in lines)
    numbers = [line.number for line in lines]
    return CommandAnswer(argv=known.TORCH_CHECK, status=Status.OK, stdout=text, line_numbers=numbers)
