"""Which canonical request a typed command line is a form of."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from gpudoctor.sources import requests as known

Argv = tuple[str, ...]


class Meaning(msgspec.Struct, frozen=True):
    """`requests` that the output answers; `partial` where it is less than the canonical command prints."""

    requests: tuple[Argv, ...]
    partial: bool = False
    filtered_by: str | None = None


def meaning(argv: Argv) -> Meaning:
    """The canonical requests of a command line; the command line itself where it is no known form."""
    found = _PROGRAMS[argv[0]](argv[1:]) if argv[0] in _PROGRAMS else None
    return found if found is not None else Meaning((argv,))


def _nvidia_smi(args: Argv) -> Meaning | None:
    text = " ".join(args)
    if not args or re.fullmatch(r"(?:(?:-l|--loop)(?:[= ]?\d+)?|-lms(?: \d+)?)", text):
        return Meaning((known.NVIDIA_SMI,))
    if re.search(r"--query-gpu|--help-query", text):
        return Meaning((known.NVIDIA_SMI_QUERY_GPU,)) if "--query-gpu" in text else None
    if re.search(r"--query-(?:compute-)?apps", text):
        return Meaning((known.NVIDIA_SMI_QUERY_APPS,))
    if args[0] in ("-L", "--list-gpus"):
        return Meaning((known.NVIDIA_SMI_L,), partial="-i" in args)
    if args[0] == "topo" and any(a in ("-m", "--matrix", "-mp") for a in args):
        return Meaning((known.NVIDIA_SMI_TOPO,))
    if args[0] == "topo" and len(args) == 3 and args[1] in ("-p2p", "--p2pstatus"):
        return Meaning((("nvidia-smi", "topo", "-p2p", args[2]),))
    if args[0] == "nvlink" and any(a in ("-s", "--status") for a in args):
        return Meaning((known.NVIDIA_SMI_NVLINK,), partial="-i" in args)
    if args[0] == "nvlink" and any(a in ("-e", "--errorcounters") for a in args):
        return Meaning((known.NVIDIA_SMI_NVLINK_ERRORS,), partial="-i" in args)
    short = "".join(a[1:] for a in args if re.fullmatch(r"-[qxau]+", a))
    if "q" in short or "--query" in args:
        if "u" in short:
            return None
        xml = "x" in short or "--xml-format" in args
        partial = any(
            a in ("-i", "-d", "--display", "--id") or a.startswith(("-d", "--display=", "--id=", "-i=")) for a in args
        )
        return Meaning((known.NVIDIA_SMI_XML if xml else known.NVIDIA_SMI_Q,), partial=partial)
    if args[0] in ("-i", "--id") and len(args) == 2:
        return Meaning((known.NVIDIA_SMI,), partial=True)
    return None


def _uname(args: Argv) -> Meaning | None:
    forms = {("-r",): known.UNAME_R, ("-a",): known.UNAME_A}
    return Meaning((forms[args],)) if args in forms else None


def _dmesg(args: Argv) -> Meaning:
    level = re.search(r"(?:-l|--level)[= ]?(\S+)", " ".join(args))
    return Meaning((known.DMESG,), filtered_by=f"level {level[1]}" if level else None)


def _journalctl(args: Argv) -> Meaning | None:
    text = " ".join(args)
    boot = re.search(r"(?:-b|--boot)[= ]?(-\d+|0)?(?=\s|$)", text)
    previous = boot[1] if boot and boot[1] not in (None, "0", "-0") else None
    short = "".join(a[1:] for a in args if re.fullmatch(r"-[a-z]*", a))
    kernel = "k" in short or "--dmesg" in args or "_TRANSPORT=kernel" in args
    unit = re.search(r"(?:-u|--unit|-t|--identifier|_COMM|SYSLOG_IDENTIFIER)[= ]?\S+", text)
    limited = re.search(r"(?:-n|--lines|-p|--priority|--since|-S|--until|-U|-g|--grep|-xe|-e\b)", text) is not None
    pattern = re.search(r"(?:-g|--grep)[= ](\S+)", text)
    if unit is not None and not kernel:
        return None
    if previous is not None:
        return Meaning((("journalctl", "-k", "-b", previous),), partial=limited)
    return Meaning(
        (known.JOURNAL_KERNEL,), partial=limited or not kernel, filtered_by=pattern[1] if pattern else None
    )


def _lspci(args: Argv) -> Meaning | None:
    text = " ".join(args)
    if re.search(r"(?:^| )-\w*t", text):
        return None
    only = re.search(r"(?:^| )-(?:\w*s|\w*d)[ =]?(\S+)", text)
    verbose = re.search(r"(?:^| )-\w*v", text) is not None
    requests = (known.LSPCI_VVV, known.LSPCI) if verbose else (known.LSPCI,)
    return Meaning(requests, filtered_by=only[1] if only else None)


def _packages(args: Argv) -> Meaning | None:
    if not args or not re.fullmatch(r"-l|--list|-W", args[0]):
        return None
    names = [a for a in args[1:] if not a.startswith("-")]
    return Meaning((known.DPKG_LIST,), filtered_by=_names_pattern(names))


def _rpm(args: Argv) -> Meaning | None:
    if not args or not re.match(r"-q", args[0]) or re.match(r"-q\w*[lifcRd]", args[0]):
        return None
    formats = {i + 1 for i, a in enumerate(args) if a in ("--qf", "--queryformat")}
    names = [a for i, a in enumerate(args[1:], 1) if not a.startswith("-") and i not in formats]
    return Meaning((known.RPM_LIST,), filtered_by=_names_pattern(names))


def _dnf(args: Argv) -> Meaning | None:
    """`dnf list installed '*nvidia*'`, whose lines have the package's repository too."""
    words = [a for a in args if a not in ("-q", "-C")]
    if words[:1] != ["list"] or not {"installed", "--installed"} & set(words[1:]):
        return None
    names = [a for a in words[1:] if a != "installed" and not a.startswith("-")]
    return Meaning((known.RPM_LIST,), filtered_by=_names_pattern(names))


def _pacman(args: Argv) -> Meaning | None:
    if not args or not re.fullmatch(r"-Q[snqe]*", args[0]):
        return None
    return Meaning((known.PACMAN_LIST,), filtered_by=_names_pattern(list(args[1:])))


def _names_pattern(names: list[str]) -> str | None:
    return "|".join(re.escape(n).replace(r"\*", ".*").replace(r"\?", ".") for n in names) or None


def _pip(args: Argv) -> Meaning | None:
    if args[:1] in (("list",), ("freeze",)):
        return Meaning((known.PIP_LIST,))
    return None


def _python(args: Argv) -> Meaning | None:
    if args[:2] == ("-m", "torch.utils.collect_env") or args[:1] == ("collect_env.py",):
        return Meaning((known.COLLECT_ENV,))
    if args[:2] == ("-m", "pip"):
        return _pip(args[2:])
    return None


def _exact(request: Argv, *forms: str) -> Callable[[Argv], Meaning | None]:
    accepted = {tuple(form.split()) for form in forms}

    def check(args: Argv) -> Meaning | None:
        return Meaning((request,)) if args in accepted else None

    return check


def _systemctl(args: Argv) -> Meaning | None:
    words = [a for a in args if not a.startswith("-")]
    if words[:1] != ["status"] or len(words) < 2:
        return None
    return Meaning(tuple((*known.SYSTEMCTL_STATUS, unit.removesuffix(".service")) for unit in words[1:]))


def _ls(args: Argv) -> Meaning | None:
    places = [a for a in args if not a.startswith("-")]
    if places and all(p.startswith("/dev/nvidia") for p in places):
        return Meaning((known.LS_DEV_NVIDIA,), partial=not any("*" in p for p in places))
    return None


_KUBECTL_VALUES = frozenset(
    {"-n", "--namespace", "-o", "--output", "-c", "-l", "--selector", "--context", "--kubeconfig", "-f"}
)


def _kubectl(args: Argv) -> Meaning | None:
    words = [
        a for i, a in enumerate(args) if not a.startswith("-") and (i == 0 or args[i - 1] not in _KUBECTL_VALUES)
    ]
    kind = words[1].split("/")[0] if len(words) > 1 else ""
    if words[:1] == ["describe"] and kind in ("node", "nodes", "no"):
        return Meaning((known.KUBECTL_DESCRIBE_NODE,))
    if words[:1] == ["describe"] and kind in ("pod", "pods", "po"):
        return Meaning((known.KUBECTL_DESCRIBE_POD,))
    if words[:1] == ["get"] and kind in ("events", "event", "ev"):
        return Meaning((known.KUBECTL_GET_EVENTS,))
    if (
        words[:1] == ["get"]
        and kind in ("node", "nodes", "no")
        and re.search(r"-o[= ]?(?:json|yaml)\b", " ".join(args))
    ):
        return Meaning((known.KUBECTL_GET_NODES,))
    return None


def _scontrol(args: Argv) -> Meaning | None:
    words = [a for a in args if not a.startswith("-")]
    return (
        Meaning((known.SCONTROL_SHOW_NODE,))
        if words[:1] == ["show"] and words[1:2] in (["node"], ["nodes"])
        else None
    )


def _container_cli(args: Argv) -> Meaning | None:
    return Meaning((known.NVIDIA_CONTAINER_CLI_INFO,)) if "info" in args else None


def _dcgmi(args: Argv) -> Meaning | None:
    if args[:1] == ("diag",):
        return Meaning((known.DCGMI_DIAG,))
    return Meaning((known.DCGMI_DISCOVERY,)) if args[:1] == ("discovery",) else None


def _modinfo(args: Argv) -> Meaning | None:
    field = [a for a in args if a.startswith("-")]
    names = [a for a in args if not a.startswith("-")]
    return None if field or not names else Meaning((("modinfo", _module(names[-1])),))


def _module(name: str) -> str:
    """Debian and Ubuntu also build it under names such as nvidia-current, which `modinfo nvidia` resolves to."""
    return "nvidia" if re.fullmatch(r"nvidia[-_](?:current|tesla)[\w.-]*", name) else name


def _nccl(args: Argv) -> Meaning:
    return Meaning((known.NCCL_TESTS,))


_PROGRAMS: dict[str, Callable[[Argv], Meaning | None]] = {
    "nvidia-smi": _nvidia_smi,
    "dmesg": _dmesg,
    "journalctl": _journalctl,
    "lspci": _lspci,
    "lsmod": _exact(known.LSMOD, ""),
    "uname": _uname,
    "modinfo": _modinfo,
    "modprobe": lambda args: Meaning((("modprobe", _module(args[-1])),)) if args and not args[-1].startswith("-") else None,
    "dkms": lambda args: Meaning((known.DKMS_STATUS,)) if args[:1] == ("status",) else None,
    "mokutil": lambda args: Meaning((known.MOKUTIL_SB_STATE,)) if "--sb-state" in args or "--sb" in args else None,
    "dpkg": _packages,
    "dpkg-query": _packages,
    "rpm": _rpm,
    "dnf": _dnf,
    "yum": _dnf,
    "pacman": _pacman,
    "gcc": _exact(known.GCC_VERSION, "--version", "-v"),
    "cc": _exact(known.GCC_VERSION, "--version"),
    "nvcc": _exact(known.NVCC_VERSION, "--version", "-V", "-v"),
    "ldconfig": _exact(known.LDCONFIG, "-p", "-N -v -p"),
    "pip": _pip,
    "pip3": _pip,
    "uv": lambda args: _pip(args[1:]) if args[:1] == ("pip",) else None,
    "python": _python,
    "python3": _python,
    "env": _exact(known.ENV, ""),
    "printenv": _exact(known.ENV, ""),
    "export": _exact(known.ENV, "", "-p"),
    "set": _exact(known.ENV, ""),
    "ulimit": _exact(known.ULIMIT, "-a"),
    "df": lambda args: Meaning((known.DF,), partial=any(not a.startswith("-") for a in args)),
    "free": _exact(known.FREE, "-m", "--mebi"),
    "id": _exact(known.ID, ""),
    "ls": _ls,
    "systemctl": _systemctl,
    "service": lambda args: Meaning(((*known.SYSTEMCTL_STATUS, args[0]),)) if args[1:] == ("status",) else None,
    "systemd-detect-virt": _exact(known.DETECT_VIRT, ""),
    "ipmitool": lambda args: Meaning((known.IPMI_EVENTS,), partial=True) if "sel" in args and ("list" in args or "elist" in args) else None,
    "chronyc": lambda args: Meaning((known.CHRONY,)) if "tracking" in args else None,
    "timedatectl": _exact(known.TIMEDATECTL, "", "status"),
    "ps": lambda args: Meaning((known.PROCESSES,)) if args[:1] in (("aux",), ("-aux",), ("auxf",), ("auxww",), ("faux",)) else None,
    "docker": lambda args: {("info",): Meaning((known.DOCKER_INFO,)), ("system", "info"): Meaning((known.DOCKER_INFO,)), ("version",): Meaning((known.DOCKER_VERSION,)), ("--version",): Meaning((known.DOCKER_VERSION,)), ("-v",): Meaning((known.DOCKER_VERSION,))}.get(args),
    "podman": _exact(known.PODMAN_INFO, "info"),
    "nvidia-ctk": lambda args: {("--version",): Meaning((known.NVIDIA_CTK_VERSION,)), ("cdi", "list"): Meaning((known.NVIDIA_CTK_CDI_LIST,))}.get(args),
    "nvidia-container-cli": _container_cli,
    "snap": _exact(known.SNAP_LIST, "list"),
    "kubectl": _kubectl,
    "oc": _kubectl,
    "scontrol": _scontrol,
    "sinfo": lambda args: Meaning((known.SINFO,)),
    "ibstat": _exact(known.IBSTAT, ""),
    "ip": lambda args: Meaning((known.IP_ADDR,)) if [a for a in args if not a.startswith("-")][:1] in (["a"], ["addr"], ["address"]) else None,
    "dcgmi": _dcgmi,
    "all_reduce_perf": _nccl,
    "all_gather_perf": _nccl,
    "reduce_scatter_perf": _nccl,
    "alltoall_perf": _nccl,
    "sendrecv_perf": _nccl,
    "broadcast_perf": _nccl,
}  # fmt: skip
