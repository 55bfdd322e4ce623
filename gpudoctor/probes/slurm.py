"""Slurm nodes from what the user brought: `scontrol show node` and `sinfo` in their forms. No cluster is asked live."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from gpudoctor.facts import Evidence, Slurm, SlurmNode
from gpudoctor.sources.answers import Source, Status
from gpudoctor.sources.requests import SCONTROL_SHOW_NODE, SINFO

NAME = "slurm"
REQUESTS = (SCONTROL_SHOW_NODE, SINFO)
STATES = (
    "allocated|alloc|allocating|completing|comp|down|drained|draining|drain|drng|error|fail|failing|future|futr|idle|inval|maint|mixed|mix|"
    "perfctrs|npc|planned|plnd|power_down|powering_down|power_up|powering_up|reboot|boot|reserved|resv|unknown|unk|blocked"
)
# sinfo marks a state: * not responding, ~ # ! % powered down or changing, $ maintenance, @ ^ reboot, - planned
_STATE = re.compile(rf"^(?:{STATES})[*~#!%$@^\-+]{{0,2}}$", re.IGNORECASE)
_STATE_LONG = re.compile(r"^[A-Z_]+\*?(?:\+[A-Z_]+\*?)+$")
_KEY = re.compile(r"(?:^|\s)([A-Za-z:]+)=")
_GPU_GRES = re.compile(r"\bgpu(?=[:(,]|$)(?::[A-Za-z][^:,(]*)?(?::(\d+))?")
_FILTERED = re.compile(r"^\s*(?:Gres|State|CfgTRES|AllocTRES|Reason|GresUsed)=")
_REASON_TAIL = re.compile(r"\s*\[([^@\[\]]+)@([^\]]+)\]\s*$")
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


def probe(source: Source) -> Slurm | None:
    """Nodes of every scontrol and sinfo output the source holds; None when it holds none."""
    if source.kind == "live":
        return None
    nodes: dict[str, SlurmNode] = {}
    for request in REQUESTS:
        answer = source.run(*request)
        if answer.status in (Status.OK, Status.FAILED) and answer.stdout.strip():
            for node in parse_slurm(answer.stdout, answer.request):
                nodes[node.name] = _fill(nodes[node.name], node) if node.name in nodes else node
    return Slurm(nodes=list(nodes.values())) if nodes else None


def parse_slurm(text: str, source: str = "scontrol show node") -> list[SlurmNode]:
    """Nodes of one Slurm output, told apart by content."""
    return (
        parse_scontrol(text, source)
        if re.search(r"(?:^|\s)NodeName=\S|^\s*(?:Gres|State|CfgTRES|Reason)=", text, re.M)
        else parse_sinfo(text, source)
    )


def parse_scontrol(text: str, source: str = "scontrol show node") -> list[SlurmNode]:
    """`scontrol show node`, in blocks or with -o one line a node."""
    return [_node(start, block, source) for start, block in _blocks(text)]


def _blocks(text: str) -> Iterator[tuple[int, list[str]]]:
    block: list[str] = []
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("NodeName="):
            if block:
                yield start, block
            block, start = [line], number
        elif block and (line[:1] in (" ", "\t") or _KEY.match(line)):
            block.append(line)
        elif block and line.strip():  # another command's output follows
            yield start, block
            block = []
    if block:
        yield start, block
    if "NodeName=" not in text:  # `scontrol show node | grep -e State -e Gres`
        filtered = [(n, line) for n, line in enumerate(text.splitlines(), 1) if _FILTERED.match(line)]
        if filtered:
            yield filtered[0][0], [line for _, line in filtered]


def _node(start: int, block: list[str], source: str) -> SlurmNode:
    fields: dict[str, str] = {}
    lines: dict[str, Evidence] = {}
    for number, line in enumerate(block, start):
        for key, value in _pairs(line):
            if key not in fields:
                fields[key] = value
                lines[key] = Evidence(source=source, line=number, text=line.strip())
    gres = _value(fields.get("Gres"))
    cfg, alloc = _value(fields.get("CfgTRES")), _value(fields.get("AllocTRES"))
    reason, by, time = _reason(fields.get("Reason"))
    if reason is not None:
        # operators write several lines; the controller's own signature ends the last one
        more = _more_reason(block)
        if more:
            reason, by, time = _reason("\n".join([fields["Reason"], *more]))
    facts = {"gres": "Gres", "state": "State", "reason": "Reason", "cfg_tres": "CfgTRES", "gpus": "Gres"}
    return SlurmNode(
        name=fields.get("NodeName") or "unnamed",
        gres=gres,
        gres_used=_value(fields.get("GresUsed")),
        state=_value(fields.get("State")),
        reason="" if reason is None and "State" in fields and "NodeName" in fields else reason,
        cfg_tres=cfg,
        alloc_tres=alloc if alloc is not None else ("" if "AllocTRES" in fields else None),
        partitions=_value(fields.get("Partitions")),
        gpus=gres_gpus(gres) if "Gres" in fields else None,
        gpus_in_tres=tres_gpus(cfg or "") if "CfgTRES" in fields else None,
        gpus_allocated=tres_gpus(alloc or "") if "AllocTRES" in fields else None,
        version=_value(fields.get("Version")),
        boot_time=_time(fields.get("BootTime")),
        reason_by=by,
        reason_time=time,
        evidence={fact: lines[key] for fact, key in facts.items() if key in lines},
    )


def _pairs(line: str) -> Iterator[tuple[str, str]]:
    """`Key=value` pairs; a value runs to the next key, and that of OS, Reason and Comment to the line's end."""
    marks = list(_KEY.finditer(line))
    for i, mark in enumerate(marks):
        key = mark[1]
        if key in ("Reason", "OS", "Comment", "Extra"):
            yield key, _until_oneline_key(line[mark.end() :]) if key == "OS" else line[mark.end() :].strip()
            if key != "OS":
                return
            continue
        end = marks[i + 1].start() if i + 1 < len(marks) else len(line)
        yield key, line[mark.end() : end].strip()


def _until_oneline_key(text: str) -> str:
    return re.split(r"\s+RealMemory=", text)[0].strip()


def _more_reason(block: list[str]) -> list[str]:
    at = next((i for i, line in enumerate(block) if line.strip().startswith("Reason=")), len(block))
    return [line.strip() for line in block[at + 1 :] if not _KEY.match(line) and line.strip()]


def _reason(text: str | None) -> tuple[str | None, str | None, str | None]:
    if text is None or text.strip() in ("", "(null)", "none", "None"):
        return None, None, None
    tail = _REASON_TAIL.search(text)
    if not tail:
        return text.strip(), None, None
    return text[: tail.start()].strip(), tail[1].strip(), tail[2].strip()


def _value(text: str | None) -> str | None:
    return None if text is None or text.strip() in ("", "(null)", "N/A", "n/a") else text.strip()


def _time(text: str | None) -> str | None:
    return None if text in (None, "None", "Unknown", "N/A", "(null)", "") else text


def gres_gpus(gres: str | None) -> int:
    """GPUs of a Gres string such as `gpu:a100:4(S:0-1),gpu:h100:2`; a bare `gpu` is one."""
    return sum(int(match[1] or 1) for match in _GPU_GRES.finditer(gres or "") if len(match[1] or "") < 6)


def tres_gpus(tres: str) -> int:
    """GPUs of a TRES string: `gres/gpu=8`; typed ones (`gres/gpu:a100=4`) count only where the plain one is missing."""
    plain = re.search(r"(?:^|,)gres/gpu=(\d{1,5})\b", tres)
    return int(plain[1]) if plain else sum(int(n) for n in re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d{1,5})\b", tres))


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
    return list({node.name: node for node in reversed(nodes)}.values())[::-1]


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
        if _GPU_GRES.match(cell):
            row.setdefault("gres_used" if "gres" in row else "gres", cell)
        elif _is_state(cell):
            row.setdefault("state", cell)
    return row | {"name": cells[0]} if row.get("gres") and row.get("state") else {}


def _is_state(cell: str) -> bool:
    return bool(_STATE.match(cell) or _STATE_LONG.match(cell))


def _nodes_of_row(row: dict[str, str], evidence: Evidence) -> list[SlurmNode]:
    gres = _value(row.get("gres"))
    reason = row.get("reason")
    used = _value(row.get("gres_used"))
    return [
        SlurmNode(
            name=name,
            gres=gres,
            gres_used=used,
            state=_value(row.get("state")),
            reason="" if reason is not None and reason.lower() in ("none", "(null)") else reason or None,
            partitions=(row.get("partitions") or "").rstrip("*") or None,
            gpus=gres_gpus(gres) if "gres" in row else None,
            gpus_allocated=gres_gpus(used) if used is not None else None,
            version=_value(row.get("version")),
            reason_by=_value(row.get("reason_by")),
            reason_time=_time(row.get("reason_time")) if row.get("reason_time") != "Unknown" else None,
            evidence={"": evidence},
        )
        for name in expand_hostlist(row["name"])
    ]


def expand_hostlist(text: str, limit: int = 4096) -> list[str]:
    """`gpu[01-03,07],login` as names; a list that is damaged or longer than `limit` stays one name."""
    names: list[str] = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*", text):
        names += _expand(part, limit)
        if len(names) > limit:
            return [text]
    return names or [text]


def _expand(part: str, limit: int) -> list[str]:
    match = re.match(r"^([^\[]*)\[([\d,\-]+)\](.*)$", part)
    if not match:
        return [part]
    numbers: list[str] = []
    for piece in match[2].split(","):
        low, dash, high = piece.partition("-")
        if not low.isdigit() or (dash and not high.isdigit()) or (dash and int(high) - int(low) > limit):
            return [part]
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)]
        if len(numbers) > limit:
            return [part]
    return [
        match[1] + number + tail for number in numbers for tail in (_expand(match[3], limit) if match[3] else [""])
    ]


def _fill(first: SlurmNode, second: SlurmNode) -> SlurmNode:
    known = {name: getattr(second, name) for name in second.__struct_fields__ if getattr(second, name) is not None}
    missing = {name: value for name, value in known.items() if name != "evidence" and getattr(first, name) is None}
    return msgspec.structs.replace(first, **missing, evidence={**second.evidence, **first.evidence})
