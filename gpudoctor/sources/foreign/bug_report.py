"""nvidia-bug-report.log: split on its headings into the requests whose outputs it holds.

Headings, over all versions of the script (2009 to now) and in any language:

    *** /proc/driver/nvidia/./version           a file; `*** ls:` below it holds its metadata
    *** /proc/pci does not exist
    /usr/bin/nvidia-smi --query                 a command
    dmesg:                                      a command, old style
    ____________________________________________
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, StatAnswer, Status
from gpudoctor.sources.foreign import nvidia_smi, small_files
from gpudoctor.sources.foreign.answer import Found, command, file
from gpudoctor.sources.foreign.listing import stat_of_line

KIND = DocumentKind.FILE

_START = Lazy(r"^Start of NVIDIA bug report log file|^nvidia-bug-report\.sh Version:", re.MULTILINE)
_RULE = Lazy(r"_{30,}\s*$")
_FILE = Lazy(r"\*\*\* (?P<path>/.*?)(?P<gone> does not exist)?\s*$")
_LS = Lazy(r"\*\*\* ls: (?P<line>.*)$")
_OLD_FILE = Lazy(r"(?P<path>/(?:etc|proc|sys|var)/[\w./:+-]+)\s*$")
# Sections begin at the line start with a program's path; only those whose output is asked for are told apart.
_COMMAND = Lazy(
    r"(?:timeout \d+ )?(?:/[\w./-]*/)?(?P<tool>nvidia-smi|lspci|modinfo|systemctl|journalctl|dkms|lsmod|ibstat|nvidia-imex-ctl|uname|dpkg|rpm|numactl"
    r"|coredumpctl|dmidecode|lsusb|nvidia-debugdump|base64|vulkaninfo|acpidump|xset|nvidia-settings|xrandr|mst|ibnetdiscover|iblinkinfo|ibswitches|mlxlink|ldd|gcc|glxinfo)"
    r"(?P<rest>(?: [-\w\"*.,:=+@/|]+)*)(?P<colon>:?)\s*$"
)
_SCAN = Lazy(r"Scanning kernel log files for NVIDIA kernel messages")
_SCANNED = Lazy(r"^  (?P<name>/var/log/\S+|journalctl -b -?\d+):\s*$")
_BASE64 = Lazy(r"[A-Za-z0-9+/]{60,}={0,2}\s*$")
_UNAME = Lazy(r"^uname: (?P<line>Linux \S+ \S+ .*)$", re.MULTILINE)
_GREPPED_PARAMETER = Lazy(r"^(/sys/module/\w+/parameters/\w+):(.*)$")
_SECTION_LIMIT = 4 * 1024 * 1024


class Section:
    """A heading with its lines and where they begin (1-based)."""

    def __init__(self, heading: str, first: int) -> None:
        self.heading = heading
        self.first = first
        self.lines: list[str] = []
        self.size = 0

    def add(self, line: str) -> None:
        if self.size < _SECTION_LIMIT:
            self.lines.append(line)
            self.size += len(line) + 1

    @property
    def text(self) -> str:
        return "\n".join(self.lines).rstrip("\n")

    @property
    def numbers(self) -> list[int]:
        return list(range(self.first, self.first + self.text.count("\n") + 1))


def recognise(text: str) -> bool:
    """Whether it begins as the script's output does; a report that lost its beginning still has its headings."""
    head = text[:65536]
    return _START.search(head) is not None or len(re.findall(r"^\*\*\* ls: ", head, re.MULTILINE)) > 3


def sections(text: str) -> Iterator[Section]:
    """Every section in order. Base64 is dropped."""
    current = Section("", 1)
    fresh = True  # right after a rule, where a heading is due
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        if _RULE.match(line):
            yield current
            current, fresh = Section("", number + 1), True
            continue
        is_file = _FILE.match(line)
        if is_file or _is_heading(line, fresh):
            yield current
            current, fresh = Section(line.strip(), number + 1), False
            continue
        if fresh and line.strip():
            current, fresh = Section(line.strip(), number + 1), False
            current.add("")  # keeps text such as a report's own summary out of the way
            current.first = number
            current.lines[-1] = line
            continue
        if not _BASE64.match(line):
            current.add(line)
        elif current.lines:
            current.add("")
    yield current


def _is_heading(line: str, fresh: bool) -> bool:
    if fresh and (line.startswith("dmesg:") or _SCAN.match(line) or _OLD_FILE.match(line)):
        return True
    match = _COMMAND.match(line)
    return match is not None and (fresh or (line.startswith("/") and not match["colon"]))


def requests(text: str) -> Found:
    """All the requests that the report's sections answer; line numbers are those of the report."""
    found: Found = {}
    match = _UNAME.search(text[:65536])
    if match is not None:
        line = text.count("\n", 0, match.start()) + 1
        found |= command(known.UNAME_A, match["line"].strip(), lines=[line])
    for section in sections(text):
        found |= {request: answer for request, answer in _answers(section).items() if request not in found}
    return found


def _answers(section: Section) -> Found:
    heading = section.heading
    is_file = _FILE.match(heading)
    if is_file is not None:
        return _file_answers(is_file["path"], is_file["gone"] is not None, section)
    if heading.startswith("dmesg:"):
        text = section.text.strip("\n")
        lead = len(section.text) - len(section.text.lstrip("\n"))
        return (
            command(known.DMESG, text, lines=[n + lead for n in section.numbers][: text.count("\n") + 1])
            if text
            else {}
        )
    if _SCAN.match(heading):
        return _scanned(section)
    if _GREPPED_PARAMETER.match(heading):
        return _parameters([heading, *section.lines])
    if _OLD_FILE.match(heading):
        return file(_plain(heading), section.text, lines=section.numbers)
    match = _COMMAND.match(heading)
    return _command_answers(match["tool"], match["rest"].split(), section) if match else {}


def _file_answers(path: str, gone: bool, section: Section) -> Found:
    path = _plain(path)
    if gone:
        return {path: FileAnswer(path=path, status=Status.NOT_FOUND)}
    lines = section.lines
    metadata: StatAnswer | None = None
    first = section.first
    if lines and (ls := _LS.match(lines[0])):
        metadata = stat_of_line(ls["line"], path)
        lines, first = lines[1:], first + 1
    text = "\n".join(lines).rstrip("\n")
    numbers = list(range(first, first + text.count("\n") + 1))
    found = file(path, text + "\n" if text else "", lines=numbers)
    if metadata is not None:
        found[f"stat {path}"] = metadata
    return found


def _scanned(section: Section) -> Found:
    """NVIDIA lines of log files and of up to three boots. Those of this boot are the journal, the rest is history."""
    groups: dict[str, tuple[list[str], list[int]]] = {}
    name = ""
    for number, line in zip(range(section.first, section.first + len(section.lines)), section.lines, strict=True):
        heading = _SCANNED.match(line)
        if heading is not None:
            name = heading["name"]
        elif name and line.strip():
            lines, numbers = groups.setdefault(name, ([], []))
            lines.append(line)
            numbers.append(number)
    found: Found = {}
    for name, (lines, numbers) in groups.items():
        text = "\n".join(lines)
        if name.endswith(" -0"):
            found |= command(known.JOURNAL_KERNEL, text, filtered_by="NVRM|nvidia-", lines=numbers)
        elif name.startswith("journalctl"):
            found |= command(
                ("journalctl", "-k", "-b", name.split()[-1]), text, filtered_by="NVRM|nvidia-", lines=numbers
            )
        elif name == "/var/log/dmesg":
            found |= file(name, text, lines=numbers, partial=True)
        else:
            found |= command(known.SYSLOG, text, filtered_by="NVRM|nvidia-", lines=numbers)
    return found


def _parameters(lines: list[str]) -> Found:
    found: Found = {}
    for line in lines:
        match = _GREPPED_PARAMETER.match(line)
        if match is not None:
            found |= file(match[1], match[2] + "\n")
    return found


def _command_answers(tool: str, arguments: list[str], section: Section) -> Found:
    text, numbers = section.text, section.numbers
    lead = len(text) - len(text.lstrip("\n"))
    text, numbers = text[lead:], numbers[lead:]
    if not text.strip() and tool != "systemctl":
        return {}
    if tool == "nvidia-smi":
        return _nvidia_smi(arguments, text, numbers)
    if tool == "lspci":
        return _lspci(" ".join(arguments), text, numbers)
    if tool == "modinfo" and arguments:
        filtered = "vermagic" if "grep" in arguments else None
        return command(("modinfo", arguments[0]), text, filtered_by=filtered, lines=numbers)
    if tool == "systemctl":
        return _units(text, section.first)
    if tool == "ibstat" and not arguments:
        return command(known.IBSTAT, text, lines=numbers)
    if tool == "dkms":
        return command(known.DKMS_STATUS, text, lines=numbers)
    if tool in ("lsmod", "nvidia-imex-ctl", "dpkg", "rpm"):
        return command((tool, *arguments), text, lines=numbers)
    return {}


def _units(text: str, first: int) -> Found:
    """`systemctl status` of several units, with the report's line numbers."""
    return {
        request: msgspec.structs.replace(answer, line_numbers=[n + first - 1 for n in answer.line_numbers or []])
        for request, answer in small_files.units(text).items()
        if isinstance(answer, CommandAnswer)
    }


def _nvidia_smi(arguments: list[str], text: str, numbers: list[int]) -> Found:
    failed = nvidia_smi.is_error(text)
    status = Status.FAILED if failed else Status.OK
    if arguments in (["--query"], ["-q"]):
        found = command(known.NVIDIA_SMI_Q, text, status=status, lines=numbers)
        return found | (command(known.NVIDIA_SMI, text, status=status, lines=numbers) if failed else {})
    if arguments in (["-q", "-x"], ["--query", "--xml-format"]):
        return command(known.NVIDIA_SMI_XML, text, status=status, lines=numbers)
    if arguments in (["nvlink", "--status"], ["nvlink", "-s"]):
        return command(known.NVIDIA_SMI_NVLINK, text, status=status, lines=numbers)
    if not arguments:
        return command(known.NVIDIA_SMI, text, status=status, lines=numbers)
    return command(("nvidia-smi", *arguments), text, status=status, lines=numbers)


def _lspci(arguments: str, text: str, numbers: list[int]) -> Found:
    """-nn names the devices; -nnDvvvxxxx has it all; the old script shows NVIDIA's devices with -v -xxx only."""
    only_nvidia = "10de" in arguments
    if "t" in arguments.replace("-d", "").split('"')[0] or "10b5" in arguments:
        return {}
    if "vv" in arguments or only_nvidia:
        return command(known.LSPCI_VVV, text, partial=only_nvidia, lines=numbers)
    return command(known.LSPCI, text, lines=numbers)


def _plain(path: str) -> str:
    return re.sub(r"/(?:\./)+", "/", path.strip())


def is_history(request: object) -> bool:
    """Logs of earlier boots: facts for repetition, but no messages of the present."""
    return isinstance(request, tuple) and (
        request == known.SYSLOG or (request[:3] == ("journalctl", "-k", "-b") and len(request) == 4)
    )
