"""What a job asked Slurm for: a pasted batch script, `srun`, `salloc` and `sbatch` commands, and the job's own record."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from gpudoctor.facts import Document, Evidence, SlurmRequest
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import Collected, quote_document
from gpudoctor.probes.slurm_values import gres_gpus, tres_gpus

_MOST_CHARACTERS = 400_000  # of one text are read
_LONGEST_LINE = 2000
_WORDS = ("SBATCH", "srun", "salloc", "sbatch", "TRES=")
_DIRECTIVE = Lazy(r"^\s*#SBATCH\s+(-.*)$", needs=("#SBATCH",))
_COMMAND = Lazy(r"^[^#]*?(?:^|[\s$#>;&|(])(srun|salloc|sbatch)((?:\s+\S+)*)\s*$", needs=("srun", "salloc", "sbatch"))
_SHEBANG = Lazy(r"^#!\s*/\S+", needs=("#!",))
# TRES=cpu=8,mem=64G,node=1,billing=8 - ReqTRES= and AllocTRES= of newer versions; CfgTRES= is a node's
_JOB_TRES = Lazy(r"(?:^|\s)(?:Alloc|Req)?TRES=(cpu=\S+)", needs=("TRES=cpu=",))
_GPUS = Lazy(
    r"--gres[= ]\S*gpu|--gpus?\b|--gpus-per-|--ntasks-per-gpu|--tres-per-\w+[= ]\S*gpu|(?:^|\s)-G\s*\S*\d|gres[/:]gpu|\bgpu:[\w.\-:]*\d"
    r"|\bgpus(?:_per_\w+)?\s*[:=]\s*\d|SLURM_(?:JOB_)?GPUS?\w*=\S*\d|\b[SR]BATCH_G(?:RES|PUS)",
    re.IGNORECASE,
)
_NO_GPUS = Lazy(r"--gres[= ]none|--(?:gres[= ]gpu[:=]|gpus(?:-per-\w+)?[= ])0\b", needs=("--g",))
_BEFORE_PROGRAM = r"^\s*(?:[$#>%]\s+)?(?:exec\s+|time\s+|nohup\s+)*(?:\w+=\S+\s+)*"
_LAUNCHER = Lazy(
    _BEFORE_PROGRAM + r"(?P<srun>srun\b.*?\s[\"'(]?)?(?:\S*/)?(?:uv run |poetry run |conda run \S+ \S+ )?"
    r"(?P<program>torchrun|accelerate launch|deepspeed|mpirun|mpiexec|python3?(?:\.\d+)?\s+-m\s+torch\.distributed\.(?:launch|run)"
    r"|python3?(?:\.\d+)?\s+(?:-u\s+)?\S+\.py)\b",
    needs=("torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "python"),
)
_INSIDE = Lazy(r"--pty\b|\bnvidia-smi\b", needs=("--pty", "nvidia-smi"))
_SHOWN = Lazy(r"^\s*GPU (\d{1,2}): .*\(UUID|^\|\s+(\d{1,2})\s+\S.*\b(?:On|Off)\s+\|", needs=("UUID", "On", "Off"))
_WAITS = Lazy(r"queued and waiting for resources", needs=("waiting for resources",))
_GRANTED = Lazy(r"has been allocated resources|Granted job allocation", needs=("allocat",))
_SRUN = Lazy(_BEFORE_PROGRAM + r"srun\s", needs=("srun",))
_SALLOC_GRANTED = Lazy(r"^\s*salloc: Granted job allocation", needs=("Granted job",))
_PROMPT = Lazy(
    r"^\s*(?:\([\w.\-]+\)\s*)?\[?[\w.\-]+@([\w.\-]+)(?:[:\s][^\]$#>%]{0,80})?\]?\s?[$#>%](?:\s|$)", needs=("@",)
)
_GOES_THERE = Lazy(
    r"(?:^|[\s$#>;&|(])(?:srun|ssh|mpirun|mpiexec|prun)\s", needs=("srun", "ssh", "mpirun", "mpiexec", "prun")
)
_VALUES = {
    "nodes": ("-N", "--nodes"),
    "tasks": ("-n", "--ntasks"),
    "tasks_per_node": ("--ntasks-per-node", "--tasks-per-node"),
}


class _Line(msgspec.Struct, frozen=True):
    document: Document
    index: int  # 0-based; of lines that a backslash continues the first's
    text: str

    @property
    def quote(self) -> Evidence:
        return quote_document(self.document, self.index)


def read_request(documents: Sequence[Document]) -> SlurmRequest | None:
    """The request of the one job that the texts speak of; None where they hold none."""
    texts = [_lines(document) for document in documents if not document.part]
    every = [line for text in texts for line in text]
    found = Collected()
    asked = _collect_options(every, found)
    _collect_launcher(every, found)
    _collect_waiting(every, found)
    for text in texts:
        _collect_ignored(text, found)
        _collect_shown(text, found)
        _collect_shell(text, found)
        _collect_record(text, found)
    if asked:
        found.set("gpus", any(_GPUS.search(_NO_GPUS.sub("", line.text)) for line in every))
        found.set("ignored", False)
    return found.build(SlurmRequest)


def _lines(document: Document) -> list[_Line]:
    text = document.text[:_MOST_CHARACTERS]
    if not any(word in text for word in _WORDS):
        return []
    return [_Line(document, index, line) for index, line in _joined(text.splitlines()) if len(line) <= _LONGEST_LINE]


def _request(line: str) -> tuple[str | None, str | None]:
    """The options of a directive, and those of a command (with its name before them)."""
    directive = _DIRECTIVE.match(line)
    command = None if directive else _COMMAND.match(line)
    return (directive[1] if directive else None), (command[1] + command[2] if command else None)


def _collect_options(lines: list[_Line], found: Collected) -> bool:
    """Counts that were asked for, a command's before a directive's; whether anything was."""
    asked = False
    by_directive = Collected()
    for line in lines:
        directive, command = _request(line.text)
        if directive is None and not (command and (command.startswith("salloc") or _allocates(command))):
            continue
        asked = True
        for name, value in _options(directive or command or "").items():
            if directive is not None:
                by_directive.set(name, value, line.quote)
            else:  # of several commands the last was tried last
                found.values[name], found.evidence[name] = value, line.quote
    for name, value in by_directive.values.items():
        found.set(name, value, by_directive.evidence[name])
    return asked


def _collect_launcher(lines: list[_Line], found: Collected) -> None:
    if any(_SRUN.match(line.text) for line in lines):
        found.set("by_srun", True)
    for line in lines:
        launcher = _LAUNCHER.match(line.text)
        if launcher:
            program = re.split(r"\s", launcher["program"])[0]
            found.set("launcher", "torchrun" if "-m" in launcher["program"] else program, line.quote)
            found.set("by_srun", launcher["srun"] is not None)
            return


def _collect_waiting(lines: list[_Line], found: Collected) -> None:
    waits: _Line | None = None
    granted = False
    for line in lines:
        if _WAITS.search(line.text):
            waits, granted = line, False
        elif waits is not None and _GRANTED.search(line.text):
            granted = True
    if waits is not None:
        found.set("waiting", not granted, waits.quote)


def _collect_ignored(lines: list[_Line], found: Collected) -> None:
    """A directive for GPUs below the first command of its script."""
    script = begun = False
    for line in lines:
        if _SHEBANG.match(line.text):
            script, begun = True, False
        elif begun and _DIRECTIVE.match(line.text) and _GPUS.search(line.text):
            found.set("ignored", True, line.quote)
        elif script and line.text.strip() and not line.text.lstrip().startswith("#"):
            begun = True


def _collect_shown(lines: list[_Line], found: Collected) -> None:
    """The GPUs of an nvidia-smi that ran in a step or an interactive job."""
    inside = False
    devices: set[int] = set()
    last: _Line | None = None
    for line in lines:
        _, command = _request(line.text)
        if command is not None:
            inside = _INSIDE.search(command) is not None
        elif inside and (shown := _SHOWN.match(line.text)):
            devices.add(int(shown[1] or shown[2]))
            last = line
    if last is not None:
        found.set("gpus_shown", len(devices), last.quote)


def _collect_shell(lines: list[_Line], found: Collected) -> None:
    """Whether the shell stayed on its host after salloc had its nodes."""
    host = ""  # the last prompt's, and
    allocated_at: str | None = None  # that above salloc's message
    after: tuple[bool, _Line] | None = None  # the first prompt below it
    for line in lines:
        shell = _PROMPT.match(line.text)
        host = shell[1] if shell else host
        if _SALLOC_GRANTED.match(line.text):
            allocated_at = host
        elif (allocated_at is not None or shell) and _GOES_THERE.search(line.text):
            found.set("shell_stayed", False)
        elif allocated_at and shell and after is None:
            after = (host == allocated_at, line)
    if after is not None:
        found.set("shell_stayed", after[0], after[1].quote)


def _collect_record(lines: list[_Line], found: Collected) -> None:
    """The GPUs of `scontrol show job`; a node's record has AllocTRES= too."""
    of_node = any("CfgTRES=" in line.text for line in lines)
    counts = [
        (tres_gpus(tres[1]), line)
        for line in lines
        if (tres := _JOB_TRES.search(line.text)) and not (of_node and "AllocTRES=" in line.text)
    ]
    if counts:
        gpus, line = next((one for one in reversed(counts) if one[0]), counts[0])
        found.set("job_gpus", gpus, line.quote)


def _joined(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Lines with their 0-based numbers; those that a backslash continues are one."""
    start, held = 0, ""
    for index, line in enumerate(lines):
        if not held:
            start = index
        if line.endswith("\\") and len(held) < 2000:
            held += line[:-1] + " "
            continue
        yield start, held + line
        held = ""
    if held:
        yield start, held


def _allocates(options: str) -> bool:
    """Whether an srun outside of a job is meant: it names a partition, an account, GPUs or wants a shell."""
    return (
        re.search(r"(?:^|\s)(?:-p\s?\S|--partition|--pty|-A\s?\S|--account|--gres|--gpus|-G\s?\d)", options)
        is not None
    )


def _options(text: str) -> dict[str, int]:
    """The counts among a request's options."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    values: dict[str, int] = {}
    for index, word in enumerate(words):
        after = words[index + 1] if index + 1 < len(words) else ""
        for name, options in _VALUES.items():
            for option in options:
                value = _value(word, option, after)
                if value:
                    values[name] = int(value)
        for option in ("--gres", "--gpus-per-node"):
            value = after if word == option else word[len(option) + 1 :] if word.startswith(option + "=") else ""
            gpus = gres_gpus(value) if option == "--gres" else _last_number(value)
            if gpus:
                values["gpus_per_node"] = gpus
    return values


def _value(word: str, option: str, after: str) -> str | None:
    if word == option:
        text = after
    elif option.startswith("--"):
        text = word[len(option) + 1 :] if word.startswith(option + "=") else ""
    else:
        text = word[len(option) :].lstrip("=") if word.startswith(option) and not word.startswith("--") else ""
    match = re.match(r"(\d{1,6})(?:-\d+)?$", text)
    return match[1] if match else None


def _last_number(text: str) -> int:
    match = re.search(r"(?:^|:)(\d{1,4})$", text)
    return int(match[1]) if match else 0
