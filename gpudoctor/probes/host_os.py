"""Distribution, package manager and kernel: from os-release, uname, /proc/version, or what the kernel's name tells."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.lazy import Lazy

_KEY_VALUE = Lazy(r"^\s*([A-Z][A-Z0-9_]*)=(.*)$")

_APT = ("ubuntu", "debian", "linuxmint", "pop", "raspbian", "kali", "elementary", "zorin", "neon", "devuan")
_RPM = (
    "rhel",
    "centos",
    "rocky",
    "almalinux",
    "ol",
    "amzn",
    "scientific",
    "cloudlinux",
    "virtuozzo",
    "anolis",
    "openeuler",
)
_DNF = ("fedora", "azurelinux", "nobara", "ultramarine", "qubes")
_ZYPPER = (
    "sles",
    "sled",
    "suse",
    "opensuse",
    "opensuse-leap",
    "opensuse-tumbleweed",
    "sle_hpc",
    "sles_sap",
    "sle-micro",
)
_PACMAN = ("arch", "archarm", "manjaro", "endeavouros", "cachyos", "garuda", "artix", "steamos")


class OsRelease(msgspec.Struct, frozen=True):
    id: str | None
    version: str | None
    name: str | None
    like: tuple[str, ...]


def parse_os_release(text: str) -> OsRelease:
    """Reads os-release or lsb-release text (KEY=value, values quoted or not)."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = _KEY_VALUE.match(line)
        if match:
            values.setdefault(match[1], match[2].strip().strip("\"'"))
    os_id = values.get("ID") or values.get("DISTRIB_ID", "").lower() or None
    name = values.get("PRETTY_NAME") or values.get("DISTRIB_DESCRIPTION") or values.get("NAME") or None
    version = values.get("VERSION_ID") or values.get("DISTRIB_RELEASE") or None
    return OsRelease(os_id, version, name, tuple(values.get("ID_LIKE", "").split()))


def package_manager_of(os_id: str | None, version: str | None, like: tuple[str, ...] = ()) -> str | None:
    """The package manager of a distribution; RHEL 7, CentOS 7 and Amazon Linux 2 still have yum."""
    for name in (os_id or "", *like):
        if name in _APT:
            return "apt"
        if name in _DNF:
            return "dnf"
        if name in _RPM:
            major = re.match(r"\d+", version or "")
            old = major is not None and int(major[0]) < 8
            return "yum" if old else "dnf"
        if name in _ZYPPER or name.startswith("opensuse"):
            return "zypper"
        if name in _PACMAN:
            return "pacman"
        if name == "alpine":
            return "apk"
        if name in ("mariner", "photon"):
            return "dnf"
    return None


class KernelOrigin(msgspec.Struct, frozen=True):
    """What a kernel's release name tells of the machine; `None` where it tells nothing."""

    os_id: str | None = None
    os_version: str | None = None
    package_manager: str | None = None
    cloud: str | None = None
    is_wsl: bool | None = None


_UBUNTU_FLAVOURS = {"aws": "aws", "azure": "azure", "gcp": "gcp", "gke": "gcp", "oracle": "oci", "ibm": "ibm"}
_UBUNTU = Lazy(
    r"^\d+\.\d+\.\d+-\d+-(?:(generic|lowlatency|server|virtual|kvm|oem|raspi|realtime|nvidia(?:-\w+)?|gkeop|hwe)"
    r"|(aws|azure|gcp|gke|oracle|ibm)(?:-[\w-]+)?)(?:-64k|-hwe|-edge|-fips|-lowlatency)*$"
)
_RHEL = Lazy(r"\.el(\d+)(?:_(\d+))?(?:uek)?\b|\.el(\d+)uek", needs=(".el",))


def origin_of_kernel(release: str | None) -> KernelOrigin:
    """Infers distribution, package manager and cloud from a release name such as 5.14.0-503.el9.x86_64 or 6.8.0-49-generic."""
    name = (release or "").strip()
    low = name.lower()
    if not name:
        return KernelOrigin()
    if "microsoft" in low:
        return KernelOrigin(is_wsl=True)
    if match := re.search(r"\.fc(\d+)", low):
        return KernelOrigin("fedora", match[1], "dnf")
    if match := re.search(r"\.amzn(\d+)", low):
        return KernelOrigin("amzn", match[1], "yum" if match[1] in ("1", "2") else "dnf", "aws")
    if match := _RHEL.search(low):
        major = int(match[1] or match[3])
        version = f"{major}.{match[2]}" if match[2] else str(major)
        return KernelOrigin(None, version, "yum" if major < 8 else "dnf")
    if match := re.search(r"\+deb(\d+)|\+bpo", low):
        return KernelOrigin("debian", match[1], "apt")
    if re.fullmatch(r"\d+\.\d+\.\d+-\d+-(?:cloud-|rt-)?(?:amd64|arm64)", low) or low.endswith("-amd64"):
        return KernelOrigin("debian", None, "apt")
    if match := _UBUNTU.match(low):
        return KernelOrigin("ubuntu", None, "apt", _UBUNTU_FLAVOURS.get(match[2] or ""))
    if low.endswith("-pve"):
        return KernelOrigin("debian", None, "apt")
    if re.search(
        r"-(arch|zen|lts|hardened|cachyos|manjaro)[\d.-]*(-\w+)?$|-\d+-arch$|-arch\d|-manjaro$|-\d+-lts$|-zen\d", low
    ):
        return KernelOrigin("manjaro" if "manjaro" in low else "arch", None, "pacman")
    if re.search(r"-(default|azure|preempt)$", low) and re.match(r"\d+\.\d+\.\d+-\d+(\.\d+)?", low):
        return KernelOrigin(None, None, "zypper")
    return KernelOrigin()


class Uname(msgspec.Struct, frozen=True):
    hostname: str | None
    release: str | None
    arch: str | None


_ARCHES = ("x86_64", "aarch64", "ppc64le", "riscv64", "i686", "armv7l", "s390x")


def parse_uname(text: str) -> Uname:
    """Reads `uname -a` ("Linux host 6.8.0-49-generic #49 ... x86_64 GNU/Linux") or `uname -r`."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    words = line.split()
    if len(words) >= 3 and words[0] == "Linux":
        arch = next((word for word in reversed(words) if word in _ARCHES), None)
        return Uname(words[1], words[2] if words[2][:1].isdecimal() else None, arch)
    if len(words) == 1 and re.match(r"\d+\.\d+", line):
        return Uname(None, line, arch_in_release(line))
    return Uname(None, None, None)


def arch_in_release(release: str) -> str | None:
    """The architecture that some distributions append to the release: x86_64 in 5.14.0-503.el9.x86_64."""
    if release.endswith("-amd64"):
        return "x86_64"
    return next((arch for arch in _ARCHES if release.endswith((f".{arch}", f"-{arch}"))), None)


_VERSION_LINE = Lazy(r"^Linux version (\S+)", re.MULTILINE)
_GCC_OLD = Lazy(r"\bgcc version (\d+(?:\.\d+)+)")
_GCC_NEW = Lazy(r"\([\w.+/-]*?gcc(?:-[\d.]+)?(?:\.\w+)? \([^()]*(?:\([^()]*\)[^()]*)*\) (\d+(?:\.\d+)+)")
_CLANG = Lazy(r"\bclang version (\d+(?:\.\d+)+)")


def kernel_in_version_string(text: str) -> str | None:
    """The release in /proc/version or in the banner of a kernel log."""
    match = _VERSION_LINE.search(text)
    return match[1] if match else None


def compiler_in_version_string(text: str) -> str | None:
    """The compiler that built the kernel, "gcc 12.3.0" or "clang 17.0.6", from /proc/version; `None` when not named."""
    for name, pattern in (("gcc", _GCC_NEW), ("gcc", _GCC_OLD), ("clang", _CLANG)):
        match = pattern.search(text[:2000])
        if match:
            return f"{name} {match[1]}"
    return None


def parse_gcc_version(text: str) -> str | None:
    """The version in the first line of `gcc --version` ("gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0") or of `gcc -v`."""
    for line in text.splitlines():
        if re.match(r"^\s*(?:\S*gcc\S*|cc) \(", line) or line.startswith("gcc version "):
            numbers = re.findall(r"(?<![\w.~+-])(\d+\.\d+(?:\.\d+)?)(?![\w.~+-])", line)
            if numbers:
                return str(numbers[-1] if not line.startswith("gcc version") else numbers[0])
    return None


def kernel_sort_key(release: str) -> tuple[tuple[int, int, str], ...]:
    """Orders kernel releases as their numbers do: 6.8.0-9 before 6.8.0-49."""
    return tuple(
        (1, int(part), "") if part.isdecimal() else (0, 0, part) for part in re.findall(r"\d+|[a-z]+", release)
    )
