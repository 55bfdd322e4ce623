"""Processes of one NCCL test that find each other over TCP and go through its steps together.

Process 0 listens at the master's address, hands out the ranks and NCCL's unique id, and then gives the orders, so that
nobody enters a collective alone. Messages are JSON, one a line.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import time
from collections.abc import Callable
from typing import Any

from gpudoctor.workers.bench_lines import Error
from gpudoctor.workers.cuda_errors import WorkerError
from gpudoctor.workers.ranks import Ranks

Message = dict[str, Any]
Execute = Callable[[Message], Message]
_LONGEST_LINE = 1 << 20
_HELLO = "gpudoctor-nccl-1"
_RETRY_EVERY_S = 0.2


class Line:
    """One connection. Raises ConnectionError when the other side is gone or talks something else, TimeoutError."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._rest = b""

    def send(self, message: Message, timeout_s: float = 10.0) -> None:
        self._socket.settimeout(timeout_s)
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, timeout_s: float) -> Message:
        deadline = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            if len(self._rest) > _LONGEST_LINE:
                raise ConnectionError("a message without end")
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            more = self._socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the connection was closed")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(text)
        except ValueError:
            raise ConnectionError("not one of our messages") from None
        if not isinstance(message, dict):
            raise ConnectionError("not one of our messages")
        return message

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()


def failed(message: str, name: str, where: str) -> WorkerError:
    """An error of the processes' meeting, as a worker prints it."""
    return WorkerError(Error(api="worker", message=message, name=name, where=where))


class Leader:
    """Process 0, also when it is alone. `others` are the hellos of the rest, in the order of their ranks."""

    def __init__(self, lines: list[Line], others: list[Message]) -> None:
        self._lines, self.others = lines, others

    def tell(self, messages: list[Message]) -> None:
        """Sends each other process its own message."""
        for line, hello, message in zip(self._lines, self.others, messages, strict=True):
            try:
                line.send(message)
            except OSError as error:
                raise failed(f"{_who(hello)} is gone: {error}", "RankLost", "sending orders") from error

    def all(self, order: Message, execute: Execute, timeout_s: float) -> list[Message]:
        """Every process executes `order`; the answers come in the order of processes. Raises WorkerError with the
        first other process that failed or did not answer."""
        self.tell([order] * len(self.others))
        try:
            answers = [execute(order)]
        except Exception:
            self._look_for_failures()  # which are why this process got nowhere
            raise
        deadline = time.monotonic() + timeout_s
        for line, hello in zip(self._lines, self.others, strict=True):
            where = f"waiting for {_who(hello)}"
            try:
                answer = line.receive(max(0.1, deadline - time.monotonic()))
            except TimeoutError:
                raise failed(f"{_who(hello)} did not answer within {timeout_s:.0f} s", "NoAnswer", where) from None
            except OSError as error:
                raise failed(f"{_who(hello)} is gone: {error}", "RankLost", where) from error
            _check_answer(answer, hello)
            answers.append(answer)
        return answers

    def _look_for_failures(self) -> None:
        for line, hello in zip(self._lines, self.others, strict=True):
            with contextlib.suppress(OSError):
                _check_answer(line.receive(0.2), hello)

    def end(self) -> None:
        """Lets the others go; those that are gone already do not matter."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.send({"do": "end"}, timeout_s=1.0)
            line.close()


class Member:
    """Every other process."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def next(self, timeout_s: float) -> Message:
        """The next order. Raises WorkerError when process 0 is gone or silent."""
        try:
            return self._line.receive(timeout_s)
        except TimeoutError:
            raise failed(f"rank 0 gave no order for {timeout_s:.0f} s", "NoAnswer", "waiting for rank 0") from None
        except OSError as error:
            raise failed(f"rank 0 is gone: {error}", "RankLost", "waiting for rank 0") from error

    def answer(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # the next order tells that rank 0 is gone
            self._line.send(message)

    def close(self) -> None:
        self._line.close()


def gather(ranks: Ranks, timeout_s: float, host: str | None = None) -> Leader:
    """Process 0: waits for all others. Raises WorkerError that names the ranks that did not come."""
    where = f"waiting for {ranks.world - 1} other ranks on port {ranks.port}"
    try:
        server = _listen(ranks.port)
    except OSError as error:
        code = errno.errorcode.get(error.errno or 0)
        words = f"cannot listen on port {ranks.port} (MASTER_PORT): {error.strerror or error}"
        raise failed(words, code or "OSError", where) from error
    found: dict[int, tuple[Line, Message]] = {}
    try:
        with server:
            _accept(server, ranks, found, timeout_s)
    except WorkerError as error:
        for line, _hello in found.values():
            with contextlib.suppress(OSError):
                line.send({"do": "end", "why": str(error)}, timeout_s=1.0)
            line.close()
        raise
    order = sorted(found)
    return Leader([found[rank][0] for rank in order], [found[rank][1] for rank in order])


def _accept(server: socket.socket, ranks: Ranks, found: dict[int, tuple[Line, Message]], timeout_s: float) -> None:
    """Puts every other rank into `found`. Raises WorkerError."""
    where = f"waiting for {ranks.world - 1} other ranks on port {ranks.port}"
    deadline = time.monotonic() + timeout_s
    while len(found) < ranks.world - 1:
        left = deadline - time.monotonic()
        if left <= 0:
            raise failed(_missing(ranks, found, timeout_s), "RanksMissing", where)
        server.settimeout(left)
        with contextlib.suppress(TimeoutError):
            line, hello = _greeted(server, ranks, left)
            if hello is None:
                line.close()
            elif hello["rank"] in found:
                words = f"two processes say that they are rank {hello['rank']}: {_who(hello)}, and one before"
                raise failed(words, "DuplicateRank", where)
            else:
                found[hello["rank"]] = line, hello


def join(ranks: Ranks, hello: Message, timeout_s: float) -> Member:
    """Any other process: connects to process 0 and says hello. Raises WorkerError."""
    deadline = time.monotonic() + timeout_s
    place = f"{ranks.master}:{ranks.port}"
    last = "no answer"
    while time.monotonic() < deadline:
        try:
            connection = socket.create_connection((str(ranks.master), ranks.port), timeout=min(5.0, timeout_s))
            line = Line(connection)
            line.send({"hello": _HELLO, "rank": ranks.rank, "world": ranks.world, **hello})
            return Member(line)
        except OSError as error:  # rank 0 may come later than the others
            last = error.strerror or str(error)
            time.sleep(_RETRY_EVERY_S)
    words = (
        f"rank {ranks.rank} did not reach rank 0 at {place} within {timeout_s:.0f} s: {last} "
        "(is MASTER_ADDR its host, does it run, is there a firewall between the nodes?)"
    )
    raise failed(words, "MasterUnreachable", f"connecting to rank 0 at {place}")


def _check_answer(answer: Message, hello: Message) -> None:
    """Raises WorkerError when the other process says that it failed."""
    if "error" not in answer:
        return
    raise WorkerError(
        Error(
            api=str(answer.get("api", "worker")),
            message=f"{_who(hello)}: {answer['error']}",
            name=answer.get("name"),
            code=answer.get("code"),
            where=answer.get("where"),
        )
    )


def _listen(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):  # IPv6 may be switched off
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", port), backlog=1024)


def _greeted(server: socket.socket, ranks: Ranks, timeout_s: float) -> tuple[Line, Message | None]:
    """The next connection with its hello; None for strangers. Raises TimeoutError."""
    connection, _address = server.accept()
    line = Line(connection)
    try:
        hello = line.receive(min(5.0, timeout_s))
    except OSError:
        return line, None
    rank = hello.get("rank")
    if hello.get("hello") != _HELLO or not isinstance(rank, int) or not 0 < rank < ranks.world:
        return line, None
    return line, hello


def _missing(ranks: Ranks, found: dict[int, tuple[Line, Message]], timeout_s: float) -> str:
    missing = [rank for rank in range(1, ranks.world) if rank not in found]
    names = ", ".join(str(rank) for rank in missing[:16]) + (", ..." if len(missing) > 16 else "")
    hosts = sorted({str(hello.get("host")) for _line, hello in found.values()})
    came = f"; {len(found) + 1} came" + (
        f", from {', '.join(hosts[:8])} and this host" if hosts else ": only this one"
    )
    plural = "s" if len(missing) > 1 else ""
    return f"rank{plural} {names} of {ranks.world} did not come to port {ranks.port} within {timeout_s:.0f} s{came}"


def _who(hello: Message) -> str:
    return f"rank {hello.get('rank')} on {hello.get('host')}"
