"""The machine this runs on. Reads and runs only what does not change it, and never raises for what it does."""

from __future__ import annotations

import os
import posixpath
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from gpudoctor.facts import Document
from gpudoctor.sources import process, requests, rooted
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status
from gpudoctor.sources.environment import gpu_related, is_gpu_related
from gpudoctor.sources.stored import documents_of, normal

FILE_LIMIT_BYTES = 16 * 1024 * 1024
LIST_LIMIT = 100_000
# Reading these runs code of the driver, which may be wedged: they are read by a child that can be given up.
_MAY_HANG = ("/proc/driver/nvidia/", "/proc/driver/nvidia-")
_READ_TIMEOUT_SECONDS = 3.0
_HOSTNAME = "/proc/sys/kernel/hostname"
# Programs that ordinary users lack on their PATH (Debian's sbin), that WSL and container images keep elsewhere, and snaps.
_MORE_PATH = (
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    ":/usr/lib/wsl/lib:/usr/local/nvidia/bin:/run/nvidia/driver/usr/bin:/opt/bin:/snap/bin:/usr/local/cuda/bin"
)
_LAST_LINES_MATTER = frozenset({"dmesg", "journalctl"})
# With --root these answer for the kernel, which host and container share; other programs would answer for the container.
_KERNEL_WIDE = frozenset({"nvidia-smi", "worker", "uname", "dmesg", "lspci", "lsmod"})
# How long a worker that was asked to end may take for it: its context has to be given back to the driver.
_END_SECONDS = 5.0


class LiveSource:
    """This machine; with `root`, the host whose file system is mounted there (`/host` in a DaemonSet)."""

    kind = "live"

    def __init__(self, root: str | None = None) -> None:
        self.root = None if root in (None, "", "/") else posixpath.abspath(str(root))
        self.name = "live" if self.root is None else f"live, host below {self.root}"
        self._now = time.time()
        self._lock = threading.Lock()
        self._commands: dict[tuple[str, ...], _Once] = {}
        self._logs: dict[str, FileAnswer] = {}

    def read(self, path: str) -> FileAnswer:
        path = normal(path)
        try:
            answer = self._read(path)
        except OSError as error:
            answer = FileAnswer(path=path, status=_status(error))
        except ValueError:  # an embedded NUL
            answer = FileAnswer(path=path, status=Status.NOT_FOUND)
        if path.startswith("/var/log/") or path.endswith(".log"):
            with self._lock:
                self._logs[path] = answer
        return answer

    def _read(self, path: str) -> FileAnswer:
        if self.root is not None and path == _HOSTNAME:
            # The kernel tells every reader the name of its own namespace: a container's, below a host's /proc too.
            return msgspec.structs.replace(self._read("/etc/hostname"), path=path)
        real = rooted.real_path(self.root, path)
        # Opening a device or FIFO can block or do something, so look first. O_NONBLOCK covers a change in between.
        if not stat.S_ISREG(os.stat(real).st_mode):
            return FileAnswer(path=path, status=Status.FAILED)
        if path.startswith(_MAY_HANG):
            return self._read_by_child(path, real)
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode):
                return FileAnswer(path=path, status=Status.FAILED)
            skipped = 0
            if about.st_size > FILE_LIMIT_BYTES and path.startswith("/var/log/"):
                file.seek(-FILE_LIMIT_BYTES, os.SEEK_END)  # of a log the end matters
                skipped = about.st_size - FILE_LIMIT_BYTES
            data = _up_to(file.read, FILE_LIMIT_BYTES + 1)
        truncated = len(data) > FILE_LIMIT_BYTES or skipped > 0
        text = data[:FILE_LIMIT_BYTES].decode("utf-8", "replace")
        return FileAnswer(path=path, status=Status.OK, text=text, truncated=truncated)

    def _read_by_child(self, path: str, real: str) -> FileAnswer:
        answer = process.run(
            ["cat", "--", real],
            request=("cat", path),
            timeout=_READ_TIMEOUT_SECONDS,
            environment=_environment(),
            limit=FILE_LIMIT_BYTES,
        )
        status = answer.status
        if status is Status.FAILED and "permission denied" in answer.stderr.lower():
            status = Status.DENIED
        text = answer.stdout if status is Status.OK else ""
        return FileAnswer(path=path, status=status, text=text, truncated=answer.truncated)

    def list(self, path: str) -> ListAnswer:
        path = normal(path)
        try:
            names = os.listdir(rooted.real_path(self.root, path))
        except OSError as error:
            return ListAnswer(path=path, status=_status(error))
        except ValueError:
            return ListAnswer(path=path, status=Status.NOT_FOUND)
        readable = sorted(os.fsencode(name).decode("utf-8", "replace") for name in names[:LIST_LIMIT])
        return ListAnswer(path=path, status=Status.OK, names=readable)

    def stat(self, path: str) -> StatAnswer:
        path = normal(path)
        try:
            return rooted.stat_answer(self.root, path)
        except OSError as error:
            return StatAnswer(path=path, status=_status(error))
        except ValueError:
            return StatAnswer(path=path, status=Status.NOT_FOUND)

    def run(self, *argv: str, timeout: float = 5.0) -> CommandAnswer:
        """Runs once per command line: probes that ask again, also at the same time, get the same answer."""
        if not argv:
            return CommandAnswer(argv=argv, status=Status.NOT_FOUND)
        with self._lock:
            once = self._commands.setdefault(argv, _Once())
        return once.get(lambda: self._run(argv, timeout))

    def watch(
        self,
        *argv: str,
        seconds: float,
        timeout: float,
        on_line: Callable[[str], None] | None = None,
        stop: threading.Event | None = None,
    ) -> CommandAnswer:
        """Runs a worker of active tests; see ActiveSource."""
        with self._lock:
            once = self._commands.setdefault(argv, _Once())
        return once.get(lambda: self._watched(argv, seconds, timeout, on_line, stop))

    def _watched(
        self,
        argv: tuple[str, ...],
        seconds: float,
        timeout: float,
        on_line: Callable[[str], None] | None,
        stop: threading.Event | None,
    ) -> CommandAnswer:
        if timeout <= 0:
            return CommandAnswer(argv=argv, status=Status.TIMEOUT)
        actual, environment = _worker((*requests.without_labels(argv), "--seconds", f"{seconds:.1f}"), _environment())
        return process.run(
            actual,
            request=argv,
            timeout=timeout,
            environment=environment,
            on_line=on_line,
            stop=stop,
            end_seconds=_END_SECONDS,
        )

    def _run(self, argv: tuple[str, ...], timeout: float) -> CommandAnswer:
        actual: Sequence[str] = requests.without_labels(argv)
        environment = _environment()
        if argv[0] == "worker":
            actual, environment = _worker(tuple(actual), environment)
        if self.root is not None:
            below = rooted.command_below(self.root, requests.without_labels(argv), actual)
            if below is None and argv[0] not in _KERNEL_WIDE:
                return CommandAnswer(argv=argv, status=Status.NOT_RECORDED)
            actual = below or actual
        tail = argv[0] in _LAST_LINES_MATTER
        answer = process.run(actual, request=argv, timeout=timeout, environment=environment, tail=tail)
        if self.root is not None and answer.status is Status.NOT_FOUND:
            # The container lacks the program; that says nothing about the host.
            return CommandAnswer(argv=argv, status=Status.NOT_RECORDED)
        return answer

    def env(self, name: str) -> str | None:
        """With `root`, this process's variables say nothing of the host: its container must not pass for it."""
        return os.environ.get(name) if self.root is None and is_gpu_related(name) else None

    def environment(self) -> dict[str, str] | None:
        return gpu_related(os.environ)

    def now(self) -> float:
        """When this source was opened, so that everything in one report agrees."""
        return self._now

    def documents(self) -> Sequence[Document]:
        with self._lock:
            done = {argv: once.answer for argv, once in self._commands.items() if once.answer is not None}
            return documents_of(done, dict(self._logs))


class _Once:
    """Computes an answer once, however many threads ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answer: CommandAnswer | None = None

    def get(self, compute: Callable[[], CommandAnswer]) -> CommandAnswer:
        with self._lock:
            if self.answer is None:
                self.answer = compute()
            return self.answer


def _environment() -> dict[str, str]:
    """The child's environment: this one in the C locale, without colours and pagers, and with the sbin directories."""
    environment = {name: value for name, value in os.environ.items() if name not in ("LANGUAGE", "GREP_OPTIONS")}
    environment |= {"LC_ALL": "C", "LANG": "C", "TERM": "dumb", "NO_COLOR": "1", "PAGER": "cat", "SYSTEMD_PAGER": ""}
    environment |= {"SYSTEMD_COLORS": "0", "COLUMNS": "400"}
    known = environment.get("PATH", "")
    environment["PATH"] = f"{known}:{_MORE_PATH}" if known else _MORE_PATH
    return environment


def _worker(argv: tuple[str, ...], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The command line of a worker module. `-P`: a file in the current directory must not shadow a module."""
    name, arguments = (argv[1], argv[2:]) if len(argv) > 1 else ("", ())
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.basename(home) not in ("site-packages", "dist-packages"):
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = f"{inherited}{os.pathsep}{home}" if inherited else home
    environment["PYTHONIOENCODING"] = "utf-8:replace"
    return [sys.executable, "-P", "-m", f"gpudoctor.workers.{name}", *arguments], environment


def _up_to(read: Callable[[int], bytes | None], limit: int) -> bytes:
    """Reads until the end or `limit` bytes: files of /proc come in small pieces and give no size."""
    pieces: list[bytes] = []
    size = 0
    while size < limit:
        piece = read(min(1 << 20, limit - size))
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
    return b"".join(pieces)


def _status(error: OSError) -> Status:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return Status.NOT_FOUND
    if isinstance(error, PermissionError):
        return Status.DENIED
    return Status.FAILED
