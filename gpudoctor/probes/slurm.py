"""Slurm from what the user brought: nodes of `scontrol show node` and `sinfo`, and a job's request. No cluster is asked live."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from gpudoctor.facts import Evidence, Slurm, SlurmNode, fill
from gpudoctor.lazy import Lazy
from gpudoctor.probes.slurm_request import read_request
from gpudoctor.probes.slurm_values import given, given_time, gres_gpus, tres_gpus
from gpudoctor.sources.answers import Source, Status
from gpudoctor.sources.requests import SCONTROL_SHOW_NODE, SINFO

NAME = "slurm"
REQUESTS = (SCONTROL_SHOW_NODE, SINFO)
_KEY = Lazy(r"(?:^|\s)([A-Za-z:]+)=")
_FILTERED = Lazy(r"^\s*(?:Gres|State|CfgTRES|AllocTRES|Reason|GresUsed)=")
_REASON_TAIL = Lazy(r"\s*\[([^@\[\]]+)@([^\]]+)\]\s*$")


def probe(source: Source) -> Slurm | None:
    """Nodes of every scontrol and sinfo output the source holds, and the request of a job; None when it holds neither."""
    if source.kind == "live":
        return None
    nodes: dict[str, SlurmNode] = {}
    for request in REQUESTS:
        answer = source.run(*request)
        if answer.status in (Status.OK, Status.FAILED) and answer.stdout.strip():
            for node in parse_slurm(answer.stdout, answer.request):
                nodes[node.name] = fill(nodes[node.name], node) if node.name in nodes else node
    asked = read_request(source.documents())
    if not nodes and asked is None:
        return None
    known = [
        msgspec.structs.replace(node, reason_alone=bool(node.reason) and node.state is None)
        for node in _with_lines_of_unnamed(list(nodes.values()))
    ]
    return Slurm(nodes=known or None, request=asked)


def _with_lines_of_unnamed(nodes: list[SlurmNode]) -> list[SlurmNode]:
    """Lines that grep left of one node's output belong to the one node that is out of service elsewhere in the paste."""
    lines = [node for node in nodes if node.name == "unnamed"]
    out = [
        node for node in nodes if node.name != "unnamed" and re.search(r"(?i)drain|drng|down|inval", node.state or "")
    ]
    if len(lines) != 1 or len(out) != 1:
        return nodes
    whole = fill(out[0], lines[0])
    return [whole if node is out[0] else node for node in nodes if node is not lines[0]]


def parse_slurm(text: str, source: str = "scontrol show node") -> list[SlurmNode]:
    """Nodes of one Slurm output, told apart by content."""
    if re.search(r"(?:^|\s)NodeName=\S|^\s*(?:Gres|State|CfgTRES|Reason)=", text, re.M):
        return parse_scontrol(text, source)
    from gpudoctor.probes.slurm_sinfo import parse_sinfo

    return parse_sinfo(text, source)


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
    gres = given(fields.get("Gres"))
    cfg, alloc = given(fields.get("CfgTRES")), given(fields.get("AllocTRES"))
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
        gres_used=given(fields.get("GresUsed")),
        state=given(fields.get("State")),
        reason="" if reason is None and "State" in fields and "NodeName" in fields else reason,
        cfg_tres=cfg,
        alloc_tres=alloc if alloc is not None else ("" if "AllocTRES" in fields else None),
        partitions=given(fields.get("Partitions")),
        gpus=gres_gpus(gres) if "Gres" in fields else None,
        gpus_in_tres=tres_gpus(cfg or "") if "CfgTRES" in fields else None,
        gpus_allocated=tres_gpus(alloc or "") if "AllocTRES" in fields else None,
        version=given(fields.get("Version")),
        boot_time=given_time(fields.get("BootTime")),
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
