"""Container engines on the host: is the NVIDIA Container Toolkit there, and does each engine know of it?"""

from __future__ import annotations

import re

from gpudoctor.facts import Evidence, Runtime
from gpudoctor.probes.ask import exists, filter_shows, is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.probes.container_detect import detect
from gpudoctor.probes.driver_packages import parse_dpkg_list, parse_rpm_list
from gpudoctor.probes.runtime_cdi import collect_cdi
from gpudoctor.probes.runtime_docker import collect_docker
from gpudoctor.probes.services import service, started_at
from gpudoctor.sources import requests
from gpudoctor.sources.answers import FileAnswer, Source, Status

NAME = "runtime"
_TOOLKIT = (
    "/usr/bin/nvidia-ctk",
    "/usr/bin/nvidia-container-runtime",
    "/usr/bin/nvidia-container-runtime-hook",
    "/usr/bin/nvidia-cdi-hook",
    "/usr/local/nvidia/toolkit/nvidia-container-runtime",
    "/usr/local/bin/nvidia-ctk",
    "/run/current-system/sw/bin/nvidia-ctk",
)
TOOLKIT_CONFIG = "/etc/nvidia-container-runtime/config.toml"
_CONTAINERD_CONFIGS = (
    "/etc/containerd/config.toml",
    "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "/var/snap/microk8s/current/args/containerd.toml",
    "/etc/k0s/containerd.toml",
)
_CONTAINERD_DROP_INS = "/etc/containerd/conf.d"


def probe(source: Source) -> Runtime | None:
    """Engines and toolkit of the host; `None` inside a container, from where they cannot be seen."""
    if is_machine(source) and detect(source).inside:
        return None
    found = Collected()
    _collect_toolkit(source, found)
    _collect_toolkit_config(source, found)
    collect_docker(source, found)
    _collect_containerd(source, found)
    _collect_podman(source, found)
    _collect_crio(source, found)
    collect_cdi(source, found)
    return found.build(Runtime)


def _collect_toolkit(source: Source, found: Collected) -> None:
    if is_machine(source):
        seen = [exists(source, path) for path in _TOOLKIT]
        if any(seen):
            path = _TOOLKIT[seen.index(True)]
            found.set("toolkit_installed", True, Evidence(source=path, text=path))
        elif seen[0] is False:
            words = "neither nvidia-ctk nor nvidia-container-runtime is installed"
            found.set("toolkit_installed", False, Evidence(source=_TOOLKIT[0], text=words))
            return
    answer = source.run(*requests.NVIDIA_CTK_VERSION)
    match = re.search(r"version (\d+\.\d+\.\d+\S*)", answer.stdout) if said(answer) else None
    if match:
        found.set("toolkit_version", match[1], quote(answer, find_line(answer.stdout, match[1])))
        found.set("toolkit_installed", True, quote(answer, find_line(answer.stdout, match[1])))
    elif is_absent(answer) and not is_machine(source):
        found.set("toolkit_installed", False, quote(answer, None, "nvidia-ctk: command not found"))
    if not is_machine(source):
        for name in (
            "nvidia-container-runtime-hook",
            "nvidia-container-runtime",
            "nvidia-container-cli",
            "nvidia-ctk",
        ):
            located = source.run("which", name)
            if located.status is Status.OK and name != "nvidia-container-cli":
                found.set("toolkit_installed", True, quote(located, 0))
            elif is_absent(located):
                found.set("toolkit_installed", False, quote(located, None, f"{name} is not on the PATH"))
        _collect_toolkit_packages(source, found)


def _collect_toolkit_packages(source: Source, found: Collected) -> None:
    for request, parse in ((requests.DPKG_LIST, parse_dpkg_list), (requests.RPM_LIST, parse_rpm_list)):
        answer = source.run(*request)
        if not said(answer):
            continue
        for package, index in parse(answer.text):
            if re.fullmatch(
                r"nvidia-container-toolkit(-base)?|nvidia-docker2|nvidia-container-runtime", package.name
            ):
                if package.state in ("config-files", "not-installed"):
                    continue
                found.set("toolkit_installed", True, quote(answer, index))
                if package.name.startswith("nvidia-container-toolkit"):
                    version = re.sub(r"^\d+:|-\d+$", "", package.version)
                    found.set("toolkit_version", version, quote(answer, index))
        gone = re.search(r"(?:package |matching )nvidia-container-toolkit(?: is not installed)?", answer.text)
        if gone or (filter_shows(answer.filtered_by, "nvidia-container-toolkit") and not answer.truncated):
            found.set("toolkit_installed", False, quote(answer, None, "no package nvidia-container-toolkit"))


def parse_toolkit_config(text: str) -> tuple[bool | None, str | None, int | None]:
    """`no-cgroups`, the runtime's `mode`, and the line (0-based) of the former, from nvidia-container-runtime/config.toml."""
    no_cgroups: bool | None = None
    mode: str | None = None
    at: int | None = None
    section = ""
    for index, line in enumerate(text.splitlines()):
        stripped = line.strip()
        if match := re.match(r"\[([\w.-]+)\]", stripped):
            section = match[1]
        elif match := re.match(r"no-cgroups\s*=\s*(true|false)", stripped):
            no_cgroups, at = match[1] == "true", index
        elif section == "nvidia-container-runtime" and (match := re.match(r'mode\s*=\s*"([\w-]+)"', stripped)):
            mode = match[1]
    return no_cgroups, mode, at


def _collect_toolkit_config(source: Source, found: Collected) -> None:
    answer = source.read(TOOLKIT_CONFIG)
    if answer.status is not Status.OK:
        return
    no_cgroups, mode, at = parse_toolkit_config(answer.text)
    if no_cgroups is None and not answer.truncated:
        no_cgroups = False  # its default; the packaged file has it commented out
    found.set(
        "toolkit_no_cgroups", no_cgroups, quote(answer, at, None if at is not None else "no-cgroups is not set")
    )
    found.set(
        "toolkit_mode",
        mode or (None if answer.truncated else "auto"),
        quote(answer, find_line(answer.text, "mode =")),
    )


def parse_containerd_config(text: str) -> tuple[bool, str | None]:
    """Whether a containerd configuration has a runtime called nvidia, and its default runtime."""
    configured = re.search(r"(?m)^[ \t]*\[plugins\..*\.runtimes\.[\"']?nvidia[\w-]*[\"']?\]", text) is not None
    default = re.search(r"(?m)^[ \t]*default_runtime_name\s*=\s*[\"']([^\"']+)[\"']", text)
    return configured, default[1] if default else None


def _collect_containerd(source: Source, found: Collected) -> None:
    if is_machine(source):
        paths = ("/usr/bin/containerd", "/usr/local/bin/containerd", "/var/lib/rancher/k3s", "/var/lib/rancher/rke2")
        seen = [exists(source, path) for path in paths]
        found.set("containerd_installed", True if any(seen) else False if seen[0] is False else None)
    configured: bool | None = None
    for answer in _containerd_files(source):
        has_nvidia, default = parse_containerd_config(answer.text)
        if has_nvidia:
            configured = True
            line = next(
                (i for i, text in enumerate(answer.text.splitlines()) if "runtimes" in text and "nvidia" in text),
                None,
            )
            found.evidence["containerd_nvidia_configured"] = quote(answer, line)
        elif answer.truncated and answer.filtered_by and "nvidia" in answer.filtered_by and answer.text.strip():
            configured = True
        elif configured is None and (not answer.truncated or answer.filtered_by == "nvidia"):
            configured = False
            found.evidence["containerd_nvidia_configured"] = quote(answer, None, "no runtime nvidia")
        found.set(
            "containerd_default_runtime", default, quote(answer, find_line(answer.text, "default_runtime_name"))
        )
    if configured is not None:
        found.values["containerd_nvidia_configured"] = configured
    started = started_at(source, service(source, "containerd"))
    modified = source.stat(_CONTAINERD_CONFIGS[0]).modified
    if started is not None and modified is not None:
        path = _CONTAINERD_CONFIGS[0]
        words = f"{path} was changed {'before' if modified <= started else 'after'} containerd started"
        found.set("containerd_restarted_since_config", modified <= started + 1, Evidence(source=path, text=words))


def _containerd_files(source: Source) -> list[FileAnswer]:
    paths = list(_CONTAINERD_CONFIGS)
    paths += [
        f"{_CONTAINERD_DROP_INS}/{name}" for name in source.list(_CONTAINERD_DROP_INS).names if name.endswith(".toml")
    ]
    return [answer for answer in map(source.read, paths) if answer.status is Status.OK]


def _collect_podman(source: Source, found: Collected) -> None:
    if is_machine(source):
        installed = exists(source, "/usr/bin/podman")
        found.set("podman_installed", installed, Evidence(source="/usr/bin/podman", text="/usr/bin/podman"))
        # Its version matters for CDI only, and starting it takes longer than all of this.
        if not installed or not (found.get("toolkit_installed") or exists(source, "/proc/driver/nvidia")):
            return
    answer = source.run("podman", "--version")
    match = re.search(r"podman version (\d+\.\d+\S*)", answer.stdout) if said(answer) else None
    if match is None:
        answer = source.run(*requests.PODMAN_INFO) if not is_machine(source) else answer
        match = re.search(r"(?m)^[ \t]+Version:\s+(\d+\.\d+\S*)", answer.stdout) if said(answer) else None
    if match:
        found.set("podman_installed", True)
        found.set("podman_version", match[1], quote(answer, find_line(answer.stdout, match[1])))


def _collect_crio(source: Source, found: Collected) -> None:
    directory = "/etc/crio/crio.conf.d"
    names = [f"{directory}/{name}" for name in source.list(directory).names]
    answers = [
        answer for path in ("/etc/crio/crio.conf", *names) if (answer := source.read(path)).status is Status.OK
    ]
    if not answers:
        return
    for answer in answers:
        line = find_line(answer.text, "runtimes.nvidia")
        if line is not None:
            found.set("crio_nvidia_configured", True, quote(answer, line))
            return
    found.set("crio_nvidia_configured", False, quote(answers[0], None, "no runtime nvidia"))
