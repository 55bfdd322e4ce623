"""DKMS: which driver modules were built for which kernels, from `dkms status` or from its tree."""

from __future__ import annotations

import re

from gpudoctor.facts import DkmsModule, Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import filter_shows, is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source, Status

TREE = "/var/lib/dkms"
# The driver under its names in distributions, not its companions (nvidia-fs, nvidia-peermem).
_DRIVER = Lazy(r"^nvidia(?:-(?:current|open|srv|server|legacy|tesla|kernel|graphics|\d)[\w.-]*)?$")
# nvidia, 535.183.01, 6.8.0-49-generic, x86_64: installed   (DKMS 2)
# nvidia/535.183.01, 6.8.0-49-generic, x86_64: installed    (DKMS 3);  nvidia/535.183.01: added
_STATUS = Lazy(
    r"^\s*(?P<module>[\w.+-]+)(?:/|, ?)(?P<version>[\w.+:~-]+)(?:, (?P<kernel>[^,\s]+), (?P<arch>[^,:\s]+))?: (?P<state>added|built|installed|broken)\b"
)
_BUILD_ERROR = Lazy(
    r"\berror:|fatal error:|\*\*\* .*(?:Stop|Error)|Error!|cc: not found|FATAL:|GPL-incompatible|No rule to make|cannot find",
    re.IGNORECASE,
)


def is_driver_module(name: str) -> bool:
    """Whether a DKMS module's name is that of the NVIDIA driver."""
    return _DRIVER.match(name) is not None


def parse_dkms_status(text: str) -> list[tuple[DkmsModule, int]]:
    """The driver's entries in `dkms status` of either major version, with the index of their line."""
    found = []
    for index, line in enumerate(text.splitlines()):
        match = _STATUS.match(line)
        if match is None or not is_driver_module(match["module"]):
            continue
        entry = DkmsModule(
            module=match["module"],
            version=match["version"],
            kernel=match["kernel"],
            arch=match["arch"],
            state=match["state"],
        )
        found.append((entry, index))
    return found


def collect_dkms(source: Source, found: Collected) -> None:
    """Sets dkms; an empty list when DKMS is known to have no driver module or not to be there."""
    tree = source.list(TREE)
    if tree.status is Status.OK and tree.filtered_by is None and (is_machine(source) or not tree.names):
        entries = read_tree(source, tree.names)
        words = "; ".join(_line(entry) for entry in entries) or "no nvidia module"
        found.set("dkms", entries, entries[0].evidence[""] if entries else Evidence(source=TREE, text=words))
        _collect_build_error(source, entries, found)
        return
    answer = source.run(*requests.DKMS_STATUS) if not is_absent(tree) else None
    if answer is None:
        found.set("dkms", [], Evidence(source=TREE, text=f"{TREE} does not exist"))
    elif said(answer):
        entries = [
            DkmsModule(**_fields(entry), evidence={"": quote(answer, index)})
            for entry, index in parse_dkms_status(answer.text)
        ]
        shown = filter_shows(answer.filtered_by, "nvidia/535.183.01, 6.8.0-49-generic, x86_64: installed")
        if entries or (answer.status is Status.OK and not answer.truncated and shown):
            found.set(
                "dkms", entries, entries[0].evidence[""] if entries else quote(answer, None, "(no nvidia module)")
            )


def read_tree(source: Source, modules: list[str]) -> list[DkmsModule]:
    """The driver's entries in /var/lib/dkms: MODULE/VERSION/KERNEL/ARCH is built, MODULE/kernel-KERNEL-ARCH installed."""
    entries: list[DkmsModule] = []
    for module in filter(is_driver_module, modules):
        base = f"{TREE}/{module}"
        names = source.list(base).names
        installed = {name: source.stat(f"{base}/{name}").target or "" for name in names if name.startswith("kernel-")}
        for version in names:
            if version.startswith("kernel-") or version == "original_module":
                continue
            entries += _read_version(source, module, version, installed)
    return entries


def _read_version(source: Source, module: str, version: str, installed: dict[str, str]) -> list[DkmsModule]:
    base = f"{TREE}/{module}/{version}"
    inside = source.list(base)
    if inside.status is not Status.OK:
        return []
    link = source.stat(f"{base}/source")
    if is_absent(link) or (link.status is Status.OK and link.kind == "link" and link.target_exists is False):
        return [_entry(module, version, "broken")]
    built = []
    for kernel in inside.names:
        if kernel in ("source", "build"):
            continue
        for arch in source.list(f"{base}/{kernel}").names:
            target = installed.get(f"kernel-{kernel}-{arch}")
            state = "installed" if target is not None and version in target.split("/") else "built"
            built.append(_entry(module, version, state, kernel, arch))
    return built or [_entry(module, version, "added")]


def _entry(module: str, version: str, state: str, kernel: str | None = None, arch: str | None = None) -> DkmsModule:
    entry = DkmsModule(module=module, version=version, kernel=kernel, arch=arch, state=state)
    return DkmsModule(**_fields(entry), evidence={"": Evidence(source="dkms status", text=_line(entry))})


def _fields(entry: DkmsModule) -> dict[str, str]:
    names = ("module", "version", "kernel", "arch", "state")
    return {name: value for name in names if (value := getattr(entry, name)) is not None}


def _line(entry: DkmsModule) -> str:
    """The entry as `dkms status` prints it."""
    kernel = f", {entry.kernel}, {entry.arch}" if entry.kernel else ""
    return f"{entry.module}/{entry.version}{kernel}: {entry.state}"


def first_build_error(text: str) -> int | None:
    """The index of the first line of a make.log that says what went wrong."""
    return next((i for i, line in enumerate(text.splitlines()) if _BUILD_ERROR.search(line)), None)


def _collect_build_error(source: Source, entries: list[DkmsModule], found: Collected) -> None:
    """The log of the last build stays in build/ only when it failed."""
    for module, version in dict.fromkeys((entry.module, entry.version) for entry in entries):
        log = source.read(f"{TREE}/{module}/{version}/build/make.log")
        index = first_build_error(log.text) if log.status is Status.OK else None
        if index is not None:
            evidence = quote(log, index)
            found.set("dkms_autoinstall_error", evidence.text, evidence)
