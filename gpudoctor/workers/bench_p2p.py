"""How fast GPUs copy from one to another, over which path, and whether what arrives is what was sent.

Every pair, each direction and both at once, and the latency of small copies. Pairs without peer access are measured
as well, as path `host`: the driver then copies through host memory.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpudoctor.workers.bench_lines import Device, Fault, Figure, say
from gpudoctor.workers.bench_main import Stopped, Work, main_of
from gpudoctor.workers.cuda_device import Pointer, Timing, measure, summary
from gpudoctor.workers.link_patterns import ELEMENT, OnGpu, OnHost, Patterns, Wrong
from gpudoctor.workers.peer_links import link_of, pair_order, peer_access
from gpudoctor.workers.watched import Watch, run_watched

MIB = 1 << 20
SIZE, QUICK_SIZE, SMALLEST = 256 * MIB, 64 * MIB, 4 * MIB
SMALL_COPY = 16
_DEVICE_SHARE = 4
_SMALL_COPIES = 100
_PLUG_MS = 3.0
_POISON = 0xA5
_DEFAULT_STREAM = 0
_COPY_PATIENCE_S, _SETUP_PATIENCE_S = 5.0, 40.0
_ALREADY_ENABLED = 704  # cudaErrorPeerAccessAlreadyEnabled


@dataclass(frozen=True)
class Side:
    """One GPU with what it sends, where it receives, and the means to fill and check both."""

    device: Device
    out: Pointer
    into: Pointer
    patterns: Patterns

    @property
    def ordinal(self) -> int:
        return self.device.ordinal


def run(work: Work) -> None:
    if len(work.devices) < 2:
        work.note("skipped", "there is only one GPU: nothing to copy between")
        return
    watch = Watch()
    run_watched(work, watch, lambda: _Pairs(work, watch).run())


class _Pairs:
    def __init__(self, work: Work, watch: Watch) -> None:
        self.work, self.watch, self.cuda = work, watch, work.cuda
        self.size = min(QUICK_SIZE if work.arguments.quick else SIZE, work.arguments.max_bytes)
        self.budget_s = 1.0

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            sides = self._open(stack)
            pairs = [(sides[a], sides[b]) for a, b in pair_order(len(sides))]
            direct = peer_access(self.work, [(one.ordinal, other.ordinal) for one, other in pairs])
            for done, (one, other) in enumerate(pairs):
                try:
                    self.work.check_time()
                    self.budget_s = self.work.left() / (len(pairs) - done)
                    self.work.progress(done / len(pairs), f"GPU {one.ordinal} and GPU {other.ordinal}")
                    self._pair(one, other, direct[one.ordinal, other.ordinal])
                except Stopped:
                    self.work.note("skipped", f"{len(pairs) - done} of {len(pairs)} pairs of GPUs were not measured")
                    raise
                except Exception as error:
                    place = f"copying between GPU {one.ordinal} and GPU {other.ordinal}"
                    self.work.failure(error, place, one.ordinal)
                    if not self._usable(one, other):
                        return

    def _open(self, stack: contextlib.ExitStack) -> list[Side]:
        """Memory on every GPU, of the same size on all."""
        opened: list[Device] = []
        for device, _seconds, _done in self.work.each_device("copies between GPUs"):
            self.watch.begin(f"preparing GPU {device.ordinal}", _SETUP_PATIENCE_S)
            fitting = max(SMALLEST, self.cuda.free_bytes() // _DEVICE_SHARE // MIB * MIB)
            if fitting < self.size:
                text = f"copies of {fitting // MIB} MiB: GPU {device.ordinal} has no room for more"
                self.work.note("shrunk", text, device.ordinal, fitting / MIB)
                self.size = fitting
            opened.append(device)
        sides: list[Side] = []
        for device in opened:
            self.watch.begin(f"preparing GPU {device.ordinal}", _SETUP_PATIENCE_S)
            self.cuda.runtime.setDevice(device.ordinal)
            try:
                result, out, into = (
                    stack.enter_context(self._memory(device.ordinal, size)) for size in (64, self.size, self.size)
                )
            except Exception as error:
                self.work.failure(error, "taking memory for copies between GPUs", device.ordinal)
                continue
            patterns = self._patterns(device, result)
            patterns.fill_words(out, self.size // ELEMENT, device.ordinal)
            sides.append(Side(device, out, into, patterns))
        return sides

    @contextlib.contextmanager
    def _memory(self, ordinal: int, size: int) -> Iterator[Pointer]:
        """Freed with its own device as the current one."""
        with self.cuda.memory(size) as pointer:
            yield pointer
            with contextlib.suppress(Exception):
                self.cuda.runtime.setDevice(ordinal)

    def _patterns(self, device: Device, result: Pointer) -> Patterns:
        try:
            return OnGpu(self.cuda, device, result)
        except Exception as error:
            text = f"data are checked through the host, and GPUs' own loads and stores are not checked: {error}"
            self.work.note("skipped", text[:500], device.ordinal)
            return OnHost(self.cuda)

    def _pair(self, one: Side, other: Side, direct: bool) -> None:
        path = link_of(one.ordinal, other.ordinal) if direct else "host"
        access = self._peer_access(one, other) if direct else contextlib.nullcontext()
        with access:
            for sender, receiver in ((one, other), (other, one)):
                name = f"copying from GPU {sender.ordinal} to GPU {receiver.ordinal}"
                timing = self._one_way(sender, receiver, path, name)
                self._latency(sender, receiver, path, name, timing)
                if direct and isinstance(receiver.patterns, OnGpu):
                    self._loads_and_stores(sender, receiver)
            self._both_ways(one, other, path)

    @contextlib.contextmanager
    def _peer_access(self, one: Side, other: Side) -> Iterator[None]:
        """Only while a pair is measured: without NVSwitch a GPU has eight peers at most."""
        self.watch.begin(f"enabling peer access between GPU {one.ordinal} and GPU {other.ordinal}", _SETUP_PATIENCE_S)
        ways = ((one.ordinal, other.ordinal), (other.ordinal, one.ordinal))
        try:
            for reader, owner in ways:
                self.cuda.runtime.setDevice(reader)
                try:
                    self.cuda.runtime.deviceEnablePeerAccess(owner)
                except Exception as error:
                    if getattr(error, "status", None) != _ALREADY_ENABLED:
                        raise
            yield
        finally:
            for reader, owner in ways:
                with contextlib.suppress(Exception):
                    self.cuda.runtime.setDevice(reader)
                    self.cuda.runtime.deviceDisablePeerAccess(owner)

    def _one_way(self, sender: Side, receiver: Side, path: str | None, name: str) -> Timing:
        self._poison(receiver)
        self.watch.begin(name, _COPY_PATIENCE_S + 0.2 * self.budget_s, _COPY_PATIENCE_S)
        self.cuda.runtime.setDevice(sender.ordinal)
        timing = self._measure(lambda: self._copy(sender, receiver, self.size, _DEFAULT_STREAM))
        self._say("p2p_unidirectional", sender, receiver, path, self.size, self.size / timing.median_ms / 1e6, timing)
        self._check("p2p_unidirectional", sender, receiver, "a copy")
        return timing

    def _latency(self, sender: Side, receiver: Side, path: str | None, name: str, large: Timing) -> None:
        """Small copies in a row behind large ones, which keep the GPU busy while the small ones are queued."""
        self.watch.begin(f"{name} (small copies)", _COPY_PATIENCE_S)
        runtime, cupy = self.cuda.runtime, self.cuda.cupy
        runtime.setDevice(sender.ordinal)
        begun, ended = cupy.cuda.Event(), cupy.cuda.Event()
        times: list[float] = []
        for _ in range(5):
            for _ in range(max(1, min(100, round(_PLUG_MS / large.median_ms)))):
                self._copy(sender, receiver, self.size, _DEFAULT_STREAM)
            runtime.eventRecord(begun.ptr, _DEFAULT_STREAM)
            for _ in range(_SMALL_COPIES):
                self._copy(sender, receiver, SMALL_COPY, _DEFAULT_STREAM)
            runtime.eventRecord(ended.ptr, _DEFAULT_STREAM)
            ended.synchronize()
            times.append(float(cupy.cuda.get_elapsed_time(begun, ended)))
        timing = summary(times, _SMALL_COPIES)
        self._say("p2p_latency", sender, receiver, path, SMALL_COPY, timing.median_ms * 1e3, timing)

    def _both_ways(self, one: Side, other: Side, path: str | None) -> None:
        for side in (one, other):
            self._poison(side)
        runtime, event = self.cuda.runtime, self.cuda.cupy.cuda.Event
        name = f"copying between GPU {one.ordinal} and GPU {other.ordinal} in both directions"
        self.watch.begin(name, _COPY_PATIENCE_S + 0.2 * self.budget_s, _COPY_PATIENCE_S)
        runtime.setDevice(other.ordinal)
        back = self.cuda.cupy.cuda.Stream(non_blocking=True)
        ended = event(disable_timing=True)
        runtime.setDevice(one.ordinal)
        begun = event(disable_timing=True)

        def copy() -> None:
            runtime.eventRecord(begun.ptr, _DEFAULT_STREAM)
            runtime.streamWaitEvent(back.ptr, begun.ptr)
            self._copy(one, other, self.size, _DEFAULT_STREAM)
            runtime.setDevice(other.ordinal)
            self._copy(other, one, self.size, back.ptr)
            runtime.eventRecord(ended.ptr, back.ptr)
            runtime.setDevice(one.ordinal)
            runtime.streamWaitEvent(_DEFAULT_STREAM, ended.ptr)

        timing = self._measure(copy)
        self._say("p2p_bidirectional", one, other, path, self.size, 2 * self.size / timing.median_ms / 1e6, timing)
        self._check("p2p_bidirectional", one, other, "a copy, with one back at the same time,")
        self._check("p2p_bidirectional", other, one, "a copy, with one back at the same time,")

    def _loads_and_stores(self, sender: Side, receiver: Side) -> None:
        """What kernels do with a peer's memory can be wrong where copies are right."""
        self.watch.begin(f"GPU {receiver.ordinal} reading memory of GPU {sender.ordinal}", _COPY_PATIENCE_S)
        count = min(self.size, QUICK_SIZE) // ELEMENT
        self.cuda.runtime.setDevice(receiver.ordinal)
        found = receiver.patterns.check_words(sender.out, count, sender.ordinal)
        self._wrong("p2p_load", sender, receiver, "reading by a kernel", found)
        if isinstance(sender.patterns, OnGpu):
            self.watch.begin(f"GPU {sender.ordinal} writing memory of GPU {receiver.ordinal}", _COPY_PATIENCE_S)
            seed = 1000 + sender.ordinal
            self._poison(receiver)
            self.cuda.runtime.setDevice(sender.ordinal)
            sender.patterns.fill_words(receiver.into, count, seed)
            self.cuda.runtime.setDevice(receiver.ordinal)
            found = receiver.patterns.check_words(receiver.into, count, seed)
            self._wrong("p2p_store", sender, receiver, "writing by a kernel", found)

    def _copy(self, sender: Side, receiver: Side, size: int, stream: int) -> None:
        self.cuda.runtime.memcpyPeerAsync(receiver.into, receiver.ordinal, sender.out, sender.ordinal, size, stream)

    def _measure(self, copy: Callable[[], None]) -> Timing:
        return measure(self.cuda, copy, repeats=5, warm_up=1, at_least_ms=2.0, budget_s=self.budget_s * 0.12)

    def _poison(self, side: Side) -> None:
        self.cuda.runtime.setDevice(side.ordinal)
        self.cuda.fill(side.into, _POISON, self.size)
        self.cuda.synchronize()

    def _check(self, metric: str, sender: Side, receiver: Side, what: str) -> None:
        self.cuda.runtime.setDevice(receiver.ordinal)
        found = receiver.patterns.check_words(receiver.into, self.size // ELEMENT, sender.ordinal)
        self._wrong(metric, sender, receiver, what, found)

    def _wrong(self, metric: str, sender: Side, receiver: Side, what: str, found: Wrong | None) -> None:
        if found is None:
            return
        clause = "nothing arrived" if found.got == _POISON * 0x01010101 else found.describe()
        say(
            Fault(
                kind="corrupt_copy",
                text=f"{what} from GPU {sender.ordinal} to GPU {receiver.ordinal} changed the data: {clause}",
                device=sender.ordinal,
                peer=receiver.ordinal,
                metric=metric,
                count=found.count,
                address=f"{found.index * ELEMENT:#x}",
                expected=f"{found.expected:#010x}",
                got=None if found.got is None else f"{found.got:#010x}",
            )
        )

    def _say(
        self, metric: str, sender: Side, receiver: Side, path: str | None, size: int, value: float, timing: Timing
    ) -> None:
        say(
            Figure(
                metric=metric,
                value=round(value, 3),
                unit="us" if metric == "p2p_latency" else "GB/s",
                device=sender.ordinal,
                peer=receiver.ordinal,
                path=path,
                size_bytes=size,
                repeats=timing.repeats,
                spread=round(timing.spread, 4),
            )
        )

    def _usable(self, *sides: Side) -> bool:
        """Whether the GPUs still work after an error; a fault in a kernel or copy ends CUDA for the process."""
        try:
            for side in sides:
                self.cuda.runtime.setDevice(side.ordinal)
                self.cuda.synchronize()
        except Exception:
            return False
        return True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="smaller copies")
    parser.add_argument("--max-bytes", type=int, default=SIZE, help="largest copy")


def main() -> None:
    main_of("p2p", run, add_arguments)


if __name__ == "__main__":
    main()
