"""The frame of every active-test worker: arguments, `start` and `end` lines, time budget, signals, exit codes."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import NoReturn

from gpudoctor.workers.bench_lines import Device, End, Error, Note, Progress, Start, elapsed_seconds, say
from gpudoctor.workers.cuda_device import Cuda
from gpudoctor.workers.cuda_errors import WorkerError, as_error, is_expected, show_traceback

DEFAULT_SECONDS = 30.0
# Kept back of the time budget for freeing memory, closing CUDA and the last line.
_RESERVE_S = 0.25


class Stopped(BaseException):
    """Time is up, or a signal came. Not an Exception: no handler of CUDA errors may hold it up."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass
class Work:
    """What a test works with. `devices` are those to test, in the order of their ordinals."""

    cuda: Cuda
    devices: list[Device]
    arguments: argparse.Namespace
    seconds: float
    visible: int  # devices that CUDA shows in all
    failed: bool = False

    def left(self) -> float:
        """Seconds that the test may still take; not below 0."""
        return max(0.0, self.seconds - _RESERVE_S - elapsed_seconds())

    def check_time(self) -> None:
        """Raises Stopped once the time is up. Call it between steps, which should be well under a second each."""
        if self.left() <= 0:
            raise Stopped("time ran out")

    def progress(self, done: float, what: str, device: int | None = None) -> None:
        say(Progress(done=round(min(1.0, max(0.0, done)), 3), what=what, device=device))

    def note(self, kind: str, text: str, device: int | None = None, value: float | None = None) -> None:
        say(Note(kind=kind, text=text, device=device, value=value))

    def failure(self, error: BaseException, where: str, device: int | None = None) -> None:
        """Prints an `error` line; the worker goes on and exits with 1."""
        self.failed = True
        say(as_error(error, where, device))
        if not is_expected(error):
            show_traceback(error)

    def each_device(self, what: str) -> Iterator[tuple[Device, float, float]]:
        """Every device with a context on it, its share of the time left in seconds, and how much of the plan is done
        before it. A device on which no context can be made gets its `error` line and is passed over."""
        for index, device in enumerate(self.devices):
            self.check_time()
            try:
                self.cuda.open_device(device.ordinal)
            except Exception as error:
                self.failure(error, f"making a CUDA context for {what}", device.ordinal)
                continue
            yield device, self.left() / (len(self.devices) - index), index / len(self.devices)

    def test_each_device(self, what: str, doing: str, test: Callable[[Device, float, float], None]) -> None:
        """Calls `test` as `each_device` says. A failure on one device gets its `error` line; the next is tested."""
        for device, seconds, done in self.each_device(what):
            try:
                test(device, seconds, done)
            except Exception as error:
                self.failure(error, doing, device.ordinal)


Test = Callable[[Work], None]


def main_of(
    test: str,
    function: Test,
    add_arguments: Callable[[argparse.ArgumentParser], None] | None = None,
    nccl_version: Callable[[Cuda], str | None] | None = None,
) -> NoReturn:
    """Runs `function` as worker `test` and ends the process. `nccl_version` is what the `start` line says of NCCL.

    Exit code 0: the plan was carried out, or cut by time or a signal (see the `end` line); 1: after an `error`;
    2: wrong arguments.
    """
    parser = argparse.ArgumentParser(prog=f"bench_{test}")
    parser.add_argument(
        "--device", type=int, action="append", help="CUDA ordinal among the visible devices; all by default"
    )
    parser.add_argument(
        "--seconds", type=_positive, default=DEFAULT_SECONDS, help="time that the test may take in all"
    )
    if add_arguments is not None:
        add_arguments(parser)
    arguments = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    if isinstance(sys.stdout, io.TextIOWrapper):  # whatever the locale
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = _run(test, function, arguments, nccl_version)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the lines is gone
        code = 1
    except Stopped:  # a signal that came while the last lines were printed
        code = 0
    # Not sys.exit: closing down CUDA after a fault can hang or complain, and the driver frees everything anyway.
    sys.stderr.flush()
    os._exit(code)


def _run(
    test: str,
    function: Test,
    arguments: argparse.Namespace,
    nccl_version: Callable[[Cuda], str | None] | None = None,
) -> int:
    work: Work | None = None
    complete, why = True, None
    failed = False
    try:
        work = start(test, arguments, nccl_version)
        function(work)
    except Stopped as stopped:
        complete, why = False, stopped.why
    except BrokenPipeError:
        raise
    except Exception as error:
        failed, complete = True, False
        say(as_error(error, f"running the {test} test"))
        if not is_expected(error):
            show_traceback(error)
    failed = failed or (work is not None and work.failed)
    say(End(complete=complete and not failed, seconds=round(elapsed_seconds(), 3), why=why))
    return int(failed)


def start(test: str, arguments: argparse.Namespace, nccl_version: Callable[[Cuda], str | None] | None = None) -> Work:
    """Loads CuPy, looks at the devices and prints the `start` line. Raises WorkerError."""
    cuda = Cuda()
    try:
        visible = cuda.device_count()
    except Exception as error:
        raise WorkerError(as_error(error, "counting the CUDA devices")) from error
    if visible == 0:
        raise WorkerError(
            Error(
                api="cuda",
                code=100,
                name="cudaErrorNoDevice",
                message="no CUDA-capable device is detected",
                where="counting the CUDA devices",
            )
        )
    ordinals = list(range(visible)) if arguments.device is None else sorted(set(arguments.device))
    absent = [ordinal for ordinal in ordinals if not 0 <= ordinal < visible]
    if absent:
        words = f"there is no CUDA device {absent[0]}: {visible} visible"
        raise WorkerError(
            Error(api="cuda", code=101, name="cudaErrorInvalidDevice", message=words, where="choosing devices")
        )
    devices = [cuda.describe(ordinal) for ordinal in ordinals]
    runtime, driver = cuda.versions()
    nccl = nccl_version(cuda) if nccl_version is not None else None
    say(Start(test=test, devices=devices, cupy=cuda.version, cuda_runtime=runtime, cuda_driver=driver, nccl=nccl))
    return Work(cuda=cuda, devices=devices, arguments=arguments, seconds=arguments.seconds, visible=visible)


def _stop(number: int, frame: FrameType | None) -> None:
    # A second signal ends the process at once, should the first one not get through.
    signal.signal(number, signal.SIG_DFL)
    raise Stopped(f"{signal.Signals(number).name} received")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError("must be more than 0")
    return value
