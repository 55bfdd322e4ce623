"""Active tests within the one way from evidence to report: level 2 and 3 of check, and the command bench."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from gpudoctor.facts import Bench, BenchRun, Facts, Kernel
from gpudoctor.report import ProbeRun, ProbeState

if TYPE_CHECKING:
    from gpudoctor.bench.model import OnEvent, Readers, Target
    from gpudoctor.bench.session import Result
    from gpudoctor.bench.site import Site
    from gpudoctor.sources import ActiveSource

# Kept back of the deadline for ending workers, the last look at counters, and the rules.
_RESERVE_SECONDS = 8.0
_ENDLESS_SECONDS = 1e6
_MOST_PROBLEMS = 6


class Active(msgspec.Struct, frozen=True, kw_only=True):
    """Which tests are wanted, on what, and how they are judged. `tests` None: those of the level."""

    level: int = 2
    tests: tuple[str, ...] | None = None
    gpus: tuple[str, ...] | None = None
    seconds: float | None = None
    site: Site | None = None
    with_launcher: bool = False
    nccl_tests: bool = False


class Tested(msgspec.Struct, kw_only=True):
    """Facts with those of the tests, how the tests fared, and whether somebody interrupted them."""

    facts: Facts
    run: ProbeRun
    interrupted: bool = False
    targets: list[Target] = []


def recorded(source: ActiveSource, facts: Facts) -> Active | None:
    """The tests that a recording holds; None when it has none."""
    from gpudoctor.sources.answers import Status
    from gpudoctor.sources.requests import WORKER_BENCH

    if source.run("worker", f"{WORKER_BENCH}devices").status is Status.NOT_RECORDED:
        return None
    from gpudoctor.bench.recorded import tests_in

    found = tests_in(source, facts)
    return None if found is None else Active(level=found[0], tests=found[1])


def readers() -> Readers:
    """The probes' own parsers: active tests read counters and logs as checks do."""
    from gpudoctor.bench.model import Readers
    from gpudoctor.probes import kernel_log, nvml
    from gpudoctor.probes.throttle import reasons_of_mask
    from gpudoctor.sources.answers import CommandAnswer

    def gpus(answer: CommandAnswer) -> Any:
        facts = nvml.facts_of(answer)
        return facts.gpus if facts is not None else None

    return Readers(gpus=gpus, kernel=kernel_log.probe, throttle_reasons=reasons_of_mask)


def tested(source: ActiveSource, facts: Facts, active: Active, *, begun: float, deadline_seconds: float) -> Tested:
    """Runs the tests until the deadline (`deadline_seconds` after `begun`), or repeats what a recording has of them."""
    from gpudoctor.bench.model import LEVEL_TESTS, Wish
    from gpudoctor.bench.session import Session
    from gpudoctor.cli.bench_progress import BenchProgress

    live = source.kind == "live"
    started = time.monotonic()
    wish = Wish(
        tests=LEVEL_TESTS[active.level] if active.tests is None else active.tests,
        level=active.level,
        gpus=active.gpus,
        seconds=active.seconds,
        with_launcher=active.with_launcher,
        nccl_tests=active.nccl_tests,
        deadline=begun + deadline_seconds - _RESERVE_SECONDS if live else started + _ENDLESS_SECONDS,
    )
    stop = threading.Event()
    progress = BenchProgress() if live else None
    on_event: OnEvent | None = progress.on_event if progress is not None and progress.shown else None
    with _stopping(stop, live), progress or _nothing():
        result = Session(source, facts, wish, readers(), site=active.site, stop=stop, on_event=on_event).run()
    seconds = time.monotonic() - started if live else 0.0
    return Tested(
        facts=with_result(facts, result),
        run=probe_run(result.bench, facts, seconds),
        interrupted=stop.is_set(),
        targets=result.targets,
    )


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _stopping(stop: threading.Event, live: bool) -> Iterator[None]:
    """Ctrl-C, a batch system's SIGTERM and a closed terminal end the tests in order: no GPU is left at work."""
    if not live or threading.current_thread() is not threading.main_thread():
        yield
        return
    import sys

    def handle(number: int, frame: FrameType | None) -> None:
        if not stop.is_set():
            print("\ngpudoctor: ending the tests ...", file=sys.stderr)
        stop.set()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def with_result(facts: Facts, result: Result) -> Facts:
    """The facts with the tests', and the kernel log as it was after them: what they set off is explained like all else."""
    if result.kernel is not None:
        facts = msgspec.structs.replace(facts, kernel=later_log(facts.kernel, result.kernel))
        from gpudoctor.probes.derive_xids import xid_meanings

        facts = xid_meanings(facts)
    return msgspec.structs.replace(facts, bench=result.bench)


def later_log(before: Kernel | None, after: Kernel) -> Kernel:
    """The later log's lists in place of the earlier ones; what only other probes knew stays."""
    if before is None:
        return after
    newer = {
        name: value
        for name in before.__struct_fields__
        if name != "evidence" and (value := getattr(after, name)) is not None
    }
    return msgspec.structs.replace(before, **newer, evidence={**before.evidence, **after.evidence})


def probe_run(bench: Bench, facts: Facts, seconds: float) -> ProbeRun:
    """How the tests fared as a whole. Asked for, they are essential: what could not be measured is not healthy."""
    from gpudoctor.bench.words import TESTS

    runs = bench.runs or []
    lacking = [run for run in runs if run.state in ("failed", "timed_out", "not_run", "interrupted")]
    problems = list(dict.fromkeys(f"{TESTS.get(run.test, run.test)}: {_why(run, facts)}" for run in lacking))
    if len(problems) > _MOST_PROBLEMS:
        problems = [*problems[:_MOST_PROBLEMS], f"and {len(problems) - _MOST_PROBLEMS} more"]
    if not runs:
        state = ProbeState.NO_EVIDENCE
        problems = [
            "nothing to test: " + ("CUDA shows no GPU" if not bench.gpus_visible else "these tests need more GPUs")
        ]
    elif not lacking:
        cut = [f"{TESTS.get(r.test, r.test)}: {_cut(r)}" for r in runs if r.state == "partial"]
        problems = list(dict.fromkeys([*cut, *_unjudged(bench)]))[:_MOST_PROBLEMS]
        state = ProbeState.PARTIAL if problems else ProbeState.OK
    elif all(run.state == "timed_out" or _had_no_time(run) for run in lacking):
        state = ProbeState.TIMED_OUT
    else:
        state = ProbeState.NO_EVIDENCE
    return ProbeRun(name="active tests", state=state, seconds=round(seconds, 2), problems=problems, essential=True)


def _unjudged(bench: Bench) -> list[str]:
    """Tests that measured, but of which not one figure could be held against anything: no verdict is not a good one."""
    from gpudoctor.bench.words import TESTS

    told: list[str] = []
    for test in ("memory", "gemm", "pcie"):
        own = [figure for figure in bench.figures or [] if figure.test == test]
        if own and all(figure.verdict == "unjudged" for figure in own):
            why = Counter(figure.why_unjudged for figure in own if figure.why_unjudged).most_common(1)
            told.append(f"{TESTS[test]}: measured, but not judged" + (f": {why[0][0]}" if why else ""))
    return told


def _had_no_time(run: BenchRun) -> bool:
    from gpudoctor.bench.outcome import NO_TIME

    return bool({NO_TIME, "time ran out"} & set(run.notes or []))


def _cut(run: BenchRun) -> str:
    return run.error_message or "; ".join(run.notes or []) or "only a part was done"


def _why(run: BenchRun, facts: Facts) -> str:
    if run.error_api == "cupy" and run.error_name in ("ModuleNotFoundError", "ImportError", None):
        return f"CuPy cannot be loaded ({run.error_message}); {how_to_install(facts)}"
    if run.error_message is not None:
        return f"{run.error_name}: {run.error_message}" if run.error_name else run.error_message
    if run.state == "interrupted":
        return "interrupted"
    return "; ".join(run.notes or []) or run.state.replace("_", " ")


def how_to_install(facts: Facts) -> str:
    """The extra that fits the driver: CUDA 13 wheels need a driver that runs CUDA 13."""
    version = (facts.cuda.driver_cuda_version if facts.cuda else None) or ""
    extra = "cuda13" if version.split(".")[0].isdecimal() and int(version.split(".")[0]) >= 13 else "cuda12"
    return f"pip install 'gpudoctor[{extra}]'"
