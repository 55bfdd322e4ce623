"""Events and streams."""

from __future__ import annotations

from cupy_backends.cuda.api import runtime


class Event:
    def __init__(self, block: bool = False, disable_timing: bool = False, interprocess: bool = False) -> None:
        self.ptr = runtime.eventCreateWithFlags(2 if disable_timing else 0)

    def record(self, stream: Stream | None = None) -> None:
        runtime.eventRecord(self.ptr, stream.ptr if stream is not None else 0)

    def synchronize(self) -> None:
        runtime.eventSynchronize(self.ptr)


class Stream:
    def __init__(self, null: bool = False, non_blocking: bool = False, ptds: bool = False) -> None:
        self.ptr = 0 if null else runtime.streamCreateWithFlags(int(non_blocking))

    def synchronize(self) -> None:
        runtime.streamSynchronize(self.ptr)


def get_elapsed_time(start: Event, end: Event) -> float:
    return runtime.eventElapsedTime(start.ptr, end.ptr)
