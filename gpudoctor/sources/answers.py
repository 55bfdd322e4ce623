"""What a Source answers. A source never raises for what the machine does: it answers with a status."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

import msgspec

from gpudoctor.facts import Document


class Status(StrEnum):
    """Why there is, or is not, data. NOT_RECORDED (an old or foreign recording) never proves absence."""

    OK = "ok"
    NOT_FOUND = "not_found"
    DENIED = "denied"
    TIMEOUT = "timeout"
    FAILED = "failed"
    NOT_RECORDED = "not_recorded"


class FileAnswer(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    status: Status
    text: str = ""  # decoded as UTF-8 with replacement, capped
    truncated: bool = False
    filtered_by: str | None = None  # the `grep` pattern of a pasted `grep PATTERN FILE`: other lines are not known
    line_numbers: list[int] | None = None  # original line numbers when lines were left out


class ListAnswer(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    status: Status
    names: list[str] = []  # sorted
    filtered_by: str | None = None  # the glob or grep pattern of a paste: names that do not match it are not known


class CommandAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """OK: the command ran and exited 0. FAILED: it ran and exited otherwise; stdout and stderr hold what it said."""

    argv: tuple[str, ...]
    status: Status
    exit_code: int | None = None  # None where not known (pasted text)
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    truncated: bool = False
    filtered_by: str | None = (
        None  # the `grep` pattern the user's paste was filtered with: absence of other lines proves nothing
    )
    line_numbers: list[int] | None = None

    @property
    def request(self) -> str:
        """The request as people read it: `nvidia-smi -q -x`."""
        return " ".join(self.argv)

    @property
    def text(self) -> str:
        return self.stdout if not self.stderr else (self.stdout + "\n" + self.stderr if self.stdout else self.stderr)


class StatAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """lstat of a path; `target` is a link's target, `target_exists` whether it resolves, `openable` whether this user may open it."""

    path: str
    status: Status
    kind: str | None = None  # file, dir, link, char, block, fifo, socket
    mode: str | None = None  # "0666"
    uid: int | None = None
    gid: int | None = None
    size_bytes: int | None = None
    major: int | None = None
    minor: int | None = None
    modified: float | None = None  # seconds since the epoch
    target: str | None = None
    target_exists: bool | None = None
    openable: bool | None = None


class Source(Protocol):
    """The one gate to the machine, a recording of it, or what somebody attached to a ticket."""

    kind: str  # live, recording, foreign, text
    name: str  # for the report: "live", "recording host.tar.gz", ...

    def read(self, path: str) -> FileAnswer: ...

    def list(self, path: str) -> ListAnswer: ...

    def stat(self, path: str) -> StatAnswer: ...

    def run(self, *argv: str, timeout: float = 5.0) -> CommandAnswer: ...

    def env(self, name: str) -> str | None: ...

    def environment(self) -> dict[str, str] | None:
        """The GPU-related variables (CUDA_*, NVIDIA_*, NCCL_*, LD_LIBRARY_PATH, torch's); None where not recorded."""
        ...

    def now(self) -> float:
        """Seconds since the epoch when the evidence was taken."""
        ...

    def documents(self) -> Sequence[Document]:
        """Every text that messages may be looked for in: failed commands, logs, pasted text."""
        ...


class ActiveSource(Source, Protocol):
    """A source that can also run the workers of active tests: the live machine does, a recording repeats what they said."""

    def watch(
        self,
        *argv: str,
        seconds: float,
        timeout: float,
        on_line: Callable[[str], None] | None = None,
        stop: threading.Event | None = None,
    ) -> CommandAnswer:
        """Runs a worker, which is told to end by itself within `seconds`, and is ended after `timeout`.

        `on_line` gets each line of its stdout. `stop` ends it early; what it said until then counts. With no time at all
        (`timeout` <= 0) the answer is TIMEOUT, so that recordings know too that there was none left. Neither number is part
        of the request.
        """
        ...
