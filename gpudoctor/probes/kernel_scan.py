"""Goes once through a kernel log and picks what matters: each line as an event with its time, boot and parts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from gpudoctor.lazy import Lazy
from gpudoctor.probes.kernel_messages import Family, family_of, interesting
from gpudoctor.probes.log_lines import LogLine, read_line
from gpudoctor.probes.merge_gpus import normal_bdf

_LINE_LIMIT = 2000
_EVENT_LIMIT = 60_000  # of one log; about 5 s
_BDF = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"
# NVRM: Xid (PCI:0000:3b:00): 79, pid=4121, name=python3, GPU has fallen off the bus.
# NVRM: Xid (0000:03:00): 13, 0003 00000000 00009297 00001b0c 1000f010 00000040
# NVRM: Xid (PCI:0000:3b:00 GPU-I:05 GPU-CI:00): 31, pid=..., name=..., Ch 00000008
_XID = Lazy(
    rf"\bXid \((?:PCI:)?(?P<bdf>{_BDF}|[0-9a-fA-F]{{4}}:[0-9a-fA-F]{{2}}|SOC)(?P<mig>[^)]*)\): (?P<code>\d{{1,4}})(?:, ?(?P<rest>.*))?$"
)
_XID_PROCESS = Lazy(r"^pid='?(?P<pid><unknown>|\d+)'?(?:, name='?(?P<name>[^,']*)'?)?(?:, |,?\s*$)")
_RECOVERY = Lazy(r"recovery action changed from 0x[0-9a-fA-F]+ \([^)]*\) to 0x[0-9a-fA-F]+ \((?P<to>[^)]*)\)")
# nvidia-nvswitch2: SXid (PCI:0000:85:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)
# [1032.1] SXid (PCI:0000:85:00.0): 20034, Fatal, ...   where a monitor or a user left the driver's name out
_SXID = Lazy(
    rf"(?:nvidia-nvswitch(?P<switch>\d+): |\b)SXid \(PCI:(?P<bdf>{_BDF})\): (?P<code>\d{{5}}), (?P<rest>.*)$"
)
_SXID_SEVERITY = Lazy(r"^(?P<severity>(?i:fatal|non-fatal|correctable)), (?P<text>.*)$")
_SXID_DETAIL = Lazy(r"^(?:Severity \d+ Engine instance|Data \{)")
_LINK = Lazy(r"\b[Ll]ink (?P<link>\d+)\b")
_ANY_BDF = Lazy(r"\b(?P<bdf>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\b")
_KILLED = Lazy(r"(?P<cgroup>Memory cgroup out of memory: )?Kill(?:ed)? process (?P<pid>\d+) \((?P<name>[^)]*)\)")
_TASK = Lazy(
    r"task (?P<name>[^:]+):(?P<pid>\d+) blocked|\[(?P<lname>[^:\]]+):(?P<lpid>\d+)\]$|^(?P<pname>\S+): page allocation|^(?P<oname>\S+) invoked oom-killer|^(?P<sname>[^\s\[]+)\[(?P<spid>\d+)\]: segfault"
)
_AER_SEVERITY = Lazy(
    r"(?i)severity=(?P<a>\w+)(?: \((?P<b>[\w-]+)\))?|AER: (?:Multiple )?(?P<c>\w+)(?: \((?P<d>[\w-]+)\))? error"
)
_AER_FROM = Lazy(rf"received(?: from|:)? ?(?P<bdf>{_BDF})")
_BOOT_HEADING = Lazy(r"^\s*journalctl -b (?P<boot>-?\d+)")
_REBOOT = Lazy(r"^-- (?:Boot [0-9a-f]{8,}|Reboot)")
_OPENS = ("API mismatch:", "The NVIDIA GPU ", "The NVIDIA probe routine", "This PCI I/O region", "A GPU crash dump")
_JOINED_LIMIT = 8


class Event(msgspec.Struct, kw_only=True):
    """One line that matters. `group` is the list among the kernel facts; `wall` and `seconds` are its times."""

    group: str
    id: str | None
    body: str
    raw: str
    line: int
    wall: str | None = None
    seconds: float | None = None
    segment: int = 0
    boot: int | None = None
    severity: str | None = None
    parts: dict[str, Any] = {}


class Scan(msgspec.Struct, kw_only=True):
    """The events of one log. `starts` tells that it holds a boot's first line."""

    source: str
    events: list[Event]
    starts: bool = False


def scan_log(
    text: str,
    source: str,
    *,
    line_numbers: list[int] | None = None,
    boot: int | None = None,
    now: float | None = None,
) -> Scan:
    """The events of a log, in its order. `boot`: the boot of its last line (0 the present one), where that is known."""
    walker = _Walker(boot, now)
    for number, line in _lines(text):
        if line_numbers is not None:
            number = line_numbers[number - 1] if number <= len(line_numbers) else number
        walker.read(number, line)
        if len(walker.events) >= _EVENT_LIMIT:
            break
    walker.finish()
    return Scan(source=source, events=walker.events, starts=walker.starts)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is worth a look."""
    data = text.encode("utf-8", "replace")
    pattern = interesting()
    number, counted, position = 1, 0, 0
    while (match := pattern.search(data, position)) is not None:
        start = data.rfind(b"\n", 0, match.start()) + 1
        end = data.find(b"\n", match.end())
        end = len(data) if end < 0 else end
        number += data.count(b"\n", counted, start)
        counted = start
        yield number, data[start : min(end, start + _LINE_LIMIT)].decode("utf-8", "replace").rstrip("\r")
        position = end + 1
        if position > len(data):
            return


class _Walker:
    """Keeps what a line needs from those before it: the boot it belongs to, and a message that spans lines."""

    def __init__(self, boot: int | None, now: float | None) -> None:
        self.boot = boot
        self.now = now
        self.events: list[Event] = []
        self.starts = False
        self.segment = 0
        self.headings: dict[int, int] = {}
        self.last_seconds: float | None = None
        self.fresh = True
        self.open: Event | None = None
        self.joined = 0

    def read(self, number: int, line: str) -> None:
        if (heading := _BOOT_HEADING.match(line)) is not None:
            self._new_segment()
            self.headings[self.segment] = int(heading["boot"])
            return
        if _REBOOT.match(line):
            self._new_segment()
            return
        entry = read_line(line, self.now)
        if entry.seconds is not None:
            if self.last_seconds is not None and entry.seconds < self.last_seconds - 5:
                self._new_segment()
            self.last_seconds = entry.seconds
        if entry.body.startswith("Linux version "):
            if not self.fresh:
                self._new_segment()
            self.starts = True
            return
        self.fresh = False
        if entry.program is None or "Xid (" in entry.body:
            self._message(number, line, entry)

    def _new_segment(self) -> None:
        if not self.fresh or self.segment in self.headings:
            self.segment += 1
        self.fresh = True
        self.last_seconds = None
        self._close()

    def _message(self, number: int, line: str, entry: LogLine) -> None:
        if self.open is not None and self._continues(entry):
            return
        self._close()
        event = event_of(entry.body)
        if event is None:
            return
        event.raw, event.line = line.strip(), number
        event.wall, event.seconds, event.segment = entry.time, entry.seconds, self.segment
        opened = event.group == "nvrm" and entry.body.removeprefix("NVRM: ").startswith(_OPENS)
        if opened and not entry.body.rstrip().endswith("."):
            self.open, self.joined = event, 1
        else:
            self.events.append(event)

    def _continues(self, entry: LogLine) -> bool:
        """Adds a line to the message that spans several, each with the driver's own prefix."""
        assert self.open is not None
        words = entry.body.removeprefix("NVRM: ")
        own = (
            words.startswith(_OPENS)
            or words.startswith(("GPU ", "GPU0", "Xid", "loading"))
            or not entry.body.startswith("NVRM")
        )
        if own or self.joined >= _JOINED_LIMIT:
            return False
        self.open.body = f"{self.open.body} {words.strip()}"
        self.joined += 1
        if words.rstrip().endswith("."):
            self._close()
        return True

    def _close(self) -> None:
        if self.open is None:
            return
        event, self.open = self.open, None
        family = _family(event.body)
        event.id = family.id if family else event.id
        event.parts = {"bdf": _bdf_in(event.body)}
        self.events.append(event)

    def finish(self) -> None:
        self._close()
        last = self.segment
        for event in self.events:
            known = self.headings.get(event.segment)
            if known is not None:
                event.boot = known
            elif self.boot is not None:
                event.boot = self.boot + event.segment - last
            else:  # which boot the last one is, is not known; those before it are past all the same
                event.boot = event.segment - last or None


@lru_cache(maxsize=4096)
def _family(body: str) -> Family | None:
    return family_of(body)


def event_of(body: str) -> Event | None:
    """What a message says, without its time; None when it says nothing that matters."""
    if "Xid (" in body:
        return _sxid(body) if "SXid (" in body else _xid(body)
    family = _family(body)
    if family is None:
        if not body.startswith("NVRM: "):
            return None
        return Event(group="nvrm", id=None, body=body, raw=body, line=0, parts={"bdf": _bdf_in(body)})
    event = Event(
        group=family.group,
        id=family.id,
        body=body,
        raw=body,
        line=0,
        severity=family.severity,
        parts={"bdf": _bdf_in(body)},
    )
    if family.group == "aer":
        _fill_aer(event)
    elif family.id == "oom_kill":
        killed = _KILLED.search(body)
        if killed is not None:
            event.parts |= {"pid": int(killed["pid"]), "process": killed["name"]}
            event.severity = "cgroup" if killed["cgroup"] else "system"
    elif (task := _TASK.search(body)) is not None:
        name = task["name"] or task["lname"] or task["pname"] or task["oname"] or task["sname"]
        pid = task["pid"] or task["lpid"] or task["spid"]
        event.parts |= {"process": name, "pid": int(pid) if pid else None}
    return event


def _xid(body: str) -> Event | None:
    match = _XID.search(body)
    if match is None:
        return None
    rest = match["rest"] or ""
    parts: dict[str, Any] = {
        "code": int(match["code"]),
        "bdf": _xid_bdf(match["bdf"]),
        "mig": match["mig"].strip() or None,
    }
    if (process := _XID_PROCESS.match(rest)) is not None:
        rest = rest[process.end() :]
        parts["pid"] = int(process["pid"]) if process["pid"].isdecimal() else None
        name = (process["name"] or "").strip()
        parts["process"] = name if name and name != "<unknown>" else None
    if (recovery := _RECOVERY.search(rest)) is not None:
        parts["recovery"] = recovery["to"].strip()
    parts["text"] = rest.strip()
    return Event(group="xids", id=None, body=body[match.start() :], raw=body, line=0, parts=parts)


@lru_cache(maxsize=1024)
def _xid_bdf(text: str) -> str | None:
    """0000:3b:00: the driver prints no function. Before driver 285 the domain was missing, too."""
    if text.count(":") == 1 and "." not in text and len(text.split(":")[0]) == 4:
        return None  # "0002:00" of a very old driver: which part is the bus is not told
    known = normal_bdf(text)
    return known.rsplit(".", 1)[0] if known else None


def _sxid(body: str) -> Event | None:
    match = _SXID.search(body)
    if match is None:
        return None
    rest = match["rest"]
    if _SXID_DETAIL.match(rest):
        return None  # the second and third line of one report
    severity = _SXID_SEVERITY.match(rest)
    words = severity["text"] if severity else rest
    link = _LINK.search(words)
    parts = {
        "code": int(match["code"]),
        "switch": int(match["switch"]) if match["switch"] else None,
        "bdf": normal_bdf(match["bdf"]),
        "text": words.strip(),
        "link": int(link["link"]) if link else None,
    }
    return Event(
        group="sxids",
        id=None,
        body=body[match.start() :],
        raw=body,
        line=0,
        severity=severity["severity"].lower() if severity else None,
        parts=parts,
    )


def _fill_aer(event: Event) -> None:
    """Severity as one of corrected, non-fatal, fatal; the device that erred, not the port that reported it."""
    match = _AER_SEVERITY.search(event.body)
    words = " ".join(filter(None, match.groups())).lower() if match else ""
    event.severity = (
        "fatal"
        if words.endswith(" fatal") or words == "fatal"
        else "corrected"
        if words.startswith("correct")
        else "non-fatal"
    )
    if event.id == "aer_received" and (origin := _AER_FROM.search(event.body)) is not None:
        event.parts["bdf"] = normal_bdf(origin["bdf"]) or event.parts["bdf"]


def _bdf_in(body: str) -> str | None:
    """The first PCI address of a message."""
    match = _ANY_BDF.search(body)
    return normal_bdf(match["bdf"]) if match else None
