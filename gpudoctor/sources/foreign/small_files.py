"""Short outputs and system files that one line gives away: module versions, os-release, dkms status, package lists, ..."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.foreign.answer import Found, Request, command, file, pick

KIND = DocumentKind.FILE

# request, a sign that it is there, the lines that belong to it
_Kind = tuple[Request, Lazy, Lazy]


def _kind(request: Request, needs: tuple[str, ...], sign: str, line: str) -> _Kind:
    return request, Lazy(sign, re.MULTILINE, needs=needs), Lazy(line)


_KINDS: tuple[_Kind, ...] = (
    _kind("/proc/driver/nvidia/version", ("NVRM version: NVIDIA UNIX ",),
        r"^[ \t]*NVRM version: NVIDIA UNIX ",
        r"\s*(?:NVRM version: NVIDIA UNIX|GCC version:)"),
    _kind("/etc/os-release", ("PRETTY_NAME", "VERSION_ID", "ID_LIKE"),
        r"^(?:PRETTY_NAME|VERSION_ID|ID_LIKE)=",
        r"[A-Z_]+=(?:\"[^\"]*\"|\S*)\s*$"),
    _kind("/proc/version", ("Linux version ",),
        r"^Linux version \d+\.\d+\S* \(",
        r"Linux version \d"),
    _kind(known.UNAME_A, ("GNU/Linux", "x86_64", "aarch64", "ppc64le"),
        r"^Linux \S+ \d+\.\d+\S* #?.*(?:GNU/Linux|x86_64|aarch64|ppc64le)\s*$",
        r"Linux \S+ \d+\.\d+\S* "),
    _kind("/proc/meminfo", ("MemTotal:",),
        r"^MemTotal:\s+\d+ kB",
        r"[A-Za-z_()0-9]+:\s+\d+(?: kB)?\s*$"),
    _kind("/proc/cmdline", ("BOOT_IMAGE=", "initrd="),
        r"^(?:BOOT_IMAGE=|initrd=)\S+ ",
        r"(?:BOOT_IMAGE=|initrd=)\S+ "),
    _kind(known.LSMOD, ("Used by", "nvidia", "nouveau"),
        r"^Module\s+Size\s+Used by|^nvidia(?:_\w+)?\s+\d{4,}\s+-?\d+|^nouveau\s+\d{5,}\s+\d+",
        r"Module\s+Size\s+Used by|[\w-]+\s+\d{3,}\s+-?\d+(?:\s+[\w,-]+)?\s*$"),
    _kind("/proc/modules", (" 0x",),
        r"^\w+ \d+ \d+ \S+ (?:Live|Loading|Unloading) 0x",
        r"\w+ \d+ \d+ \S+ (?:Live|Loading|Unloading) 0x"),
    _kind(known.DKMS_STATUS, ("added", "built", "installed", "broken"),
        r"^[\w.-]+(?:/|, )[\w.:+~-]+(?:, [^,\n]+, [^:,\n]+)?: (?:added|built|installed|broken)\b",
        r"[\w.-]+(?:/|, )[\w.:+~-]+(?:, [^,\n]+, [^:,\n]+)?: (?:added|built|installed|broken)\b"),
    _kind(known.MOKUTIL_SB_STATE, ("SecureBoot ", "EFI variables are not supported", "This system doesn't support Secure Boot"),
        r"^SecureBoot (?:enabled|disabled)|^EFI variables are not supported|^This system doesn't support Secure Boot",
        r"SecureBoot |EFI variables are not|This system doesn't support Secure|Platform is in Setup Mode|SecureBoot validation"),
    _kind(known.DPKG_LIST, ("amd64", "arm64", "all", "i386", "ppc64el", "armhf"),
        r"^(?:[uirph][ncHUFWti][ R]?)\s+\S+\s+\d\S*\s+(?:amd64|arm64|all|i386|ppc64el|armhf)\s",
        r"(?:[uirph][ncHUFWti][ R]?)\s+\S+\s+\S+|Desired=|\|[ /]|\|\|/|\+\+\+-"),
    _kind(known.MODINFO_NVIDIA, ("filename:",),
        r"^filename:\s+/\S*/nvidia[\w.-]*\.ko",
        r"(?:filename|version|license|vermagic|srcversion|supported|alias|depends|retpoline|name|signer|sig_id|sig_key|sig_hashalgo|signature|import_ns|firmware|author|description|parm|intree|rhelversion):"),
    _kind(known.NVCC_VERSION, ("nvcc: NVIDIA ",),
        r"^nvcc: NVIDIA \(R\) Cuda compiler",
        r"nvcc: NVIDIA|Copyright \(c\) .*NVIDIA|Built on |Cuda compilation tools|Build cuda"),
    _kind(known.GCC_VERSION, ("gcc (",),
        r"^gcc \(.*\) \d+\.\d+",
        r"gcc \(.*\) \d|gcc version \d"),
    _kind(known.LDCONFIG, (" (libc6",),
        r"^\s+lib(?:cuda|nvidia|nccl|cudnn|cudart|cublas)[\w-]*\.so\S* \(libc6",
        r"\s+\S+\.so\S* \(.*\) => |\d+ libs found in cache"),
    _kind(known.RPM_LIST, ("x86_64", "aarch64", "noarch"),
        r"^(?:kmod-nvidia|nvidia-(?:driver|kmod|open|container)|cuda-drivers|akmod-nvidia|dkms-nvidia|xorg-x11-drv-nvidia)[\w-]*-\d[\w.~^:-]*\.(?:x86_64|aarch64|noarch)\s*$",
        r"[\w+.-]+-\d[\w.~^:+-]*\.(?:x86_64|aarch64|noarch|i686)\s*$"),
    _kind(known.PIP_LIST, ("Package", "torch", "tensorflow", "jax", "cupy-cuda", "nvidia-"),
        r"^Package\s+Version\s*$|^(?:torch|tensorflow|jax|jaxlib|cupy-cuda\d+x?|nvidia-\w+-cu\d+)\s+\d+\.\d+\S*\s*$",
        r"[A-Za-z][\w.-]*\s+\d+\.\d\S*(?:\s+\S+)?\s*$|Package\s+Version|-{5,}"),
    _kind(known.DF, ("Filesystem",),
        r"^Filesystem\s+(?:Type\s+)?(?:Size|1K-blocks|1M-blocks)\s+Used\s+Avail",
        r"\S+\s+(?:\w+\s+)?[\d.]+[KMGTP]?i?\s+[\d.]+[KMGTP]?i?\s+[\d.]+[KMGTP]?i?\s+\d+%|Filesystem\s"),
    _kind(known.FREE, ("total",),
        r"^\s+total\s+used\s+free\b",
        r"\s+total\s+used\s+free|(?:Mem|Swap):\s"),
    _kind(known.NVIDIA_CTK_VERSION, ("NVIDIA Container Toolkit CLI version ",),
        r"^NVIDIA Container Toolkit CLI version \d",
        r"NVIDIA Container Toolkit CLI version|commit: "),
    _kind(known.DOCKER_VERSION, ("Docker version ",),
        r"^Docker version \d+\.\d+",
        r"Docker version \d"),
)  # fmt: skip
_UNIT = Lazy(
    r"^\s*[●○×*↻] (\S+?)\.service(?: - |$)|^Unit (\S+?)\.service could not be found",
    re.MULTILINE,
    needs=(".service",),
)
_UNIT_LINE = Lazy(
    r"\s*[●○×*↻] \S+\.service|Unit \S+ could not be found|\s+(?:Loaded|Active|Drop-In|Docs|Main PID|Process|Tasks|Memory|CPU|CGroup|Status|TriggeredBy|Condition|Invocation):|\s+[├└]─|\s+Main PID"
)
_DAEMON_JSON = Lazy(r'"(?:runtimes|default-runtime)"\s*:')


def recognise(text: str) -> bool:
    """Whether one of the signs occurs in the beginning."""
    head = text[:65536]
    signs = (_UNIT, *(sign for _, sign, _ in _KINDS))
    return _is_daemon_json(text) or any(sign.search(head) for sign in signs)


def requests(text: str) -> Found:
    """Each kind that occurs. As nothing says that it is all there, only whole texts count as complete."""
    if _is_daemon_json(text):
        return file("/etc/docker/daemon.json", text)
    found: Found = {}
    lines = text.split("\n")
    filled = sum(1 for line in lines if line.strip())
    for request, sign, line in _KINDS:
        if not sign.search(text):
            continue
        wanted = [i for i, candidate in enumerate(lines) if line.match(candidate)]
        if not wanted:
            continue
        body, numbers = pick(text, wanted)
        partial = len(wanted) * 2 < filled
        if isinstance(request, tuple):
            found |= command(request, body, partial=partial or request in _OFTEN_CUT, lines=numbers)
        else:
            found |= file(request, body, partial=partial, lines=numbers)
    return found | units(text)


def _is_daemon_json(text: str) -> bool:
    """Docker's daemon.json, also a broken one: a short JSON object with its keys, and none of a Kubernetes object's."""
    return (
        len(text) < 16384
        and text.lstrip().startswith("{")
        and _DAEMON_JSON.search(text) is not None
        and '"apiVersion"' not in text
    )


# Without their command line it is not known whether these were filtered.
_OFTEN_CUT = frozenset({known.DPKG_LIST, known.RPM_LIST, known.PIP_LIST, known.LDCONFIG, known.LSMOD, known.DF})


def units(text: str) -> Found:
    """`systemctl status` of each unit that occurs."""
    found: Found = {}
    lines = text.split("\n")
    for match in _UNIT.finditer(text):
        name = match[1] or match[2]
        start = text.count("\n", 0, match.start() + len(match.group()) - len(match.group().lstrip()))
        end = start + 1
        while (
            end < len(lines) and lines[end].strip() and not _UNIT.match(lines[end]) and _UNIT_LINE.match(lines[end])
        ):
            end += 1
        while end < len(lines) and re.match(r"^$|^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ", lines[end]):
            end += 1
        body, numbers = pick(text, list(range(start, end)))
        found |= command(
            (*known.SYSTEMCTL_STATUS, name), body.rstrip("\n"), lines=numbers[: body.rstrip("\n").count("\n") + 1]
        )
    return found
