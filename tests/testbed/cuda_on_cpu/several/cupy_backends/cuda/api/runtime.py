"""CUDA's runtime on host memory. What a GPU does later, or at the same time, is done at once, one after the other."""

from __future__ import annotations

import ctypes
import time

from cupy_backends.cuda.api.state import STATE as state
from cupy_backends.cuda.api.state import CUDARuntimeError as CUDARuntimeError

is_hip = False
memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice, memcpyDefault = range(5)
hostAllocDefault, hostAllocPortable = 0, 1
_INVALID_VALUE, _INVALID_HANDLE = 1, 400
_PEER_ENABLED, _PEER_NOT_ENABLED, _PEER_UNSUPPORTED = 704, 705, 217


def runtimeGetVersion() -> int:
    return 12090


def driverGetVersion() -> int:
    return 12090


def getDeviceCount() -> int:
    return int(state.scenario["devices"])


def setDevice(device: int) -> None:
    if not 0 <= device < getDeviceCount():
        raise CUDARuntimeError(101)
    state.local.device = device


def getDevice() -> int:
    return int(getattr(state.local, "device", 0))


def deviceSynchronize() -> None:
    state.context()


def getDeviceProperties(device: int) -> dict[str, object]:
    memory = state.scenario["memory"]
    return {
        "name": b"NVIDIA CPU", "major": 9, "minor": 0, "multiProcessorCount": 4, "l2CacheSize": 1 << 20, "totalGlobalMem": memory,
    }  # fmt: skip


def deviceGetPCIBusId(device: int) -> str:
    return f"0000:{device + 0x10:02X}:00.0"


def memGetInfo() -> tuple[int, int]:
    return state.free_memory(getDevice()), int(state.scenario["memory"])


def malloc(size: int) -> int:
    state.context()
    return state.allocate(size, getDevice())


def free(pointer: int) -> None:
    state.context()
    if pointer:
        state.release(pointer, getDevice())


def hostAlloc(size: int, flags: int) -> int:
    return state.allocate(size, None)


def freeHost(pointer: int) -> None:
    state.release(pointer, None)


def memset(pointer: int, value: int, size: int) -> None:
    state.check_inside(pointer, size, getDevice())
    ctypes.memset(pointer, value, size)


def memsetAsync(pointer: int, value: int, size: int, stream: int) -> None:
    _device_of(stream)
    memset(pointer, value, size)


def memcpy(target: int, origin: int, size: int, kind: int) -> None:
    to_gpu = state.owner(target, size) is not None
    from_gpu = state.owner(origin, size) is not None
    if kind != memcpyDefault and (to_gpu, from_gpu) != (kind in (1, 3), kind in (2, 3)):
        raise CUDARuntimeError(_INVALID_VALUE)
    ctypes.memmove(target, origin, size)
    if to_gpu != from_gpu:
        state.happen("h2d" if to_gpu else "d2h", getDevice(), target, size)


def memcpyAsync(target: int, origin: int, size: int, kind: int, stream: int) -> None:
    if _device_of(stream) != getDevice():
        raise CUDARuntimeError(_INVALID_HANDLE)
    memcpy(target, origin, size, kind)


def memcpyPeerAsync(target: int, target_device: int, origin: int, origin_device: int, size: int, stream: int) -> None:
    _device_of(stream)
    state.check_inside(target, size, target_device)
    state.check_inside(origin, size, origin_device)
    ctypes.memmove(target, origin, size)
    state.happen(f"{origin_device}-{target_device}", target_device, target, size)


def deviceCanAccessPeer(device: int, peer: int) -> int:
    return int(f"{device}-{peer}" not in state.scenario["no_peer"])


def deviceEnablePeerAccess(peer: int) -> None:
    pair = getDevice(), peer
    if not deviceCanAccessPeer(*pair):
        raise CUDARuntimeError(_PEER_UNSUPPORTED)
    if pair in state.peers:
        raise CUDARuntimeError(_PEER_ENABLED)
    state.peers.add(pair)


def deviceDisablePeerAccess(peer: int) -> None:
    if (getDevice(), peer) not in state.peers:
        raise CUDARuntimeError(_PEER_NOT_ENABLED)
    state.peers.remove((getDevice(), peer))


def streamCreateWithFlags(flags: int) -> int:
    state.streams.append(getDevice())
    return len(state.streams)


def streamDestroy(stream: int) -> None:
    _device_of(stream)


def streamSynchronize(stream: int) -> None:
    state.happen("synchronize", _device_of(stream))


def streamQuery(stream: int) -> int:
    return state.busy(_device_of(stream))


def streamWaitEvent(stream: int, event: int, flags: int = 0) -> None:
    _device_of(stream)
    if state.events[event].at is None:
        raise CUDARuntimeError(_INVALID_HANDLE)


def eventCreateWithFlags(flags: int) -> int:
    return state.new_event(getDevice(), timing=not flags & 2)


def eventRecord(event: int, stream: int) -> None:
    if _device_of(stream) != state.events[event].device:
        raise CUDARuntimeError(_INVALID_HANDLE)
    state.events[event].at = time.perf_counter()


def eventSynchronize(event: int) -> None:
    state.happen("synchronize", state.events[event].device)


def eventElapsedTime(start: int, end: int) -> float:
    one, other = state.events[start], state.events[end]
    if one.device != other.device or not (one.timing and other.timing) or one.at is None or other.at is None:
        raise CUDARuntimeError(_INVALID_HANDLE)
    return (other.at - one.at) * 1e3


def _device_of(stream: int) -> int:
    """Of a stream; of the default one it is the current device."""
    return getDevice() if stream == 0 else int(state.streams[stream - 1])
