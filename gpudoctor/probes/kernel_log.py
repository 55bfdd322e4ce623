"""The kernel log: Xids, SXids and other words of the driver, PCIe errors, memory and storage faults, panics.

Live, `dmesg` is read first; where it is denied, or has lost its beginning, the journal; last the files under /var/log. What a
recording or a ticket brings, it all is read: a line that stands in several of them counts once. A log without any
line that matters is an empty list for each; a log that could not be read leaves all of them unknown.
"""

from __future__ import annotations

import re2

from gpudoctor.facts import Kernel
from gpudoctor.lazy import Lazy
from gpudoctor.probes.kernel_bursts import LISTS, facts_of
from gpudoctor.probes.kernel_scan import Scan, scan_log
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Source, Status
from gpudoctor.sources.requests import DMESG, JOURNAL_KERNEL, SYSLOG

NAME = "kernel_log"
GROUP = "kernel"
TIMEOUT_SECONDS = 8.0
LOG_FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/syslog")
_MANY_BOOTS = (" ".join(SYSLOG), *LOG_FILES)
_SAVED_DMESG = ("/var/log/dmesg",)
_PSTORE = ("/sys/fs/pstore", "/var/lib/systemd/pstore")
# Earlier boots, as bug reports hold them.
_EARLIER = tuple(("journalctl", "-k", "-b", f"-{number}") for number in (1, 2, 3))
_SAMPLE_XID = "nvidia 0000:3b:00.0: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus."
_HEAD_LINES = 40


# What dmesg and journalctl say instead of a log.
_NO_LOG = Lazy(
    r"(?i)^\s*(?:dmesg: .*(?:failed|not permitted|denied)|hint: you are currently not seeing|(?:-- )?no (?:entries|journal files)"
    r"|users in groups|pass -q to turn off)|^\s*$"
)


class _Log:
    """One answer with text: where it came from, and what is known of its extent."""

    def __init__(self, answer: CommandAnswer | FileAnswer, boot: int | None, now: float | None) -> None:
        is_command = isinstance(answer, CommandAnswer)
        self.text = answer.stdout if isinstance(answer, CommandAnswer) else answer.text
        self.source = answer.request if isinstance(answer, CommandAnswer) else answer.path
        self.filtered_by = answer.filtered_by
        if self.filtered_by is not None and self.source in _MANY_BOOTS:
            boot = None  # the last line that passed may be older than the last boot
        self.cut = answer.truncated
        self.is_thinned = answer.line_numbers is not None and not _is_run(answer.line_numbers)
        self.is_ring = is_command and answer.argv == DMESG if isinstance(answer, CommandAnswer) else False
        self.scan: Scan = scan_log(self.text, self.source, line_numbers=answer.line_numbers, boot=boot, now=now)

    @property
    def complete(self) -> bool | None:
        """Whether it holds a whole boot; None where lines were left out on the way, so that this cannot be told."""
        if self.filtered_by is not None:
            return False
        if self.is_thinned:
            return None
        head = self.text.split("\n", _HEAD_LINES)[:_HEAD_LINES]
        return not self.cut and any("Linux version " in line for line in head)


def probe(source: Source) -> Kernel | None:
    """The kernel log's facts; None when no log could be read."""
    logs = _live(source) if source.kind == "live" else _stored(source)
    return facts_of_logs(logs)


def parse_kernel_log(text: str, source: str = "dmesg") -> Kernel:
    """The facts of one log's text in any layout."""
    return facts_of_logs([_Log(CommandAnswer(argv=(source,), status=Status.OK, stdout=text), 0, None)]) or Kernel()


def facts_of_logs(logs: list[_Log]) -> Kernel | None:
    """The facts of all logs together."""
    if not logs:
        return None
    states = [log.complete for log in logs]
    complete = True if True in states else False if False in states else None
    return facts_of([log.scan for log in logs], _known_lists(logs), complete)


def _known_lists(logs: list[_Log]) -> frozenset[str]:
    """Lists of which an absence is known: all, unless every log was filtered; then those whose lines the filter lets through."""
    if any(log.filtered_by is None for log in logs):
        return frozenset(LISTS)
    known: set[str] = set()
    for log in logs:
        try:
            passes = re2.search(f"(?i){log.filtered_by}", _SAMPLE_XID) is not None
        except re2.error:
            passes = False
        if passes:
            known |= {"xids", "nvrm"}
    return frozenset(known)


def _is_run(numbers: list[int]) -> bool:
    """Whether the lines follow one another without a gap."""
    return not numbers or numbers[-1] - numbers[0] == len(numbers) - 1


def _live(source: Source) -> list[_Log]:
    """This boot's log: from the ring buffer, where that is not enough from the journal, else from the files."""
    now = source.now()
    logs = [log for log in (_command(source, DMESG, 0, now),) if log is not None]
    if not logs or not logs[0].complete:
        journal = _command(source, JOURNAL_KERNEL, 0, now)
        logs += [journal] if journal else []
    if not logs:
        for path in LOG_FILES:
            log = _file(source, path, 0, now)
            if log is not None:
                logs.append(log)
                break
    return logs + _pstore(source, now)


def _stored(source: Source) -> list[_Log]:
    """Every log that there is, the exactest first, so that others' repetitions are struck off."""
    now = source.now() if source.kind == "recording" else None
    found: list[_Log | None] = [_command(source, DMESG, 0, now), _command(source, JOURNAL_KERNEL, 0, now)]
    found += [_command(source, request, -number, now) for number, request in enumerate(_EARLIER, 1)]
    found += [_command(source, SYSLOG, 0, now)]
    found += [_file(source, path, 0, now) for path in (*_SAVED_DMESG, *LOG_FILES)]
    return [log for log in found if log is not None] + _pstore(source, now)


def _command(source: Source, request: tuple[str, ...], boot: int | None, now: float | None) -> _Log | None:
    answer = source.run(*request, timeout=TIMEOUT_SECONDS)
    if answer.status not in (Status.OK, Status.FAILED, Status.TIMEOUT) or _says_nothing(answer.stdout):
        return None
    return _Log(answer, boot, now)


def _says_nothing(text: str) -> bool:
    """Whether a log command was refused or found nothing: its words are no log in which nothing happened."""
    return len(text) < 2000 and all(_NO_LOG.match(line) for line in text.splitlines())


def _file(source: Source, path: str, boot: int | None, now: float | None) -> _Log | None:
    answer = source.read(path)
    return _Log(answer, boot, now) if answer.status is Status.OK and answer.text.strip() else None


def _pstore(source: Source, now: float | None) -> list[_Log]:
    """What the kernel could save when it died: dmesg parts in firmware storage, readable for root only."""
    logs: list[_Log] = []
    for folder in _PSTORE:
        if source.kind == "live" and not source.stat(folder).openable:
            continue
        for name in source.list(folder).names[:16]:
            if name.startswith("dmesg-") and (log := _file(source, f"{folder}/{name}", -1, now)):
                logs.append(log)
    return logs
