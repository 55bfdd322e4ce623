"""Consequences under their root cause: finding B goes under A when B names A's rule as a cause and A's subject contains B's."""

from __future__ import annotations

import msgspec

from gpudoctor.report import SEVERITIES, Finding, Standing

_WIDTH = {"cluster": 0, "node": 1, "nvswitch": 2, "gpu": 2, "process": 3}


def contains(outer: str, inner: str) -> bool:
    """Whether one subject is the other or holds it: the node holds its GPUs, a GPU its processes."""
    if outer == inner:
        return True
    outer_kind, inner_kind = outer.split(" ", 1)[0], inner.split(" ", 1)[0]
    if outer_kind == "node":
        return True
    return outer_kind != inner_kind and _WIDTH.get(outer_kind, 2) < _WIDTH.get(inner_kind, 3)


def fold(findings: list[Finding]) -> list[Finding]:
    """Roots in order of severity, with everything they explain below them. Nothing is dropped."""
    parents = {i: parent for i, f in enumerate(findings) if (parent := _parent(f, i, findings)) is not None}
    _cut_cycles(parents)
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)

    def built(i: int) -> Finding:
        below = sorted((built(c) for c in children.get(i, [])), key=_order)
        return msgspec.structs.replace(findings[i], consequences=below) if below else findings[i]

    return sorted((built(i) for i in range(len(findings)) if i not in parents), key=_order)


def _parent(finding: Finding, own: int, findings: list[Finding]) -> int | None:
    for cause in finding.causes:
        if cause.rule is None or cause.standing == Standing.RULED_OUT:
            continue
        found = [
            i
            for i, other in enumerate(findings)
            if i != own and other.rule == cause.rule and _explains(other.subject, finding.subject)
        ]
        if found:
            same = [i for i in found if findings[i].subject == finding.subject]
            return (same or found)[0]
    return None


def _explains(outer: str, inner: str) -> bool:
    """A GPU's fault also explains what is said of the node as a whole (nvidia-smi fails because one GPU is lost)."""
    return contains(outer, inner) or inner == "node"


def _cut_cycles(parents: dict[int, int]) -> None:
    for start in sorted(parents):
        seen, at = {start}, parents.get(start)
        while at is not None:
            if at in seen:
                del parents[start]
                break
            seen.add(at)
            at = parents.get(at)


def _score(finding: Finding) -> int:
    return max((c.score for c in finding.causes if c.standing != Standing.RULED_OUT), default=0)


def _order(finding: Finding) -> tuple[int, int, int, bool, str, str]:
    worst = min(SEVERITIES.index(f.severity) for f in [finding, *finding.consequences])
    likely = any(cause.standing is Standing.LIKELY for cause in finding.causes)
    return (worst, -len(finding.consequences), -_score(finding), not likely, finding.rule, finding.subject)
