"""What keeps modules from loading: modprobe.d and the kernel's command line; and the options the driver was loaded with."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.sources.answers import Source, Status

_DIRECTORIES = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
    "/usr/local/lib/modprobe.d",
)
PARAMS = "/proc/driver/nvidia/params"


class Blacklisting(msgspec.Struct, frozen=True):
    """Lines (0-based) of a modprobe.d file that keep a module from loading."""

    nvidia: int | None = None
    nouveau: int | None = None


def parse_modprobe_conf(text: str) -> Blacklisting:
    """Finds `blacklist`, `install ... /bin/false`, `alias ... off` and `options nouveau modeset=0` lines."""
    found = Blacklisting()
    for index, line in enumerate(text.splitlines()):
        words = line.split("#", 1)[0].split()
        if len(words) < 2:
            continue
        module = words[1].replace("-", "_")
        off = (
            words[0] == "blacklist"
            or (words[0] == "install" and re.search(r"/(?:bin/)?(?:false|true)\b", line) is not None)
            or (words[0] == "alias" and len(words) > 2 and words[2] == "off")
        )
        if module in ("nvidia", "nvidia_current") and off:
            found = msgspec.structs.replace(found, nvidia=index) if found.nvidia is None else found
        elif module == "nouveau" and (off or (words[0] == "options" and "modeset=0" in words)):
            found = msgspec.structs.replace(found, nouveau=index) if found.nouveau is None else found
    return found


def parse_cmdline_blacklist(cmdline: str) -> set[str]:
    """Modules that the kernel's command line keeps from loading."""
    names: set[str] = set()
    for word in cmdline.split():
        key, _, value = word.partition("=")
        if key in ("modprobe.blacklist", "module_blacklist", "rd.driver.blacklist", "rdblacklist"):
            names |= {name.replace("-", "_") for name in value.split(",")}
        if word in ("nouveau.modeset=0", "nouveau.blacklist=1"):
            names.add("nouveau")
    return names


def collect_blacklists(source: Source, found: Collected) -> None:
    """Sets blacklisted_by and nouveau_blacklisted. Of equally named files the first directory's holds, as for modprobe."""
    seen: set[str] = set()
    listing = source.list("/etc/modprobe.d")
    complete = listing.status is Status.OK and listing.filtered_by is None
    files: list[str] = []
    nouveau = False
    for directory in _DIRECTORIES:
        for name in source.list(directory).names:
            if not name.endswith(".conf") or name in seen:
                continue
            seen.add(name)
            answer = source.read(f"{directory}/{name}")
            if answer.status is not Status.OK:
                continue
            lines = parse_modprobe_conf(answer.text)
            if lines.nvidia is not None:
                files.append(answer.path)
                found.evidence.setdefault("blacklisted_by", quote(answer, lines.nvidia))
            if lines.nouveau is not None and not nouveau:
                nouveau = True
                found.set("nouveau_blacklisted", True, quote(answer, lines.nouveau))
    cmdline = source.read("/proc/cmdline")
    if cmdline.status is Status.OK:
        names = parse_cmdline_blacklist(cmdline.text)
        if "nouveau" in names:
            found.set("nouveau_blacklisted", True, quote(cmdline, 0))
        if "nvidia" in names:
            files.append("/proc/cmdline")
            found.evidence.setdefault("blacklisted_by", quote(cmdline, 0))
    if complete:
        found.set("nouveau_blacklisted", False, Evidence(source="/etc/modprobe.d", text="no file blacklists nouveau"))
    if files or complete:
        found.set("blacklisted_by", files)


def parse_params(text: str) -> dict[str, str]:
    """The options of /proc/driver/nvidia/params under the names that modprobe knows: NVreg_EnableGpuFirmware, ..."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        match = re.match(r"^(\w+):\s*(.*)$", line)
        if match:
            options[f"NVreg_{match[1]}"] = match[2].strip().strip('"')
    return options


def collect_options(source: Source, found: Collected) -> None:
    """Sets module_options as the driver was loaded with."""
    answer = source.read(PARAMS)
    options = parse_params(answer.text) if answer.status is Status.OK else {}
    if options:
        line = find_line(answer.text, "EnableGpuFirmware")
        found.set("module_options", options, quote(answer, line))
