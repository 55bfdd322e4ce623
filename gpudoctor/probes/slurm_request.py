"""What a job asked Slurm for: a pasted batch script, `srun`, `salloc` and `sbatch` commands, and the job's own record."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence

import msgspec

from gpudoctor.facts import Document, Evidence, SlurmRequest
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import quote_document
from gpudoctor.probes.slurm_values import gres_gpus, tres_gpus

_MOST_CHARACTERS = 400_000  # of one text are read
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


def read_request(documents: Sequence[Document]) -> SlurmRequest | None:
    """The request of the one job that the texts speak of; None where they hold none."""
    found: dict[str, object] = {}
    evidence: dict[str, Evidence] = {}
    asked = False
    anywhere = False
    for document in documents:
        if document.part:
            continue
        text = document.text[:_MOST_CHARACTERS]
        if not any(word in text for word in _WORDS):
            continue
        seen = _read(document, text.splitlines(), found, evidence)
        asked = asked or seen
        anywhere = anywhere or _GPUS.search(_NO_GPUS.sub("", text)) is not None
    if asked:
        found["gpus"] = anywhere
        found.setdefault("ignored", False)
    if not found:
        return None
    return msgspec.convert(found | {"evidence": evidence}, SlurmRequest)


def _read(document: Document, lines: list[str], found: dict[str, object], evidence: dict[str, Evidence]) -> bool:
    """Collects what the lines of one text say; whether they hold a request."""
    asked = False
    of_node = any("CfgTRES=" in line for line in lines)
    inside = False  # below a command whose output shows what the job sees
    devices: set[int] = set()
    script = False  # inside a batch script, and
    begun = False  # below its first command
    prompt = ""  # the last prompt's host, and
    allocated_at: str | None = None  # that above salloc's message
    for index, line in _joined(lines):
        if len(line) > 2000:
            continue
        if _SRUN.match(line):
            found["by_srun"] = True
        shell = _PROMPT.match(line)
        prompt = shell[1] if shell else prompt
        if _SALLOC_GRANTED.match(line):
            allocated_at = prompt
        elif (allocated_at is not None or shell) and _GOES_THERE.search(line):
            found["shell_stayed"] = False
        elif allocated_at and shell and "shell_stayed" not in found:
            found["shell_stayed"] = prompt == allocated_at
            evidence["shell_stayed"] = quote_document(document, index)
        if _SHEBANG.match(line):
            script, begun = True, False
        directive = _DIRECTIVE.match(line)
        command = None if directive else _COMMAND.match(line)
        options = directive[1] if directive else command[2] if command else None
        if options is not None and (directive or (command and command[1] == "salloc") or _allocates(options)):
            asked = True
            for name, value in _options(options).items():
                if name not in found or directive is None:
                    found[name] = value
                    evidence[name] = quote_document(document, index)
        if command and options is not None:
            inside = _INSIDE.search(options) is not None
        shown = _SHOWN.match(line) if inside else None
        if shown:
            devices.add(int(shown[1] or shown[2]))
            found["gpus_shown"] = len(devices)
            evidence["gpus_shown"] = quote_document(document, index)
        if directive and script and begun and _GPUS.search(line):
            found["ignored"] = True
            evidence["ignored"] = quote_document(document, index)
        if script and not begun and line.strip() and not line.lstrip().startswith("#"):
            begun = True
        launcher = _LAUNCHER.match(line)
        if launcher and "launcher" not in found:
            found["launcher"] = (
                re.split(r"\s", launcher["program"])[0] if "-m" not in launcher["program"] else "torchrun"
            )
            found.setdefault("by_srun", launcher["srun"] is not None)
            evidence["launcher"] = quote_document(document, index)
        if _WAITS.search(line):
            found["waiting"] = True
            evidence["waiting"] = quote_document(document, index)
        elif "waiting" in found and _GRANTED.search(line):
            found["waiting"] = False
        tres = _JOB_TRES.search(line)
        if tres and not (of_node and "AllocTRES=" in line):
            gpus = tres_gpus(tres[1])
            if "job_gpus" not in found or gpus:
                found["job_gpus"] = gpus
                evidence["job_gpus"] = quote_document(document, index)
    return asked


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
