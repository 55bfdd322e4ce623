"""Which workers run on which devices, and how long each may take. Pure: the same targets give the same requests."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.bench.model import TESTS, Job, Stage, Target
from gpudoctor.sources.requests import LABEL, WORKER_BENCH

DEVICES = ("worker", f"{WORKER_BENCH}devices")
# Seconds of a test on one device (p2p and nccl: on all), start of the worker included, at level 2 and level 3.
_SECONDS: dict[str, tuple[float, float]] = {
    "memory": (6.0, 15.0),
    "gemm": (6.0, 20.0),
    "pcie": (5.0, 15.0),
    "p2p": (10.0, 45.0),
    "nccl": (25.0, 90.0),
    "memtest": (30.0, 180.0),
    "burn": (30.0, 180.0),
}
# Less than this measures nothing: loading CuPy and compiling kernels take their time.
_LEAST = {"memory": 3.0, "gemm": 3.0, "pcie": 3.0, "p2p": 5.0, "nccl": 8.0, "memtest": 8.0, "burn": 8.0}
_TOGETHER = frozenset({"p2p", "nccl"})  # one worker on all devices
_PAIR_SECONDS = 0.4
_BETWEEN_SECONDS = 2.0  # counters after a test
_WORKERS = {"burn": "gemm"}
_ARGUMENTS = {"burn": ("--burn",)}


def stages(
    tests: Sequence[str],
    targets: Sequence[Target],
    *,
    level: int,
    seconds: float | None = None,
    launched: bool = False,
    extra: tuple[str, ...] = (),
) -> list[Stage]:
    """The tests in the order in which they run. Tests of several GPUs are left out where there is one, or MIG slices only.

    `launched`: this process is one of several that a launcher started for NCCL's test together. `extra` are more arguments
    for that test.
    """
    whole = [target for target in targets if target.mig is None]
    planned: list[Stage] = []
    for test in (test for test in TESTS if test in tests):
        taken = whole if test in _TOGETHER else targets
        if not taken or (test in _TOGETHER and len(whole) < 2 and not (test == "nccl" and launched)):
            continue
        wanted = seconds if seconds is not None else _seconds(test, level, len(taken))
        arguments = [*_ARGUMENTS.get(test, ()), *(("--quick",) if level < 3 else ())]
        if test == "nccl":
            arguments += [*(() if launched else ("--alone",)), *extra]
        planned.append(
            Stage(
                test=test,
                groups=_groups(test, taken, tuple(arguments)),
                seconds=wanted,
                least_seconds=min(wanted, _LEAST[test]),
            )
        )
    return planned


def _seconds(test: str, level: int, devices: int) -> float:
    base = _SECONDS[test][0 if level < 3 else 1]
    pairs = devices * (devices - 1) // 2
    return base + min(60.0, _PAIR_SECONDS * pairs) if test == "p2p" else base


def _groups(test: str, targets: Sequence[Target], arguments: tuple[str, ...]) -> tuple[tuple[Job, ...], ...]:
    if test in _TOGETHER:
        return ((_job(test, tuple(targets), arguments),),)
    # Memory and arithmetic of one GPU do not touch another's. Slices of one GPU share its clocks and power.
    places = [target.bdf or target.key for target in targets]
    if test == "pcie":
        # Copies go through the memory of a socket and the link above a switch: one at a time on each socket.
        places = [f"node {target.numa_node}" if target.numa_node is not None else "machine" for target in targets]
    groups: dict[str, list[Job]] = {}
    for target, place in zip(targets, places, strict=True):
        groups.setdefault(place, []).append(_job(test, (target,), arguments))
    return tuple(tuple(group) for group in groups.values())


def _job(test: str, targets: tuple[Target, ...], arguments: tuple[str, ...]) -> Job:
    devices = [part for target in targets for part in ("--device", str(target.ordinal))]
    worker = f"{WORKER_BENCH}{_WORKERS.get(test, test)}"
    return Job(test=test, request=("worker", worker, *arguments, *devices), targets=targets)


def again(job: Job) -> Job:
    """The same once more."""
    return Job(test=job.test, request=(*job.request, f"{LABEL}again"), targets=job.targets)


def duration(stage: Stage, seconds: float | None = None) -> float:
    """How long a stage takes, by the clock."""
    return stage.depth * (stage.seconds if seconds is None else seconds) + _BETWEEN_SECONDS


def total(planned: Sequence[Stage]) -> float:
    return sum(duration(stage) for stage in planned)


def allowed_seconds(planned: Sequence[Stage], left: float) -> float:
    """How long each job of the first stage may take when `left` seconds are left for all; 0: there is no time for it.

    What is missing is taken from all stages alike, down to what each needs at least; then the last ones get nothing.
    """
    first = planned[0]
    lasting, needed = total(planned), sum(duration(stage, stage.least_seconds) for stage in planned)
    if lasting <= left:
        return first.seconds
    if needed >= left:
        enough = duration(first, first.least_seconds) <= left
        return first.least_seconds if enough else 0.0
    share = (left - needed) / (lasting - needed)
    return round(first.least_seconds + share * (first.seconds - first.least_seconds), 1)
