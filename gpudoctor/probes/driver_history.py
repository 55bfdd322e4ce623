"""When driver and kernel packages changed: the logs of apt, dpkg, dnf, yum, zypper and pacman."""

from __future__ import annotations

import posixpath
import re

import msgspec

from gpudoctor.facts import Evidence, PackageEvent
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.probes.driver_packages import is_relevant
from gpudoctor.sources.answers import FileAnswer, Source, Status
from gpudoctor.sources.requests import PACKAGE_LOGS

_LIMIT = 200  # the newest events kept
_KERNEL = Lazy(
    r"^(?:linux-(?:image|headers|modules|generic)|kernel(?:-core|-devel|-default|-headers)?$|linux(?:-lts|-zen)?$)"
)
_ACTIONS = {
    "install": "install",
    "installed": "install",
    "upgrade": "upgrade",
    "upgraded": "upgrade",
    "updated": "upgrade",
    "reinstall": "install",
    "reinstalled": "install",
    "downgrade": "downgrade",
    "downgraded": "downgrade",
    "remove": "remove",
    "removed": "remove",
    "erase": "remove",
    "erased": "remove",
    "purge": "remove",
}
_HINTS = ("nvidia", "cuda", "linux-", "dkms", "nccl", "cudnn", "nvml", "datacenter-gpu", "gdr")
Event = tuple[PackageEvent, int]


def _wanted(name: str) -> bool:
    return is_relevant(name) or _KERNEL.match(name) is not None


def parse_apt_history(text: str) -> list[Event]:
    """Reads /var/log/apt/history.log: stanzas of Start-Date and `Upgrade: name:arch (old, new), ...` lines."""
    events: list[Event] = []
    time: str | None = None
    for index, line in enumerate(text.splitlines()):
        key, _, value = line.partition(":")
        if key != "Start-Date" and not any(hint in value for hint in _HINTS):
            continue
        action = _ACTIONS.get(key.lower())
        if key == "Start-Date":
            time = " ".join(value.split()).replace(" ", "T") or None
        elif action is not None:
            for match in re.finditer(r"(?<![^\s,])([^\s:(),]{1,120})(?::[a-z0-9]+)? \(([^)]{0,200})\)", value):
                name = match[1].lstrip(",").strip()
                versions = [word.strip() for word in match[2].split(",") if word.strip() not in ("automatic", "")]
                if _wanted(name):
                    old = versions[0] if action in ("upgrade", "downgrade", "remove") and versions else None
                    new = versions[-1] if action in ("install", "upgrade", "downgrade") and versions else None
                    events.append((_event(time, action, name, old, new), index))
    return events


def parse_dpkg_log(text: str) -> list[Event]:
    """Reads /var/log/dpkg.log: `2024-11-20 06:12:05 upgrade name:arch old new`."""
    events: list[Event] = []
    pattern = re.compile(
        r"^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d) (install|upgrade|remove|purge) ([^\s:]+)(?::\S+)? (\S+) (\S+)"
    )
    for index, line in enumerate(text.splitlines()):
        match = pattern.match(line)
        if match is None or not _wanted(match[4]):
            continue
        old, new = (None if word == "<none>" else word for word in (match[5], match[6]))
        events.append((_event(f"{match[1]}T{match[2]}", _ACTIONS[match[3]], match[4], old, new), index))
    return events


def parse_rpm_log(text: str) -> list[Event]:
    """Reads dnf.rpm.log (`2024-11-20T06:12:05+0000 SUBDEBUG Upgrade: name-1:2-3.x86_64`) and yum.log (`Nov 20 06:12:05 Updated: ...`)."""
    events: list[Event] = []
    pattern = re.compile(
        r"^(\d{4}-\d\d-\d\dT\S+|[A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d)\s+(?:\w+\s+)?(Installed|Install|Upgraded?|Updated|Erased?|Removed|Downgraded?|Reinstalled?): "
        r"(?:\d+:)?(\S+?)-(?:\d+:)?([\w.+~^]+-[\w.+~^]+?)(?:\.(?:x86_64|aarch64|noarch|i686))?\s*$"
    )
    for index, line in enumerate(text.splitlines()):
        match = pattern.match(line)
        # "Upgraded" names the version that went, "Upgrade" the one that came: only the latter is news.
        if match is None or match[2] == "Upgraded" or not _wanted(match[3]):
            continue
        action = _ACTIONS[match[2].lower()]
        old, new = (match[4], None) if action == "remove" else (None, match[4])
        events.append((_event(match[1], action, match[3], old, new), index))
    return events


def parse_pacman_log(text: str) -> list[Event]:
    """Reads pacman.log: `[2024-11-20T06:12:05+0000] [ALPM] upgraded nvidia (550.54.14-1 -> 550.67-1)`."""
    events: list[Event] = []
    pattern = re.compile(r"^\[([^\]]+)\] \[ALPM\] (installed|upgraded|removed|downgraded|reinstalled) (\S+) \((.*)\)")
    for index, line in enumerate(text.splitlines()):
        match = pattern.match(line)
        if match is None or not _wanted(match[3]):
            continue
        old, _, new = match[4].partition(" -> ")
        action = _ACTIONS[match[2]]
        if not new:
            old, new = ("", old) if action == "install" else (old, "")
        events.append((_event(match[1].replace(" ", "T"), action, match[3], old or None, new or None), index))
    return events


def parse_zypp_history(text: str) -> list[Event]:
    """Reads /var/log/zypp/history: `2024-11-20 06:12:05|install|name|version|arch|...`."""
    events: list[Event] = []
    for index, line in enumerate(text.splitlines()):
        words = line.split("|")
        if len(words) < 4 or words[1].strip() not in ("install", "remove") or not _wanted(words[2]):
            continue
        action = words[1].strip()
        old, new = (words[3], None) if action == "remove" else (None, words[3])
        events.append((_event(words[0].replace(" ", "T"), action, words[2], old, new), index))
    return events


def _event(time: str | None, action: str, package: str, old: str | None, new: str | None) -> PackageEvent:
    return PackageEvent(time=time, action=action, package=package, old_version=old, new_version=new)


_PARSERS = {
    "history.log": parse_apt_history,
    "dpkg.log": parse_dpkg_log,
    "dnf.rpm.log": parse_rpm_log,
    "yum.log": parse_rpm_log,
    "pacman.log": parse_pacman_log,
    "history": parse_zypp_history,
}


def collect_history(source: Source, found: Collected) -> None:
    """Sets package_history from the first log that has something to say."""
    read = False
    for path in PACKAGE_LOGS:
        answer = source.read(path)
        if answer.status is not Status.OK:
            continue
        read = True
        events = [
            _quoted(event, answer, index)
            for event, index in _PARSERS[posixpath.basename(path)](answer.text)[-_LIMIT:]
        ]
        if events:
            found.set("package_history", events, events[-1].evidence[""])
            return
    if read:
        found.set("package_history", [])


def _quoted(event: PackageEvent, answer: FileAnswer, index: int) -> PackageEvent:
    """Quotes only the package concerned: one line of apt's log can list hundreds."""
    whole = quote(answer, index)
    versions = " -> ".join(v for v in (event.old_version, event.new_version) if v)
    words = f"{event.time or ''} {event.action} {event.package} {versions}".strip()
    text = whole.text if len(whole.text) < 160 else words
    return msgspec.structs.replace(event, evidence={"": Evidence(whole.source, text, whole.line)})
