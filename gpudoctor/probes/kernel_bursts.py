"""From events to facts: a line that stands in two logs counts once, and repeated lines become one entry with a count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpudoctor.facts import Evidence, Kernel, KernelEvent, NvrmMessage, SXid, Xid
from gpudoctor.lazy import Lazy
from gpudoctor.probes.kernel_messages import ROUTINE
from gpudoctor.probes.kernel_scan import Event, Scan

_QUOTE_LIMIT = 400
_BURST_LIMIT = 500  # entries of one list
_NUMBERS = Lazy(r"0[xX][0-9a-fA-F]+|\b[0-9a-fA-F]{8,}\b|\d+")
LISTS = ("xids", "sxids", "nvrm", "aer", "mce", "oom_kills", "io_errors", "other")


class _Seen:
    """The lines of one log, to be struck off by the same lines of another."""

    def __init__(self, scan: Scan) -> None:
        self.by_seconds: Counter[tuple[Any, str]] = Counter()
        self.by_wall: Counter[tuple[Any, str]] = Counter()
        self.by_body: Counter[tuple[Any, str]] = Counter()
        self.zones: set[bool] = set()
        for event in scan.events:
            if event.seconds is not None:
                self.by_seconds[event.seconds, event.body] += 1
            if event.wall is not None:
                self.by_wall[event.wall, event.body] += 1
                self.zones.add(event.wall.endswith("Z"))
            self.by_body[event.boot, event.body] += 1

    def strikes(self, event: Event) -> bool:
        """Whether the event is one of these lines; each is struck off once. The most exact time that both logs have decides."""
        if event.seconds is not None and self.by_seconds:
            return _take(self.by_seconds, (event.seconds, event.body))
        if event.wall is not None and event.wall.endswith("Z") in self.zones:
            return _take(self.by_wall, (event.wall, event.body))
        return _take(self.by_body, (event.boot, event.body)) or (
            event.boot is None and _take(self.by_body, (0, event.body))
        )


def _take(counter: Counter[tuple[Any, str]], key: tuple[Any, str]) -> bool:
    if counter[key] <= 0:
        return False
    counter[key] -= 1
    return True


def _unique(scans: Sequence[Scan]) -> list[tuple[str, Event]]:
    """Every event once: those that an earlier log has, and exact repetitions within one log (a report holds dmesg twice), are dropped."""
    earlier: list[_Seen] = []
    kept: list[tuple[str, Event]] = []
    for scan in scans:
        exact: set[tuple[int, float, str]] = set()
        for event in scan.events:
            if event.seconds is not None:
                key = (event.segment, event.seconds, event.body)
                if key in exact:
                    continue
                exact.add(key)
            struck = [
                seen for seen in earlier if seen.strikes(event)
            ]  # in every log that has it, not only in the first
            if not struck:
                kept.append((scan.source, event))
        earlier.append(_Seen(scan))
    return kept


def facts_of(scans: Sequence[Scan], known_lists: frozenset[str], complete: bool | None) -> Kernel:
    """The facts of all logs. A list without entries is known to be empty only where `known_lists` says so."""
    bursts: dict[str, dict[Any, list[tuple[str, Event]]]] = {name: {} for name in LISTS}
    for source, event in _unique(scans):
        if event.id in ROUTINE:
            continue
        group = bursts[event.group]
        key = _key(event)
        if key in group:
            group[key].append((source, event))
        elif len(group) < _BURST_LIMIT:
            group[key] = [(source, event)]
    makers = {"xids": _xid, "sxids": _sxid, "nvrm": _nvrm, "aer": _aer}
    lists: dict[str, Any] = {}
    for name in LISTS:
        found = [makers.get(name, _event)(burst) for burst in bursts[name].values()]
        lists[name] = found if found or name in known_lists else None
    return Kernel(log_complete=complete, **lists)


def _key(event: Event) -> tuple[Any, ...]:
    """What makes two lines one burst: all but numbers that differ from line to line."""
    parts = event.parts
    if event.group == "xids":
        who = (parts.get("process"), parts.get("mig"), parts.get("recovery"))
        return parts["code"], parts["bdf"], event.boot, who, _shape(parts["text"])
    if event.group == "sxids":
        return parts["code"], parts["bdf"], event.boot, event.severity, parts["link"], _shape(parts["text"])
    if event.group == "aer":
        return parts.get("bdf"), event.severity, event.boot
    if event.group == "oom_kills":
        return parts.get("process"), event.severity, event.boot
    if event.id == "rm_init_adapter":
        return event.id, parts.get("bdf"), event.boot, event.body.partition("(")[2]
    return event.id, parts.get("bdf"), event.boot, parts.get("process"), _shape(event.body)


def _shape(text: str) -> str:
    return _NUMBERS.sub("#", text[:300])


def _times(burst: list[tuple[str, Event]]) -> dict[str, Any]:
    first, last = burst[0][1], burst[-1][1]
    times: dict[str, Any] = {"time": first.wall, "boot": first.boot, "count": len(burst)}
    if len(burst) > 1:
        times["last_time"] = last.wall
    return times


def _evidence(burst: list[tuple[str, Event]]) -> dict[str, Evidence]:
    source, event = burst[0]
    return {"": Evidence(source=source, line=event.line, text=event.raw[:_QUOTE_LIMIT])}


def _xid(burst: list[tuple[str, Event]]) -> Xid:
    from gpudoctor.knowledge.xids import annotate

    event = burst[0][1]
    pid = next((one.parts.get("pid") for _, one in burst if one.parts.get("pid")), None)
    xid = Xid(
        code=event.parts["code"],
        bdf=event.parts["bdf"],
        seconds=event.seconds,
        pid=pid,
        process=event.parts.get("process"),
        text=event.parts["text"],
        mig=event.parts.get("mig"),
        recovery=event.parts.get("recovery"),
        evidence=_evidence(burst),
        **_times(burst),
    )
    return annotate(xid)


def _sxid(burst: list[tuple[str, Event]]) -> SXid:
    from gpudoctor.knowledge.sxids import annotate_sxid

    event = burst[0][1]
    parts = {name: event.parts[name] for name in ("code", "bdf", "switch", "link", "text")}
    return annotate_sxid(SXid(**parts, severity=event.severity, evidence=_evidence(burst), **_times(burst)))


def _nvrm(burst: list[tuple[str, Event]]) -> NvrmMessage:
    event = burst[0][1]
    return NvrmMessage(
        id=event.id,
        bdf=event.parts.get("bdf"),
        seconds=event.seconds,
        text=event.body[:_QUOTE_LIMIT],
        evidence=_evidence(burst),
        **_times(burst),
    )


def _aer(burst: list[tuple[str, Event]]) -> KernelEvent:
    """One report is a line of the port and a line of the device: they are not counted twice."""
    details = [item for item in burst if item[1].id == "aer"]
    notices = [item for item in burst if item[1].id != "aer"]
    chosen = details if len(details) >= len(notices) else notices
    made = _event(chosen)
    return made if not details else _event([*details[:1], *chosen[1:]])


def _event(burst: list[tuple[str, Event]]) -> KernelEvent:
    event = burst[0][1]
    return KernelEvent(
        kind=event.id or event.group,
        bdf=event.parts.get("bdf"),
        severity=event.severity,
        text=event.body[:_QUOTE_LIMIT],
        process=event.parts.get("process"),
        pid=event.parts.get("pid"),
        evidence=_evidence(burst),
        **_times(burst),
    )
