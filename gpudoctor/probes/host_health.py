"""The host's hardware and clock beside the GPUs: host memory errors, the management controller's events, stuck processes, time.

The management controller is asked for its newest events only, and only where its device is there: the whole log can take
minutes over a slow controller.
"""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import BmcEvent, Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import exists, is_machine, read_text, said
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, Source

CLOCKSOURCE = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
EDAC = "/sys/devices/system/edac/mc"
_EVENTS_TIMEOUT_SECONDS = 4.0
_MOST_EVENTS = 60
# `1a | 08/21/2023 | 14:01:33 UTC | Temperature #0x30 | Upper Critical going high | Asserted`
_EVENT = Lazy(
    r"^\s*[0-9a-fA-F]{1,4}\s*\|\s*(?P<date>[^|]+?)\s*\|\s*(?P<time>[^|]*?)\s*\|\s*(?P<sensor>[^|]+?)\s*\|\s*"
    r"(?P<event>[^|]+?)\s*(?:\|\s*(?P<state>Asserted|Deasserted)\b.*)?$"
)
_CLOCK = Lazy(r"(?im)^\s*(?:System clock|NTP) synchronized:\s*(?P<yes>yes|no)|^Leap status\s*:\s*(?P<leap>.+?)\s*$")


def collect_health(source: Source, found: Collected) -> None:
    """Sets clocksource, clock_synchronized, memory_errors_*, bmc_events, blocked_processes."""
    clock = source.read(CLOCKSOURCE)
    found.set("clocksource", clock.text.strip() or None, quote(clock, 0))
    _collect_synchronized(source, found)
    _collect_memory_errors(source, found)
    _collect_bmc_events(source, found)
    if not is_machine(source):
        _collect_blocked(source, found)


def _collect_synchronized(source: Source, found: Collected) -> None:
    marker = "/run/systemd/timesync/synchronized"
    if exists(source, marker):
        found.set("clock_synchronized", True, Evidence(source=marker, text=f"{marker} exists"))
        return
    if is_machine(source) and not exists(source, "/run/chrony/chronyd.pid"):
        return
    for request in (requests.CHRONY, requests.TIMEDATECTL):
        answer = source.run(*request) if request is requests.CHRONY or not is_machine(source) else None
        match = _CLOCK.search(answer.stdout) if answer is not None and said(answer) else None
        if answer is not None and match is not None:
            synchronized = match["yes"] == "yes" if match["yes"] else "not sync" not in match["leap"].lower()
            line = answer.stdout.count("\n", 0, match.start())
            found.set("clock_synchronized", synchronized, quote(answer, line))
            return


def _collect_memory_errors(source: Source, found: Collected) -> None:
    """What EDAC counted since boot, over all memory controllers."""
    controllers = [name for name in source.list(EDAC).names if re.fullmatch(r"mc\d+", name)]
    for name, file in (("memory_errors_corrected", "ce_count"), ("memory_errors_uncorrected", "ue_count")):
        counts = {mc: read_text(source, f"{EDAC}/{mc}/{file}") for mc in controllers}
        known = {mc: int(count) for mc, count in counts.items() if count is not None and count.isdecimal()}
        if known:
            worst = max(known, key=lambda mc: known[mc])
            evidence = Evidence(source=f"{EDAC}/{worst}/{file}", text=f"{worst} counted {known[worst]}")
            found.set(name, sum(known.values()), evidence)


def parse_bmc_events(answer: CommandAnswer) -> list[BmcEvent]:
    """Events of `ipmitool sel list` or `elist` that still hold: one that was deasserted later is over."""
    held: dict[tuple[str, str], BmcEvent] = {}
    for index, line in enumerate(answer.stdout.splitlines()):
        match = _EVENT.match(line)
        if match is None:
            continue
        key = (match["sensor"], match["event"])
        held.pop(key, None)
        if match["state"] == "Deasserted":
            continue
        held[key] = BmcEvent(
            sensor=match["sensor"],
            event=match["event"],
            time=f"{match['date']} {match['time']}".strip(),
            evidence={"": quote(answer, index)},
        )
    return list(held.values())[-_MOST_EVENTS:]


def _collect_bmc_events(source: Source, found: Collected) -> None:
    if source.kind == "live" and not (exists(source, "/dev/ipmi0") and found.get("is_root")):
        return
    answer = source.run(*requests.IPMI_EVENTS, timeout=_EVENTS_TIMEOUT_SECONDS)
    if not said(answer):
        return
    events = parse_bmc_events(answer)
    if events or "SEL has no entries" in answer.text:
        found.set("bmc_events", events, events[0].evidence[""] if events else quote(answer, 0))


class Blocked(msgspec.Struct, frozen=True):
    pid: int
    name: str
    line: int


def parse_blocked(text: str) -> list[Blocked]:
    """Processes in uninterruptible sleep (state D) of `ps aux`."""
    found = []
    for index, line in enumerate(text.splitlines()):
        words = line.split(None, 10)
        if len(words) > 10 and words[1].isdecimal() and re.fullmatch(r"D[sl+<NL]*", words[7]):
            found.append(Blocked(int(words[1]), words[10][:80], index))
    return found


def _collect_blocked(source: Source, found: Collected) -> None:
    answer = source.run(*requests.PROCESSES)
    if not said(answer):
        return
    blocked = parse_blocked(answer.stdout)
    if blocked or answer.filtered_by is None:
        line = blocked[0].line if blocked else None
        words = [f"{one.pid} {one.name}" for one in blocked]
        found.set("blocked_processes", words, quote(answer, line) if blocked else None)
