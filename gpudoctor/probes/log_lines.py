"""The front part of a kernel log's line, in every layout: when it was, and where the message itself begins.

[ 3947.590120] NVRM: ...                                         dmesg
[Mon Jan 20 10:18:26 2025] NVRM: ...                             dmesg -T
kern  :warn  : 2025-01-21T02:21:33,498559+00:00 NVRM: ...        dmesg -x, --time-format iso
<4>[  201.650687] NVRM: ...                                      pstore, dmesg -r
2025-01-17T17:10:43+0000 node7 kernel: NVRM: ...                 journalctl -o short-iso
Sep  8 07:55:37 node7 kernel: [350941.516160] NVRM: ...          syslog, kern.log, journalctl
kernel: NVRM: ...                                                shortened by hand
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from gpudoctor.lazy import Lazy

_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}
_ISO = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_SYSLOG = r"(?:[A-Z][a-z]{2} {1,2}\d{1,2} (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d+)?)"
_FACILITY = Lazy(r"^\s*(?:<\d{1,3}>|(?:kern|user|daemon|syslog|auth|local\d)\s*:\s*\w+\s*:\s*)")
_WALL = Lazy(rf"^\s*(?:(?P<iso>{_ISO})|(?P<syslog>{_SYSLOG}))\s+")
_FULL = Lazy(rf"^\s*[A-Z][a-z]{{2}} (?P<iso>{_ISO}) (?P<zone>[A-Z]{{2,5}})\s+")
_HOST_AND_KERNEL = Lazy(r"^(?:\S+\s+)?kernel(?:\[\d+\])?:\s?")
_HOST_AND_PROGRAM = Lazy(r"^(?:[\w.-]+\s+)?(?P<program>[\w./@-]+)(?:\[\d+\])?:\s")
_SECONDS = Lazy(r"^\s*\[\s*(?P<seconds>\d{1,10}\.\d{1,9})(?:,\d+)?\]\s?")
_CLOCK = Lazy(r"^\s*\d\d:\d\d:\d\d(?:[.,]\d+)?\s+(?=NVRM: |kernel: |nvidia|pcieport )")
_CALLER = Lazy(r"^\[\s*[TC]\d+\]\s?")
_HUMAN = Lazy(
    r"^\s*\[(?:[A-Z][a-z]{2} )?(?P<month>[A-Z][a-z]{2})\s+(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})\]\s?"
)
_PIECES = Lazy(r"^(?P<month>[A-Z][a-z]{2}) +(?P<day>\d{1,2}) (?:(?P<year>\d{4}) )?(?P<clock>\d\d:\d\d:\d\d)")


class LogLine(msgspec.Struct, frozen=True):
    """`time` is ISO 8601, in UTC where the log names a zone; `seconds` are since boot; `program` is None for the kernel."""

    time: str | None
    seconds: float | None
    body: str
    program: str | None = None


def read_line(line: str, now: float | None = None) -> LogLine:
    """Splits one line. `now` (seconds since the epoch) tells the year where a syslog time has none."""
    time: str | None = None
    seconds: float | None = None
    program: str | None = None
    rest = line
    if match := _FACILITY.match(rest):
        rest = rest[match.end() :]
    if match := _FULL.match(rest):
        time = _iso(match["iso"] + ("Z" if match["zone"] in ("UTC", "GMT") else ""))
        rest = rest[match.end() :]
    elif match := _WALL.match(rest):
        time = _iso(match["iso"]) if match["iso"] else _syslog(match["syslog"], now)
        rest = rest[match.end() :]
    elif match := _HUMAN.match(rest):
        time = _civil(int(match["year"]), match["month"], match["day"], match["clock"])
        rest = rest[match.end() :]
    elif match := _CLOCK.match(rest):
        rest = rest[match.end() :]
    if match := _SECONDS.match(rest):
        seconds = float(match["seconds"])
        rest = rest[match.end() :]
    if match := _HOST_AND_KERNEL.match(rest):
        rest = rest[match.end() :]
        if seconds is None and (stamp := _SECONDS.match(rest)):
            seconds = float(stamp["seconds"])
            rest = rest[stamp.end() :]
    elif time is not None and (match := _HOST_AND_PROGRAM.match(rest)) and " " in rest[: match.end() - 1].strip():
        # "host program[pid]: text" of a mixed system log; kernel subsystems ("nvidia-nvlink:") have no host before them
        program = match["program"]
        rest = rest[match.end() :]
    if match := _CALLER.match(rest):
        rest = rest[match.end() :]
    return LogLine(time, seconds, rest.strip(), program)


def _iso(text: str) -> str | None:
    try:
        moment = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        return None
    if moment.tzinfo is None:
        return moment.strftime("%Y-%m-%dT%H:%M:%S")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _civil(year: int, month: str, day: str, clock: str) -> str | None:
    number = _MONTHS.get(month)
    return _iso(f"{year:04d}-{number:02d}-{int(day):02d}T{clock}") if number else None


def _syslog(text: str, now: float | None) -> str | None:
    """ISO where the year is known, else the words of the log."""
    match = _PIECES.match(text)
    if match is None or match["month"] not in _MONTHS:
        return None
    words = " ".join(text.split())
    if match["year"]:
        return _civil(int(match["year"]), match["month"], match["day"], match["clock"]) or words
    if now is None:
        return words
    today = datetime.fromtimestamp(now, UTC)
    month, day = _MONTHS[match["month"]], int(match["day"])
    # a line lies in the past: a date that is still to come this year was last year's
    tomorrow = today + timedelta(days=2)
    year = (
        today.year if (month, day) <= (tomorrow.month, tomorrow.day) or tomorrow.year > today.year else today.year - 1
    )
    return _civil(year, match["month"], match["day"], match["clock"]) or words
