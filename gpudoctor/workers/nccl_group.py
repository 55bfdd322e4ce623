"""This process's part of an NCCL communicator: one rank for each of its GPUs, their buffers, and what they run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from gpudoctor.workers.bench_lines import Device, Error
from gpudoctor.workers.cuda_device import Cuda, Pointer
from gpudoctor.workers.cuda_errors import WorkerError, is_out_of_memory
from gpudoctor.workers.link_patterns import OnGpu, OnHost, Patterns, Wrong
from gpudoctor.workers.nccl_plan import ELEMENT, MIB, buffer_bytes

STEP_PATIENCE_S = 25.0
_NOT_READY = 600  # cudaErrorNotReady
_POISON = 0xFF  # NaN: nothing that a collective could leave
_SPIN_S = 0.2
_LOOK_AT_ERRORS_EVERY_S = 0.25
SUMMED = ("all_reduce", "reduce_scatter")


@dataclass
class Seat:
    """One GPU of this process."""

    device: Device
    stream: Any
    send: Pointer
    receive: Pointer
    patterns: Patterns
    comm: Any = None


class Group:
    """Opens the GPUs at once; `connect` makes them ranks. Calls come from one thread.

    Nothing is taken down: the end of the process does that, and destroying a communicator may wait for other ranks.
    """

    def __init__(self, cuda: Cuda, nccl: Any, devices: list[Device], most: int) -> None:
        """Takes two buffers on every GPU, of at most `most` bytes, less where there is no room. Raises WorkerError."""
        self._cuda, self._nccl = cuda, nccl
        self.size, self.first_rank, self.ranks = most, 0, 0
        self.unchecked: str | None = None  # why kernels do not check the results
        for device in devices:
            cuda.open_device(device.ordinal)
            self.size = min(self.size, buffer_bytes(cuda.free_bytes()))
        self.seats = [self._open(device) for device in devices]

    def connect(self, unique_id: bytes, first_rank: int, ranks: int, size: int) -> None:
        """Joins the communicator; every process must do so at the same time. Raises NcclError."""
        self.first_rank, self.ranks, self.size = first_rank, ranks, size
        # In a group the calls only take note, and its end connects all without Python's lock: signals get through.
        with self._grouped():
            for index, seat in enumerate(self.seats):
                self._cuda.runtime.setDevice(seat.device.ordinal)
                seat.comm = self._communicator(ranks, unique_id, first_rank + index)
        for index, seat in enumerate(self.seats):
            self._cuda.runtime.setDevice(seat.device.ordinal)
            seat.patterns.fill_values(seat.send, size // ELEMENT, first_rank + index)

    def time(self, collective: str, count: int, iterations: int, repeats: int) -> list[float]:
        """Seconds of one run, for each repeat; a first one, not counted, brings all ranks together. Raises WorkerError."""
        times: list[float] = []
        for _ in range(repeats):
            self._launch(collective, count)
            self._wait(collective, count)
            begun = time.perf_counter()
            for _ in range(iterations):
                self._launch(collective, count)
            self._wait(collective, count)
            times.append((time.perf_counter() - begun) / iterations)
        return times

    def check(self, collective: str, count: int) -> list[tuple[int, Wrong]]:
        """Runs it once, and gives the ranks with wrong results. Raises WorkerError."""
        for seat in self.seats:
            self._cuda.runtime.setDevice(seat.device.ordinal)
            self._cuda.runtime.memsetAsync(seat.receive, _POISON, self._received(collective, count), seat.stream.ptr)
        self._launch(collective, count)
        self._wait(collective, count)
        wrong: list[tuple[int, Wrong]] = []
        for index, seat in enumerate(self.seats):
            self._cuda.runtime.setDevice(seat.device.ordinal)
            found = self._look(seat, self.first_rank + index, collective, count)
            if found is not None:
                wrong.append((self.first_rank + index, found))
        return wrong

    def _open(self, device: Device) -> Seat:
        self._cuda.runtime.setDevice(device.ordinal)
        result = int(self._cuda.runtime.malloc(64))
        send, receive = self._buffers()
        stream = self._cuda.cupy.cuda.Stream(non_blocking=True)
        patterns: Patterns
        try:
            patterns = OnGpu(self._cuda, device, result)
        except Exception as error:
            self.unchecked = str(error)[:300]
            patterns = OnHost(self._cuda)
        return Seat(device, stream, send, receive, patterns)

    def _buffers(self) -> tuple[Pointer, Pointer]:
        """Two of `self.size`, which shrinks until both fit. They are freed with the process."""
        while True:
            send = 0
            try:
                send = int(self._cuda.runtime.malloc(self.size))
                return send, int(self._cuda.runtime.malloc(self.size))
            except Exception as error:
                if send:
                    self._cuda.runtime.free(send)
                if not is_out_of_memory(error) or self.size < 2 * MIB:
                    raise
                self.size = self.size // 2 // MIB * MIB

    def _communicator(self, ranks: int, unique_id: bytes, rank: int) -> Any:
        """CuPy 14 takes the id as bytes, earlier ones as a tuple of signed numbers."""
        try:
            return self._nccl.NcclCommunicator(ranks, unique_id, rank)
        except TypeError:
            signed = tuple(byte - 256 if byte > 127 else byte for byte in unique_id)
            return self._nccl.NcclCommunicator(ranks, signed, rank)

    def _launch(self, collective: str, count: int) -> None:
        """On all GPUs of this process: in a group, since one thread would otherwise wait for itself."""
        with self._grouped():
            for index, seat in enumerate(self.seats):
                self._call(seat, self.first_rank + index, collective, count)

    @contextlib.contextmanager
    def _grouped(self) -> Iterator[None]:
        """Between NCCL's group calls; the end is called in any case, but the first error is the one to report."""
        self._nccl.groupStart()
        try:
            yield
        except BaseException:
            with contextlib.suppress(Exception):
                self._nccl.groupEnd()
            raise
        self._nccl.groupEnd()

    def _call(self, seat: Seat, rank: int, collective: str, count: int) -> None:
        comm, fp32, stream = seat.comm, self._nccl.NCCL_FLOAT32, seat.stream.ptr
        if collective == "all_reduce":
            comm.allReduce(seat.send, seat.receive, count, fp32, self._nccl.NCCL_SUM, stream)
        elif collective == "all_gather":
            comm.allGather(seat.send, seat.receive, count, fp32, stream)
        elif collective == "reduce_scatter":
            comm.reduceScatter(seat.send, seat.receive, count, fp32, self._nccl.NCCL_SUM, stream)
        elif collective == "broadcast":
            comm.broadcast(seat.send, seat.receive, count, fp32, 0, stream)
        else:  # sendrecv: to the next rank, from the one before
            comm.send(seat.send, count, fp32, (rank + 1) % self.ranks, stream)
            comm.recv(seat.receive, count, fp32, (rank - 1) % self.ranks, stream)

    def _wait(self, collective: str, count: int) -> None:
        """Until all streams of this process are done; looks at NCCL's own errors meanwhile, since a rank that died
        leaves the others' kernels running for ever."""
        begun = looked = time.monotonic()
        pending = list(enumerate(self.seats))
        while True:
            pending = [(index, seat) for index, seat in pending if self._busy(seat)]
            if not pending:
                return
            now = time.monotonic()
            if now - looked > _LOOK_AT_ERRORS_EVERY_S:
                looked = now
                for _index, seat in pending:
                    with contextlib.suppress(KeyError):  # "in progress", which CuPy has no name for
                        seat.comm.check_async_error()
            if now - begun > STEP_PATIENCE_S:
                names = ", ".join(str(self.first_rank + index) for index, _seat in pending)
                words = (
                    f"{collective} of {count * ELEMENT} bytes did not end within {now - begun:.0f} s on rank {names}"
                )
                raise WorkerError(Error(api="nccl", message=words, name="NoAnswer", where=collective))
            if now - begun > _SPIN_S:
                time.sleep(0.0005)

    def _busy(self, seat: Seat) -> bool:
        status = int(self._cuda.runtime.streamQuery(seat.stream.ptr))
        if status not in (0, _NOT_READY):
            self._cuda.runtime.check_status(status)
        return status == _NOT_READY

    def _received(self, collective: str, count: int) -> int:
        return count * ELEMENT * (self.ranks if collective == "all_gather" else 1)

    def _look(self, seat: Seat, rank: int, collective: str, count: int) -> Wrong | None:
        """Compares what a rank received with what it must be."""
        check = seat.patterns
        if collective == "all_reduce":
            return check.check_sums(seat.receive, count, self.ranks)
        if collective == "reduce_scatter":
            return check.check_sums(seat.receive, count, self.ranks, start=rank * count)
        if collective == "broadcast":
            return check.check_values(seat.receive, count, 0)
        if collective == "sendrecv":
            return check.check_values(seat.receive, count, (rank - 1) % self.ranks)
        for source in range(self.ranks):
            part = seat.receive + source * count * ELEMENT
            found = check.check_values(part, count, source)
            if found is not None:
                return found
        return None
