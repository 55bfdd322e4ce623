"""`nvidia-smi topo -m`: how GPUs and NICs reach one another.

            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
    GPU0     X      NV18    PXB     0-47,96-143     0               N/A

Columns are parted by tabs, or by blanks where a terminal was copied; the head may carry underline codes. Before driver
515 network cards had their own names (mlx5_0) as columns.
"""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence, Topology, TopologyLink
from gpudoctor.lazy import Lazy
from gpudoctor.probes.original_lines import renumbered
from gpudoctor.probes.p2p_test import read_p2p_test
from gpudoctor.sources.answers import Source, Status
from gpudoctor.sources.requests import (
    NVIDIA_SMI_P2P_NVLINK,
    NVIDIA_SMI_P2P_READ,
    NVIDIA_SMI_P2P_WRITE,
    NVIDIA_SMI_TOPO,
)

NAME = "topology"
TIMEOUT_SECONDS = 8.0
_P2P = (
    ("p2p_read", NVIDIA_SMI_P2P_READ),
    ("p2p_write", NVIDIA_SMI_P2P_WRITE),
    ("p2p_nvlink", NVIDIA_SMI_P2P_NVLINK),
)
_ESCAPES = Lazy(r"\x1b\[[0-9;]*[A-Za-z]|\x1b\(B|(?<=\s)\[4m|\[0m")
_KIND = Lazy(r"^(?:X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|C2C|N/A|DIS)$")
_DEVICE = Lazy(r"^(?:GPU\d+|NIC\d+|[a-zA-Z][\w-]*_?\d[\w]*)$")
_AFFINITY = Lazy(r"^(?:N/A|\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)$")
_P2P_ROW = Lazy(r"^\s*GPU\d+\s+(?:X\s+)?(?:OK|C?NS|GNS|TNS|DR|U)\b")
_NIC = Lazy(r"^\s*(NIC\d+):\s*(\S+)\s*$")


def probe(source: Source) -> Topology | None:
    """Topology; live only where a driver is loaded, since the command then has something to say."""
    if source.kind == "live" and source.stat("/proc/driver/nvidia/version").status is Status.NOT_FOUND:
        return None
    answer = source.run(*NVIDIA_SMI_TOPO, timeout=TIMEOUT_SECONDS)
    topology = parse_topology(answer.stdout, answer.request) if answer.status is Status.OK else None
    if topology is not None:
        topology = renumbered(topology, answer.line_numbers)
    if source.kind == "live":
        return topology
    topology = with_p2p(source, topology)
    measured = read_p2p_test(source.documents())
    return topology if measured is None else msgspec.structs.replace(topology or Topology(), p2p_test=measured)


def with_p2p(source: Source, topology: Topology | None) -> Topology | None:
    """Adds what pasted `nvidia-smi topo -p2p` matrices say; on a live machine NVML tells the same."""
    found: dict[str, list[TopologyLink]] = {}
    evidence: dict[str, Evidence] = {}
    for name, request in _P2P:
        answer = source.run(*request)
        links = parse_p2p(answer.stdout) if answer.status is Status.OK else []
        if links:
            found[name] = links
            first = next(
                (at for at, line in enumerate(answer.stdout.splitlines()) if line.strip().startswith("GPU0 ")), 0
            )
            bad = next((f"{link.a} - {link.b}: {link.kind}" for link in links if link.kind != "OK"), None)
            evidence[name] = Evidence(source=answer.request, line=first + 1, text=bad or "all OK")
    if not found:
        return topology
    topology = topology or Topology(
        gpus=sorted({name for links in found.values() for link in links for name in (link.a, link.b)})
    )
    return msgspec.structs.replace(
        topology,
        p2p_read=found.get("p2p_read"),
        p2p_write=found.get("p2p_write"),
        p2p_nvlink=found.get("p2p_nvlink"),
        evidence={**topology.evidence, **evidence},
    )


def parse_p2p(text: str) -> list[TopologyLink]:
    """`nvidia-smi topo -p2p`: each pair once; of two words for one pair the worse. Rows that are cut short count as far as they go."""
    words: dict[tuple[str, str], str] = {}
    for line in text.split("\n"):
        cells = _ESCAPES.sub("", line).split()
        if len(cells) < 2 or not re.fullmatch(r"GPU\d+", cells[0]):
            continue
        for column, word in enumerate(cells[1:]):
            if not re.fullmatch(r"OK|C?NS|GNS|TNS|DR|U", word):
                if word != "X":
                    break
                continue
            pair = sorted((int(cells[0][3:]), column))
            key = (f"GPU{pair[0]}", f"GPU{pair[1]}")
            if pair[0] != pair[1] and words.get(key, "OK") == "OK":
                words[key] = word
    return [TopologyLink(a=a, b=b, kind=kind) for (a, b), kind in words.items()]


def parse_topology(text: str, source: str = "nvidia-smi topo -m") -> Topology | None:
    """The matrix; None where there is none. Rows that are missing leave only their pairs with one another unknown."""
    lines = [_ESCAPES.sub("", line).rstrip() for line in text.split("\n")]
    if any(_P2P_ROW.match(line) for line in lines):
        return None  # `nvidia-smi topo -p2p`
    head = next((place for place, line in enumerate(lines) if _is_head(line)), None)
    columns = _columns_of_rows(lines) if head is None else _devices(lines[head])
    if not columns:
        return None
    titles = [] if head is None else _titles(lines[head])
    head = -1 if head is None else head
    kinds: dict[tuple[str, str], str] = {}
    first = max(head, 0)
    evidence = {"": Evidence(source=source, line=first + 1, text=" ".join(lines[first].split()))}
    cpu: dict[str, str] = {}
    numa: dict[str, str] = {}
    rows: list[str] = []
    nics: dict[str, str] = {}
    for place, line in enumerate(lines[head + 1 :], head + 2):
        if match := _NIC.match(line):
            nics[match[1]] = match[2]
            continue
        name, cells, rest = _row(line, columns)
        if name is None:
            continue
        if "\t" not in line and len(rest) < len(titles):
            rest = []  # a column was empty, and blanks do not tell which
        rows.append(name)
        for column, kind in zip(columns, cells, strict=False):
            if kind != "X" and column != name:
                kinds.setdefault(_pair(name, column, columns), kind)
        evidence[name] = Evidence(source=source, line=place, text=" ".join(line.split()))
        for title, value in zip(titles, rest, strict=False):
            if value and title == "cpu":
                cpu[name] = value
            elif value and value != "N/A" and title == "numa":
                numa[name] = value
    if not rows:
        return None
    devices = columns + [name for name in rows if name not in columns]
    gpus = [name for name in devices if re.fullmatch(r"GPU\d+", name)]
    return Topology(
        gpus=gpus,
        nics=[name for name in devices if name not in gpus],
        nic_names=nics or None,
        links=[TopologyLink(a=a, b=b, kind=kind) for (a, b), kind in kinds.items()],
        cpu_affinity=cpu or None,
        numa_affinity=numa or None,
        evidence=evidence,
    )


def _pair(a: str, b: str, order: list[str]) -> tuple[str, str]:
    """A pair in the order of the columns, so that it is found once."""
    place = {name: index for index, name in enumerate(order)}
    return (a, b) if place.get(a, 999) <= place.get(b, 999) else (b, a)


def _is_head(line: str) -> bool:
    words = line.split()
    return (
        len(words) > 0
        and words[0].startswith("GPU")
        and bool(_DEVICE.match(words[0]))
        and (len(words) == 1 or not _KIND.match(words[1]))
    )


def _devices(head: str) -> list[str]:
    found: list[str] = []
    for word in head.split():
        if word in ("CPU", "NUMA") or not _DEVICE.match(word):
            break
        found.append(word)
    return found


def _columns_of_rows(lines: list[str]) -> list[str]:
    """The columns of rows that were pasted without their head: as many GPUs as rows, when the rows count up from GPU0."""
    rows = [
        words[0]
        for line in lines
        if len(words := line.split()) > 1 and _DEVICE.match(words[0]) and _KIND.match(words[1])
    ]
    return rows if rows == [f"GPU{number}" for number in range(len(rows))] else []


def _titles(head: str) -> list[str]:
    """What stands right of the matrix, in order."""
    known = (("CPU Affinity", "cpu"), ("NUMA Affinity", "numa"), ("GPU NUMA ID", "gpu_numa"))
    present = [(head.find(title), word) for title, word in known if title in head]
    return [word for _, word in sorted(present)]


def _row(line: str, columns: list[str]) -> tuple[str | None, list[str], list[str]]:
    """A row's device, its kinds, and what follows them."""
    if "\t" in line:
        cells = [cell.strip() for cell in line.split("\t")]
    else:
        cells = line.split()
    if not cells or not _DEVICE.match(cells[0]):
        return None, [], []
    kinds: list[str] = []
    for cell in cells[1 : len(columns) + 1]:
        if not _KIND.match(cell):
            break
        kinds.append(cell)
    if not kinds:
        return None, [], []
    rest = cells[1 + len(kinds) :] if len(kinds) == len(columns) else []
    if "\t" in line:
        rest = _without_padding(rest)
    return cells[0], kinds, [cell if _AFFINITY.match(cell) else "" for cell in rest]


def _without_padding(cells: list[str]) -> list[str]:
    """nvidia-smi puts two tabs after a short NUMA node: an empty cell that is no column. A first empty cell is one: no affinity."""
    return [cell for place, cell in enumerate(cells) if cell or place == 0]
