"""Kernel logs: dmesg in its forms, the journal, syslog files, crash records of pstore."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.foreign.answer import Found, command

KIND = DocumentKind.KERNEL_LOG

_ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
# Month names come in the host's language: Jun, ноя, 11月, Okt.
_SYSLOG_TIME = r"(?:(?:[^\W\d_]{3,5}\.?|\d{1,2}月)[ ]+\d{1,2}[ ](?:\d{4}[ ])?\d\d:\d\d:\d\d(?:\.\d+)?|" + _ISO + ")"
# [    0.000000]   [Mon Jan 20 10:18:26 2025]   <4>[  201.6]   kern  :err   : [..]   [   12.3][  T123]   [T123] ...
DMESG_LINE = Lazy(
    rf"""^\s*(?:
        (?:<\d+>)?\[\s*\d+\.\d{{3,9}}(?:,\d+)?\]
      | (?:<\d+>)?\[[A-Z][a-z]{{2}}\s+[A-Z][a-z]{{2}}\s+\d{{1,2}}\s\d\d:\d\d:\d\d\s\d{{4}}\]
      | (?:kern|user|daemon|auth|syslog|local\d)\s*:\s*(?:emerg|alert|crit|err|warn|warning|notice|info|debug)\s*:
      | {_ISO}\s(?:nvidia|NVRM|nvidia-\w+|pcieport|\w+\s[0-9a-f]{{4}}:[0-9a-f]{{2}}|kernel:|\[|usb|pci|ACPI|audit:|IPv6:|cgroup:|mce:|EDAC|EXT4-fs|mlx5_core|systemd)
    )""",
    re.VERBOSE,
)
SYSLOG_LINE = Lazy(rf"^(?:<\d+>)?{_SYSLOG_TIME}\s(?:\S+\s)?(?:kernel:|[\w./()@:-]+?(?:\[\d+\])?:)\s?")
KERNEL_IN_SYSLOG = Lazy(rf"^(?:<\d+>)?{_SYSLOG_TIME}\s(?:\S+\s)?kernel:", needs=("kernel:",))
_BARE_WORDS = (
    "kernel:", "NVRM: ", "nvidia: ", "nvidia-", "[drm", "pcieport ", "nouveau ", "AMD-Vi: ", "DMAR: ", "mce: [", "Out of memory: Kill", "oom-kill:",
    "Loading of ", "BUG: ", "Oops: ", "pci ", "nvidia ", "EDAC MC", "INFO: task ", "watchdog: BUG", "Kernel panic", "perf: interrupt took", "vfio-pci ",
)  # fmt: skip
# Lines without any time, or with that of the day only, as people paste them.
BARE_LINE = Lazy(
    r"^\s*(?:\d\d:\d\d:\d\d(?:[.,]\d+)?\s+)?(?:(?:[\w.-]+ )?kernel:\s|NVRM: |nvidia: (?:probe|loading|module|Loading|disagrees|version|Unknown symbol)|nvidia-(?:nvlink|uvm|modeset|drm|peermem|nvswitch\d*|gpu)(?: [0-9a-f:.]+)?: "
    r"|\[drm(?::\w+)?\]|pcieport [0-9a-f]{4}:|nouveau [0-9a-f]{4}:|AMD-Vi: |DMAR: |mce: \[|Out of memory: Kill|oom-kill:|Loading of (?:unsigned )?module|BUG: |Oops: |pci [0-9a-f]{4}:[0-9a-f]{2}:|vfio-pci [0-9a-f]{4}:"
    r"|nvidia [0-9a-f]{4}:[0-9a-f]{2}:|EDAC MC\d|INFO: task .* blocked for more than|watchdog: BUG|Kernel panic|perf: interrupt took)",
    needs=_BARE_WORDS,
)
_JOURNAL_HEAD = Lazy(r"^\s*(?:-- (?:Logs begin|Journal begins|Boot [0-9a-f]{32}|No entries|Reboot)|journalctl -b)")
_SHORT_ISO = Lazy(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}\s")
_HEAD_LINES = 400


def recognise(text: str) -> bool:
    """Whether most of the beginning are lines of a kernel or system log."""
    head = [line for line in text[:65536].split("\n")[:_HEAD_LINES] if line.strip()]
    if not head:
        return False
    logged = sum(1 for line in head if is_line(line))
    return (logged >= 1 and logged * 2 >= len(head)) or (logged >= 20 and logged * 4 >= len(head))


def is_line(line: str) -> bool:
    """Whether this is a line of a kernel or system log, in any form."""
    return bool(
        DMESG_LINE.match(line) or SYSLOG_LINE.match(line) or BARE_LINE.match(line) or _JOURNAL_HEAD.match(line)
    )


def requests(text: str) -> Found:
    """The whole text as the kernel log of the form it has."""
    return command(form(text), text)


def form(text: str) -> tuple[str, ...]:
    """Which request this log answers: dmesg, the kernel's journal, or a syslog file with other programs' lines."""
    head = [line for line in text[:65536].split("\n")[:_HEAD_LINES] if line.strip()]
    if any(_SHORT_ISO.match(line) or _JOURNAL_HEAD.match(line) for line in head):
        return known.JOURNAL_KERNEL
    if any(DMESG_LINE.match(line) and not SYSLOG_LINE.match(line) for line in head):
        return known.DMESG
    return known.SYSLOG if any(SYSLOG_LINE.match(line) for line in head) else known.DMESG
