"""What a worker said, as facts. Its output may be cut short, huge, or mixed with a library's chatter."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from typing import Any

import msgspec

from gpudoctor.bench.model import Job, Target
from gpudoctor.facts import BenchFault, BenchFigure, BenchRun, Evidence
from gpudoctor.sources.answers import CommandAnswer, Status
from gpudoctor.workers.bench_lines import End, Error, Fault, Figure, Line, Note, read_line

_MOST_FIGURES = 4000
_MOST_FAULTS = 200
_MOST_NOTES = 20
_LONGEST = 300  # characters of a text
_LARGEST = 1e9  # of a figure in any of the units
_BITS = range(128)
NO_TIME = "no time was left for it within the deadline"
NOT_RECORDED = "the evidence has no run of it"


class Outcome(msgspec.Struct, kw_only=True):
    """One job's facts; figures are not judged yet."""

    run: BenchRun
    figures: list[BenchFigure]
    faults: list[BenchFault]


def read_outcome(job: Job, answer: CommandAnswer, *, interrupted: bool = False) -> Outcome:
    """The facts in a worker's answer. `interrupted`: it was stopped from outside, so that its silence is no fault."""
    reader = _Reader(job, answer)
    for number, text in enumerate(answer.stdout.splitlines(), 1):
        line = read_line(text) if text.startswith("{") else None
        if line is not None:
            reader.take(line, number)
    return Outcome(run=reader.run(interrupted), figures=reader.figures, faults=reader.faults)


class _Reader:
    def __init__(self, job: Job, answer: CommandAnswer) -> None:
        self.job = job
        self.answer = answer
        self.targets = {target.ordinal: target for target in job.targets}
        self.figures: list[BenchFigure] = []
        self.faults: list[BenchFault] = []
        self.notes: list[str] = []
        self.errors: list[tuple[Error, int]] = []
        self.end: End | None = None
        self.busy = False
        self.memory_tested: float | None = None

    def take(self, line: Line, number: int) -> None:
        if isinstance(line, Figure):
            self._figure(line, number)
        elif isinstance(line, Fault):
            self._fault(line, number)
        elif isinstance(line, Note):
            self._note(line)
        elif isinstance(line, Error):
            self.errors.append((line, number))
        elif isinstance(line, End):
            self.end = line

    def _target(self, ordinal: int | None) -> Target | None:
        return None if ordinal is None else self.targets.get(ordinal)

    def _figure(self, line: Figure, number: int) -> None:
        sane = math.isfinite(line.value) and 0 < line.value < _LARGEST
        strange = any(o is not None and o not in self.targets for o in (line.device, line.peer))
        if not sane or strange or len(self.figures) >= _MOST_FIGURES:
            return
        target, peer = self._target(line.device), self._target(line.peer)
        self.figures.append(
            BenchFigure(
                test=self.job.test,
                metric=line.metric[:60],
                bdf=target.bdf if target else None,
                mig=target.mig if target else None,
                peer_bdf=peer.bdf if peer else None,
                gpu_index=target.index if target else None,
                peer_index=peer.index if peer else None,
                gpu_name=target.name if target else None,
                path=line.path[:40] if line.path else None,
                value=line.value,
                unit=line.unit[:20],
                size_bytes=line.size_bytes,
                spread=line.spread,
                evidence=self._quoted(number, f"{line.metric} = {line.value:g} {line.unit}"),
            )
        )

    def _fault(self, line: Fault, number: int) -> None:
        if len(self.faults) >= _MOST_FAULTS:
            return
        target, peer = self._target(line.device), self._target(line.peer)
        self.faults.append(
            BenchFault(
                test=self.job.test,
                kind=line.kind[:40],
                bdf=target.bdf if target else None,
                peer_bdf=peer.bdf if peer else None,
                metric=line.metric[:60] if line.metric else None,
                count=line.count,
                address=_short(line.address),
                expected=_short(line.expected),
                got=_short(line.got),
                bits=[bit for bit in line.bits if bit in _BITS] or None,
                text=line.text[:_LONGEST],
                gpu_index=target.index if target else None,
                ecc_mode=target.gpu.ecc_mode if target and target.gpu else None,
                evidence=self._quoted(number, line.text[:_LONGEST]),
            )
        )

    def _note(self, line: Note) -> None:
        if line.kind == "busy":
            self.busy = True
        if line.kind == "memory_tested" and line.value is not None and 0 <= line.value < _LARGEST:
            self.memory_tested = (self.memory_tested or 0) + line.value
        elif line.text and len(self.notes) < _MOST_NOTES:
            self.notes.append(line.text[:_LONGEST])

    def _quoted(self, number: int, text: str) -> dict[str, Evidence]:
        return {"": Evidence(source=self.answer.request, text=text, line=number)}

    def run(self, interrupted: bool) -> BenchRun:
        error, number = self.errors[0] if self.errors else (self._silent_end(interrupted), None)
        state = self._state(error, interrupted)
        named: dict[str, Any] = {}
        if error is not None:
            named = {
                "error_api": error.api[:20],
                "error_code": error.code,
                "error_name": _short(error.name),
                "error_message": error.message[:_LONGEST],
            }
            words = f"{error.name or error.api}: {error.message}"[:_LONGEST]
            named["evidence"] = {"": Evidence(source=self.answer.request, text=words, line=number)}
        return BenchRun(
            test=self.job.test,
            gpus=[target.key for target in self.job.targets],
            state=state,
            seconds=self.end.seconds if self.end else self.answer.seconds or None,
            notes=[*self._why(state), *self.notes] or None,
            busy=self.busy or None,
            memory_tested_mib=round(self.memory_tested) if self.memory_tested is not None else None,
            **named,
        )

    @property
    def _has_results(self) -> bool:
        return bool(self.figures or self.faults or self.memory_tested)

    def _state(self, error: Error | None, interrupted: bool) -> str:
        status = self.answer.status
        if status is Status.NOT_RECORDED or (status is Status.TIMEOUT and not self.answer.seconds):
            return "interrupted" if interrupted else "not_run"
        if status in (Status.NOT_FOUND, Status.DENIED):
            return "not_run"
        if error is not None:
            return "partial" if self._has_results else "failed"
        if self.end is not None and self.end.complete:
            return "done"
        if interrupted:
            return "interrupted"
        if status is Status.TIMEOUT:
            return "timed_out"
        return "partial" if self._has_results else "not_run"

    def _why(self, state: str) -> list[str]:
        """Why it is not whole, where no error says so."""
        if state in ("partial", "not_run") and self.end is not None and self.end.why:
            return [self.end.why[:_LONGEST]]
        if state == "not_run":
            return [NOT_RECORDED if self.answer.status is Status.NOT_RECORDED else NO_TIME]
        if state == "timed_out":
            return [f"it did not end by itself and was ended after {self.answer.seconds:.0f} s"]
        return []

    def _silent_end(self, interrupted: bool) -> Error | None:
        """The error of a worker that ended without a word: killed, crashed, or not able to start."""
        if self.end is not None or interrupted:
            return None
        answer = self.answer
        if answer.status in (Status.NOT_FOUND, Status.DENIED) or (
            answer.status is Status.FAILED and answer.exit_code is None
        ):
            return Error(api="worker", message=f"the worker could not be started: {answer.stderr.strip()[:200]}")
        if answer.status not in (Status.OK, Status.FAILED):
            return None
        if answer.exit_code is not None and answer.exit_code < 0:
            return Error(api="worker", name=_signal_name(-answer.exit_code), message=_signal_words(-answer.exit_code))
        said = answer.stderr.strip().splitlines()
        last = said[-1][:200] if said else "it said nothing"
        return Error(
            api="worker", message=f"the worker ended before its end, with exit code {answer.exit_code}: {last}"
        )


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _signal_words(number: int) -> str:
    name = _signal_name(number)
    if number == signal.SIGKILL:
        return "the worker was killed (SIGKILL): by the out-of-memory killer, a job limit or an administrator"
    if number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL):
        return f"the worker crashed ({name}) inside CUDA or a library"
    return f"the worker was ended by {name}"


def _short(text: str | None) -> str | None:
    return text[:80] if text else None


def without_results(job: Job, why: Sequence[str]) -> BenchRun:
    """A run that was not begun."""
    return BenchRun(test=job.test, gpus=[target.key for target in job.targets], state="not_run", notes=list(why))
