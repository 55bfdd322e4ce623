"""`sinfo` in its forms: the default, -N, -l, -R and with bars, with or without its heading."""

from __future__ import annotations

import re

from gpudoctor.facts import Evidence, SlurmNode, fill
from gpudoctor.lazy import Lazy
from gpudoctor.probes.slurm_values import GPU_GRES, expand_hostlist, given, given_time, gres_gpus

STATES = (
    "allocated|alloc|allocating|completing|comp|down|drained|draining|drain|drng|error|fail|failing|future|futr|idle|inval|maint|mixed|mix|"
    "perfctrs|npc|planned|plnd|power_down|powering_down|power_up|powering_up|reboot|boot|reserved|resv|unknown|unk|blocked"
)
# sinfo marks a state: * not responding, ~ # ! % powered down or changing, $ maintenance, @ ^ reboot, - planned
_STATE = Lazy(rf"^(?:{STATES})[*~#!%$@^\-+]{{0,2}}$", re.IGNORECASE)
_STATE_LONG = Lazy(r"^[A-Z_]+\*?(?:\+[A-Z_]+\*?)+$")
_COLUMNS = {
    "NODELIST": "name",
    "NODE": "name",
    "HOSTNAMES": "name",
    "NODELIST(REASON)": "name",
    "GRES": "gres",
    "GRES_USED": "gres_used",
    "STATE": "state",
    "STATECOMPACT": "state",
    "STATELONG": "state",
    "REASON": "reason",
    "PARTITION": "partitions",
    "USER": "reason_by",
    "TIMESTAMP": "reason_time",
    "VERSION": "version",
}


def parse_sinfo(text: str, source: str = "sinfo") -> list[SlurmNode]:
    """`sinfo` with a heading (columns or bars), or rows without one whose cells say what they are."""
    nodes: list[SlurmNode] = []
    columns: list[tuple[str, int]] | None = None
    bars = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        cells = [cell.strip() for cell in line.split("|")] if "|" in line else line.split()
        heads = [cell.upper() for cell in cells]
        if len({"STATE", "NODELIST", "PARTITION", "REASON", "GRES", "HOSTNAMES"} & set(heads)) >= 2:
            columns, bars = _columns(heads), "|" in line
            header_line = line
            continue
        evidence = Evidence(source=source, line=number, text=" ".join(line.split()))
        if columns is None or ("|" in line) != bars:
            row = _row_without_heading(cells, bar="|" in line)
        elif bars:
            row = {name: cells[at] for name, at in reversed(columns) if at < len(cells)}
        else:
            row = (
                _row_by_words(cells, columns)
                if "REASON" not in header_line.upper()
                else _row_with_reason(cells, columns)
            )
        if row.get("name") and (row.get("state") or row.get("gres") or row.get("reason")):
            nodes += _nodes_of_row(row, evidence)
    return _merged(nodes)


def _merged(nodes: list[SlurmNode]) -> list[SlurmNode]:
    """One node for each name: what an earlier row lacks, a later one (of `sinfo -R`, or of another partition) gives."""
    found: dict[str, SlurmNode] = {}
    for node in nodes:
        found[node.name] = fill(found[node.name], node) if node.name in found else node
    return list(found.values())


def _columns(heads: list[str]) -> list[tuple[str, int]]:
    """Our names of the columns; the first of two columns with one heading counts."""
    found: dict[str, int] = {}
    for at, head in enumerate(heads):
        name = _COLUMNS.get(head)
        if name and (name not in found or head == "NODELIST"):
            found[name] = at
    return list(found.items())


def _row_by_words(cells: list[str], columns: list[tuple[str, int]]) -> dict[str, str]:
    return {name: cells[at] for name, at in columns if at < len(cells)}


def _row_with_reason(cells: list[str], columns: list[tuple[str, int]]) -> dict[str, str]:
    """`sinfo -R` (reason first) and `sinfo -Nl` (reason last): the reason's words take the columns that are too many."""
    at = dict(columns)
    width = max(at.values()) + 1
    extra = max(0, len(cells) - width)
    reason = at["reason"]
    row = {"reason": " ".join(cells[reason : reason + extra + 1])}
    for name, place in columns:
        shifted = place + extra if place > reason else place
        if name != "reason" and shifted < len(cells):
            row[name] = cells[shifted]
    return row


def _row_without_heading(cells: list[str], bar: bool) -> dict[str, str]:
    """A row whose heading is missing: known only where a state word and a name, or GPU gres, are among its cells."""
    if not bar and not any(_is_state(cell) for cell in cells):
        return {}
    row: dict[str, str] = {}
    if not bar and len(cells) >= 6 and re.fullmatch(r"up|down|drain|inact", cells[1]) and _is_state(cells[4]):
        return {"partitions": cells[0], "state": cells[4], "name": cells[5]}  # the default columns
    for cell in cells:
        if GPU_GRES.match(cell):
            row.setdefault("gres_used" if "gres" in row else "gres", cell)
        elif _is_state(cell):
            row.setdefault("state", cell)
    return row | {"name": cells[0]} if row.get("gres") and row.get("state") else {}


def _is_state(cell: str) -> bool:
    return bool(_STATE.match(cell) or _STATE_LONG.match(cell))


def _nodes_of_row(row: dict[str, str], evidence: Evidence) -> list[SlurmNode]:
    gres = given(row.get("gres"))
    reason = row.get("reason")
    used = given(row.get("gres_used"))
    return [
        SlurmNode(
            name=name,
            gres=gres,
            gres_used=used,
            state=given(row.get("state")),
            reason="" if reason is not None and reason.lower() in ("none", "(null)") else reason or None,
            partitions=(row.get("partitions") or "").rstrip("*") or None,
            gpus=gres_gpus(gres) if "gres" in row else None,
            gpus_allocated=gres_gpus(used) if used is not None else None,
            version=given(row.get("version")),
            reason_by=given(row.get("reason_by")),
            reason_time=given_time(row.get("reason_time")) if row.get("reason_time") != "Unknown" else None,
            evidence={"": evidence},
        )
        for name in expand_hostlist(row["name"])
    ]
