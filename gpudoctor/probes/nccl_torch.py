"""PyTorch's words on collectives that did not finish: the watchdog, the desync report, the Flight Recorder's analyser.

[rank3]:[E ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=412,
    OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.
[PG ID 0 PG GUID 0(default_pg) Rank 3] ... last enqueued work: 414, last completed work: 411
Not all ranks joining collective 5 at entry 4 / missing ranks: {1}                   (torchfrtrace)
- [2] finished collective #9, but didn't join collective #10 (count from 1)         (TORCH_NCCL_DESYNC_DEBUG)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from gpudoctor.facts import Evidence, NcclWork
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import quote
from gpudoctor.sources.answers import CommandAnswer

_RANK = Lazy(r"\[(?:PG [^\]]*?)?Rank (?P<rank>\d+)\]|\[rank(?P<prefix>\d+)\]:")
_GROUP = Lazy(r"\[PG (?:ID )?(?P<id>\d+)(?: PG GUID (?P<guid>[\w:]+)?(?:\((?P<name>[\w:.-]+)\))?)?")
_TIMEOUT = Lazy(
    r"WorkNCCL\(SeqNum=(?P<sequence>\d+), OpType=(?P<operation>\w+)"
    r"(?:[^)]*?NumelIn=(?P<elements>\d+))?[^\n]{0,200}?ran for (?P<waited>\d+) milliseconds"
)
_PROGRESS = Lazy(
    r"[Ll]ast enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)"
)
_MISSING = Lazy(r"\b[Mm]issing ranks(?: are|:)\s*\{(?P<ranks>[\d, ]+)\}")
_LAGGING = Lazy(r"ranks \[(?P<ranks>[\d, ]+)\] are the lagging ranks")
_DID_NOT_JOIN = Lazy(r"\[(?P<ranks>[\d, ]+)\] finished collective #\d+, but didn.t join collective #\d+")
# Error type: SIZE_OR_SYNTAX_MISMATCH, Detail finding ... (states that differ are no mistake of the program)
_MISMATCH = Lazy(
    r"\b(?P<what>(?:COLLECTIVE_TYPE|SIZE_OR_SYNTAX|COLLECTIVE_DTYPE)_MISMATCH)\b(?:, Detail finding:? ?(?P<detail>[^\n]{0,160}))?"
    r"|(?P<sizes>Input/output mismatch in the collective)"
)
_SIGN = Lazy(
    r"ProcessGroupNCCL|WorkNCCL\(|[Mm]issing ranks|are the lagging ranks|lagging/dead/mismatched|but didn.t join collective|_MISMATCH\b|mismatch in the collective",
    needs=(
        "ProcessGroupNCCL",
        "WorkNCCL(",
        "issing ranks",
        "are the lagging ranks",
        "lagging/dead/mismatched",
        "t join collective",
        "_MISMATCH",
        "mismatch in the collective",
    ),
)
_HIGHEST = 1 << 40  # a damaged log prints garbage for "nothing completed"


def of_watchdog(texts: Sequence[CommandAnswer]) -> dict[str, Any]:
    """Fields of `Nccl` that PyTorch's lines tell; evidence under "evidence"; empty without any."""
    works: dict[tuple[int, str | None], NcclWork] = {}
    named: set[int] = set()
    mismatches: dict[str, None] = {}
    evidence: dict[str, Evidence] = {}
    for answer in texts:
        if not _SIGN.search(answer.stdout):
            continue
        for index, line in enumerate(answer.stdout.splitlines()):
            ranks = _named_behind(line)
            if ranks:
                named |= ranks
                evidence.setdefault("ranks_behind", quote(answer, index))
            if match := _MISMATCH.search(line):
                words = (match["what"] or match["sizes"]).replace("_", " ").lower()
                mismatches[f"{words} ({match['detail'].strip()})" if match["detail"] else words] = None
                evidence.setdefault("mismatches", quote(answer, index))
            _add_work(works, line, quote(answer, index) if "work" in line or "Work" in line else None)
    if not works and not named and not mismatches:
        return {}
    listed = sorted(works.values(), key=lambda work: (work.group or "", work.rank))
    behind = sorted(named) or _behind(listed)
    if behind and "ranks_behind" not in evidence:
        last = next(work for work in listed if work.rank == behind[0])
        evidence["ranks_behind"] = last.evidence.get("", next(iter(last.evidence.values()), Evidence("log", "")))
    return {
        "works": listed or None,
        "ranks_behind": behind or None,
        "mismatches": list(mismatches) or None,
        "all_at_same_work": _all_at_same(listed) if not behind else False,
        "evidence": evidence,
    }


def _named_behind(line: str) -> set[int]:
    for pattern in (_MISSING, _LAGGING, _DID_NOT_JOIN):
        if match := pattern.search(line):
            return {int(word) for word in re.findall(r"\d+", match["ranks"])[:4096]}
    return set()


def _add_work(works: dict[tuple[int, str | None], NcclWork], line: str, quoted: Evidence | None) -> None:
    """Takes what a line says of a rank; later lines complete earlier ones."""
    timeout, progress = _TIMEOUT.search(line), _PROGRESS.search(line)
    if (timeout is None and progress is None) or quoted is None:
        return
    rank = _RANK.search(line)
    if rank is None:
        return
    group = _GROUP.search(line)
    name = (group["name"] or group["guid"] or group["id"]) if group else None
    number = int(rank["rank"] if rank["rank"] is not None else rank["prefix"])
    key = next(
        (key for key in works if key[0] == number and (name is None or key[1] in (name, None))), (number, name)
    )
    work = works.pop(key, None) or NcclWork(rank=number, evidence={"": quoted})
    found: dict[str, Any] = {"group": work.group or name}
    if timeout is not None:
        found |= {
            "sequence": int(timeout["sequence"]),
            "operation": timeout["operation"],
            "elements": int(timeout["elements"]) if timeout["elements"] else None,
            "waited_ms": int(timeout["waited"]),
        }
    if progress is not None and abs(int(progress["enqueued"])) < _HIGHEST:
        found["last_enqueued"] = int(progress["enqueued"])
        completed = int(progress["completed"])
        found["last_completed"] = completed if abs(completed) < _HIGHEST else None
    works[(number, found["group"])] = msgspec.structs.replace(work, **found)


def _behind(works: list[NcclWork]) -> list[int]:
    """Ranks of the group in which a collective timed out that enqueued fewer collectives than the one that waits in it."""
    for waiting in works:
        if waiting.sequence is None:
            continue
        same = [work for work in works if work.group == waiting.group and work.last_enqueued is not None]
        late = [
            work.rank
            for work in same
            if work.last_enqueued is not None and 0 <= work.last_enqueued < waiting.sequence
        ]
        if late and waiting.rank not in late:
            return late
    return []


def _all_at_same(works: list[NcclWork]) -> bool | None:
    """Every rank from 0 on (at least four, else this may be a part of them) waits in the same collective."""
    stuck = {work.rank: work.sequence for work in works if work.sequence is not None}
    if len(stuck) < 4 or sorted(stuck) != list(range(len(stuck))) or len({work.group for work in works}) > 1:
        return None
    return len(set(stuck.values())) == 1
