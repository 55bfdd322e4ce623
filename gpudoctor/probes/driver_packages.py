"""Installed packages of the driver and what belongs to it: dpkg, rpm, pacman."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from gpudoctor.facts import Evidence, Package
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import filter_shows, is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, Source, Status

DPKG_STATUS = "/var/lib/dpkg/status"
_RELEVANT = Lazy(
    r"nvidia|^cuda|^libcuda|nvml|^libnccl|cudnn|^datacenter-gpu-manager|^dkms$|^xserver-xorg-video-nouveau|^libnvoptix|^xserver-xorg-video-nvidia|gdrdrv|gdrcopy"
    r"|^libcublas|^nvlsm|^nvlink|^mlnx-ofed-kernel-dkms$"
)
_KERNEL = Lazy(
    r"^(?:linux-(?:image|headers|modules)-|kernel-(?:devel|headers|core|default-devel)|kernel$|linux-headers$|linux(?:-lts|-zen)?$)"
)
_DRIVER_VERSION = Lazy(r"(?:^|[:_-])(\d{3}\.\d{2,3}(?:\.\d{2})?)(?=[^\d.]|$)")
# a line of a listing in a form that is not known, which therefore does not say that there is no package
_UNREAD = Lazy(r"(?im)^(?!\s*[up]n\s)(?!.*(?:not installed|no packages|no matching|error:)).*nvidia")
_STATES = {
    "ii": "installed",
    "hi": "held",
    "rc": "config-files",
    "iU": "unpacked",
    "iF": "half-configured",
    "iH": "half-installed",
    "pn": "not-installed",
    "un": "not-installed",
    "it": "triggers-pending",
    "iW": "triggers-awaited",
    "ri": "installed",
    "pi": "installed",
}


def is_relevant(name: str) -> bool:
    """Whether a package has to do with NVIDIA's driver, CUDA or containers with GPUs."""
    return _RELEVANT.search(name) is not None


def driver_version_in(version: str) -> str | None:
    """The driver's version in a package version: 535.183.01 in "535.183.01-0ubuntu0.22.04.1", "3:550.54.15-1.el9"."""
    match = _DRIVER_VERSION.search(version)
    return match[1] if match else None


def parse_dpkg_status(text: str, names: Iterable[str] | None = None) -> list[tuple[Package, int]]:
    """Relevant packages of /var/lib/dpkg/status with the index of their first line; `names` are those to look for, if known."""
    if names is None:
        starts = [(match[1], match.start()) for match in re.finditer(r"(?m)^Package: (\S+)$", text)]
    else:
        starts = [(name, at) for name in names for at in _stanzas(text, name)]
    found = []
    line, counted = 0, 0
    for name, start in sorted(starts, key=lambda pair: pair[1]):
        kernel = _KERNEL.match(name) is not None
        if not kernel and not is_relevant(name):
            continue
        end = text.find("\n\n", start)
        stanza = text[start : end if end >= 0 else len(text)]
        state = re.search(r"(?m)^Status: (\S+) (\S+) (\S+)", stanza)
        version = re.search(r"(?m)^Version: (\S+)", stanza)
        if state is None or version is None or state[3] == "not-installed":
            continue
        words = "held" if state[1] == "hold" and state[3] == "installed" else state[3]
        if not kernel or words == "installed":
            line += text.count("\n", counted, start)
            counted = start
            found.append((_package(name, version[1], words, "dpkg"), line))
    return found


def _stanzas(text: str, name: str) -> Iterator[int]:
    """Where the package's stanzas begin: one per architecture."""
    needle = f"Package: {name}\n"
    at = text.find(needle)
    while at >= 0:
        if at == 0 or text[at - 1] == "\n":
            yield at
        at = text.find(needle, at + 1)


def parse_dpkg_list(text: str) -> list[tuple[Package, int]]:
    """Relevant packages of `dpkg -l` with the index of their line."""
    found = []
    for index, line in enumerate(text.splitlines()):
        match = re.match(r"^\s*([uirph][ncHUFWti])([ R]?)\s+(\S+)\s+(\S+)", line)
        if match is None or match[1] in ("un", "pn"):
            continue
        name = match[3].split(":", 1)[0]
        if is_relevant(name) or _KERNEL.match(name):
            found.append((_package(name, match[4], _STATES.get(match[1], match[1]), "dpkg"), index))
    return found


_RPM_FORMS = (
    Lazy(r"^\s*([\w+.-]+?)-(\d[\w.+~^:]*-[\w.+~^]+)\.(?:x86_64|aarch64|noarch|i686|ppc64le)(?:\s|$)"),
    Lazy(r"^\s*([A-Za-z][\w+.-]*?)(?:\.(?:x86_64|aarch64|noarch|i686|ppc64le))?\s+((?:\d+:)?\d[\w.+~^-]*)(?:\s|$)"),
)


def parse_rpm_list(text: str) -> list[tuple[Package, int]]:
    """Relevant packages with the index of their line: `rpm -qa` (name-version-release.arch), columns of a query format, `dnf list installed`."""
    found = []
    for index, line in enumerate(text.splitlines()):
        match = next((match for form in _RPM_FORMS if (match := form.search(line))), None)
        if match is not None and (is_relevant(match[1]) or _KERNEL.match(match[1])):
            found.append((_package(match[1], match[2], "installed", "rpm"), index))
    return found


def parse_pacman_list(text: str) -> list[tuple[Package, int]]:
    """Relevant packages of `pacman -Q` ("nvidia-dkms 550.54.14-1") with the index of their line."""
    found = []
    for index, line in enumerate(text.splitlines()):
        words = line.split()
        if len(words) == 2 and (is_relevant(words[0]) or _KERNEL.match(words[0])) and words[1][:1].isdecimal():
            found.append((_package(words[0], words[1], "installed", "pacman"), index))
    return found


def _package(name: str, version: str, state: str, manager: str) -> Package:
    # CUDA's own libraries have versions of two digits, but cuDNN 8.x.y.zzz and kernels could look like a driver's.
    own = "nvidia" in name or name.startswith(("cuda-drivers", "libcuda", "libnvidia", "nvlsm"))
    return Package(
        name=name,
        version=version,
        state=state,
        manager=manager,
        driver_version=driver_version_in(version) if own else None,
    )


def collect_packages(source: Source, found: Collected) -> None:
    """Sets packages. An empty list: the package database was seen and has none."""
    if is_machine(source):
        _collect_from_machine(source, found)
        return
    for request, parse in (
        (requests.DPKG_LIST, parse_dpkg_list),
        (requests.RPM_LIST, parse_rpm_list),
        (requests.PACMAN_LIST, parse_pacman_list),
    ):
        answer = source.run(*request)
        if not said(answer):
            continue
        packages = [_with_evidence(package, answer, index) for package, index in parse(answer.text)]
        shown = filter_shows(answer.filtered_by, "nvidia-driver") and not answer.truncated
        unread = not packages and _UNREAD.search(answer.text) is not None
        if packages or (shown and answer.status is Status.OK and not unread):
            found.set("packages", packages, packages[0].evidence[""] if packages else quote(answer, None, "(none)"))


def _with_evidence(package: Package, answer: CommandAnswer, index: int) -> Package:
    return msgspec.structs.replace(package, evidence={"": quote(answer, index)})


# What a relevant name contains: looked for in the whole listing first, as most machines have none.
_HINTS = ("nvidia", "cuda", "nvml", "nccl", "cudnn", "cublas", "nvoptix", "datacenter-gpu", "gdr", "nvlsm", "nvlink")


def _listed(files: list[str]) -> list[str]:
    """Names of relevant and of kernel packages in a listing of /var/lib/dpkg/info; empty without any hint."""
    joined = "\n".join(files)
    if not any(hint in joined for hint in _HINTS):
        return []
    names = dict.fromkeys(name[:-5].split(":", 1)[0] for name in files if name.endswith(".list"))
    return [name for name in names if is_relevant(name) or _KERNEL.match(name)]


def _collect_from_machine(source: Source, found: Collected) -> None:
    info = source.list("/var/lib/dpkg/info")
    if info.status is Status.OK:
        # The listing is quick; the status file of megabytes is only read where it has something to tell.
        names = _listed(info.names)
        if not any(is_relevant(name) for name in names):
            found.set("packages", [], Evidence(source="/var/lib/dpkg/info", text="no NVIDIA package is installed"))
            return
        status = source.read(DPKG_STATUS)
        if status.status is Status.OK:
            packages = [
                Package(
                    name=package.name,
                    version=package.version,
                    state=package.state,
                    manager="dpkg",
                    driver_version=package.driver_version,
                    evidence={
                        "": Evidence(
                            source=DPKG_STATUS,
                            text=f"{package.name} {package.version} ({package.state})",
                            line=index + 1,
                        )
                    },
                )
                for package, index in parse_dpkg_status(status.text, names)
            ]
            found.set("packages", packages)
        return
    pacman = source.list("/var/lib/pacman/local")
    if pacman.status is Status.OK:
        text = "\n".join(
            " ".join(name.rsplit("-", 2)[:1]) + " " + "-".join(name.rsplit("-", 2)[1:]) for name in pacman.names
        )
        found.set("packages", [package for package, _ in parse_pacman_list(text)])
        return
    databases = ("/var/lib/rpm", "/usr/lib/sysimage/rpm")
    if any(source.list(path).status is Status.OK for path in databases):
        answer = source.run(*requests.RPM_LIST, timeout=10.0)
        if answer.status is Status.OK:
            found.set("packages", [_with_evidence(p, answer, index) for p, index in parse_rpm_list(answer.stdout)])
    elif is_absent(info) and is_absent(pacman):
        return
