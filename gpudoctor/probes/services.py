"""Is a systemd service there and does it run? Told by files, which is quick and works below --root; pasted text by systemctl."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.probes.ask import exists, is_absent, is_machine, read_text, said
from gpudoctor.probes.collect import quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source, Status

_UNIT_DIRS = ("/usr/lib/systemd/system", "/lib/systemd/system", "/etc/systemd/system", "/run/systemd/system")
_CGROUP_ROOTS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")


class Service(msgspec.Struct, frozen=True):
    """`None`: not known. `failed` only where systemctl said so. `pid` is the lowest process id of the running service."""

    installed: bool | None = None
    running: bool | None = None
    failed: bool | None = None
    pid: int | None = None
    evidence: Evidence | None = None


def parse_systemctl_status(text: str) -> Service:
    """Reads `systemctl status UNIT`."""
    if re.search(r"could not be found|not-found|Loaded: error", text):
        return Service(installed=False, running=False)
    match = re.search(r"Active:\s+(\w+)(?:\s+\(([^)]*)\))?", text)
    if match is None:
        return Service()
    pid = re.search(r"Main PID:\s+(\d+)", text)
    running = match[1] in ("active", "reloading") and (match[2] or "") != "exited"
    number = int(pid[1]) if pid and running and len(pid[1]) < 12 else None
    return Service(True, running, match[1] == "failed", number)


def parse_is_active(text: str) -> Service:
    """Reads the one word of `systemctl is-active` or `is-failed`."""
    word = text.strip().split("\n", 1)[0].strip()
    if word not in ("active", "inactive", "failed", "activating", "deactivating"):
        return Service()
    return Service(running=word == "active", failed=word == "failed")


def service(source: Source, unit: str) -> Service:
    """How the service `unit` (without .service) fares."""
    return _on_machine(source, unit) if is_machine(source) else _pasted(source, unit)


def _on_machine(source: Source, unit: str) -> Service:
    installed = _installed(source, unit)
    for root in _CGROUP_ROOTS:
        path = f"{root}/system.slice/{unit}.service/cgroup.procs"
        answer = source.read(path)
        pids = [int(word) for word in answer.text.split() if word.isdecimal()] if answer.status is Status.OK else []
        if pids:
            words = f"{unit} runs as process {min(pids)}"
            return Service(True, True, False, min(pids), Evidence(source=path, text=words))
    pid = _pid_file(source, unit)
    if pid is not None:
        evidence = Evidence(source=f"/proc/{pid}/comm", text=f"{unit} runs as process {pid}")
        return Service(installed, True, False, pid, evidence)
    managed = any(exists(source, f"{root}/system.slice") for root in _CGROUP_ROOTS)
    if installed is False or managed:
        words = f"{unit}.service {'is installed but' if installed else ''} does not run"
        return Service(
            installed, False, None, None, Evidence(source=f"systemctl status {unit}", text=" ".join(words.split()))
        )
    return Service(installed)


def _installed(source: Source, unit: str) -> bool | None:
    seen = [exists(source, f"{directory}/{unit}.service") for directory in _UNIT_DIRS]
    if any(seen):
        return True
    return None if all(answer is None for answer in seen) else False


def _pid_file(source: Source, unit: str) -> int | None:
    for path in (f"/run/{unit}/{unit}.pid", f"/run/{unit}.pid", f"/run/{unit}/nv-{unit.removeprefix('nvidia-')}.pid"):
        answer = source.read(path)
        if is_absent(answer) or answer.status is not Status.OK:
            continue
        word = answer.text.strip()
        comm = read_text(source, f"/proc/{word}/comm") if word.isdecimal() else None
        if comm and comm[:8] in unit + "|nv-" + unit:
            return int(word)
    return None


def _pasted(source: Source, unit: str) -> Service:
    names = (unit, f"{unit}.service")
    for name in names:
        answer = source.run(*requests.SYSTEMCTL_STATUS, name)
        if said(answer) and answer.text.strip():
            lines = answer.text.splitlines()
            index = next((i for i, line in enumerate(lines) if "Active:" in line), 0)
            return msgspec.structs.replace(parse_systemctl_status(answer.text), evidence=quote(answer, index))
        for verb in ("is-active", "is-failed"):
            answer = source.run("systemctl", verb, name)
            if said(answer) and answer.text.strip():
                return msgspec.structs.replace(parse_is_active(answer.text), evidence=quote(answer, 0))
    return Service()


_CLOCK_TICKS = 100  # USER_HZ, fixed at 100 for programs on all of Linux's architectures that have NVIDIA GPUs


def started_at(source: Source, running: Service) -> float | None:
    """When a running service's process was started, in seconds since the epoch."""
    if running.pid is None:
        return None
    stat = read_text(source, f"/proc/{running.pid}/stat")
    uptime = read_text(source, "/proc/uptime")
    # The second field is the program's name in brackets and may hold anything: count from its end.
    fields = stat.rsplit(")", 1)[-1].split() if stat else []
    if len(fields) < 20 or not fields[19].isdecimal() or not uptime:
        return None
    match = re.match(r"\d+(?:\.\d+)?", uptime)
    return source.now() - float(match[0]) + int(fields[19]) / _CLOCK_TICKS if match else None
