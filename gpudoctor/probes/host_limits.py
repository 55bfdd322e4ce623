"""CPUs, memory and limits of this process, from /proc or from what people paste (free, df, ulimit, id, nproc)."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.lazy import Lazy

_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4, "p": 1024**5}
_SIZE = Lazy(r"^(\d+(?:[.,]\d+)?)\s*([kmgtp]?)i?b?$", re.IGNORECASE)


def size_bytes(text: str, unit: str = "") -> int | None:
    """Bytes of "64M", "1.5Gi" or, with `unit` for bare numbers, "65536"; `None` when it is not a size."""
    match = _SIZE.match(text.strip())
    if match is None:
        return None
    return int(float(match[1].replace(",", ".")) * _UNITS[(match[2] or unit).lower()])


def size_mib(text: str, unit: str = "") -> int | None:
    """Like `size_bytes`, in MiB, rounded."""
    value = size_bytes(text, unit)
    return None if value is None else round(value / 1024**2)


def parse_cpu_list(text: str) -> int | None:
    """The number of CPUs in a list such as 0-3,8; `None` for anything else."""
    total = 0
    for part in text.strip().split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            return None
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total if total > 0 else None


def parse_cpu_max(text: str) -> float | None:
    """CPUs of a cgroup v2 quota ("200000 100000" is 2.0); `None` without a limit."""
    words = text.split()
    if len(words) != 2 or not words[0].isdecimal() or not words[1].isdecimal() or int(words[1]) == 0:
        return None
    return int(words[0]) / int(words[1])


class Memory(msgspec.Struct, frozen=True):
    total_mib: int | None = None
    available_mib: int | None = None
    swap_mib: int | None = None


def parse_meminfo(text: str) -> Memory:
    """Reads /proc/meminfo (KiB)."""
    values = {m[1]: int(m[2]) // 1024 for m in re.finditer(r"(?m)^(\w+):\s+(\d+) kB", text)}
    return Memory(values.get("MemTotal"), values.get("MemAvailable"), values.get("SwapTotal"))


def parse_free(text: str, unit: str = "k") -> Memory:
    """Reads `free` with any unit; bare numbers are KiB unless `unit` says otherwise."""
    total = available = swap = None
    columns: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if words and words[0] in ("total", "Total"):
            columns = words
        elif line.strip().startswith("Mem:") and len(words) > 1:
            total = size_mib(words[1], unit)
            if "available" in columns and len(words) > columns.index("available") + 1:
                available = size_mib(words[columns.index("available") + 1], unit)
        elif line.strip().startswith("Swap:") and len(words) > 1:
            swap = size_mib(words[1], unit)
    return Memory(total, available, swap)


def parse_df_shm(text: str) -> tuple[int | None, int | None]:
    """Size of /dev/shm in MiB and the index of its line, from any `df`; bare numbers are 1K blocks."""
    for index, line in enumerate(text.splitlines()):
        words = line.split()
        if len(words) >= 2 and words[-1] == "/dev/shm":
            # "shm 64M 0 64M 0% /dev/shm": the size is the first word after the device that is a number.
            size = next((word for word in words[1:-1] if _SIZE.match(word)), None)
            if size is not None:
                return size_mib(size, "k"), index
    return None, None


def parse_mounts_shm(text: str, memory_total_mib: int | None) -> tuple[int | None, int | None]:
    """Size of /dev/shm in MiB and the index of its line in /proc/self/mounts; a tmpfs without size has half the memory."""
    found: tuple[int | None, int | None] = (None, None)
    for index, line in enumerate(text.splitlines()):
        words = line.split()
        if len(words) < 4 or words[1] != "/dev/shm":
            continue
        option = next((o for o in words[3].split(",") if o.startswith("size=")), None)
        if option is not None:
            value = option.removeprefix("size=")
            if value.endswith("%") and value[:-1].isdecimal() and memory_total_mib is not None:
                found = (memory_total_mib * int(value[:-1]) // 100, index)
            else:
                found = (size_mib(value), index)
        elif words[2] == "tmpfs" and memory_total_mib is not None:
            found = (memory_total_mib // 2, index)
    return found


class Limits(msgspec.Struct, frozen=True):
    memlock_kib: int | None = None  # -1: unlimited
    nofile: int | None = None
    memlock_line: int | None = None
    nofile_line: int | None = None
    address_kib: int | None = None  # -1: unlimited
    address_line: int | None = None


def parse_proc_limits(text: str) -> Limits:
    """Reads the soft limits of /proc/self/limits."""
    limits = Limits()
    for index, line in enumerate(text.splitlines()):
        if match := re.match(r"Max locked memory\s+(\S+)", line):
            value = -1 if match[1] == "unlimited" else int(match[1]) // 1024 if match[1].isdecimal() else None
            limits = msgspec.structs.replace(limits, memlock_kib=value, memlock_line=index)
        elif match := re.match(r"Max open files\s+(\S+)", line):
            limits = msgspec.structs.replace(
                limits, nofile=int(match[1]) if match[1].isdecimal() else None, nofile_line=index
            )
        elif match := re.match(r"Max address space\s+(\S+)", line):
            value = -1 if match[1] == "unlimited" else int(match[1]) // 1024 if match[1].isdecimal() else None
            limits = msgspec.structs.replace(limits, address_kib=value, address_line=index)
    return limits


def parse_ulimit(text: str) -> Limits:
    """Reads `ulimit -a` of bash or dash; also a single value as `ulimit -l` prints it is not read here (no name in it)."""
    limits = Limits()
    for index, line in enumerate(text.splitlines()):
        words = line.split()
        if len(words) < 2:
            continue
        value = words[-1]
        number = -1 if value == "unlimited" else int(value) if value.isdecimal() else None
        if re.search(r"max locked memory|-l: locked-in-memory|locked memory", line):
            limits = msgspec.structs.replace(limits, memlock_kib=number, memlock_line=index)
        elif re.search(r"open files|-n: file descriptors|nofiles", line):
            limits = msgspec.structs.replace(limits, nofile=number, nofile_line=index)
        elif re.search(r"virtual memory|-v: address space|^vmemoryuse|^memory\(kbytes\)", line):
            limits = msgspec.structs.replace(limits, address_kib=number, address_line=index)
    return limits


def parse_one_limit(text: str) -> int | None:
    """The one number that `ulimit -l`, `ulimit -n` or `ulimit -v` prints; -1 for unlimited."""
    word = text.strip()
    if word == "unlimited":
        return -1
    return int(word) if word.isdecimal() else None


class Identity(msgspec.Struct, frozen=True):
    is_root: bool | None
    groups: list[str] | None


def parse_id(text: str) -> Identity:
    """Reads `id`: uid=1000(user) gid=1000(user) groups=1000(user),27(sudo),44(video)."""
    uid = re.search(r"\buid=(\d+)", text)
    groups = re.search(r"\bgroups=(.*)", text)
    if uid is None:
        return Identity(None, None)
    names = [m[1] or m[0].split("(")[0] for m in re.finditer(r"\d+(?:\(([^)]*)\))?", groups[1])] if groups else None
    return Identity(int(uid[1]) == 0, names)


def parse_proc_status(status: str, group_file: str | None) -> Identity:
    """Reads the effective uid and the groups of /proc/self/status, named by /etc/group."""
    uid = re.search(r"(?m)^Uid:\s+\d+\s+(\d+)", status)
    groups = re.search(r"(?m)^Groups:[ \t]*(.*)$", status)
    gid = re.search(r"(?m)^Gid:\s+\d+\s+(\d+)", status)
    names: list[str] | None = None
    if groups is not None:
        ids = dict.fromkeys(([gid[1]] if gid else []) + groups[1].split())
        table = {m[2]: m[1] for m in re.finditer(r"(?m)^([^:#\n]+):[^:\n]*:(\d+):", group_file or "")}
        names = [table.get(number, number) for number in ids]
    return Identity(int(uid[1]) == 0 if uid else None, names)


_UP = Lazy(r"\bup\s+(.*?)(?:,\s+\d+ users?|,\s+load|$)")


def parse_uptime(text: str) -> float | None:
    """Seconds of `uptime` ("up 12 days,  3:04, 2 users") or `uptime -p` ("up 2 weeks, 1 day, 3 minutes")."""
    match = _UP.search(text.split("\n", 1)[0])
    if match is None:
        return None
    seconds = 0.0
    for number, unit in re.findall(r"(\d+)\s*(year|week|day|hour|hr|min|sec)", match[1]):
        factor = {"year": 31536000, "week": 604800, "day": 86400, "hour": 3600, "hr": 3600, "min": 60, "sec": 1}[unit]
        seconds += int(number) * factor
    if clock := re.search(r"(\d+):(\d\d)", match[1]):
        seconds += int(clock[1]) * 3600 + int(clock[2]) * 60
    return seconds if seconds > 0 else None
