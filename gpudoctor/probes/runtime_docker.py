"""Docker: what its daemon says (docker info, as JSON or text), and what its configuration says."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import exists, filter_shows, is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.probes.services import Service, service, started_at
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, Source, Status

DOCKER_INFO_JSON = ("docker", "info", "--format", "{{json .}}")
DAEMON_JSON = "/etc/docker/daemon.json"
_SNAP_DAEMON_JSON = "/var/snap/docker/current/config/daemon.json"
_BINARIES = (
    "/usr/bin/dockerd",
    "/usr/local/bin/dockerd",
    "/usr/bin/docker",
    "/usr/local/bin/docker",
    "/snap/bin/docker",
)
_NO_DAEMON = Lazy(
    r"Cannot connect to the Docker daemon|failed to connect to the docker API|Is the docker daemon running",
    re.IGNORECASE,
)


class DockerInfo(msgspec.Struct, kw_only=True):
    """What `docker info` tells; `None` where it does not."""

    version: str | None = None
    runtimes: list[str] | None = None
    default_runtime: str | None = None
    cgroup_driver: str | None = None
    cgroup_version: int | None = None
    rootless: bool | None = None
    desktop: bool | None = None
    snap: bool | None = None


def parse_info_json(text: str) -> DockerInfo | None:
    """Reads `docker info --format '{{json .}}'`; `None` when it is not JSON or the server did not answer."""
    start = text.find("{")
    try:
        data = msgspec.json.decode(text[start:].strip().encode()) if start >= 0 else None
    except msgspec.DecodeError:
        return None
    if not isinstance(data, dict) or not data.get("ServerVersion"):
        return None
    runtimes = data.get("Runtimes")
    options = [str(option) for option in data.get("SecurityOptions") or []]
    version = str(data.get("CgroupVersion") or "")
    return DockerInfo(
        version=str(data["ServerVersion"]),
        runtimes=sorted(str(name) for name in runtimes) if isinstance(runtimes, dict) else None,
        default_runtime=_text(data, "DefaultRuntime"),
        cgroup_driver=_text(data, "CgroupDriver"),
        cgroup_version=int(version) if version.isdecimal() else None,
        rootless=any("rootless" in option for option in options),
        desktop="Docker Desktop" in str(data.get("OperatingSystem")),
        snap="/snap/" in str(data.get("DockerRootDir")),
    )


def _text(data: dict[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None


def parse_info_text(text: str) -> DockerInfo:
    """Reads `docker info` as text, whole or filtered by grep."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"^\s*([A-Z][\w ]+?):\s*(.*)$", line)
        if match:
            values.setdefault(match[1].strip(), match[2].strip())
    version = values.get("Cgroup Version", "")
    whole = "Server Version" in values
    return DockerInfo(
        version=values.get("Server Version"),
        runtimes=sorted(values["Runtimes"].split()) if values.get("Runtimes") else None,
        default_runtime=values.get("Default Runtime") or None,
        cgroup_driver=values.get("Cgroup Driver") or None,
        cgroup_version=int(version) if version.isdecimal() else None,
        rootless=bool(re.search(r"(?m)^[ \t]*rootless[ \t]*$", text)) if whole else None,
        desktop="Docker Desktop" in values.get("Operating System", "") if whole else None,
        snap="/snap/" in values["Docker Root Dir"] if "Docker Root Dir" in values else None,
    )


def parse_daemon_json(text: str) -> tuple[bool, bool | None, str | None]:
    """Whether daemon.json is valid, whether it names the nvidia runtime, and its default runtime."""
    try:
        data = msgspec.json.decode(text.encode()) if text.strip() else {}
    except msgspec.DecodeError:
        return False, None, None
    if not isinstance(data, dict):
        return False, None, None
    runtimes = data.get("runtimes")
    configured = isinstance(runtimes, dict) and any("nvidia" in str(name) for name in runtimes)
    default = data.get("default-runtime")
    return True, configured, default if isinstance(default, str) else None


def collect_docker(source: Source, found: Collected) -> None:
    """Sets the docker_* fields."""
    state = service(source, "docker")
    if is_machine(source):
        _collect_installed(source, found)
    _collect_info(source, found, state)
    _collect_config(source, found)
    _collect_restart(source, found, state)
    if state.running is not None and (found.get("docker_installed") or not is_machine(source)):
        found.set("docker_running", state.running, state.evidence)
    if not is_machine(source):
        _collect_pasted(source, found)


def _collect_installed(source: Source, found: Collected) -> None:
    seen = [exists(source, path) for path in _BINARIES]
    if any(seen):
        path = _BINARIES[seen.index(True)]
        found.set("docker_installed", True, Evidence(source=path, text=path))
    elif seen[0] is False:
        found.set("docker_installed", False, Evidence(source="/usr/bin/dockerd", text="no docker or dockerd"))
    snap = exists(source, "/var/snap/docker")
    if snap and not exists(source, "/usr/bin/dockerd"):
        found.set("docker_is_snap", True, Evidence(source="/var/snap/docker", text="/var/snap/docker exists"))
    elif snap is False and any(seen):
        found.set("docker_is_snap", False)


def _collect_info(source: Source, found: Collected, state: Service) -> None:
    answer: CommandAnswer
    if is_machine(source):
        reachable = (
            exists(source, "/var/run/docker.sock") or exists(source, "/run/docker.sock") or source.env("DOCKER_HOST")
        )
        if not found.get("docker_installed") or not (reachable or state.running):
            return
        answer = source.run(*DOCKER_INFO_JSON)
    else:
        answer = source.run(*requests.DOCKER_INFO)
        if not said(answer):
            answer = source.run(*DOCKER_INFO_JSON)
    if not said(answer):
        return
    if _NO_DAEMON.search(answer.text):
        found.set("docker_running", False, quote(answer, find_line(answer.text, "daemon")))
        return
    info = parse_info_json(answer.stdout) if "{" in answer.stdout[:200] else parse_info_text(answer.stdout)
    if info is None:
        return
    if info.version or info.runtimes:
        found.set("docker_running", True, quote(answer, None, f"Server Version: {info.version}"))
        found.set("docker_installed", True)
    found.set("docker_version", info.version, quote(answer, None, f"Server Version: {info.version}"))
    found.set("docker_runtimes", info.runtimes, _line(answer, "Runtimes:", " ".join(info.runtimes or [])))
    found.set(
        "docker_default_runtime", info.default_runtime, _line(answer, "Default Runtime:", info.default_runtime or "")
    )
    found.set("docker_cgroup_driver", info.cgroup_driver, _line(answer, "Cgroup Driver:", info.cgroup_driver or ""))
    found.set("docker_cgroup_version", info.cgroup_version)
    found.set("docker_is_rootless", info.rootless, _line(answer, "rootless", "rootless"))
    found.set("docker_is_desktop", info.desktop, _line(answer, "Operating System:", "Docker Desktop"))
    found.set("docker_is_snap", info.snap, _line(answer, "Docker Root Dir:", "Docker's root is below /var/snap"))


def _line(answer: CommandAnswer, key: str, words: str) -> Evidence:
    index = find_line(answer.stdout, key)
    if index is not None and answer.argv == requests.DOCKER_INFO:
        return quote(answer, index)
    return quote(answer, None, f"{key} {words}".strip() if not words.startswith(key) else words)


def _collect_config(source: Source, found: Collected) -> None:
    path = _SNAP_DAEMON_JSON if found.get("docker_is_snap") else DAEMON_JSON
    answer = source.read(path)
    if answer.status is Status.OK:
        valid, configured, default = parse_daemon_json(answer.text)
        if answer.truncated and not valid:
            if filter_shows(answer.filtered_by, "nvidia") and answer.filtered_by is not None:
                found.set("docker_nvidia_configured", "nvidia" in answer.text, quote(answer, 0))
            return
        found.set("docker_daemon_json", answer.text)
        found.set("docker_daemon_json_valid", valid, quote(answer, 0))
        line = find_line(answer.text, "nvidia")
        found.set(
            "docker_nvidia_configured",
            configured,
            quote(answer, line) if line is not None else quote(answer, None, "no runtime nvidia"),
        )
        found.set("docker_default_runtime", default, quote(answer, find_line(answer.text, "default-runtime")))
    elif is_absent(answer) and found.get("docker_installed"):
        words = f"{path} does not exist"
        found.set("docker_nvidia_configured", False, Evidence(source=path, text=words))


def _collect_restart(source: Source, found: Collected, state: Service) -> None:
    """A configuration newer than the daemon's start is not in force."""
    path = _SNAP_DAEMON_JSON if found.get("docker_is_snap") else DAEMON_JSON
    modified = source.stat(path).modified
    started = started_at(source, state)
    if modified is not None and started is not None:
        words = f"{path} was changed {'before' if modified <= started else 'after'} the daemon started"
        found.set("docker_restarted_since_config", modified <= started + 1, Evidence(source=path, text=words))


def _collect_pasted(source: Source, found: Collected) -> None:
    version = source.run(*requests.DOCKER_VERSION)
    if not said(version):
        version = source.run("docker", "--version")
    if said(version):
        match = re.search(r"(?:Server: .*\n(?:.*\n)*?\s+Version:\s+|Docker version )(\d+\.\d+[.\d]*)", version.stdout)
        found.set(
            "docker_version",
            match[1] if match else None,
            quote(version, find_line(version.stdout, match[1])) if match else None,
        )
        found.set("docker_installed", True if match else None)
        if _NO_DAEMON.search(version.text):
            found.set("docker_running", False, quote(version))
    elif is_absent(version) or is_absent(source.run("which", "docker")):
        found.set("docker_installed", False, quote(version, None, "docker is not on the PATH"))
    snaps = source.run(*requests.SNAP_LIST)
    if said(snaps):
        index = next((i for i, line in enumerate(snaps.stdout.splitlines()) if re.match(r"\s*docker\s", line)), None)
        if index is not None:
            found.set("docker_is_snap", True, quote(snaps, index))
        elif snaps.filtered_by is None or "docker" in snaps.filtered_by:
            found.set("docker_is_snap", False, quote(snaps, None, "no snap docker"))
