"""Verdicts: each figure against what this hardware should give, and against its siblings here. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpudoctor.bench.expectations import Node, is_too_small, limit_of
from gpudoctor.bench.words import metric_words
from gpudoctor.facts import BenchFigure, Evidence
from gpudoctor.knowledge.copy_expectations import Limit
from gpudoctor.knowledge.gpus import GpuModel

# A little below the limit may be chance: measured once more before it is called low.
MARGIN = 0.90
# GPUs of one node differ less than this from their median, as a share of it. Memory and copies are the same hardware
# (ml-engineering: more than 5 percent points at one bad link or GPU); clocks differ from chip to chip under a power limit.
_SIBLING_SHARE = {"memory": 0.95, "pcie": 0.90, "p2p": 0.93, "gemm": 0.90, "burn": 0.90}
_FEWEST_SIBLINGS = 3
_LESS_IS_BETTER = frozenset({"us"})


def judged(figures: Sequence[BenchFigure], node: Node, busy: Mapping[str, str]) -> list[BenchFigure]:
    """The figures with expectation, ratio and verdict. `busy` is why the GPU at an address may be slow for others' work."""
    largest = _largest(figures)
    medians = _medians([figure for figure in figures if _key(figure) in largest and largest[_key(figure)] is figure])
    verdicts = [
        _judged(figure, node, busy)
        if largest.get(_key(figure)) is not figure
        else _among_siblings(
            _judged(figure, node, busy, compare=True),
            medians.get(_sibling_key(figure), []),
            _busy(figure, busy),
            node,
        )
        for figure in figures
    ]
    return _with_suspects(verdicts, node)


# Boards on which switches or meshes join every GPU with every other by NVLink; earlier ones leave pairs without.
_ALL_JOINED = frozenset({"ampere", "hopper", "blackwell"})


_SHOWN_ONLY = frozenset({"device_copy", "bidirectional_pinned", "p2p_bidirectional"})


def _is_joined(model: GpuModel) -> bool:
    return model.nvlink_attach == "board" and model.architecture in _ALL_JOINED


def _with_suspects(figures: list[BenchFigure], node: Node) -> list[BenchFigure]:
    """Pairs of GPUs with the path that they should have, and of slow pairs the GPU that is to blame more likely."""
    low: Counter[str] = Counter(
        end
        for figure in figures
        if figure.test == "p2p" and _is_behind(figure)
        for end in (figure.bdf, figure.peer_bdf)
        if end is not None
    )
    done: list[BenchFigure] = []
    for figure in figures:
        if figure.test == "p2p" and figure.bdf is not None:
            target = node.target(figure)
            model = target.model if target else None
            joined = model is not None and _is_joined(model)
            ends = sorted(filter(None, (figure.bdf, figure.peer_bdf)), key=lambda end: (-low[end], end))
            figure = msgspec.structs.replace(
                figure,
                path_expected="nvlink" if joined else None,
                suspect_bdf=ends[0] if _is_behind(figure) else None,
            )
        done.append(figure)
    return done


def _is_behind(figure: BenchFigure) -> bool:
    behind = figure.siblings_ratio is not None and figure.siblings_ratio < (figure.siblings_threshold or 0)
    return figure.verdict == "low" or behind


def _key(figure: BenchFigure) -> tuple[Any, ...]:
    return figure.test, figure.metric, figure.bdf, figure.mig, figure.peer_bdf, figure.path


def _largest(figures: Sequence[BenchFigure]) -> dict[tuple[Any, ...], BenchFigure]:
    """Of several sizes the largest is judged: small ones measure the start. Of equal ones, the best."""
    found: dict[tuple[Any, ...], BenchFigure] = {}
    for figure in figures:
        known = found.get(_key(figure))
        if known is None or _rank(figure) > _rank(known):
            found[_key(figure)] = figure
    return found


def _rank(figure: BenchFigure) -> tuple[int, float]:
    return figure.size_bytes or 0, -figure.value if figure.unit in _LESS_IS_BETTER else figure.value


def _judged(figure: BenchFigure, node: Node, busy: Mapping[str, str], *, compare: bool = False) -> BenchFigure:
    figure = msgspec.structs.replace(figure, metric_words=metric_words(figure))
    if not compare:
        return msgspec.structs.replace(figure, why_unjudged="a larger size of it is judged")
    if figure.unit in _LESS_IS_BETTER:
        return msgspec.structs.replace(figure, why_unjudged="nothing is published for it")
    limit = limit_of(figure, node)
    if isinstance(limit, str):
        return msgspec.structs.replace(figure, why_unjudged=limit)
    why = _busy(figure, busy)
    is_low = figure.value < limit.threshold * limit.expected
    verdict = "right" if not is_low else "unjudged" if why else "low"
    return _with_limit(figure, limit, verdict, why if verdict == "unjudged" else None)


def _with_limit(figure: BenchFigure, limit: Limit, verdict: str, why: str | None) -> BenchFigure:
    evidence = figure.evidence
    known = evidence.get("")
    if known is not None and verdict == "low":
        least = limit.threshold * limit.expected
        told = f"{figure.metric} {figure.value:g} {figure.unit}, right from {least:.4g}: {limit.threshold:g} of {limit.expected:g}, {limit.basis}"
        evidence = {**evidence, "": Evidence(source=known.source, text=told, line=known.line)}
    return msgspec.structs.replace(
        figure,
        evidence=evidence,
        expected=limit.expected,
        ratio=round(figure.value / limit.expected, 3),
        threshold_ratio=limit.threshold,
        basis=limit.basis,
        verdict=verdict,
        why_unjudged=why,
    )


def _busy(figure: BenchFigure, busy: Mapping[str, str]) -> str | None:
    """Why it may be slow without being at fault; node figures suffer from any busy GPU."""
    if figure.bdf is None:
        first = next(iter(busy.items()), None)
        return f"GPU {first[0]} was not free: {first[1]}" if first else None
    for address in (figure.bdf, figure.peer_bdf):
        if address is not None and address in busy:
            return f"GPU {address} was not free: {busy[address]}"
    return None


def _sibling_key(figure: BenchFigure) -> tuple[Any, ...]:
    return figure.test, figure.metric, figure.unit, figure.gpu_name, figure.path, figure.size_bytes


def _medians(figures: Sequence[BenchFigure]) -> dict[tuple[Any, ...], list[float]]:
    values: dict[tuple[Any, ...], list[float]] = {}
    for figure in figures:
        if figure.bdf is not None and figure.unit not in _LESS_IS_BETTER:
            values.setdefault(_sibling_key(figure), []).append(figure.value)
    return values


def _is_comparable(figure: BenchFigure, node: Node) -> bool:
    """Whether GPUs of one model should give the same: not where slots, sockets or the wiring of links make the difference."""
    if figure.bdf is None or figure.metric in _SHOWN_ONLY or is_too_small(figure):
        return False
    if figure.test == "pcie":
        return figure.expected is None and "pinned" in figure.metric and "_far" not in figure.metric
    if figure.test == "p2p":
        target = node.target(figure)
        model = target.model if target else None
        return figure.path == "nvlink" and (model is None or _is_joined(model))
    return True


def _among_siblings(figure: BenchFigure, values: Sequence[float], busy: str | None, node: Node) -> BenchFigure:
    """Beside the GPUs of the same model here. Where nothing else is known this gives the verdict."""
    share = _SIBLING_SHARE.get(figure.test)
    if len(values) < _FEWEST_SIBLINGS or share is None or not _is_comparable(figure, node):
        return figure
    if busy is not None:
        return figure if figure.verdict == "right" else msgspec.structs.replace(figure, why_unjudged=busy)
    median = statistics.median(values)
    ratio = round(figure.value / median, 3)
    figure = msgspec.structs.replace(
        figure, siblings_median=round(median, 2), siblings_ratio=ratio, siblings_threshold=share
    )
    if figure.expected is not None:
        return figure
    basis = f"median of the {len(values)} {_what(figure)} here"
    verdict = "low" if ratio < share else "right"
    limit = Limit(expected=round(median, 2), threshold=share, basis=basis)
    return _with_limit(figure, limit, verdict, None)


def _what(figure: BenchFigure) -> str:
    if figure.test == "p2p":
        return f"pairs over {figure.path or 'the same path'}"
    return figure.gpu_name or "GPUs"


def wants_another_look(figure: BenchFigure) -> bool:
    """Low, but only a little: it may have been chance."""
    if figure.verdict != "low" or figure.ratio is None or figure.threshold_ratio is None:
        return False
    return figure.ratio >= MARGIN * figure.threshold_ratio


def better_of(first: Sequence[BenchFigure], second: Sequence[BenchFigure]) -> list[BenchFigure]:
    """Figures that were measured twice, each with its better value; those of only one run as they are."""
    again = {(_key(figure), figure.size_bytes): figure for figure in second}
    merged: list[BenchFigure] = []
    for figure in first:
        other = again.get((_key(figure), figure.size_bytes))
        if other is None:
            merged.append(figure)
            continue
        best = max((figure, other), key=lambda one: _rank(one)[1])
        merged.append(msgspec.structs.replace(best, measured_twice=True))
    return merged
