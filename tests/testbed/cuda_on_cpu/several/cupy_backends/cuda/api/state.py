"""What the GPUs are and hold. CUDA_ON_CPU is JSON:

devices, memory (bytes of each), no_peer (["0-1", ...] device-peer), and what goes wrong, by place: a copy "0-1"
(from-to), "h2d", "d2h", "kernel", "synchronize": zero, flip (a bit), nothing (the target stays as it was), hang, or
the number of a CUDA error; "place@2" for device 2 only.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import threading
import time
from dataclasses import dataclass
from typing import Any

_WORDS = {
    2: "cudaErrorMemoryAllocation: out of memory",
    1: "cudaErrorInvalidValue: invalid argument",
    101: "cudaErrorInvalidDevice: invalid device ordinal",
    217: "cudaErrorPeerAccessUnsupported: peer access is not supported between these two devices",
    400: "cudaErrorInvalidResourceHandle: invalid resource handle",
    700: "cudaErrorIllegalAddress: an illegal memory access was encountered",
    704: "cudaErrorPeerAccessAlreadyEnabled: peer access is already enabled",
    705: "cudaErrorPeerAccessNotEnabled: peer access has not been enabled",
}


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(_WORDS.get(status, f"cudaErrorUnknown: error {status}"))


@dataclass
class _Event:
    device: int
    timing: bool
    at: float | None = None


class _State:
    def __init__(self) -> None:
        defaults: dict[str, Any] = {"devices": 1, "memory": 1 << 30, "no_peer": [], "wrong": {}}
        self.scenario: dict[str, Any] = {**defaults, **json.loads(os.environ.get("CUDA_ON_CPU", "{}"))}
        self.local = threading.local()
        self.blocks: dict[int, tuple[int, int | None, mmap.mmap, object]] = {}
        self.peers: set[tuple[int, int]] = set()
        self.streams: list[int] = []
        self.events: dict[int, _Event] = {}
        self.failed: int | None = None

    def context(self) -> None:
        """A fault in a kernel or copy ends every later call."""
        if self.failed:
            raise CUDARuntimeError(self.failed)

    def free_memory(self, device: int) -> int:
        used = sum(size for size, owner, *_ in self.blocks.values() if owner == device)
        return int(self.scenario["memory"]) - used

    def allocate(self, size: int, device: int | None) -> int:
        if device is not None and size > self.free_memory(device):
            raise CUDARuntimeError(2)
        area = mmap.mmap(-1, max(1, size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        view = ctypes.c_char.from_buffer(area)
        self.blocks[ctypes.addressof(view)] = (size, device, area, view)
        return ctypes.addressof(view)

    def release(self, pointer: int, device: int | None) -> None:
        if self.blocks[pointer][1] != device:
            raise AssertionError(f"memory of device {self.blocks[pointer][1]} freed with {device} as the current one")
        del self.blocks[pointer]

    def owner(self, pointer: int, size: int) -> int | None:
        """The device whose memory [pointer, pointer + size) is; None for host memory."""
        for start, (length, device, *_) in self.blocks.items():
            if start <= pointer < start + length:
                if pointer + size > start + length:
                    raise CUDARuntimeError(1)
                return device
        return None

    def check_inside(self, pointer: int, size: int, device: int) -> None:
        if self.owner(pointer, size) != device:
            raise CUDARuntimeError(1)

    def check_access(self, argument: int) -> None:
        """A kernel on the current device may use its own memory and that of enabled peers."""
        mine = getattr(self.local, "device", 0)
        owner = self.owner(argument, 0) if argument > 1 << 32 else None
        if owner not in (None, mine) and (mine, owner) not in self.peers:
            self.failed = 700
            raise CUDARuntimeError(700)

    def new_event(self, device: int, *, timing: bool) -> int:
        self.events[len(self.events) + 1] = _Event(device, timing)
        return len(self.events)

    def busy(self, device: int) -> int:
        return 600 if self._planned("query", device) == "hang" else 0

    def happen(self, place: str, device: int, target: int = 0, size: int = 0) -> None:
        """What the scenario says about `place`, done to what has just arrived at `target`."""
        self.context()
        wrong = self._planned(place, device)
        if wrong == "hang":
            time.sleep(3600)
        elif isinstance(wrong, int):
            self.failed = wrong
            raise CUDARuntimeError(wrong)
        elif wrong == "zero":
            ctypes.memset(target, 0, size)
        elif wrong == "nothing":
            ctypes.memset(target, 0xA5, size)
        elif wrong == "flip" and size >= 4096:
            word = ctypes.c_uint32.from_address(target + 2048)
            word.value ^= 1 << 9

    def _planned(self, place: str, device: int) -> Any:
        wrong = self.scenario["wrong"]
        return wrong.get(f"{place}@{device}", wrong.get(place))


STATE = _State()
