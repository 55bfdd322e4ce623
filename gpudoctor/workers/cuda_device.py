"""What active tests share on the GPU: CuPy, the visible devices, memory, compiled kernels, and timing by events.

Only CuPy's low-level bindings are used: they need no headers, compile nothing behind our back, and write no cache.
Pointers and counts are passed to kernels as Python integers, which CuPy hands over as 64-bit values.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import os
import re
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any, NamedTuple

from gpudoctor.workers.bench_lines import Device, Error
from gpudoctor.workers.cuda_errors import WorkerError, is_out_of_memory

Pointer = int


class Cuda:
    """CuPy's modules, loaded. Raises WorkerError when CuPy is not installed or does not load."""

    def __init__(self) -> None:
        # A diagnosis leaves nothing behind: neither CuPy's nor the driver's cache of compiled kernels.
        os.environ.setdefault("CUPY_CACHE_IN_MEMORY", "1")
        os.environ.setdefault("CUDA_CACHE_DISABLE", "1")
        # Copies on stream 0 and events on the current stream must be on the same one.
        os.environ.pop("CUPY_CUDA_PER_THREAD_DEFAULT_STREAM", None)
        # Left-over settings of debugging would be measured instead of the GPU.
        for name in ("CUDA_LAUNCH_BLOCKING", "NVIDIA_TF32_OVERRIDE"):
            os.environ.pop(name, None)
        try:
            self.cupy: Any = importlib.import_module("cupy")
            self.runtime: Any = importlib.import_module("cupy_backends.cuda.api.runtime")
            self.function: Any = importlib.import_module("cupy.cuda.function")
        except Exception as error:  # a broken installation may fail with anything
            text = str(error).strip()[:2000].encode("utf-8", "replace").decode() or type(error).__name__
            if isinstance(error, ModuleNotFoundError) and error.name == "cupy":
                text += f"; install it with: pip install 'gpudoctor[cuda{cuda_major()}]'"
            raise WorkerError(
                Error(api="cupy", message=text, name=type(error).__name__, where="loading CuPy")
            ) from error
        if getattr(self.runtime, "is_hip", False):
            raise WorkerError(
                Error(api="cupy", message="this CuPy is built for ROCm, not for CUDA", where="loading CuPy")
            )

    @property
    def version(self) -> str:
        return str(self.cupy.__version__)

    def versions(self) -> tuple[int | None, int | None]:
        """Of the CUDA runtime and of the driver, as 12090; None where the call fails."""
        found: list[int | None] = []
        for ask in (self.runtime.runtimeGetVersion, self.runtime.driverGetVersion):
            try:
                found.append(int(ask()))
            except Exception:
                found.append(None)
        return found[0], found[1]

    def device_count(self) -> int:
        """Raises CuPy's CUDARuntimeError when CUDA does not answer."""
        return int(self.runtime.getDeviceCount())

    def describe(self, ordinal: int) -> Device:
        """One visible device; makes it the current one. Free memory is None when no context can be made on it."""
        properties = self.runtime.getDeviceProperties(ordinal)
        name = _text(properties.get("name"))
        free = total = None
        with contextlib.suppress(Exception):
            self.runtime.setDevice(ordinal)
            free, total = (int(number) for number in self.runtime.memGetInfo())
        try:
            bdf = _text(self.runtime.deviceGetPCIBusId(ordinal))
        except Exception:
            bdf = None
        return Device(
            ordinal=ordinal,
            name=name,
            bdf=bdf.lower() if bdf else None,
            uuid=_uuid_of(ordinal, mig=" MIG " in (name or "")),
            compute_capability=f"{properties['major']}.{properties['minor']}",
            multiprocessors=properties.get("multiProcessorCount") or None,
            l2_bytes=properties.get("l2CacheSize") or None,
            memory_total_bytes=properties.get("totalGlobalMem") or total,
            memory_free_bytes=free,
        )

    def open_device(self, ordinal: int) -> None:
        """Makes a device the current one, with a context: the first call of a test on it. Raises CUDARuntimeError."""
        self.runtime.setDevice(ordinal)
        self.runtime.free(0)
        self.runtime.deviceSynchronize()

    def free_bytes(self) -> int:
        """Memory of the current device that a test may take: all that is free, or half where it is also the machine's."""
        free = int(self.runtime.memGetInfo()[0])
        integrated = 0
        with contextlib.suppress(Exception):  # an old CuPy may not know the attribute
            integrated = self.runtime.deviceGetAttribute(self.runtime.cudaDevAttrIntegrated, self.runtime.getDevice())
        return free // 2 if integrated else free

    @contextlib.contextmanager
    def memory(self, size: int) -> Iterator[Pointer]:
        """`size` bytes on the current device, freed at the end. Raises CUDARuntimeError (code 2: no room)."""
        pointer = int(self.runtime.malloc(size))
        try:
            yield pointer
        finally:
            self._free(pointer)

    @contextlib.contextmanager
    def memory_at_most(self, size: int, smallest: int, multiple: int = 1 << 20) -> Iterator[tuple[Pointer, int]]:
        """Like `memory`, but takes less, down to `smallest`, when there is no room; yields the size that it got."""
        pointer = 0
        while not pointer:
            try:
                pointer = int(self.runtime.malloc(size))
            except Exception as error:
                smaller = size * 7 // 8 // multiple * multiple
                if not is_out_of_memory(error) or smaller < smallest:
                    raise
                size = smaller
        try:
            yield pointer, size
        finally:
            self._free(pointer)

    def _free(self, pointer: Pointer) -> None:
        # After a fault on the device every call fails, and that fault is the one to report.
        with contextlib.suppress(Exception):
            self.runtime.free(pointer)

    def to_host(self, pointer: Pointer, size: int) -> bytearray:
        """A copy of device memory, once everything before it is done."""
        content = bytearray(size)
        if size:
            view = (ctypes.c_char * size).from_buffer(content)
            self.runtime.memcpy(ctypes.addressof(view), pointer, size, self.runtime.memcpyDeviceToHost)
        return content

    def to_device(self, pointer: Pointer, content: bytes) -> None:
        buffer = ctypes.create_string_buffer(content, len(content))
        self.runtime.memcpy(pointer, ctypes.addressof(buffer), len(content), self.runtime.memcpyHostToDevice)

    def fill(self, pointer: Pointer, byte: int, size: int) -> None:
        self.runtime.memset(pointer, byte, size)

    def synchronize(self) -> None:
        """Waits for the current device, so that a fault comes up here and not somewhere later."""
        self.runtime.deviceSynchronize()

    def compile(self, file_name: str, device: Device, options: tuple[str, ...] = ()) -> Kernels:
        """A file of workers/kernels/ for `device`, which must be the current one. Raises NVRTC's and CUDA's errors."""
        binary = compile_for(kernel_source(file_name), device.compute_capability or "", file_name, options)
        module = self.function.Module()
        module.load(binary)
        return Kernels(module)

    def timed(self, work: Callable[[], None], stream: Any = None) -> float:
        """Milliseconds that `work`, launched on `stream` (default: the current one), takes on the device."""
        begin, end = self.cupy.cuda.Event(), self.cupy.cuda.Event()
        begin.record(stream)
        work()
        end.record(stream)
        end.synchronize()
        return float(self.cupy.cuda.get_elapsed_time(begin, end))


class Kernels:
    """Compiled kernels of one file, called as kernels.launch("name", blocks, threads, argument, ...)."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._functions: dict[str, Any] = {}

    def launch(self, name: str, blocks: int, threads: int, *arguments: int | float, shared_bytes: int = 0) -> None:
        """Integers become 64-bit words, floats double. Asynchronous, on the current stream."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._module.get_function(name)
        function((blocks,), (threads,), tuple(map(_signed, arguments)), shared_mem=shared_bytes)


class Timing(NamedTuple):
    """Of `repeats` runs. `spread` is (slowest - fastest) / median."""

    median_ms: float
    spread: float
    repeats: int


def summary(milliseconds: list[float], each: int = 1) -> Timing:
    """Of measured times, each of `each` runs in a row."""
    times = sorted(time_ms / each for time_ms in milliseconds)
    median = statistics.median(times)
    return Timing(median, (times[-1] - times[0]) / median if median > 0 else 0.0, len(times))


def measure(
    cuda: Cuda,
    work: Callable[[], None],
    *,
    repeats: int = 9,
    warm_up: int = 2,
    at_least_ms: float = 1.0,
    budget_s: float = 1.0,
) -> Timing:
    """Median over `repeats` after `warm_up` runs.

    Work shorter than `at_least_ms` is run several times between two events, since their resolution is about half a
    microsecond. Once `budget_s` is spent no further repeat starts, but three are always made.
    """
    begun = time.monotonic()
    for _ in range(max(1, warm_up)):
        last = cuda.timed(work)
    each = max(1, min(1000, round(at_least_ms / last) if last > 0 else 1000))

    def run() -> None:
        for _ in range(each):
            work()

    times: list[float] = []
    while len(times) < repeats and (len(times) < 3 or time.monotonic() - begun < budget_s):
        times.append(cuda.timed(run))
    return summary(times, each)


def cuda_major() -> int:
    """The CUDA generation whose packages the driver can run: 13 where it can, else 12. Needs no device."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return 12
    return 13 if version.value >= 13000 else 12


def kernel_source(file_name: str) -> str:
    """The text of a file in workers/kernels/, with the texts of those that it includes put in: NVRTC sees no folder."""
    folder = resources.files("gpudoctor.workers").joinpath("kernels")
    text = folder.joinpath(file_name).read_text(encoding="utf-8")
    return re.sub(
        r'^#include "([\w.]+)"$', lambda m: folder.joinpath(m[1]).read_text(encoding="utf-8"), text, flags=re.M
    )


@functools.cache
def compile_for(source: str, compute_capability: str, file_name: str, options: tuple[str, ...] = ()) -> bytes:
    """Machine code for a device of `compute_capability` ("9.0"), by NVRTC, which needs no GPU.

    A device newer than this NVRTC gets PTX of the newest architecture that it knows, for the driver to translate.
    Raises WorkerError with NVRTC's own words, or when the device is too old for this NVRTC.
    """
    nvrtc: Any = importlib.import_module("cupy_backends.cuda.libs.nvrtc")
    wanted = int(compute_capability.replace(".", "") or 0)
    version = ".".join(map(str, nvrtc.getVersion()))
    known = sorted(int(arch) for arch in nvrtc.getSupportedArchs())
    if not known or wanted < known[0]:
        words = f"NVRTC {version} no longer compiles for compute capability {compute_capability}"
        raise WorkerError(
            Error(api="nvrtc", message=words, name="NVRTC_ERROR_INVALID_OPTION", where=f"compiling {file_name}")
        )
    best = max(arch for arch in known if arch <= wanted)
    exact = best == wanted
    program = nvrtc.createProgram(source, file_name, (), ())
    try:
        arch = f"-arch={'sm' if exact else 'compute'}_{best}"
        try:
            nvrtc.compileProgram(program, (arch, "-std=c++17", "-default-device", *options))
        except Exception as error:
            log = str(nvrtc.getProgramLog(program)).strip() or str(error)
            line = Error(
                api="nvrtc",
                message=log[:2000],
                code=getattr(error, "status", None),
                name=str(error).split(" ")[0],
                where=f"compiling {file_name} for {arch[6:]}",
            )
            raise WorkerError(line) from error
        # CuPy cuts off the last byte, taking it for the end of a string; it is 0 in either format.
        return bytes(nvrtc.getCUBIN(program) if exact else nvrtc.getPTX(program)) + b"\0"
    finally:
        nvrtc.destroyProgram(program)


def _signed(argument: int | float) -> int | float:
    """CuPy takes integers for signed: the upper half of the unsigned ones goes to the negative of the same bits."""
    return argument - 2**64 if isinstance(argument, int) and argument >= 2**63 else argument


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value).strip("\0 ") or None if value is not None else None


def _uuid_of(ordinal: int, mig: bool) -> str | None:
    """From the driver: CuPy's property breaks off at a zero byte. Under MIG the second version names the slice."""
    content = ctypes.create_string_buffer(16)
    handle = ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        get_uuid = getattr(driver, "cuDeviceGetUuid_v2", None) or driver.cuDeviceGetUuid
        if driver.cuDeviceGet(ctypes.byref(handle), ctypes.c_int(ordinal)) != 0 or get_uuid(content, handle) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return f"{'MIG' if mig else 'GPU'}-{uuid.UUID(bytes=content.raw)}"
