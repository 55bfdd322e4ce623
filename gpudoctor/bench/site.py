"""Expectations that a site brings: a file of its own figures (`--expected`), or a baseline measured on a good node."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor.bench.model import Target
from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Bench, BenchFigure
from gpudoctor.knowledge.copy_expectations import Limit

SCHEMA = 1
_KIND = "gpudoctor bench baseline"
_FILE_LIMIT_BYTES = 4 * 1024 * 1024
# A node measured twice stays within these of itself; beyond them the other node differs.
_BASELINE_THRESHOLD = {"memory": 0.95, "pcie": 0.90, "p2p": 0.92, "nccl": 0.90, "gemm": 0.90}
_OWN_THRESHOLD = 0.95


class Own(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site's figure: what is expected, and the lowest that is right (as a figure, or as a share of what is expected)."""

    value: float
    at_least: float | None = None
    ratio: float | None = None


class BaselineFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The median of a figure over the GPUs of one model on a good node."""

    test: str
    metric: str
    value: float
    unit: str
    device_id: str | None = None
    gpu_name: str | None = None
    path: str | None = None
    size_bytes: int | None = None
    gpus: int | None = None  # nccl: how many took part


class Baseline(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    schema: int
    figures: list[BaselineFigure]
    tool: str | None = None
    host: str | None = None
    taken: str | None = None


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """What a site expects; both may be empty."""

    own: dict[str, dict[str, Own]] = {}  # PCI id, product name or "*" -> "memory.copy" -> figure
    own_file: str | None = None
    baseline: Baseline | None = None
    baseline_file: str | None = None

    def limit(self, figure: BenchFigure, target: Target | None, gpus: int) -> Limit | None:
        """What the site expects of this figure: its own file holds before the baseline."""
        return self._own(figure, target) or self._baseline(figure, target, gpus)

    def _own(self, figure: BenchFigure, target: Target | None) -> Limit | None:
        names = (target.device_id, target.model.product if target.model else None, target.name) if target else ()
        for name in (*names, "*"):
            own = self.own.get(name or "", {}).get(f"{figure.test}.{figure.metric}")
            if own is not None:
                threshold = own.ratio if own.ratio is not None else _OWN_THRESHOLD
                threshold = own.at_least / own.value if own.at_least is not None else threshold
                return Limit(expected=own.value, threshold=round(threshold, 4), basis=f"{self.own_file}: {name}")
        return None

    def _baseline(self, figure: BenchFigure, target: Target | None, gpus: int) -> Limit | None:
        if self.baseline is None or figure.mig is not None:
            return None
        wanted = (figure.test, figure.metric, figure.unit, figure.path, figure.size_bytes)
        for known in self.baseline.figures:
            same_model = target is None or known.device_id is None or known.device_id == target.device_id
            if (known.test, known.metric, known.unit, known.path, known.size_bytes) != wanted or not same_model:
                continue
            if known.gpus is not None and known.gpus != gpus:
                continue
            of = f"{self.baseline_file} ({self.baseline.host or 'another node'})"
            threshold = _BASELINE_THRESHOLD.get(figure.test, 0.9)
            return Limit(expected=known.value, threshold=threshold, basis=f"baseline {of}")
        return None


def read_own(path: Path) -> dict[str, dict[str, Own]]:
    """The file of --expected. Raises GpudoctorError with what is wrong in it."""
    import yaml

    text = _text(path, "--expected")
    try:
        data: Any = yaml.safe_load(text)
        raw = msgspec.convert(data, dict[str, dict[str, float | dict[str, float]]])
        own = {
            name: {
                figure: msgspec.convert({"value": v} if isinstance(v, float) else v, Own) for figure, v in of.items()
            }
            for name, of in raw.items()
        }
    except (yaml.YAMLError, msgspec.ValidationError, RecursionError) as error:
        raise GpudoctorError(
            f"--expected {path}: {' '.join(str(error).split())[:300]}",
            'Per PCI id, product name or "*": figures such as `memory.copy: 3000` or `memory.copy: {value: 3000, at_least: 2800}`.',
        ) from error
    for name, figures in own.items():
        for figure, value in figures.items():
            if value.value <= 0 or (value.ratio is not None and not 0 < value.ratio <= 1.5):
                raise GpudoctorError(f"--expected {path}: {name}: {figure}: must be more than 0, ratio about 0.9")
    return {name.lower() if name.startswith("10DE") else name: figures for name, figures in own.items()}


def read_baseline(path: Path) -> Baseline:
    """A file that --save-baseline wrote. Raises GpudoctorError."""
    try:
        baseline = msgspec.json.decode(_text(path, "--baseline"), type=Baseline)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise GpudoctorError(
            f"--baseline {path}: not a baseline: {' '.join(str(error).split())[:200]}",
            "`gpudoctor bench --save-baseline FILE` on a good node writes one.",
        ) from error
    if baseline.kind != _KIND or baseline.schema != SCHEMA:
        raise GpudoctorError(f"--baseline {path}: not a baseline of schema {SCHEMA}")
    return baseline


def _text(path: Path, option: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_FILE_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise GpudoctorError(f"{option} {path}: {error.strerror or error}") from error


def baseline_of(
    bench: Bench, device_ids: dict[str, str | None], *, host: str | None, taken: str, tool: str
) -> Baseline:
    """The medians of what was measured. `device_ids` is the model of each address."""
    groups: dict[tuple[Any, ...], list[BenchFigure]] = {}
    for figure in bench.figures or []:
        if figure.mig is None:
            model = device_ids.get(figure.bdf) if figure.bdf else None
            key = (figure.test, figure.metric, figure.unit, model, figure.path, figure.size_bytes)
            groups.setdefault(key, []).append(figure)
    return Baseline(
        kind=_KIND,
        schema=SCHEMA,
        tool=tool,
        host=host,
        taken=taken,
        figures=[_median(group, key[3], bench.gpus_visible) for key, group in groups.items()],
    )


def _median(group: list[BenchFigure], device_id: str | None, visible: int | None) -> BaselineFigure:
    first = group[0]
    return BaselineFigure(
        test=first.test,
        metric=first.metric,
        value=round(statistics.median(figure.value for figure in group), 3),
        unit=first.unit,
        device_id=device_id,
        gpu_name=first.gpu_name,
        path=first.path,
        size_bytes=first.size_bytes,
        gpus=visible if first.bdf is None else None,
    )


def unfit_for_a_baseline(bench: Bench) -> list[str]:
    """Why this run should not be what others are held against."""
    runs: Iterable[str] = (
        f"the {run.test} test {run.state.replace('_', ' ')}" for run in bench.runs or [] if _unfit(run.state)
    )
    return [
        *dict.fromkeys(runs),
        *dict.fromkeys(
            f"{figure.test} {figure.metric} is low" for figure in bench.figures or [] if figure.verdict == "low"
        ),
        *(["data came back wrong"] if bench.faults else []),
        *(["a GPU was busy"] if any(run.busy for run in bench.runs or []) else []),
    ]


def _unfit(state: str) -> bool:
    return state not in ("done", "partial")
