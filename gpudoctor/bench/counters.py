"""What changed while a test ran: error counters, the kernel log, and what held the clocks. Pure: facts before and after."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from gpudoctor.bench.targets import address
from gpudoctor.facts import CounterChange, Evidence, Gpu, Kernel, KernelEvent, LoadSeen, ThrottleSeen, Xid

_COUNTERS: tuple[tuple[str, str], ...] = (
    ("ecc_corrected", "ecc_corrected_volatile"),
    ("ecc_uncorrected", "ecc_uncorrected_volatile"),
    ("remapped_rows_correctable", "remapped_rows_correctable"),
    ("remapped_rows_uncorrectable", "remapped_rows_uncorrectable"),
    ("remapped_rows_pending", "remapped_rows_pending"),
    ("remapped_rows_failure", "remapped_rows_failure"),
    ("retired_pages", "retired_pages_double_bit"),
    ("retired_pages", "retired_pages_single_bit"),
    ("pcie_replays", "pcie_replay_count"),
)
# Clocks are held for these reasons by settings or for want of work: no slowdown.
_HARMLESS = frozenset({"idle", "app_clocks", "sync_boost", "display"})
_LOADED_PCT = 50
_BUSY_PCT = 10
# Longer than this a sample line is no sample.
_LINE_LIMIT = 4000
T = TypeVar("T", Xid, KernelEvent)
_MOST_SAMPLES = 100_000


def gpu_changes(test: str, before: Sequence[Gpu], after: Sequence[Gpu]) -> list[CounterChange]:
    """Counters that rose, and GPUs that no longer answer."""
    earlier = {_name(gpu): gpu for gpu in before}
    changes: list[CounterChange] = []
    for gpu in after:
        first = earlier.get(_name(gpu)) or next((g for g in before if g.index == gpu.index), None)
        if first is None:
            continue
        if gpu.lost and not first.lost:
            words = "the driver no longer answers for it"
            changes.append(_change(test, first, "lost", 0, 1, words))
            continue
        for counter, field in _COUNTERS:
            changes += _risen(test, first, counter, getattr(first, field), getattr(gpu, field))
        changes += _risen(test, first, "nvlink_errors", _link_errors(first), _link_errors(gpu))
    return changes


def _name(gpu: Gpu) -> str | None:
    return address(gpu.bdf) or gpu.uuid


def _risen(test: str, gpu: Gpu, counter: str, before: Any, after: Any) -> list[CounterChange]:
    if before is None or after is None or int(after) <= int(before):
        return []
    return [_change(test, gpu, counter, int(before), int(after))]


def _change(test: str, gpu: Gpu, counter: str, before: int, after: int, detail: str | None = None) -> CounterChange:
    words = f"{counter.replace('_', ' ')}: {before} before the {test} test, {after} after it"
    return CounterChange(
        test=test,
        bdf=address(gpu.bdf),
        counter=counter,
        before=before,
        after=after,
        detail=detail,
        evidence={"": Evidence(source="nvml", text=detail or words)},
    )


def _link_errors(gpu: Gpu) -> int | None:
    if gpu.nvlinks is None:
        return None
    counts = [
        count
        for link in gpu.nvlinks
        for count in (link.crc_errors, link.replay_errors, link.recovery_errors)
        if count is not None
    ]
    return sum(counts) if counts else None


def kernel_changes(test: str, before: Kernel | None, after: Kernel | None) -> list[CounterChange]:
    """Xids and PCIe errors that the kernel logged meanwhile. Nothing where a log could not be read at both times."""
    if before is None or after is None:
        return []
    changes = _new_lines(test, "xid", before.xids, after.xids, lambda xid: (address(xid.bdf), xid.code), _xid_words)
    return changes + _new_lines(
        test,
        "aer",
        before.aer,
        after.aer,
        lambda event: (address(event.bdf), event.severity),
        lambda event: event.text,
    )


def _xid_words(xid: Xid) -> str:
    return f"Xid {xid.code}: {xid.text}"


def _new_lines(
    test: str,
    counter: str,
    before: list[T] | None,
    after: list[T] | None,
    key: Callable[[T], tuple[str | None, Any]],
    words: Callable[[T], str],
) -> list[CounterChange]:
    if before is None or after is None:
        return []
    counts: Counter[tuple[str | None, Any]] = Counter()
    for item in before:
        counts[key(item)] += item.count
    later: Counter[tuple[str | None, Any]] = Counter()
    last: dict[tuple[str | None, Any], T] = {}
    for item in after:
        later[key(item)] += item.count
        last[key(item)] = item
    return [
        CounterChange(
            test=test,
            bdf=name[0],
            counter=counter,
            before=counts[name],
            after=count,
            detail=words(last[name])[:300],
            evidence=dict(last[name].evidence),
        )
        for name, count in later.items()
        if count > counts[name]
    ]


class Sample(msgspec.Struct, frozen=True):
    """What one GPU showed at one moment."""

    bdf: str
    values: dict[str, Any]


def samples_of(stdout: str) -> list[Sample]:
    """The lines of the sampler; anything else is passed over."""
    found: list[Sample] = []
    for text in stdout.splitlines():
        if len(text) > _LINE_LIMIT or len(found) >= _MOST_SAMPLES:
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if not isinstance(line, dict) or line.get("kind") != "sample" or not isinstance(line.get("values"), dict):
            continue
        bdf = address(line["bdf"]) if isinstance(line.get("bdf"), str) else None
        if bdf is not None:
            found.append(Sample(bdf, {k: v for k, v in line["values"].items() if isinstance(v, int | float)}))
    return found


def load_seen(
    test: str, samples: Iterable[Sample], bdfs: Iterable[str], reasons: Callable[[int], list[str]]
) -> tuple[list[LoadSeen], list[ThrottleSeen]]:
    """What each tested GPU showed, and which had its clocks held back. `reasons` reads NVML's mask."""
    by_gpu: dict[str, list[Sample]] = {}
    for sample in samples:
        by_gpu.setdefault(sample.bdf, []).append(sample)
    seen: list[LoadSeen] = []
    held: list[ThrottleSeen] = []
    for bdf in dict.fromkeys(bdfs):
        own = by_gpu.get(bdf, [])
        if not own:
            continue
        loaded = [s for s in own if s.values.get("utilization_gpu_pct", 0) >= _LOADED_PCT] or own
        one = _load(test, bdf, own, loaded, reasons)
        seen.append(one)
        held += _throttled(one, loaded, reasons)
    return seen, held


def _numbers(samples: Iterable[Sample], name: str) -> list[float]:
    return [float(sample.values[name]) for sample in samples if name in sample.values]


def _load(
    test: str, bdf: str, own: list[Sample], loaded: list[Sample], reasons: Callable[[int], list[str]]
) -> LoadSeen:
    def highest(name: str) -> int | None:
        return int(max(numbers)) if (numbers := _numbers(own, name)) else None

    clocks, power = _numbers(loaded, "sm_clock_mhz"), _numbers(own, "power_w")
    masks = [int(mask) for mask in _numbers(loaded, "throttle_mask")]
    return LoadSeen(
        test=test,
        bdf=bdf,
        samples=len(loaded),
        sm_clock_mhz_median=int(statistics.median(clocks)) if clocks else None,
        temperature_c_highest=highest("temperature_c"),
        power_w_highest=max(power) if power else None,
        pcie_generation=highest("pcie_generation"),
        pcie_width=highest("pcie_width"),
        reasons=list(dict.fromkeys(name for mask in masks for name in reasons(mask))) if masks else None,
    )


def _throttled(seen: LoadSeen, loaded: list[Sample], reasons: Callable[[int], list[str]]) -> list[ThrottleSeen]:
    """Two samples at least: one may have been taken at the very end."""
    held = [s for s in loaded if set(reasons(int(s.values.get("throttle_mask", 0)))) - _HARMLESS]
    if len(held) < 2:
        return []
    found = dict.fromkeys(name for s in held for name in reasons(int(s.values["throttle_mask"])))
    clocks = _numbers(held, "sm_clock_mhz")
    return [
        ThrottleSeen(
            test=seen.test,
            bdf=seen.bdf,
            reasons=[name for name in found if name not in _HARMLESS],
            share=round(len(held) / len(loaded), 2),
            sm_clock_mhz_lowest=int(min(clocks)) if clocks else None,
            temperature_c_highest=seen.temperature_c_highest,
            power_w_highest=seen.power_w_highest,
        )
    ]


def busy_reason(gpu: Gpu | None) -> str | None:
    """Why a GPU was at work for somebody else before the tests began; None when it was not, as far as is known."""
    if gpu is None:
        return None
    processes = [process for process in gpu.processes or [] if process.kind in (None, "C", "C+G", "M+C")]
    names = ", ".join(f"{process.pid} ({process.name or 'unknown'})" for process in processes[:3])
    if gpu.utilization_gpu_pct is not None and gpu.utilization_gpu_pct >= _BUSY_PCT:
        return f"{gpu.utilization_gpu_pct} % busy before the tests" + (f", process {names}" if names else "")
    return f"other processes hold it, {names}" if names else None
