"""What active tests measured, as tables of 80 columns: a row a GPU, a column a figure; low ones are marked."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import msgspec

from gpudoctor.facts import Bench, BenchFault, BenchFigure, BenchRun
from gpudoctor.render.paint import Paint
from gpudoctor.render.safe import cut
from gpudoctor.render.wrap import wrap

# Test -> its heading, and the columns that are shown: metric, heading.
_TABLES: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "memory": (
        "device memory, GB/s read + written",
        (*((name, name) for name in ("read", "write", "copy", "scale", "triad")), ("device_copy", "memcpy")),
    ),
    "gemm": ("matrix products, TFLOPS", tuple((name, name) for name in ("fp32", "tf32", "fp16", "bf16", "fp8"))),
    "pcie": (
        "host copies, GB/s",
        (
            ("h2d_pinned", "to GPU"),
            ("d2h_pinned", "to host"),
            ("bidirectional_pinned", "both"),
            ("h2d_pageable", "pageable"),
            ("h2d_pinned_far", "far"),
            ("d2h_pinned_far", "far back"),
        ),
    ),
    "burn": ("burn, TFLOPS", tuple((name, name) for name in ("fp32", "tf32", "fp16", "bf16", "fp8"))),
}
_FIRST_COLUMN = 20
_COLUMN = 8
_MOST_IN_MATRIX = 9
_MOST_ROWS = 32
_FEW_ROWS = 2
_MOST_NOTES = 8
_LOW, _BEHIND, _OPEN = "!", "<", "?"


class _Row(msgspec.Struct, frozen=True):
    label: str
    cells: dict[str, BenchFigure]


def bench_lines(bench: Bench, width: int, paint: Paint, *, every: bool = False) -> list[str]:
    """The tables; unless `every` GPU is wanted, those without a low figure are one row. Strings must be clean already."""
    figures = judged_ones(bench.figures or [])
    lines: list[str] = []
    for test in dict.fromkeys([*(run.test for run in bench.runs or []), *(figure.test for figure in figures)]):
        own = [figure for figure in figures if figure.test == test]
        if test in _TABLES:
            lines += _gpu_table(test, own, width, paint, every)
        elif test == "p2p":
            lines += _pairs(own, width, paint, every)
        elif test == "nccl":
            lines += _collectives(own, width, paint)
        elif test == "memtest":
            lines += _memory_tests(
                [run for run in bench.runs or [] if run.test == test], bench.faults or [], width, paint
            )
    if not lines:
        return []
    return [paint.strong("MEASURED"), *lines, *_notes(bench, width, every), *_legend(bench, figures, width)]


def judged_ones(figures: Sequence[BenchFigure]) -> list[BenchFigure]:
    """Of several sizes of one figure the largest."""
    largest: dict[tuple[object, ...], BenchFigure] = {}
    for figure in figures:
        key = (figure.test, figure.metric, figure.bdf, figure.mig, figure.peer_bdf, figure.path)
        known = largest.get(key)
        if known is None or (figure.size_bytes or 0, figure.value) > (known.size_bytes or 0, known.value):
            largest[key] = figure
    return list(largest.values())


def number(value: float) -> str:
    """Three or four digits."""
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _label(figure: BenchFigure) -> str:
    name = f"GPU {figure.gpu_index}" if figure.gpu_index is not None else "GPU"
    if figure.mig is not None:
        profile = (figure.gpu_name or "").rpartition("MIG ")[2]
        return f"{name} MIG {profile or figure.mig[4:12]}"
    return f"{name} {figure.bdf or ''}".rstrip()


def _gpu_table(test: str, figures: list[BenchFigure], width: int, paint: Paint, every: bool) -> list[str]:
    title, known = _TABLES[test]
    present = {figure.metric for figure in figures}
    columns = [(metric, heading) for metric, heading in known if metric in present]
    columns = columns[: max(1, (width - 4 - _FIRST_COLUMN) // (_COLUMN + 1))]
    rows: dict[tuple[object, ...], _Row] = {}
    for figure in figures:
        row = rows.setdefault((figure.bdf, figure.mig, figure.gpu_index), _Row(_label(figure), {}))
        row.cells[figure.metric] = figure
    if not rows or not columns:
        return []
    lines = [
        f"  {title}",
        _line("", [f"{heading:>{_COLUMN}} " for _, heading in columns]),
    ]
    ordered = sorted(rows.values(), key=lambda row: next(iter(row.cells.values())).gpu_index or 0)
    metrics = [metric for metric, _ in columns]
    shown = ordered if every or len(ordered) <= _FEW_ROWS else _remarkable(ordered)
    if len(shown) < len(ordered):
        lines.append(_line(f"median of {len(ordered)}", _medians(ordered, metrics)))
    for row in shown[:_MOST_ROWS]:
        lines.append(_line(row.label, [_cell(row.cells.get(metric), paint) for metric in metrics]))
    if len(shown) > _MOST_ROWS:
        lines.append(f"    and {len(shown) - _MOST_ROWS} more")
    least = [_least([row.cells.get(metric) for row in ordered]) for metric in metrics]
    if any(least):
        lines.append(paint.dim(_line("right from", [f"{text:>{_COLUMN}} " for text in least])))
    return lines


def _line(label: str, cells: Sequence[str]) -> str:
    return f"    {cut(label, _FIRST_COLUMN):<{_FIRST_COLUMN}}{''.join(cells)}".rstrip()


def _remarkable(rows: Sequence[_Row]) -> list[_Row]:
    """GPUs with a figure that is low or behind the others'."""
    return [row for row in rows if any(_mark(figure) for figure in row.cells.values())]


def _medians(rows: Sequence[_Row], metrics: Sequence[str]) -> list[str]:
    cells: list[str] = []
    for metric in metrics:
        values = [row.cells[metric].value for row in rows if metric in row.cells]
        cells.append(f"{number(statistics.median(values)) if values else '-':>{_COLUMN}} ")
    return cells


def _mark(figure: BenchFigure) -> str:
    """What a reader should look at: low, low but not judged, or behind the GPUs of its model here."""
    if figure.verdict == "low":
        return _LOW
    if figure.verdict == "unjudged" and figure.ratio is not None:
        return _OPEN
    behind = figure.siblings_ratio is not None and figure.siblings_ratio < (figure.siblings_threshold or 0)
    return _BEHIND if behind else ""


def _cell(figure: BenchFigure | None, paint: Paint) -> str:
    """Nine columns, the last one for the mark."""
    if figure is None:
        return f"{'-':>{_COLUMN}} "
    mark = _mark(figure)
    text = f"{number(figure.value):>{_COLUMN}}{mark or ' '}"
    return paint.severity(text, "warning") if mark else text


def _least(figures: Sequence[BenchFigure | None]) -> str:
    """The limit, where it is one for all rows."""
    limits = {
        number(figure.expected * figure.threshold_ratio)
        for figure in figures
        if figure is not None and figure.expected is not None and figure.threshold_ratio is not None
    }
    return next(iter(limits)) if len(limits) == 1 else "varies" if limits else ""


def _pairs(figures: list[BenchFigure], width: int, paint: Paint, every: bool) -> list[str]:
    """One way between each pair, as a matrix: from the row's GPU to the column's."""
    one_way = [
        figure for figure in figures if figure.metric == "p2p_unidirectional" and figure.peer_index is not None
    ]
    if not one_way:
        return []
    paths = ", ".join(dict.fromkeys(figure.path for figure in one_way if figure.path)) or "path not known"
    lines = [f"  copies between GPUs, one way, GB/s ({paths})"]
    names = sorted(
        {index for figure in one_way for index in (figure.gpu_index, figure.peer_index) if index is not None}
    )
    low = sum(bool(_mark(figure)) for figure in one_way)
    fits = len(names) <= _MOST_IN_MATRIX and 12 + 7 * len(names) <= width
    if not fits or not (every or low or len(names) <= _FEW_ROWS):
        values = [figure.value for figure in one_way]
        told = f"{len(values)} pairs: {number(min(values))} to {number(max(values))}, median {number(statistics.median(values))}"
        return [*lines, f"    {told}" + (f", {low} low or behind" if low else "")]
    cells = {(figure.gpu_index, figure.peer_index): figure for figure in one_way}
    lines.append("    from \\ to" + "".join(f"{f'GPU {name}':>7}" for name in names))
    for row in names:
        text = "".join(_pair(cells.get((row, column)), paint) for column in names)
        lines.append(f"    {f'GPU {row}':<9}{text}".rstrip())
    return lines


def _pair(figure: BenchFigure | None, paint: Paint) -> str:
    if figure is None:
        return f"{'-':>6} "
    mark = _mark(figure)
    text = f"{number(figure.value):>6}{mark or ' '}"
    return paint.severity(text, "warning") if mark else text


def _collectives(figures: list[BenchFigure], width: int, paint: Paint) -> list[str]:
    if not figures:
        return []
    lines = ["  NCCL collectives, largest message, bus bandwidth in GB/s"]
    for figure in figures:
        size = _size(figure.size_bytes)
        limit = ""
        if figure.expected is not None and figure.threshold_ratio is not None:
            limit = f"  right from {number(figure.expected * figure.threshold_ratio)}"
        lines.append(f"    {cut(figure.metric, 16):<16} {size:>9}{_cell(figure, paint)}{paint.dim(limit)}".rstrip())
    return lines


def _size(size: int | None) -> str:
    if size is None:
        return ""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}" if size % unit == 0 else f"{size / unit:.1f} {name}"
    return f"{size} B"


def _memory_tests(runs: list[BenchRun], faults: Sequence[BenchFault], width: int, paint: Paint) -> list[str]:
    lines: list[str] = []
    for run in runs:
        if run.memory_tested_mib is None:
            continue
        wrong = [fault for fault in faults if fault.test == "memtest" and fault.bdf in (run.gpus or [])]
        words = f"{sum(fault.count or 1 for fault in wrong)} wrong words ({_LOW})" if wrong else "no error"
        text = f"    {cut(', '.join(run.gpus or []), _FIRST_COLUMN):<{_FIRST_COLUMN}} {run.memory_tested_mib} MiB: {words}"
        lines.append(paint.severity(text, "warning") if wrong else text)
    return ["  memory test", *lines] if lines else []


def _notes(bench: Bench, width: int, every: bool) -> list[str]:
    """What was left out or made smaller, each once."""
    notes = list(
        dict.fromkeys(
            f"{run.test}: {note}"
            for run in bench.runs or []
            if run.state in ("done", "partial")
            for note in run.notes or []
        )
    )
    shown = notes if every else notes[:_MOST_NOTES]
    lines = [line for note in shown for line in wrap(note, width, "  note: ", "    ")]
    return [*lines, f"  and {len(notes) - len(shown)} more notes: -v"] if len(shown) < len(notes) else lines


def _legend(bench: Bench, figures: Sequence[BenchFigure], width: int) -> list[str]:
    """What the verdicts rest on, in a line or two."""
    low = sum(figure.verdict == "low" for figure in figures)
    right = sum(figure.verdict == "right" for figure in figures)
    busy = list(
        dict.fromkeys(f.why_unjudged for f in figures if f.why_unjudged and " was not free: " in f.why_unjudged)
    )
    lines = [line for why in busy[:2] for line in wrap(f"not judged: {why}", width, "  ", "    ")]
    if bench.gpus_visible is not None and bench.gpus_visible < (bench.gpus_present or 0):
        hidden = f"CUDA shows {bench.gpus_visible} of {bench.gpus_present} GPUs here (CUDA_VISIBLE_DEVICES, or a job's share)"
        lines += wrap(f"{hidden}: the others were not tested", width, "  ", "    ")
    told = f"{right} figures are right, {low} low ({_LOW})" if low else f"{right} figures are right, none is low"
    only = len(figures) - right - low
    told += f", {only} are shown only" if only else ""
    behind = sum(_mark(figure) == _BEHIND for figure in figures)
    told += f"; {behind} behind their siblings ({_BEHIND})" if behind else ""
    told += f"; {_OPEN}: low, but not judged" if any(_mark(figure) == _OPEN for figure in figures) else ""
    return [*lines, *wrap(f"{told}; --format json has what each is held against", width, "  ", "    ")]
