"""The driver's kernel modules on disk: for which kernels, and which version."""

from __future__ import annotations

import re

from gpudoctor.facts import Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, Source, Status

_NVIDIA_MODULE = Lazy(
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
_PATH = Lazy(r"/lib/modules/([^/\s*]+)/\S*?/nvidia(?:-current)?\.ko(?:\.\w+)?\b")


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


def is_nvidia_module_file(name: str) -> bool:
    """Whether a file name is that of the driver's main module (nvidia.ko, nvidia-current.ko.xz), not one of its helpers."""
    return _NVIDIA_MODULE.match(name) is not None


def module_files(source: Source, kernel: str) -> list[str] | None:
    """The driver's main module on disk for one kernel; `None` when the disk was not seen."""
    base = f"/lib/modules/{kernel}"
    top = source.list(base)
    if top.status is not Status.OK or top.filtered_by is not None:
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


def collect_on_disk(source: Source, kernel: str | None, found: Collected) -> None:
    """Sets which kernels have an nvidia module on disk, and the version of the running kernel's."""
    listing = source.list("/lib/modules")
    seen: dict[str, list[str] | None] = {}
    if listing.status is Status.OK:
        kernels = [name for name in listing.names if re.match(r"\d+\.\d+", name)]
        seen = {name: module_files(source, name) for name in kernels}
        having = [name for name, files in seen.items() if files]
        if listing.filtered_by is None and all(files is not None for files in seen.values()):
            words = f"nvidia module for: {', '.join(having) or 'no kernel'}; kernels: {', '.join(kernels) or 'none'}"
            found.set("module_on_disk_kernels", having, Evidence(source="/lib/modules", text=words))
    complete = is_absent(listing) or (listing.status is Status.OK and listing.filtered_by is None)
    files = seen.get(kernel, []) if kernel is not None and complete else None
    if files is not None:
        words = files[0] if files else f"no nvidia module below /lib/modules/{kernel}"
        found.set("module_for_running_kernel", bool(files), Evidence(source="/lib/modules", text=words))
        if files and is_machine(source):
            name = re.sub(r"\.ko.*$", "", files[0].rsplit("/", 1)[-1])
            _collect_modinfo(source.run("modinfo", name), kernel, found)
    if not is_machine(source):
        _collect_modinfo(source.run(*requests.MODINFO_NVIDIA), kernel, found)
        _collect_pasted_paths(source, kernel, found)


def _collect_modinfo(answer: CommandAnswer, kernel: str | None, found: Collected) -> None:
    if not said(answer):
        return
    if re.search(r"Module \S+ not found|could not find module", answer.text, re.IGNORECASE):
        found.set("module_for_running_kernel", False, quote(answer))
        return
    values = parse_modinfo(answer.stdout)
    version = values.get("version")
    if version and re.match(r"\d+\.\d+", version):
        found.set("module_on_disk_version", version, quote(answer, find_line(answer.stdout, "version:")))
    if "license" in values:
        line = quote(answer, find_line(answer.stdout, "license:"))
        found.set("module_flavor", flavor_of_license(values["license"]), line)
    built_for = re.match(r"\S+", values.get("vermagic", ""))
    if built_for:
        evidence = quote(answer, find_line(answer.stdout, "vermagic:"))
        found.set("module_on_disk_kernels", [built_for[0]], evidence)
        fits = is_built_for(built_for[0], kernel)
        if fits is not None:
            found.set("module_for_running_kernel", fits, evidence)
    elif version or values.get("filename"):
        found.set("module_for_running_kernel", True, quote(answer))


def is_built_for(vermagic: str, kernel: str | None) -> bool | None:
    """Whether a module's vermagic fits the running kernel. RHEL's weak modules fit other kernels of the same release too."""
    if kernel is None:
        return None
    if vermagic == kernel:
        return True
    return None if re.search(r"\.el\d|-default$", kernel) else False


def _collect_pasted_paths(source: Source, kernel: str | None, found: Collected) -> None:
    """Module files that `ls` or `find` printed. A running kernel whose file the same `ls` did not show has none there."""
    kernels: list[str] = []
    proof: Evidence | None = None
    for document in source.documents():
        if "/lib/modules/" not in document.text:
            continue
        for index, line in enumerate(document.text.splitlines()):
            match = _PATH.search(line) if not line.startswith(("$", "#")) else None
            if match is None or "No such file" in line:
                continue
            kernels.append(match[1])
            proof = proof or Evidence(source=document.name, text=line.strip()[:400], line=index + 1)
            tail = match[0].split(f"/lib/modules/{match[1]}/", 1)[1]
            if kernel is not None and is_absent(source.stat(f"/lib/modules/{kernel}/{tail}")):
                words = f"not there: /lib/modules/{kernel}/{tail}"
                found.set("module_for_running_kernel", False, Evidence(source=document.name, text=words))
    if not kernels:
        return
    found.set("module_on_disk_kernels", list(dict.fromkeys(kernels)), proof)
    if kernel in kernels:
        found.set("module_for_running_kernel", True, proof)
