"""Prints all that NVML tells of this machine's GPUs, as JSON lines: `begin`, `init`, `system`, one `device` a GPU, `pairs`, `end`.

Runs as a child process, so that a driver that hangs or a library that crashes costs this process only. Each line is
written as soon as it is known: what was read before a hang is still there. Every GPU is read in a thread of its own, so a
GPU that does not answer is reported with TIMEOUT and does not hide the others.

    python -m gpudoctor.workers.nvml_dump [--seconds N]      (N: how long GPUs may take after init; 8)
"""

from __future__ import annotations

import ctypes
import json
import os
import queue
import sys
import threading
import time
from typing import Any

from gpudoctor.knowledge.nvml_codes import name_of
from gpudoctor.workers.nvml_binding import LIBRARY, UNKNOWN, Binding, Library, NvmlCode, as_text, choose
from gpudoctor.workers.nvml_pairs import MOST_GPUS, read_pairs
from gpudoctor.workers.nvml_readings import read_device

DEVICE_SECONDS = 8.0
PAIR_SECONDS = 2.0
SCHEMA = 1


def emit(kind: str, **values: Any) -> None:
    """One line of output, written at once."""
    line = json.dumps({"kind": kind, **values}, ensure_ascii=True) + "\n"
    sys.stdout.write(line)
    sys.stdout.flush()


def library_version() -> str | None:
    """The library's own version, which it tells without a driver; "12.535.183.01" has NVML's API number before it."""
    try:
        function = ctypes.CDLL(LIBRARY).nvmlSystemGetNVMLVersion
    except (OSError, AttributeError):
        return None
    buffer = ctypes.create_string_buffer(80)
    return None if function(buffer, ctypes.c_uint(80)) else as_text(buffer.value)


def start(binding: Binding) -> Library | None:
    """Initialises NVML and reports how that went."""
    try:
        binding.module.nvmlInit()
    except binding.module.NVMLError as error:
        code = int(getattr(error, "value", UNKNOWN))
        emit("init", code=code, name=name_of(code), text=as_text(error), nvml_version=library_version())
        return None
    except Exception as error:
        words = f"{type(error).__name__}: {error}"[:300]
        emit("init", code=None, name=None, text=words, nvml_version=library_version())
        return None
    emit("init", code=0, name="SUCCESS", text="")
    return Library(binding.module)


def describe_system(nvml: Library) -> int:
    """Reports versions and the number of devices, and returns that."""
    values: dict[str, Any] = {}
    codes: dict[str, int] = {}
    for name, function in (
        ("driver_version", "nvmlSystemGetDriverVersion"),
        ("nvml_version", "nvmlSystemGetNVMLVersion"),
    ):
        try:
            values[name] = nvml.text(function)
        except NvmlCode as error:
            codes[name] = error.code
    for function in ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"):
        try:
            values["cuda_driver_version"] = nvml.number(function)
            break
        except NvmlCode as error:
            codes["cuda_driver_version"] = error.code
    count = 0
    try:
        count = values["device_count"] = int(nvml.ask("nvmlDeviceGetCount"))
    except NvmlCode as error:
        codes["device_count"] = error.code
    emit("system", values=values, errors=codes)
    return count


def describe_device(nvml: Library, index: int) -> dict[str, Any]:
    """One GPU: its values, or the code with which its handle was refused."""
    try:
        handle = nvml.ask("nvmlDeviceGetHandleByIndex", index)
    except NvmlCode as error:
        return {"index": index, "handle": error.code}
    values, codes, broken = read_device(nvml, handle)
    return {"index": index, "handle": 0, "values": values, "errors": codes, "broken": broken}


def describe_pairs(nvml: Library, count: int) -> None:
    """Reports how the GPUs see each other, if that comes soon."""
    done: queue.SimpleQueue[list[dict[str, Any]]] = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put(read_pairs(nvml, count))
        except Exception:
            done.put([])

    threading.Thread(target=work, daemon=True).start()
    try:
        pairs = done.get(timeout=PAIR_SECONDS)
    except queue.Empty:
        return
    if pairs:
        emit("pairs", pairs=pairs)


def describe_devices(nvml: Library, count: int, seconds: float) -> bool:
    """Reports each GPU when it has answered, and at the end those that have not; true when all have, with a handle.

    One GPU after the other: but when one keeps silent, the next is begun beside it.
    """
    done: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def work(index: int) -> None:
        try:
            done.put(describe_device(nvml, index))
        except Exception as error:
            done.put({"index": index, "handle": None, "broken": {"handle": f"{type(error).__name__}: {error}"[:200]}})

    waiting: set[int] = set()
    without_handle: list[int] = []

    def collect(until: float) -> None:
        """Reports answers until one came, or until that time."""
        try:
            answer = done.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            return
        waiting.discard(answer["index"])
        if answer["handle"] != 0:
            without_handle.append(answer["index"])
        emit("device", **answer)

    deadline = time.monotonic() + seconds
    patience = seconds / 8
    for index in range(count):
        waiting.add(index)
        threading.Thread(target=work, args=(index,), daemon=True).start()
        until = min(deadline, time.monotonic() + patience)
        while index in waiting and time.monotonic() < until:
            collect(until)
    while waiting and time.monotonic() < deadline:
        collect(deadline)
    for index in sorted(waiting):
        emit("device", index=index, handle=10)  # TIMEOUT
    return not waiting and not without_handle


def main(arguments: list[str]) -> int:
    seconds = float(arguments[arguments.index("--seconds") + 1]) if "--seconds" in arguments else DEVICE_SECONDS
    binding, problems = choose()
    emit(
        "begin",
        schema=SCHEMA,
        binding=binding.name if binding else None,
        binding_path=binding.path if binding else None,
        binding_problems=problems,
    )
    if binding is None:
        return 1
    nvml = start(binding)
    if nvml is not None:
        count = describe_system(nvml)
        if describe_devices(nvml, count, seconds) and 1 < count <= MOST_GPUS:
            describe_pairs(nvml, count)
    emit("end")
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # a thread that hangs in the driver must not hold up the end
