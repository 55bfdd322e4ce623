"""How busy a host's CPUs and disks are, as pasted `vmstat`, `iostat -x`, `mpstat` and `top` tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from gpudoctor.facts import Document
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import Collected, quote_document

_MOST_CHARACTERS = 400_000
_LONGEST_LINE = 600
_VMSTAT = Lazy(r"^\s*r\s+b\s+swpd\s.*\bsi\s+so\s.*\bid\s+wa\b", needs=("swpd",))
_DISKS = Lazy(r"^\s*Device:?\s.*%util\b", needs=("%util",))
_CPUS = Lazy(r"^\s*avg-cpu:\s.*%iowait\b.*%idle\b|.*\bCPU\s+%usr\s.*%iowait\b.*%idle\b", needs=("%iowait",))
_TOP = Lazy(r"^\s*%?Cpu\(s\):\s*(?P<rest>\d.*)$", needs=("Cpu(s)",))
_TOP_VALUE = Lazy(r"(\d+[.,]\d+)[ %]*(id|wa)\b")
_PROCESSES = Lazy(r"^\s*PID\s.*%CPU\s.*COMMAND\s*$", needs=("%CPU",))
_NUMBER = Lazy(r"^\d+(?:[.,]\d+)?$")
_BUSY_DISK = 95.0
_BUSY_CORE = 90.0


class Load(msgspec.Struct):
    """What was read; each value with the 0-based number of its line."""

    idle: list[tuple[float, int]] = []
    waiting: list[tuple[float, int]] = []
    runnable: list[tuple[int, int]] = []
    swapped: list[tuple[int, int]] = []
    disks: dict[str, tuple[float, int]] = {}
    processes: dict[str, tuple[str, float, int]] = {}
    moments: list[tuple[dict[str, float], int]] = []  # rows of vmstat


def collect_load(documents: Sequence[Document], found: Collected) -> None:
    """Facts of the first text that has them; of values over time the median counts."""
    for document in documents:
        load = parse_load(document.text[:_MOST_CHARACTERS])
        _set(found, document, "cpu_idle_pct", load.idle, float)
        _set(found, document, "iowait_pct", load.waiting, float)
        _set(found, document, "runnable_processes", load.runnable, int)
        _set(found, document, "swap_traffic_kib", load.swapped, int)
        if load.disks:
            busy = {name: shown for name, shown in load.disks.items() if shown[0] >= _BUSY_DISK}
            line = next(iter(busy.values()), next(iter(load.disks.values())))[1]
            found.set("disks_busy", list(busy), quote_document(document, line))
        if load.processes:
            full = [shown for shown in load.processes.values() if shown[1] >= _BUSY_CORE]
            line = (full or list(load.processes.values()))[0][2]
            found.set("full_core_processes", [name for name, _, _ in full], quote_document(document, line))


def _set(
    found: Collected,
    document: Document,
    name: str,
    values: list[tuple[float, int]] | list[tuple[int, int]],
    kind: Callable[[float], float | int],
) -> None:
    if values:
        from statistics import median  # brings much along, and few texts have such tables

        found.set(name, kind(median(value for value, _ in values)), quote_document(document, values[-1][1]))


def parse_load(text: str) -> Load:
    """The values of all tables in the text. The first row of vmstat and the first report of iostat tell of the time since boot."""
    load = Load()
    names: list[str] = []
    kind = ""
    for index, line in enumerate(text.splitlines()):
        if len(line) > _LONGEST_LINE or not line.strip():
            continue
        if top := _TOP.search(line):
            _top(top["rest"], index, load)
        elif shown := next((k for k, r in _TABLES if r.search(line)), None):
            kind, names = shown, line.split()
        elif kind and not _row(kind, names, line.split(), index, load):
            kind = ""
    for numbers, index in load.moments[1:] or load.moments:
        load.idle.append((numbers["id"], index))
        load.waiting.append((numbers["wa"], index))
        load.runnable.append((int(numbers["r"]), index))
        load.swapped.append((int(numbers["si"] + numbers["so"]), index))
    return load


_TABLES = (("vmstat", _VMSTAT), ("disks", _DISKS), ("cpus", _CPUS), ("processes", _PROCESSES))


def _row(kind: str, names: list[str], cells: list[str], index: int, load: Load) -> bool:
    """Whether the line was a row of the table that began last."""
    if kind == "processes":
        return _process(names, cells, index, load)
    if kind == "vmstat":
        return _moments(names, cells, index, load)
    if kind == "cpus":
        names, cells = _same_end(names, cells)
    if len(cells) != len(names):
        return False
    row = dict(zip(names, cells, strict=True))
    if kind == "disks":
        busy = _number(row["%util"])
        if busy is not None:
            load.disks[cells[0].rstrip(":")] = (busy, index)
        return busy is not None
    idle, waiting = _number(row["%idle"]), _number(row["%iowait"])
    if idle is None or waiting is None:
        return False
    load.idle.append((idle, index))
    load.waiting.append((waiting, index))
    return True


def _moments(names: list[str], cells: list[str], index: int, load: Load) -> bool:
    """One row; or several in one line, as a terminal's text may have them after wrapped lines were joined."""
    if not cells or len(cells) % len(names) or not all(map(str.isdecimal, cells)):
        return False
    for start in range(0, len(cells), len(names)):
        numbers = map(float, cells[start : start + len(names)])
        load.moments.append((dict(zip(names, numbers, strict=True)), index))
    return True


def _same_end(names: list[str], cells: list[str]) -> tuple[list[str], list[str]]:
    """Without the times, "avg-cpu:" and "CPU" before the columns; a row of one CPU is none."""
    columns = [name for name in names if name.startswith("%")]
    named = len(cells) > len(columns)
    if named and cells[-len(columns) - 1] != "all":
        return columns, []
    return columns, cells[-len(columns) :]


def _process(names: list[str], cells: list[str], index: int, load: Load) -> bool:
    if len(cells) < len(names) or not cells[0].isdecimal():
        return False
    used = _number(cells[names.index("%CPU")])
    if used is None:
        return False
    load.processes[cells[0]] = (cells[len(names) - 1], used, index)
    return True


def _top(rest: str, index: int, load: Load) -> None:
    for match in _TOP_VALUE.finditer(rest):
        (load.idle if match[2] == "id" else load.waiting).append((_number(match[1]) or 0.0, index))


def _number(cell: str) -> float | None:
    return float(cell.replace(",", ".")) if _NUMBER.match(cell) else None
