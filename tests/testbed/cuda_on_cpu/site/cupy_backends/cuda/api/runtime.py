import ctypes
import json
import mmap
import os

is_hip = False
memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice, memcpyDefault = range(5)

SCENARIO = json.loads(os.environ.get("CUDA_ON_CPU") or "{}")
MEMORY = SCENARIO.get("memory_mib", 64) << 20
RESERVED = 1 << 20  # what the context takes
_NAMES = {
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    46: ("cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    214: ("cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"),
    700: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
}


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        self.status = status
        super().__init__("{}: {}".format(*_NAMES.get(status, ("cudaErrorUnknown", "unknown error"))))


_arena = mmap.mmap(-1, MEMORY)
_base = ctypes.addressof(ctypes.c_char.from_buffer(_arena))
_taken = {}


launches = 0


def check(function):
    code = SCENARIO.get("fail", {}).get(function)
    if launches >= SCENARIO.get("dies_after_launches", 1 << 60):
        code = 214
    if code:
        raise CUDARuntimeError(code)


def apply_faults():
    for offset, and_mask, or_mask in SCENARIO.get("stuck", ()):
        _arena[offset] = _arena[offset] & and_mask | or_mask
    for one, other in SCENARIO.get("alias", ()):
        _arena[one : one + 8] = _arena[other : other + 8]


def getDeviceCount():
    check("getDeviceCount")
    return SCENARIO.get("count", 1)


def getDeviceProperties(device):
    major, minor = SCENARIO.get("compute_capability", "9.0").split(".")
    name = SCENARIO.get("name", "NVIDIA CPU")
    return {
        "name": name.encode(),
        "major": int(major),
        "minor": int(minor),
        "multiProcessorCount": 1,
        "l2CacheSize": SCENARIO.get("l2_bytes", 65536),
        "totalGlobalMem": MEMORY,
    }


def deviceGetPCIBusId(device):
    return f"0000:{device + 1:02X}:00.0"


cudaDevAttrIntegrated = 18
_current = 0


def deviceGetAttribute(attrib, device):
    assert attrib == cudaDevAttrIntegrated
    return SCENARIO.get("integrated", 0)


def getDevice():
    return _current


def setDevice(device):
    global _current
    check("setDevice")
    if not 0 <= device < getDeviceCount():
        raise CUDARuntimeError(101)
    _current = device


def deviceSynchronize():
    check("deviceSynchronize")


def memGetInfo():
    check("memGetInfo")
    return MEMORY - RESERVED - sum(_taken.values()), MEMORY


def malloc(size):
    check("malloc")
    size = -(-size // 256) * 256
    if size > SCENARIO.get("no_room_above", MEMORY):
        raise CUDARuntimeError(2)
    at = 0
    for begin, length in sorted(_taken.items()):
        if begin - at >= size:
            break
        at = begin + length
    if at + size > MEMORY - RESERVED:
        raise CUDARuntimeError(2)
    _taken[at] = size
    return _base + at


def free(pointer):
    check("free")
    if pointer:
        del _taken[pointer - _base]


def memset(pointer, value, size):
    check("memset")
    ctypes.memset(pointer, value, size)
    apply_faults()


def memcpy(dst, src, size, kind):
    check("memcpy")
    ctypes.memmove(dst, src, size)
    if kind in (memcpyHostToDevice, memcpyDeviceToDevice):
        apply_faults()


def memcpyAsync(dst, src, size, kind, stream):
    memcpy(dst, src, size, kind)


def memsetAsync(pointer, value, size, stream):
    memset(pointer, value, size)


def runtimeGetVersion():
    return 12090


def driverGetVersion():
    return 12090
