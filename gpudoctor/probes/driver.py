"""The NVIDIA driver: kernel module, user-space half, DKMS, packages, device nodes, services."""

from __future__ import annotations

import re

from gpudoctor.facts import Driver
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import is_machine, read_text, said
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.probes.container_detect import detect
from gpudoctor.probes.driver_config import collect_blacklists, collect_options
from gpudoctor.probes.driver_disk import collect_on_disk
from gpudoctor.probes.driver_dkms import collect_dkms
from gpudoctor.probes.driver_history import collect_history
from gpudoctor.probes.driver_log import collect_from_logs
from gpudoctor.probes.driver_modules import collect_loaded
from gpudoctor.probes.driver_packages import collect_packages
from gpudoctor.probes.driver_userspace import (
    collect_install_method,
    collect_libraries,
    collect_nodes,
    collect_nvidia_smi,
    collect_services,
)
from gpudoctor.probes.host_os import parse_uname
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source, Status

NAME = "driver"


def probe(source: Source) -> Driver | None:
    """The driver's facts. In a container, disk, packages and services are the image's, so only what the host shares is told."""
    found = Collected()
    inside = detect(source).inside is True
    collect_loaded(source, found)
    collect_options(source, found)
    collect_libraries(source, found)
    collect_nvidia_smi(source, found)
    collect_nodes(source, found)
    _collect_firmware(source, found)
    if not inside:
        collect_on_disk(source, _kernel(source), found)
        collect_blacklists(source, found)
        collect_dkms(source, found)
        collect_packages(source, found)
        if found.get("packages") or not is_machine(source):
            collect_history(source, found)
        collect_services(source, found)
        _collect_fabric_manager_version(source, found)
    collect_install_method(source, found)
    if not is_machine(source):
        collect_from_logs(source, found)
    return found.build(Driver)


def _kernel(source: Source) -> str | None:
    for request in (requests.UNAME_A, requests.UNAME_R):
        answer = source.run(*request)
        release = parse_uname(answer.stdout).release if said(answer) else None
        if release:
            return release
    return read_text(source, "/proc/sys/kernel/osrelease")


def _collect_firmware(source: Source, found: Collected) -> None:
    """The GSP firmware that the first GPU runs."""
    for name in source.list("/proc/driver/nvidia/gpus").names[:1]:
        answer = source.read(f"/proc/driver/nvidia/gpus/{name}/information")
        match = re.search(r"(?m)^GPU Firmware:\s+(\d\S*)", answer.text) if answer.status is Status.OK else None
        if match:
            evidence = quote(answer, find_line(answer.text, "GPU Firmware:"))
            found.set("gsp_firmware_version", match[1], evidence)


_FABRIC_MANAGER_VERSION = Lazy(r"(?i)fabric manager version\s*(?:is)?\s*:\s*(\d+\.\d+(?:\.\d+)*)")


def _collect_fabric_manager_version(source: Source, found: Collected) -> None:
    for package in found.get("packages") or []:
        if "fabricmanager" in package.name.replace("-", "") and package.driver_version:
            found.set("fabric_manager_version", package.driver_version, package.evidence.get(""))
            found.set("fabric_manager_installed", package.state != "config-files", package.evidence.get(""))
    log = source.read("/var/log/fabricmanager.log") if found.get("fabric_manager_installed") else None
    if log is None or log.status is not Status.OK:
        command = source.run(*requests.FABRIC_MANAGER_LOG) if not is_machine(source) else None
        if command is None or not said(command):
            return
        matches = list(_FABRIC_MANAGER_VERSION.finditer(command.text))
        if matches:
            found.set(
                "fabric_manager_version", matches[-1][1], quote(command, find_line(command.text, matches[-1][0]))
            )
        return
    matches = list(_FABRIC_MANAGER_VERSION.finditer(log.text))
    if matches:
        found.set("fabric_manager_version", matches[-1][1], quote(log, find_line(log.text, matches[-1][0])))
