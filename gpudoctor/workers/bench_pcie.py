"""How fast copies between host memory and each GPU are, and whether what arrives is what was sent.

Pinned and pageable memory, each direction and both at once, from the GPU's own NUMA node and (`_far`) from the
farthest other one. GB/s are 10^9 bytes a second; for both directions at once, of the two together.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from gpudoctor.workers import numa
from gpudoctor.workers.bench_lines import Device, Fault, Figure, say
from gpudoctor.workers.bench_main import Work, main_of
from gpudoctor.workers.cuda_device import Pointer, measure
from gpudoctor.workers.cuda_errors import is_out_of_memory
from gpudoctor.workers.host_memory import (
    POISON,
    Difference,
    available_here,
    difference,
    pageable,
    pinned,
    poison,
    write_pattern,
)

MIB = 1 << 20
SIZES = (64 * MIB, 256 * MIB, 1024 * MIB)
QUICK_SIZES = (256 * MIB,)
SMALLEST = 16 * MIB
# Of what the host has left, four buffers of this share: other jobs go on undisturbed.
_HOST_SHARE = 16
_DEVICE_SHARE = 4
_DEFAULT_STREAM = 0  # the one whose events `measure` takes


@dataclass(frozen=True)
class Place:
    """Where host memory is taken from: `suffix` goes to the names of figures."""

    node: numa.Node | None
    suffix: str = ""


def places(bdf: str | None, nodes: list[numa.Node], near: int | None) -> tuple[list[Place], str | None]:
    """The places to measure from, and what of it cannot be done. `near` is the GPU's node."""
    if len(nodes) < 2:
        return [Place(None)], None
    if near is None:
        return [Place(None)], f"the firmware does not say to which NUMA node {bdf or 'this GPU'} belongs"
    own = numa.nearest(near, nodes)
    assert own is not None
    far = numa.farthest(own.number, nodes)
    if not own.cpus:
        why = f"this process may not run on NUMA node {own.number}, {bdf or 'this GPU'}'s: only far figures"
        return [Place(far, "_far")], why
    return [Place(own), *([Place(far, "_far")] if far is not None else [])], None


def sizes_for(wanted: tuple[int, ...], host_free: int | None, device_free: int | None) -> list[int]:
    """`wanted`, as far as there is room for it; one smaller size when there is room for none."""
    room = min(
        wanted[-1] if host_free is None else host_free // _HOST_SHARE,
        wanted[-1] if device_free is None else device_free // _DEVICE_SHARE,
    )
    fitting = [size for size in wanted if size <= room]
    return fitting or [max(SMALLEST, room // SMALLEST * SMALLEST)]


def run(work: Work) -> None:
    nodes = numa.nodes()
    largest = work.arguments.max_bytes
    wanted = tuple(sorted({min(size, largest) for size in (QUICK_SIZES if work.arguments.quick else SIZES)}))

    def test(device: Device, seconds: float, done: float) -> None:
        _Device(work, device, seconds, done).run(nodes, wanted)

    work.test_each_device("copies", "copying between host and GPU", test)


class _Device:
    def __init__(self, work: Work, device: Device, seconds: float, done: float) -> None:
        self.work, self.cuda, self.device = work, work.cuda, device
        self.seconds, self.done = seconds, done
        self.measured = 0
        self.planned = 1

    def run(self, nodes: list[numa.Node], wanted: tuple[int, ...]) -> None:
        ordinal = self.device.ordinal
        plan, why = places(self.device.bdf, nodes, numa.node_of(self.device.bdf))
        if why:
            self.work.note("skipped", why, ordinal)
        sizes = sizes_for(wanted, available_here(), self.cuda.free_bytes())
        if sizes[-1] < wanted[-1]:
            text = f"copies of {sizes[-1] // MIB} MiB at most: not enough free memory for {wanted[-1] // MIB} MiB"
            self.work.note("shrunk", text, ordinal, sizes[-1] / MIB)
        self.planned = sum(3 * (len(sizes) if not place.suffix else 1) + 2 for place in plan)
        for place in plan:
            with numa.running_on(place.node):
                self._from(place, sizes if not place.suffix else sizes[-1:])

    def _from(self, place: Place, sizes: list[int]) -> None:
        with contextlib.ExitStack() as stack:
            one, size = self._enter(stack, lambda size: pinned(self.cuda, size), sizes[-1])
            sizes = [*[smaller for smaller in sizes if smaller < size], size]
            try:
                two = stack.enter_context(pinned(self.cuda, size))
                on_gpu = stack.enter_context(self.cuda.memory(size))
                also_on_gpu = stack.enter_context(self.cuda.memory(size))
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                self.work.note("skipped", f"no room for two buffers of {size // MIB} MiB", self.device.ordinal)
                return
            write_pattern(one, size, seed=self.device.ordinal + 1)
            for part in sizes:
                self._one_way("pinned" + place.suffix, one, two, on_gpu, part)
                self._both_ways("pinned" + place.suffix, one, two, on_gpu, also_on_gpu, part)
        if not place.suffix:
            self._pageable(size)

    def _pageable(self, size: int) -> None:
        with pageable(size) as one, pageable(size) as two, self.cuda.memory(size) as on_gpu:
            write_pattern(one, size, seed=self.device.ordinal + 101)
            self._one_way("pageable", one, two, on_gpu, size)

    def _enter(
        self,
        stack: contextlib.ExitStack,
        make: Callable[[int], contextlib.AbstractContextManager[Pointer]],
        size: int,
    ) -> tuple[Pointer, int]:
        """Host memory of `size`, or of half, ..., down to the smallest that still says something."""
        while True:
            try:
                return stack.enter_context(make(size)), size
            except Exception as error:
                if not is_out_of_memory(error) or size // 2 < SMALLEST:
                    raise
                size //= 2
                text = f"copies of {size // MIB} MiB: the driver gave no more pinned memory"
                self.work.note("shrunk", text, self.device.ordinal, size / MIB)

    def _one_way(self, kind: str, one: Pointer, two: Pointer, on_gpu: Pointer, size: int) -> None:
        """Times `one` -> GPU and GPU -> `two`, and compares."""
        runtime = self.cuda.runtime
        self.cuda.fill(on_gpu, POISON, size)
        poison(two, size)

        def to_gpu() -> None:
            runtime.memcpyAsync(on_gpu, one, size, runtime.memcpyHostToDevice, _DEFAULT_STREAM)

        def to_host() -> None:
            runtime.memcpyAsync(two, on_gpu, size, runtime.memcpyDeviceToHost, _DEFAULT_STREAM)

        self._figure(f"h2d_{kind}", size, to_gpu)
        self._figure(f"d2h_{kind}", size, to_host)
        self._compare(kind, one, two, on_gpu, size)

    def _both_ways(
        self, kind: str, one: Pointer, two: Pointer, on_gpu: Pointer, also_on_gpu: Pointer, size: int
    ) -> None:
        """`one` -> GPU and, at the same time, another part of the GPU's memory -> `two`."""
        runtime, event = self.cuda.runtime, self.cuda.cupy.cuda.Event
        other = self.cuda.cupy.cuda.Stream(non_blocking=True)
        begun, ended = event(disable_timing=True), event(disable_timing=True)
        self.cuda.fill(on_gpu, POISON, size)
        runtime.memcpy(also_on_gpu, one, size, runtime.memcpyHostToDevice)
        poison(two, size)

        def copy() -> None:
            runtime.eventRecord(begun.ptr, _DEFAULT_STREAM)
            runtime.streamWaitEvent(other.ptr, begun.ptr)
            runtime.memcpyAsync(on_gpu, one, size, runtime.memcpyHostToDevice, _DEFAULT_STREAM)
            runtime.memcpyAsync(two, also_on_gpu, size, runtime.memcpyDeviceToHost, other.ptr)
            runtime.eventRecord(ended.ptr, other.ptr)
            runtime.streamWaitEvent(_DEFAULT_STREAM, ended.ptr)

        metric, text = f"bidirectional_{kind}", "copies in both directions at once"
        self._figure(metric, size, copy, ways=2)
        self._differ(metric, difference(one, two, size), text)
        runtime.memcpy(two, on_gpu, size, runtime.memcpyDeviceToHost)
        self._differ(metric, difference(one, two, size), text)

    def _figure(self, metric: str, size: int, copy: Callable[[], None], ways: int = 1) -> None:
        self.work.check_time()
        share = 1 / len(self.work.devices)
        self.work.progress(self.done + share * self.measured / self.planned, metric, self.device.ordinal)
        budget = self.seconds / (self.planned + 1) * 0.7
        timing = measure(self.cuda, copy, repeats=7, warm_up=1, at_least_ms=5.0, budget_s=budget)
        self.measured += 1
        say(
            Figure(
                metric=metric,
                value=round(ways * size / timing.median_ms / 1e6, 3),
                unit="GB/s",
                device=self.device.ordinal,
                size_bytes=size,
                repeats=timing.repeats,
                spread=round(timing.spread, 4),
            )
        )

    def _compare(self, kind: str, one: Pointer, two: Pointer, on_gpu: Pointer, size: int) -> None:
        """Which way was wrong: what a second reading shows again was stored wrong, or is read wrong every time."""
        found = difference(one, two, size)
        if found is None:
            return
        runtime = self.cuda.runtime
        runtime.memcpy(two, on_gpu, size, runtime.memcpyDeviceToHost)
        again = difference(one, two, size)
        if again is not None and (again.offset, again.got) == (found.offset, found.got):
            self._differ(f"h2d_{kind}", found, "copies to the GPU, or back in the same way each time,")
        else:
            self._differ(f"d2h_{kind}", found, "a copy to the host")

    def _differ(self, metric: str, found: Difference | None, what: str) -> None:
        if found is None:
            return
        say(
            Fault(
                kind="corrupt_copy",
                text=f"{what} changed the data: {found.describe()}",
                device=self.device.ordinal,
                metric=metric,
                count=found.words,
                address=f"{found.offset:#x}",
                expected=f"{found.expected:#010x}",
                got=f"{found.got:#010x}",
                bits=found.bits,
            )
        )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="one size")
    parser.add_argument("--max-bytes", type=int, default=SIZES[-1], help="largest copy")


def main() -> None:
    main_of("pcie", run, add_arguments)


if __name__ == "__main__":
    main()
