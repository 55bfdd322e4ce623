"""Runs one command of the machine under diagnosis: bounded in time and output, and abandoned when it cannot be killed."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence

from gpudoctor.sources.answers import CommandAnswer, Status

OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 65536
_LINE_LIMIT_BYTES = 65536
_KILL_GRACE_SECONDS = 0.25
# Children in uninterruptible sleep cannot be waited for. They are kept here so that Popen does not warn about them.
_abandoned: list[subprocess.Popen[bytes]] = []
_running: set[subprocess.Popen[bytes]] = set()


class _Output:
    """One stream's bytes up to a limit: the first ones, or (`tail`) the last ones, since the end of a log matters most."""

    def __init__(self, limit: int, tail: bool, on_line: Callable[[str], None] | None = None) -> None:
        self.on_line = on_line
        self.unfinished = b""
        self.chunks: deque[bytes] = deque()
        self.size = 0
        self.limit = limit
        self.tail = tail
        self.truncated = False
        self.dropped_lines = 0

    def add(self, chunk: bytes) -> None:
        if self.on_line is not None:
            *lines, self.unfinished = (self.unfinished + chunk).split(b"\n")
            self.unfinished = self.unfinished[-_LINE_LIMIT_BYTES:]
            for line in lines:
                self.on_line(line.decode("utf-8", "replace"))
        if self.tail:
            self.chunks.append(chunk)
            self.size += len(chunk)
            while self.size > self.limit and len(self.chunks) > 1:
                dropped = self.chunks.popleft()
                self.size -= len(dropped)
                self.dropped_lines += dropped.count(b"\n")
                self.truncated = True
            return
        room = self.limit - self.size
        if len(chunk) > room:
            self.truncated = True
            chunk = chunk[: max(room, 0)]
        self.chunks.append(chunk)
        self.size += len(chunk)

    def text(self) -> tuple[str, int]:
        """The text, and the number of whole lines dropped before it."""
        data = b"".join(self.chunks)
        if self.tail and self.truncated:
            data = data[data.find(b"\n") + 1 :]
            return data.decode("utf-8", "replace"), self.dropped_lines + 1
        return data.decode("utf-8", "replace"), 0


def run(
    argv: Sequence[str],
    *,
    request: tuple[str, ...],
    timeout: float,
    environment: Mapping[str, str],
    limit: int = OUTPUT_LIMIT_BYTES,
    tail: bool = False,
    cwd: str | None = "/",
    on_line: Callable[[str], None] | None = None,
    stop: threading.Event | None = None,
    end_seconds: float = 0.0,
) -> CommandAnswer:
    """Runs `argv` and answers as `request`. Never raises; never takes much longer than `timeout` seconds.

    `on_line` gets each line of stdout when it is written. When `stop` is set, or time is up, the command is asked to end
    (SIGTERM) and has `end_seconds` to do so; what it says meanwhile counts. 0: it is killed at once.
    """
    started = time.monotonic()
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            cwd=cwd,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return CommandAnswer(argv=request, status=_spawn_status(error), stderr=_said(error))
    _running.add(child)
    out, err = _Output(limit, tail, on_line), _Output(limit, tail)
    ended = False
    try:
        exited = ended = _collect(child, out, err, started + timeout, stop)
        if not ended and end_seconds > 0:
            _signal(child, signal.SIGTERM)
            ended = _collect(child, out, err, time.monotonic() + end_seconds)
    finally:  # also after an interrupt or a fault of `on_line`: the child is never left behind
        if not ended:
            _kill(child)
        _running.discard(child)
        for pipe in (child.stdout, child.stderr):
            if pipe is not None:
                pipe.close()
    stdout, skipped = out.text()
    stderr, _ = err.text()
    asked = (
        stop is not None and stop.is_set() and ended and child.returncode == 0
    )  # it ended in order, as it was asked to
    status = Status.OK if asked or (exited and child.returncode == 0) else Status.FAILED if exited else Status.TIMEOUT
    numbers = list(range(skipped + 1, skipped + 1 + stdout.count("\n") + 1)) if skipped else None
    return CommandAnswer(
        argv=request,
        status=status,
        exit_code=child.returncode if ended else None,
        stdout=stdout,
        stderr=stderr,
        seconds=round(time.monotonic() - started, 3),
        truncated=out.truncated or err.truncated,
        line_numbers=numbers,
    )


def end_all() -> None:
    """Kills what still runs, without waiting: the program ends, and the threads that wait for these commands end with it."""
    for child in list(_running):
        _signal(child, signal.SIGKILL)


def _spawn_status(error: Exception) -> Status:
    if isinstance(error, FileNotFoundError):
        return Status.NOT_FOUND
    if isinstance(error, PermissionError):
        return Status.DENIED
    if isinstance(error, OSError) and error.errno == errno.ENOTDIR:
        return Status.NOT_FOUND
    return Status.FAILED


def _said(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _collect(
    child: subprocess.Popen[bytes],
    out: _Output,
    err: _Output,
    deadline: float,
    stop: threading.Event | None = None,
) -> bool:
    """Reads both pipes until the child has exited; whether it did before the deadline, or before `stop` was set.

    A grandchild may keep the pipes open after the child's exit, so their end is not waited for.
    """
    with selectors.DefaultSelector() as selector:
        for pipe, output in ((child.stdout, out), (child.stderr, err)):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_READ, output)
        exited = False
        while selector.get_map():
            remaining = deadline - time.monotonic()
            if remaining <= 0 or (stop is not None and stop.is_set()):
                return child.poll() is not None
            events = selector.select(0 if exited else min(remaining, 0.05))
            for key, _ in events:
                if not _drain(key.fd, key.data):
                    selector.unregister(key.fileobj)
            if not events and exited:
                return True
            # What it wrote just before its end is read by one more round.
            exited = exited or (not events and child.poll() is not None)
    try:
        child.wait(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _drain(fd: int, output: _Output) -> bool:
    """Reads what is there; False at the end of the stream."""
    try:
        chunk = os.read(fd, _CHUNK_BYTES)
    except BlockingIOError:
        return True
    except OSError:
        return False
    if not chunk:
        return False
    output.add(chunk)
    return True


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kills the child's session and gives it up when it does not die: a task in D state survives SIGKILL."""
    _signal(child, signal.SIGKILL)
    try:
        child.wait(timeout=_KILL_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        _abandoned.append(child)


def _signal(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """To the child's whole session."""
    with contextlib.suppress(OSError):
        os.killpg(child.pid, number)
