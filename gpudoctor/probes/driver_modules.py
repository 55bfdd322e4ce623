"""Which kernel modules are loaded: the driver, its version and flavour, its helpers, nouveau."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import filter_shows, is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Source, Status

PROC_VERSION = "/proc/driver/nvidia/version"
# /proc/driver/nvidia/version and the line that the module logs when it loads, proprietary and open, 3xx to now.
_BANNER = Lazy(r"NVIDIA UNIX (?P<open>Open )?(?:\w+ )?Kernel Module(?: for \S+)?\s+(?P<version>\d+\.\d+(?:\.\d+)*)")
_GCC = Lazy(
    r"GCC version:\s+(?:gcc|.*?gcc.*?) version (\d+(?:\.\d+)+)|GCC version:\s+.*?(clang version \d+(?:\.\d+)+)"
)


class Banner(msgspec.Struct, frozen=True):
    version: str
    flavor: str  # open, proprietary
    line: int


def parse_banner(text: str) -> Banner | None:
    """Version and flavour in /proc/driver/nvidia/version or in the line that the module logs; the last one in a log counts."""
    found = None
    for index, line in enumerate(text.splitlines()):
        match = _BANNER.search(line) if "NVIDIA UNIX" in line else None
        if match is not None:
            found = Banner(match["version"], "open" if match["open"] else "proprietary", index)
    return found


def parse_module_compiler(text: str) -> str | None:
    """The compiler in the second line of /proc/driver/nvidia/version, "gcc 12.3.0"."""
    match = _GCC.search(text)
    if match is None:
        return None
    return f"gcc {match[1]}" if match[1] else match[2].replace("clang version", "clang")


def parse_modules(text: str) -> list[str]:
    """Module names of lsmod or /proc/modules."""
    names: list[str] = []
    for line in text.splitlines():
        match = re.match(r"^\s*([\w-]+)\s+\d+\s+-?\d+\b", line)
        if match:
            names.append(match[1].replace("-", "_"))
    return names


class Loaded(msgspec.Struct, frozen=True):
    """Names of loaded modules; `complete` False when the list was filtered or cut."""

    names: list[str]
    complete: bool
    answer: CommandAnswer | FileAnswer


def loaded_modules(source: Source) -> Loaded | None:
    """The loaded modules, from /proc/modules or lsmod; `None` when neither answered."""
    answer: CommandAnswer | FileAnswer = source.read("/proc/modules")
    if answer.status is not Status.OK and not is_machine(source):
        answer = source.run(*requests.LSMOD)
    if answer.status is not Status.OK and not (isinstance(answer, CommandAnswer) and said(answer)):
        return None
    complete = answer.filtered_by is None and not answer.truncated
    return Loaded(parse_modules(answer.text), complete, answer)


def collect_loaded(source: Source, found: Collected) -> None:
    """Sets what is loaded: version, flavour, helpers, nouveau."""
    version = source.read(PROC_VERSION)
    banner = parse_banner(version.text) if version.status is Status.OK else None
    if banner is not None:
        evidence = quote(version, banner.line)
        found.set("kernel_module_version", banner.version, evidence)
        found.set("module_flavor", banner.flavor, evidence)
        found.set("loaded", True, evidence)
        found.set(
            "module_compiler", parse_module_compiler(version.text), quote(version, find_line(version.text, "GCC"))
        )
    sysfs = source.read("/sys/module/nvidia/version")
    if sysfs.status is Status.OK and re.match(r"\d+\.\d+", sysfs.text.strip()):
        found.set("kernel_module_version", sysfs.text.strip(), quote(sysfs, 0))
        found.set("loaded", True, quote(sysfs, 0))
    modules = loaded_modules(source)
    if modules is not None:
        _collect_names(modules, found)
    elif is_machine(source):
        _collect_from_sysfs(source, found)
    if banner is None and is_absent(version) and is_machine(source):
        found.set("loaded", False, Evidence(source=PROC_VERSION, text=f"{PROC_VERSION} does not exist"))


def _collect_names(modules: Loaded, found: Collected) -> None:
    fields = {
        "loaded": ("nvidia", "nvidia_current"),
        "uvm_loaded": ("nvidia_uvm", "nvidia_current_uvm"),
        "modeset_loaded": ("nvidia_modeset", "nvidia_current_modeset"),
        "peermem_loaded": ("nvidia_peermem", "nv_peer_mem", "nvidia_current_peermem"),
        "nouveau_loaded": ("nouveau",),
        "nova_loaded": ("nova_core",),
    }
    answer = modules.answer
    lines = answer.text.splitlines()
    for field, names in fields.items():
        name = next((name for name in names if name in modules.names), None)
        if name is not None:
            pattern = re.compile(rf"^\s*{name.replace('_', '[_-]')}\s")
            index = next((i for i, line in enumerate(lines) if pattern.match(line)), None)
            found.set(field, True, quote(answer, index))
        elif modules.complete or _filter_shows(answer, names[0]):
            found.set(field, False, quote(answer, None, f"no module {names[0]} is loaded"))


def _filter_shows(answer: CommandAnswer | FileAnswer, module: str) -> bool:
    """Whether a filter would have shown a module's line, had there been one. (A filtered file counts as cut short.)"""
    cut = answer.truncated and isinstance(answer, CommandAnswer)
    return answer.filtered_by is not None and not cut and filter_shows(answer.filtered_by, module)


def _collect_from_sysfs(source: Source, found: Collected) -> None:
    """Kernels without /proc/modules still list what has parameters or a version below /sys/module."""
    listing = source.list("/sys/module")
    if listing.status is not Status.OK:
        return
    fields = {
        "loaded": "nvidia",
        "uvm_loaded": "nvidia_uvm",
        "modeset_loaded": "nvidia_modeset",
        "nouveau_loaded": "nouveau",
    }
    for field, name in fields.items():
        words = f"/sys/module/{name} {'exists' if name in listing.names else 'does not exist'}"
        found.set(field, name in listing.names, Evidence(source="/sys/module", text=words))
