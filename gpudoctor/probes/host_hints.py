"""What pasted text gives away about a host without saying it: the package manager used, the compilers that a build compared."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import is_machine, said
from gpudoctor.probes.collect import Collected, quote, quote_document
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source

_VERSION = r"(\d+\.\d+(?:\.\d+)?)"
# The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0
# You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
_BUILT_BY = Lazy(rf"The kernel was built by: .*?{_VERSION}\s*$", re.IGNORECASE)
_USING = Lazy(rf"You are using: .*?{_VERSION}\s*$", re.IGNORECASE)
# compiler used to compile the kernel (gcc 8.3) does not exactly match the current compiler (gcc 9.1)
_OLD_KERNEL = Lazy(rf"compiler used to compile the kernel \(gcc\s*(?:version )?{_VERSION}\)", re.IGNORECASE)
_OLD_CURRENT = Lazy(rf"current compiler\s*\(gcc\s*(?:version )?{_VERSION}\)", re.IGNORECASE)


class Compilers(msgspec.Struct, frozen=True):
    """Versions of gcc with the 0-based line that tells them."""

    kernel: str | None = None
    kernel_line: int = 0
    host: str | None = None
    host_line: int = 0


def parse_compilers(text: str) -> Compilers:
    """The compilers that a failed module build compared, in the words of the kernel's build or of the driver's old check."""
    found = Compilers()
    lines = text.splitlines()
    for index, line in enumerate(lines):
        built, using = _BUILT_BY.search(line), _USING.search(line)
        if built:
            found = msgspec.structs.replace(found, kernel=built[1], kernel_line=index)
        if using:
            found = msgspec.structs.replace(found, host=using[1], host_line=index)
        if "compiler used to compile" in line:
            joined = " ".join(lines[index : index + 4])  # the message is wrapped
            old, current = _OLD_KERNEL.search(joined), _OLD_CURRENT.search(joined)
            if old:
                found = msgspec.structs.replace(found, kernel=old[1], kernel_line=index)
            if current:
                found = msgspec.structs.replace(found, host=current[1], host_line=index)
    return found


_TOOL = Lazy(
    r"^\s*(?:[$#]|\S+[$#%>])\s+(?:sudo\s+)?(apt|apt-get|dpkg|dnf|yum|zypper|pacman|apk|rpm-ostree)\s+-{0,2}\w",
    needs=("apt", "dpkg", "dnf", "yum", "zypper", "pacman", "apk", "rpm-ostree"),
)
# A distribution that the text speaks of. Image names (ubuntu22.04) are written small and do not count.
_NAMED = (
    ("apt", Lazy(r"\b(?:Ubuntu|Debian|Linux Mint|Pop!_OS)\b")),
    (
        "dnf",
        Lazy(
            r"\b(?:Fedora|RHEL|Red Hat Enterprise|Rocky Linux|AlmaLinux|CentOS Stream|RPM Fusion|akmods?)\b",
            needs=("Fedora", "RHEL", "Red Hat", "Linux", "CentOS", "RPM", "akmod"),
        ),
    ),
    ("zypper", Lazy(r"\b(?:openSUSE|SLES|SUSE Linux)\b", needs=("SUSE", "SLES"))),
    (
        "pacman",
        Lazy(r"\b(?:Arch Linux|archlinux|Manjaro|EndeavourOS)\b", needs=("Arch", "arch", "Manjaro", "Endeavour")),
    ),
)
_MANAGERS = {"apt": "apt", "apt-get": "apt", "dpkg": "apt", "rpm-ostree": "dnf"}


def collect_hints(source: Source, found: Collected) -> None:
    """Sets package_manager and the compilers from a paste or attachments, where nothing better did."""
    if is_machine(source):
        return
    _collect_manager(source, found)
    for document in source.documents():
        if "compiler" not in document.text and "You are using" not in document.text:
            continue
        compilers = parse_compilers(document.text)
        if compilers.kernel:
            proof = quote_document(document, compilers.kernel_line)
            name = "clang" if "clang" in document.text.splitlines()[compilers.kernel_line].lower() else "gcc"
            found.set("kernel_compiler", f"{name} {compilers.kernel}", proof)
        if compilers.host:
            found.set("compiler_version", compilers.host, quote_document(document, compilers.host_line))


def _collect_manager(source: Source, found: Collected) -> None:
    rpm = source.run(*requests.RPM_LIST)
    if said(rpm) and (match := re.search(r"\.(el|fc|amzn)(\d+)", rpm.stdout)):
        old = (match[1] == "el" and int(match[2]) < 8) or (match[1] == "amzn" and int(match[2]) <= 2)
        found.set("package_manager", "yum" if old else "dnf", quote(rpm, None))
    for request, manager in ((requests.DPKG_LIST, "apt"), (requests.PACMAN_LIST, "pacman")):
        answer = source.run(*request)
        if said(answer) and answer.stdout.strip():
            found.set("package_manager", manager, quote(answer, None))
    for document in source.documents():
        for index, line in enumerate(document.text[:200_000].splitlines()[:2000]):
            match = _TOOL.match(line)
            if match:
                tool = match[1]
                found.set("package_manager", _MANAGERS.get(tool, tool), quote_document(document, index))
                return
    _collect_named(source, found)


def _collect_named(source: Source, found: Collected) -> None:
    """The package manager of the one family of distributions that is named; where several are, none is known."""
    named: dict[str, Evidence] = {}
    for document in source.documents():
        text = document.text[:200_000]
        for manager, pattern in _NAMED:
            match = pattern.search(text)
            if match and manager not in named:
                named[manager] = quote_document(document, text.count("\n", 0, match.start()))
    if len(named) == 1:
        manager, proof = named.popitem()
        found.set("package_manager", manager, proof)
