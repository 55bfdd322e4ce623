"""An NCCL over files: ranks of one or of several processes leave their data in a folder named by the unique id."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

from cupy_backends.cuda.api import runtime

NCCL_FLOAT32 = NCCL_FLOAT = 7
NCCL_SUM = 0
_PATIENCE_S = 20.0
_WORDS = {
    1: "NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
    2: "NCCL_ERROR_SYSTEM_ERROR: unhandled system error (run with NCCL_DEBUG=INFO for details)",
    6: "NCCL_ERROR_REMOTE_ERROR: remote process exited or there was a network error",
}
_local = threading.local()


class NcclError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(_WORDS[status])


def get_version() -> int:
    return int(runtime.state.scenario.get("nccl", 23203))


def get_unique_id() -> bytes:
    return os.urandom(64).hex().encode()


def groupStart() -> None:
    _local.depth = getattr(_local, "depth", 0) + 1
    if _local.depth == 1:
        _local.queue = []


def groupEnd() -> None:
    _local.depth -= 1
    if _local.depth:
        return
    queue, _local.queue = _local.queue, []
    for give, _take in queue:
        give()
    for _give, take in queue:
        take()


def _do(give: Callable[[], None], take: Callable[[], None]) -> None:
    groupStart()
    _local.queue.append((give, take))
    groupEnd()


class NcclCommunicator:
    def __init__(self, ndev: int, commId: bytes, rank: int) -> None:
        assert len(commId) == 128
        assert 0 <= rank < ndev
        self._device, self._rank, self._ranks = runtime.getDevice(), rank, ndev
        self._folder = Path(os.environ["NCCL_ON_CPU"]) / commId.decode()[:32]
        self._sequence = 0
        self._peers: dict[str, int] = {}
        _do(lambda: self._put(f"init-{rank}", b"1"), lambda: self._connected())

    def _connected(self) -> None:
        for rank in range(self._ranks):
            self._get(f"init-{rank}")
        wrong = runtime.state.scenario["wrong"].get("connect")
        if wrong == "hang":
            time.sleep(3600)
        elif wrong:
            raise NcclError(wrong)

    def destroy(self) -> None:
        pass

    def check_async_error(self) -> None:
        wrong = runtime.state.scenario["wrong"].get("async")
        if wrong:
            raise NcclError(wrong)

    def allReduce(self, send: int, receive: int, count: int, kind: int, op: int, stream: int) -> None:
        assert (kind, op) == (NCCL_FLOAT32, NCCL_SUM)
        self._collective("all_reduce", send, count, receive, count, stream, lambda parts: sum(parts))

    def allGather(self, send: int, receive: int, count: int, kind: int, stream: int) -> None:
        total = count * self._ranks
        self._collective("all_gather", send, count, receive, total, stream, lambda parts: numpy.concatenate(parts))

    def reduceScatter(self, send: int, receive: int, count: int, kind: int, op: int, stream: int) -> None:
        mine = slice(self._rank * count, (self._rank + 1) * count)
        total = count * self._ranks
        self._collective("reduce_scatter", send, total, receive, count, stream, lambda parts: sum(parts)[mine])

    def broadcast(self, send: int, receive: int, count: int, kind: int, root: int, stream: int) -> None:
        self._collective("broadcast", send, count, receive, count, stream, lambda parts: parts[root])

    def send(self, pointer: int, count: int, kind: int, peer: int, stream: int) -> None:
        self._check(pointer, count, stream)
        name = self._pair(self._rank, peer)
        _do(lambda: self._put(name, ctypes.string_at(pointer, count * 4)), lambda: None)

    def recv(self, pointer: int, count: int, kind: int, peer: int, stream: int) -> None:
        self._check(pointer, count, stream)
        name = self._pair(peer, self._rank)
        _do(lambda: None, lambda: self._arrive("sendrecv", pointer, numpy.frombuffer(self._get(name), numpy.float32)))

    def _collective(
        self,
        name: str,
        send: int,
        sent: int,
        receive: int,
        got: int,
        stream: int,
        combine: Callable[[list[Any]], Any],
    ) -> None:
        self._check(send, sent, stream)
        self._check(receive, got, stream)
        self._sequence += 1
        number = self._sequence

        def take() -> None:
            parts = [numpy.frombuffer(self._get(f"{number}-{rank}"), numpy.float32) for rank in range(self._ranks)]
            self._arrive(name, receive, combine(parts))
            (self._folder / f"{number - 2}-{self._rank}").unlink(missing_ok=True)

        _do(lambda: self._put(f"{number}-{self._rank}", ctypes.string_at(send, sent * 4)), take)

    def _arrive(self, name: str, pointer: int, content: Any) -> None:
        ctypes.memmove(pointer, content.tobytes(), content.nbytes)
        runtime.state.happen(name, self._device, pointer, content.nbytes)

    def _check(self, pointer: int, count: int, stream: int) -> None:
        assert stream
        assert runtime.state.streams[stream - 1] == self._device, "a stream of another device"
        runtime.state.check_inside(pointer, count * 4, self._device)

    def _pair(self, origin: int, target: int) -> str:
        key = f"p{origin}-{target}"
        self._peers[key] = self._peers.get(key, 0) + 1
        return f"{key}-{self._peers[key]}"

    def _put(self, name: str, content: bytes) -> None:
        self._folder.mkdir(exist_ok=True)
        mine = self._folder / f"{name}.{os.getpid()}.part"
        mine.write_bytes(content)
        mine.rename(self._folder / name)

    def _get(self, name: str) -> bytes:
        deadline = time.monotonic() + _PATIENCE_S
        while time.monotonic() < deadline:
            try:
                return (self._folder / name).read_bytes()
            except FileNotFoundError:
                time.sleep(0.001)
        raise NcclError(6)
