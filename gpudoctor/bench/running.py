"""Runs a test's workers side by side, passes their progress on, and ends them in time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gpudoctor.bench.model import Event, Job, OnEvent, Stage
from gpudoctor.sources.answers import ActiveSource, CommandAnswer
from gpudoctor.sources.requests import WORKER_NVML_SAMPLE, labelled
from gpudoctor.workers.bench_lines import Progress, read_line

# How long beyond its own time a worker may take before it is ended: loading CuPy from a slow disk cannot be cut short.
_SLACK_SECONDS = 30.0
_SAMPLING_SLACK = 5.0


class StageAnswers:
    """The answers of a stage's jobs, and of the sampler beside them."""

    def __init__(self) -> None:
        self.answers: dict[tuple[str, ...], CommandAnswer] = {}  # by request
        self.samples: CommandAnswer | None = None


def run_stage(
    source: ActiveSource,
    stage: Stage,
    *,
    label: str,
    seconds: float,
    deadline: float,
    stop: threading.Event,
    sample: bool = True,
    on_event: OnEvent | None = None,
) -> StageAnswers:
    """Runs all jobs of a stage, each within `seconds` (0: none is begun) and all before `deadline` (time.monotonic()).

    When `stop` is set the workers are asked to end and what they said until then is kept. `label` names the occasion.
    `sample`: NVML is asked for clocks, power and links meanwhile.
    """
    result = StageAnswers()
    over = threading.Event()
    threads = [
        threading.Thread(
            target=_run_group, args=(source, group, seconds, deadline, stop, on_event, result), daemon=True
        )
        for group in stage.groups
    ]
    sampler = threading.Thread(target=_sample, args=(source, label, seconds, stage.depth, over, result), daemon=True)
    if sample and seconds > 0:
        sampler.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    if sample and seconds > 0:
        sampler.join(timeout=_SAMPLING_SLACK)
    return result


def _run_group(
    source: ActiveSource,
    group: tuple[Job, ...],
    seconds: float,
    deadline: float,
    stop: threading.Event,
    on_event: OnEvent | None,
    result: StageAnswers,
) -> None:
    for job in group:
        left = deadline - time.monotonic()
        timeout = 0.0 if seconds <= 0 or stop.is_set() else min(seconds + _SLACK_SECONDS, left)
        result.answers[job.request] = source.watch(
            *job.request,
            seconds=max(0.1, min(seconds, left)),
            timeout=timeout,
            on_line=_follower(job, on_event),
            stop=stop,
        )
        _tell(on_event, job, 1.0, "done")


def _follower(job: Job, on_event: OnEvent | None) -> Callable[[str], None] | None:
    """What reads a worker's lines as they come."""
    if on_event is None:
        return None
    labels: Mapping[int | None, str] = {target.ordinal: target.label for target in job.targets}

    def follow(text: str) -> None:
        line = read_line(text) if '"progress"' in text[:40] else None
        if isinstance(line, Progress):
            label = labels.get(line.device) if len(job.targets) == 1 else None
            _tell(on_event, job, min(1.0, max(0.0, line.done)), line.what, label)

    return follow


def _tell(on_event: OnEvent | None, job: Job, done: float, what: str, label: str | None = None) -> None:
    if on_event is not None:
        only = job.targets[0].label if len(job.targets) == 1 else "all GPUs"
        on_event(Event(test=job.test, label=label or only, done=done, what=what[:60]))


def _sample(
    source: ActiveSource, label: str, seconds: float, depth: int, over: threading.Event, result: StageAnswers
) -> None:
    """Clocks, power and links while the stage runs."""
    longest = depth * (seconds + _SLACK_SECONDS)
    request = labelled(WORKER_NVML_SAMPLE, f"during {label}")
    result.samples = source.watch(*request, seconds=longest, timeout=longest, stop=over)


@contextmanager
def gpus_held_open(source: ActiveSource, wanted: bool, seconds: float) -> Iterator[None]:
    """Keeps the GPUs started between workers: without persistence mode each worker would wait for that anew."""
    over = threading.Event()
    request = (*WORKER_NVML_SAMPLE, "--hold")
    holder = threading.Thread(
        target=lambda: source.watch(*request, seconds=seconds, timeout=seconds, stop=over), daemon=True
    )
    if wanted and seconds > 0:
        holder.start()
    try:
        yield
    finally:
        over.set()
        if holder.is_alive():
            holder.join(timeout=_SAMPLING_SLACK)
