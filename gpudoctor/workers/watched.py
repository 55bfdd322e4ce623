"""Runs a test in a thread, so that a call that never comes back cannot keep the worker from its last line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from gpudoctor.workers.bench_lines import Error
from gpudoctor.workers.bench_main import Stopped, Work
from gpudoctor.workers.cuda_errors import WorkerError

_LOOK_EVERY_S = 0.05
# After the time is up the test gets this long to stop by itself.
_GRACE_S = 0.15


class Watch:
    """What the thread is doing, since when, and how long that may take."""

    def __init__(self) -> None:
        self._step = ("starting", time.monotonic(), 30.0, 30.0)

    def begin(self, what: str, patience_s: float, suspicious_s: float | None = None) -> None:
        """Call it before each step that may hang. A step that has lasted `suspicious_s` (default: `patience_s`) when
        the time is up is taken for one that hangs as well."""
        self._step = (what, time.monotonic(), patience_s, patience_s if suspicious_s is None else suspicious_s)

    def step(self) -> tuple[str, float, float, float]:
        """What, for how many seconds already, its patience, and from when on it is suspicious, in seconds."""
        what, since, patience_s, suspicious_s = self._step
        return what, time.monotonic() - since, patience_s, suspicious_s


def run_watched(work: Work, watch: Watch, function: Callable[[], None]) -> None:
    """Runs `function` in a thread and passes on what it raises; signals stay with the caller.

    Raises WorkerError when a step outlasts its patience, Stopped when the time is up in the middle of one. The thread
    is left to itself then: the process must end without waiting for it.
    """
    outcome: list[BaseException] = []

    def inside() -> None:
        try:
            function()
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=inside, daemon=True)
    thread.start()
    over_since: float | None = None
    while thread.is_alive():
        thread.join(_LOOK_EVERY_S)
        what, seconds, patience_s, suspicious_s = watch.step()
        if seconds > patience_s:
            words = f"{what} did not come back within {seconds:.0f} s"
            raise WorkerError(Error(api="worker", name="NoAnswer", message=words, where=what))
        if work.left() > 0:
            continue
        over_since = over_since or time.monotonic()
        if time.monotonic() - over_since > _GRACE_S and thread.is_alive():
            if seconds > suspicious_s:
                raise _hangs(what, seconds)
            raise Stopped(f"time ran out while {what} ({seconds:.1f} s)")
    if outcome:
        raise outcome[0]


def _hangs(what: str, seconds: float) -> WorkerError:
    words = f"{what} did not come back within {seconds:.0f} s"
    return WorkerError(Error(api="worker", message=words, name="NoAnswer", where=what))
