"""The kernel side of the driver: loaded module, modules on disk, modprobe configuration."""

from __future__ import annotations

import re
from typing import NamedTuple

from gpudoctor.facts import Evidence
from gpudoctor.probes.ask import is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, Source, Status

PROC_VERSION = "/proc/driver/nvidia/version"
# /proc/driver/nvidia/version and the line that the module logs when it loads, proprietary and open, 3xx to now.
_BANNER = re.compile(
    r"NVIDIA UNIX (?P<open>Open )?(?:\w+ )?Kernel Module(?: for \S+)?\s+(?P<version>\d+\.\d+(?:\.\d+)*)"
)
_GCC = re.compile(
    r"GCC version:\s+(?:gcc|.*?gcc.*?) version (\d+(?:\.\d+)+)|GCC version:\s+.*?(clang version \d+(?:\.\d+)+)"
)
_NVIDIA_MODULE = re.compile(
    r"^nvidia(?:-current(?:-open)?|-open|-(?:legacy|tesla)-[\w-]*|[-_]?\d{3})?\.ko(?:\.(?:xz|gz|zst|bz2))?$"
)
# Where distributions, DKMS and the vendor's installer put modules, below /lib/modules/RELEASE.
_MODULE_DIRS = (
    "updates/dkms",
    "updates",
    "extra",
    "extra/nvidia",
    "extra/drivers/video/nvidia",
    "weak-updates",
    "weak-updates/nvidia",
    "kernel/drivers/video",
    "kernel/drivers/video/nvidia",
    "kernel/drivers/char/drm",
    "kernel/extramodules",
    "extramodules",
    "misc",
    "video",
)


class Banner(NamedTuple):
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


def parse_modinfo(text: str) -> dict[str, str]:
    """The fields of `modinfo`, the first of each name."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"^(\w+):\s*(.*)$", line)
        if match and match[1] not in values:
            values[match[1]] = match[2].strip()
    return values


def flavor_of_license(text: str) -> str | None:
    """The open modules are "Dual MIT/GPL", the proprietary one "NVIDIA"."""
    if "MIT" in text or "GPL" in text:
        return "open"
    return "proprietary" if text.strip().upper() == "NVIDIA" else None


def parse_modules(text: str) -> list[str]:
    """Module names of lsmod or /proc/modules."""
    names: list[str] = []
    for line in text.splitlines():
        match = re.match(r"^\s*([\w-]+)\s+\d+\s+-?\d+\b", line)
        if match:
            names.append(match[1].replace("-", "_"))
    return names


def is_nvidia_module_file(name: str) -> bool:
    """Whether a file name is that of the driver's main module (nvidia.ko, nvidia-current.ko.xz), not one of its helpers."""
    return _NVIDIA_MODULE.match(name) is not None


def module_files(source: Source, kernel: str) -> list[str] | None:
    """The driver's main module on disk for one kernel; `None` when the disk was not seen."""
    base = f"/lib/modules/{kernel}"
    top = source.list(base)
    if top.status is not Status.OK:
        return [] if is_absent(top) else None
    directories = list(_MODULE_DIRS)
    # Ubuntu's ready-built modules lie in kernel/nvidia-535 (and -535srv).
    directories += [f"kernel/{name}" for name in source.list(f"{base}/kernel").names if name.startswith("nvidia")]
    found = []
    for directory in directories:
        for name in source.list(f"{base}/{directory}").names:
            if is_nvidia_module_file(name):
                found.append(f"{base}/{directory}/{name}")
    return found


class Loaded(NamedTuple):
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
    filtered = answer.filtered_by if isinstance(answer, CommandAnswer) else None
    return Loaded(parse_modules(answer.text), filtered is None and not answer.truncated, answer)


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
    if not is_machine(source):
        _collect_from_log(source, found)


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
    """Whether a filter would have shown a module's line, had there been one."""
    pattern = answer.filtered_by if isinstance(answer, CommandAnswer) else None
    if not pattern or answer.truncated:
        return False
    try:
        return re.search(pattern, module, re.IGNORECASE) is not None
    except re.error:
        return pattern.lower() in module


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


def _collect_from_log(source: Source, found: Collected) -> None:
    """In attached or pasted logs the module introduces itself when it loads; that it loaded then does not prove that it still is."""
    for document in source.documents():
        banner = parse_banner(document.text) if "NVIDIA UNIX" in document.text else None
        if banner is None:
            continue
        numbers = document.line_numbers
        number = numbers[banner.line] if numbers and banner.line < len(numbers) else banner.line + 1
        line = document.text.splitlines()[banner.line].strip()[:400]
        evidence = Evidence(source=document.name, text=line, line=number)
        found.set("kernel_module_version", banner.version, evidence)
        found.set("module_flavor", banner.flavor, evidence)
        return


def collect_on_disk(source: Source, kernel: str | None, found: Collected) -> None:
    """Sets which kernels have an nvidia module on disk, and the version of the running kernel's."""
    listing = source.list("/lib/modules")
    seen: dict[str, list[str] | None] = {}
    if listing.status is Status.OK:
        kernels = [name for name in listing.names if re.match(r"\d+\.\d+", name)]
        seen = {name: module_files(source, name) for name in kernels}
        having = [name for name, files in seen.items() if files]
        if all(files is not None for files in seen.values()):
            words = f"nvidia module for: {', '.join(having) or 'no kernel'}; kernels: {', '.join(kernels) or 'none'}"
            found.set("module_on_disk_kernels", having, Evidence(source="/lib/modules", text=words))
    if kernel is not None and listing.status in (Status.OK, Status.NOT_FOUND):
        files = seen.get(kernel, [])
        if files is not None:
            words = files[0] if files else f"no nvidia module below /lib/modules/{kernel}"
            found.set("module_for_running_kernel", bool(files), Evidence(source="/lib/modules", text=words))
            if files and is_machine(source):
                name = re.sub(r"\.ko.*$", "", files[0].rsplit("/", 1)[-1])
                _collect_modinfo(source.run("modinfo", name), found)
    elif not is_machine(source):
        _collect_pasted_modinfo(source, found)


def _collect_modinfo(answer: CommandAnswer, found: Collected) -> None:
    if not said(answer):
        return
    if re.search(r"Module \S+ not found|could not find module", answer.text, re.IGNORECASE):
        found.set("module_for_running_kernel", False, quote(answer))
        return
    values = parse_modinfo(answer.stdout)
    version = values.get("version")
    if version and re.match(r"\d+\.\d+", version):
        found.set("module_on_disk_version", version, quote(answer, find_line(answer.stdout, "version:")))
    if "vermagic" in values and (match := re.match(r"\S+", values["vermagic"])):
        found.set("module_on_disk_kernels", [match[0]], quote(answer, find_line(answer.stdout, "vermagic:")))
    if "license" in values:
        line = quote(answer, find_line(answer.stdout, "license:"))
        found.set("module_flavor", flavor_of_license(values["license"]), line)
    if version or values.get("filename"):
        found.set("module_for_running_kernel", True, quote(answer))


def _collect_pasted_modinfo(source: Source, found: Collected) -> None:
    _collect_modinfo(source.run(*requests.MODINFO_NVIDIA), found)
    for field, name in (("version", "module_on_disk_version"), ("license", "module_flavor"), ("vermagic", "")):
        for argv in (("modinfo", "-F", field, "nvidia"), ("modinfo", "--field", field, "nvidia")):
            answer = source.run(*argv)
            value = answer.stdout.strip().split("\n", 1)[0] if said(answer) else ""
            if not value:
                continue
            if field == "version" and re.match(r"\d+\.\d+", value):
                found.set(name, value, quote(answer, 0))
                found.set("module_for_running_kernel", True, quote(answer, 0))
            elif field == "license":
                found.set(name, flavor_of_license(value), quote(answer, 0))
            elif field == "vermagic":
                found.set("module_on_disk_kernels", [value.split()[0]], quote(answer, 0))
