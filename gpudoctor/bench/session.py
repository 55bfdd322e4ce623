"""A whole session of active tests: which devices, test after test within the deadline, counters between, verdicts at the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence

import msgspec

from gpudoctor.bench import counters, plan
from gpudoctor.bench.expectations import Node
from gpudoctor.bench.judging import better_of, judged, wants_another_look
from gpudoctor.bench.model import Job, OnEvent, Readers, Stage, Target, Wish
from gpudoctor.bench.outcome import Outcome, read_outcome
from gpudoctor.bench.running import gpus_held_open, run_stage
from gpudoctor.bench.site import Site
from gpudoctor.bench.targets import chosen, devices_of, targets_of
from gpudoctor.facts import (
    Bench,
    BenchFault,
    BenchFigure,
    BenchRun,
    CounterChange,
    Evidence,
    Facts,
    Gpu,
    Kernel,
    LoadSeen,
    ThrottleSeen,
)
from gpudoctor.sources.answers import ActiveSource, Status
from gpudoctor.sources.later import Later
from gpudoctor.sources.requests import DMESG, JOURNAL_KERNEL, WORKER_NVML, labelled
from gpudoctor.workers.ranks import RankError, ranks_of

# CUDA makes a context on each GPU for the first time here, which takes long without persistence mode.
_DEVICES_SECONDS = 60.0
_DEVICES_JOB = Job(test="devices", request=plan.DEVICES, targets=())
_SNAPSHOT_SECONDS = 12.0
_KERNEL_LOGS = frozenset({DMESG, JOURNAL_KERNEL})
_AGAIN_SECONDS = 2.0  # on top of a test's own time: what a second run needs to be worth it


class Result(msgspec.Struct, kw_only=True):
    """The facts, the kernel log as it was after the tests (None: not read again), and the devices that were tested."""

    bench: Bench
    kernel: Kernel | None = None
    targets: list[Target] = []


class Session:
    """Runs the tests of a wish. A recorded source answers what was recorded: the same facts come of it."""

    def __init__(
        self,
        source: ActiveSource,
        facts: Facts,
        wish: Wish,
        readers: Readers,
        *,
        site: Site | None = None,
        stop: threading.Event | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.source = source
        self.facts = facts
        self.wish = wish
        self.readers = readers
        self.site = site or Site()
        self.stop = stop or threading.Event()
        self.on_event = on_event
        self.ranks = _ranks(source) if wish.with_launcher else None
        self.targets: list[Target] = []
        self.busy: dict[str, str] = {}
        self.gpus: list[Gpu] = list(facts.gpus or [])
        self.kernel: Kernel | None = facts.kernel
        self.read_later = False
        self.runs: list[BenchRun] = []
        self.figures: list[BenchFigure] = []
        self.faults: list[BenchFault] = []
        self.changes: list[CounterChange] = []
        self.load: list[LoadSeen] = []
        self.held: list[ThrottleSeen] = []

    def run(self) -> Result:
        """Everything, or what there was time for. Raises GpudoctorError for a GPU that does not exist."""
        unheld = any(gpu.persistence_mode is False for gpu in self.gpus)
        with gpus_held_open(self.source, unheld, self._left()):
            visible = self._find_devices()
            if visible is not None:
                self.busy = dict(self._busy())
                self._run_all()
        return Result(
            bench=Bench(
                runs=self.runs,
                figures=judged(self.figures, self._node(), self.busy),
                faults=self.faults,
                counters=self.changes,
                throttling=self.held,
                load=self.load,
                gpus_visible=visible,
                gpus_present=None
                if any(target.mig for target in self.targets)
                else len(self.facts.gpus or []) or None,
                baseline=self.site.baseline_file,
            ),
            kernel=self.kernel if self.read_later else None,
            targets=self.targets,
        )

    def _run_all(self) -> None:
        # Of several processes of a launcher each would put load on the same GPUs: only what they do together makes sense.
        together = self.ranks is not None and "nccl" in self.wish.tests
        stages = plan.stages(
            ("nccl",) if together else self.wish.tests,
            self.targets,
            level=self.wish.level,
            seconds=self.wish.seconds,
            launched=self.ranks is not None,
            extra=("--nccl-tests",) if self.wish.nccl_tests else (),
        )
        for index in range(len(stages)):
            self._stage(stages[index:], index + 1)

    def _left(self) -> float:
        return self.wish.deadline - time.monotonic()

    def _find_devices(self) -> int | None:
        """How many devices CUDA shows; None when it shows none, with a run that says why."""
        left = self._left()
        timeout = 0.0 if self.stop.is_set() else min(_DEVICES_SECONDS, left)
        answer = self.source.watch(*plan.DEVICES, seconds=max(0.1, timeout), timeout=timeout, stop=self.stop)
        outcome = read_outcome(_DEVICES_JOB, answer, interrupted=self.stop.is_set())
        devices = devices_of(answer.stdout)
        if outcome.run.state != "done":
            self.runs.append(outcome.run)
        if not devices:
            if outcome.run.state == "done":
                self.runs.append(msgspec.structs.replace(outcome.run, state="not_run", notes=["CUDA shows no GPU"]))
            return None
        self.targets = chosen(targets_of(devices, self.facts), self.wish.gpus)
        return len(devices)

    def _busy(self) -> Iterator[tuple[str, str]]:
        for target in self.targets:
            why = counters.busy_reason(target.gpu)
            if why is not None and target.bdf is not None:
                yield target.bdf, why

    def _node(self) -> Node:
        paths = {figure.path for figure in self.figures if figure.test == "p2p" and figure.path}
        attach = {target.model.nvlink_attach if target.model else None for target in self.targets}
        linked = any(link.active for target in self.targets if target.gpu for link in target.gpu.nvlinks or [])
        nvlink = True if "nvlink" in paths or linked else None if "board" in attach else False
        return Node(
            targets=self.targets,
            nvlink=nvlink,
            p2p=bool(paths - {"host"}) if paths else None,
            site=self.site,
            ranks=self.ranks,
            wsl=bool(self.facts.host and self.facts.host.is_wsl),
        )

    def _stage(self, planned: Sequence[Stage], number: int) -> None:
        stage = planned[0]
        seconds = 0.0 if self.stop.is_set() else plan.allowed_seconds(planned, self._left())
        label = f"{number} {stage.test}"
        done = run_stage(
            self.source,
            stage,
            label=label,
            seconds=seconds,
            deadline=self.wish.deadline,
            stop=self.stop,
            sample=bool(self.facts.gpus),
            on_event=self.on_event,
        )
        outcomes = [
            read_outcome(job, done.answers[job.request], interrupted=self.stop.is_set())
            for job in stage.jobs
            if job.request in done.answers
        ]
        outcomes = self._again(planned, outcomes, seconds)
        self.runs += [self._marked(outcome.run) for outcome in outcomes]
        self.figures += [figure for outcome in outcomes for figure in outcome.figures]
        self.faults += [fault for outcome in outcomes for fault in outcome.faults]
        bdfs = [target.bdf for job in stage.jobs for target in job.targets if target.bdf]
        if done.samples is not None:
            samples = counters.samples_of(done.samples.stdout)
            seen, held = counters.load_seen(stage.test, samples, bdfs, self.readers.throttle_reasons)
            self.load += seen
            self.held += held
        if any(outcome.run.state != "not_run" for outcome in outcomes):
            self._compare(stage.test, label, bdfs)

    def _marked(self, run: BenchRun) -> BenchRun:
        busy = [name for name in run.gpus or [] if name in self.busy]
        if not busy:
            return run
        evidence = {"busy": Evidence(source="nvml", text=f"GPU {busy[0]}: {self.busy[busy[0]]}")}
        return msgspec.structs.replace(run, busy=True, busy_gpus=busy, evidence={**run.evidence, **evidence})

    def _again(self, planned: Sequence[Stage], outcomes: list[Outcome], seconds: float) -> list[Outcome]:
        """Jobs with a figure a little below its limit run once more, one after the other; the better figure counts."""
        stage = planned[0]
        measured = [figure for outcome in outcomes for figure in outcome.figures]
        verdicts = judged([*self.figures, *measured], self._node(), self.busy)[len(self.figures) :]
        doubtful = {(figure.bdf, figure.mig, figure.peer_bdf) for figure in verdicts if wants_another_look(figure)}
        if not doubtful:
            return outcomes
        result: list[Outcome] = []
        for job, outcome in zip(stage.jobs, outcomes, strict=False):
            own = {(figure.bdf, figure.mig, figure.peer_bdf) for figure in outcome.figures}
            result.append(self._once_more(planned, job, outcome, seconds) if own & doubtful else outcome)
        return result

    def _once_more(self, planned: Sequence[Stage], job: Job, outcome: Outcome, seconds: float) -> Outcome:
        others = plan.total(planned[1:])
        enough = self._left() - others > seconds + _AGAIN_SECONDS
        timeout = seconds + _AGAIN_SECONDS if enough and not self.stop.is_set() else 0.0
        answer = self.source.watch(
            *plan.again(job).request, seconds=max(0.1, seconds), timeout=timeout, stop=self.stop
        )
        if answer.status is Status.NOT_RECORDED:
            return outcome
        second = read_outcome(plan.again(job), answer, interrupted=self.stop.is_set())
        return Outcome(
            run=outcome.run,
            figures=better_of(outcome.figures, second.figures),
            faults=[*outcome.faults, *second.faults],
        )

    def _compare(self, test: str, label: str, bdfs: list[str]) -> None:
        """Counters and kernel log after a test, against those before it."""
        if self.stop.is_set():
            return
        if self.gpus:  # else NVML had no answer before either
            answer = self.source.run(*labelled(WORKER_NVML, f"after {label}"), timeout=_SNAPSHOT_SECONDS)
            after = self.readers.gpus(answer)
            if after:
                self.changes += counters.gpu_changes(test, self.gpus, after)
                self.gpus = after
        kernel = self.readers.kernel(Later(self.source, f"after {label}", _KERNEL_LOGS))
        if kernel is not None:
            self.changes += counters.kernel_changes(test, self.kernel, kernel)
            self.kernel = kernel
            self.read_later = True


def _ranks(source: ActiveSource) -> int | None:
    """How many processes a launcher started together with this one; None when it runs alone."""
    try:
        ranks = ranks_of(source.environment() or {})
    except RankError:
        return None  # the worker says what is wrong with them
    return ranks.world if ranks is not None else None
