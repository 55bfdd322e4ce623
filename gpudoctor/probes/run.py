"""Runs the probes side by side: each bounded, none able to stop the rest."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import cast

import msgspec

from gpudoctor.facts import Fact, Facts
from gpudoctor.probes import PROBES
from gpudoctor.probes.ask import is_machine
from gpudoctor.probes.merge import Part, merge
from gpudoctor.probes.observe import ObservedSource
from gpudoctor.report import ProbeRun, ProbeState
from gpudoctor.sources.answers import Source

# Without an answer from at least one probe of each set, no verdict is possible; by profile.
_GPUS = frozenset({"nvml", "nvidia_smi"})
_KERNEL_LOG = frozenset({"kernel_log"})
ESSENTIAL: dict[str, tuple[frozenset[str], ...]] = {
    "host": (_GPUS, _KERNEL_LOG),
    "container": (_GPUS,),
    "training": (_GPUS,),
    "ci": (_GPUS,),
}
# Files from a ticket need not hold a kernel log. But a quiet log alone says nothing of GPUs that nobody looked at.
_ESSENTIAL_ATTACHED = (_GPUS,)
# Asked for in every run: other areas' rules and templates refer to them.
CONTEXT_GROUPS = frozenset({"host", "driver", "container"})
_SEEN = (ProbeState.OK, ProbeState.PARTIAL)
_STUCK_SECONDS = 0.25


def group_of(probe: ModuleType) -> str:
    """The group of facts that a probe fills: its GROUP, by default its NAME."""
    return cast(str, getattr(probe, "GROUP", probe.NAME))


def run_probes(
    source: Source,
    *,
    areas: set[str] | None = None,
    deadline_seconds: float = 30.0,
    on_progress: Callable[[str, bool], None] | None = None,
    profile: str = "host",
    probes: Sequence[ModuleType] = PROBES,
) -> tuple[Facts, list[ProbeRun]]:
    """Facts of a source, and how each probe fared, in the order of `PROBES`.

    `areas` names probes or groups (None: all); the rest is skipped. At the deadline, probes that have not answered are
    abandoned (their threads are daemons) and reported as timed out. `on_progress(name, done)` is called in this thread.
    """
    started = time.monotonic()
    todo: queue.SimpleQueue[ModuleType] = queue.SimpleQueue()
    results: queue.SimpleQueue[tuple[ProbeRun, object]] = queue.SimpleQueue()
    runs: dict[str, ProbeRun] = {}
    values: dict[str, object] = {}
    waiting: list[str] = []
    for probe in probes:
        if not _wanted(probe, areas):
            runs[probe.NAME] = ProbeRun(name=probe.NAME, state=ProbeState.SKIPPED)
            continue
        if on_progress is not None:
            on_progress(probe.NAME, False)
        waiting.append(probe.NAME)
        todo.put(probe)
    _start_workers(len(waiting) if source.kind == "live" else 1, todo, source, results)
    while waiting:
        left = started + deadline_seconds - time.monotonic()
        try:
            run, value = results.get(timeout=max(min(left, _STUCK_SECONDS), 0.001))
        except queue.Empty:
            if left <= _STUCK_SECONDS:
                break
            if not todo.empty():  # one probe must not keep the rest waiting
                _start_workers(1, todo, source, results)
            continue
        waiting.remove(run.name)
        runs[run.name] = run
        values[run.name] = value
        if on_progress is not None:
            on_progress(run.name, True)
    for name in waiting:
        problem = f"gave no answer within {deadline_seconds:g} s and was given up"
        runs[name] = ProbeRun(
            name=name, state=ProbeState.TIMED_OUT, seconds=time.monotonic() - started, problems=[problem]
        )
    parts = [Part(p.NAME, group_of(p), values[p.NAME]) for p in probes if values.get(p.NAME) is not None]
    facts, broken = merge(parts)
    ordered = [runs[probe.NAME] for probe in probes]
    ordered += [ProbeRun(name=name, state=ProbeState.CRASHED, problems=[text]) for name, text in broken]
    essential = ESSENTIAL.get(profile, ESSENTIAL["host"]) if is_machine(source) else _ESSENTIAL_ATTACHED
    return facts, _mark_essential(ordered, essential)


def _wanted(probe: ModuleType, areas: set[str] | None) -> bool:
    group = group_of(probe)
    return areas is None or probe.NAME in areas or group in areas or group in CONTEXT_GROUPS


def _start_workers(
    many: int,
    todo: queue.SimpleQueue[ModuleType],
    source: Source,
    results: queue.SimpleQueue[tuple[ProbeRun, object]],
) -> None:
    """A live machine makes every probe wait, so each has a thread; on stored evidence threads only get in each other's way."""
    for _ in range(many):
        threading.Thread(target=_work, args=(todo, source, results), daemon=True).start()


def _work(
    todo: queue.SimpleQueue[ModuleType], source: Source, results: queue.SimpleQueue[tuple[ProbeRun, object]]
) -> None:
    with contextlib.suppress(queue.Empty):
        while True:
            results.put(run_probe(todo.get_nowait(), source))


def run_probe(probe: ModuleType, source: Source) -> tuple[ProbeRun, object]:
    """One probe's facts (None: it learnt nothing) and how it fared; never raises.

    A probe that learnt only about other groups (NVML's error, but no GPU) has not answered for its own; nor has one whose
    `lacks(value)` says what is missing. What it did learn is kept.
    """
    started = time.monotonic()
    observed = ObservedSource(source)
    try:
        value: object = probe.probe(observed)
    except Exception as error:
        words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        seconds = time.monotonic() - started
        return ProbeRun(name=probe.NAME, state=ProbeState.CRASHED, seconds=seconds, problems=[words]), None
    if isinstance(value, Fact) and not knows_something(value):
        value = None
    answered = value is not None and not (isinstance(value, Facts) and getattr(value, group_of(probe)) is None)
    lacks = probe.lacks(value) if answered and hasattr(probe, "lacks") else None
    if lacks:
        state = ProbeState.NO_EVIDENCE
    elif answered:
        state = ProbeState.PARTIAL if observed.timed_out or observed.denied else ProbeState.OK
    elif observed.timed_out:
        state = ProbeState.TIMED_OUT
    else:
        state = ProbeState.DENIED if observed.denied or observed.refused else ProbeState.NO_EVIDENCE
    run = ProbeRun(
        name=probe.NAME,
        state=state,
        seconds=time.monotonic() - started,
        problems=[lacks] if lacks else list(observed.problems(with_failures=not answered)),
    )
    return run, value


def knows_something(value: Fact) -> bool:
    """True when any field of a group is known."""
    return any(getattr(value, name) is not None for name in value.__struct_fields__ if name != "evidence")


def _mark_essential(runs: list[ProbeRun], essential: Sequence[frozenset[str]]) -> list[ProbeRun]:
    """Marks essential probes: of each set those that answered, or all of them when none did. Skipped ones were not wanted."""
    needed: set[str] = set()
    states = {run.name: run.state for run in runs}
    for names in essential:
        present = {name for name in names if name in states and states[name] is not ProbeState.SKIPPED}
        needed |= {name for name in present if states[name] in _SEEN} or present
    return [msgspec.structs.replace(run, essential=run.name in needed) for run in runs]
