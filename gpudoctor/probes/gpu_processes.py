"""Whether the processes that hold a GPU still live, and whose they are. Process numbers mean something in the host's namespace only."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Gpu, GpuProcess
from gpudoctor.lazy import Lazy
from gpudoctor.sources.answers import Source, Status

_UID = Lazy(r"^Uid:\s+(\d+)", re.MULTILINE)
_CPUS = Lazy(r"^Cpus_allowed_list:\s+([\d,-]+)", re.MULTILINE)
_LIMIT = 64  # processes looked at per GPU


def with_life(source: Source, gpu: Gpu) -> Gpu:
    """The GPU with `alive`, `user` (a UID) and `cpus_allowed` of its processes filled in, where this machine's /proc tells them."""
    if not gpu.processes or source.kind not in ("live", "recording") or not _sees_host_processes(source):
        return gpu
    processes = [_looked_up(source, process) for process in gpu.processes[:_LIMIT]]
    return msgspec.structs.replace(gpu, processes=processes + gpu.processes[_LIMIT:])


def _sees_host_processes(source: Source) -> bool:
    """PID 2 is the kernel's thread daemon in the first PID namespace and nowhere else."""
    answer = source.read("/proc/2/comm")
    return answer.status is Status.OK and answer.text.strip() == "kthreadd"


def _looked_up(source: Source, process: GpuProcess) -> GpuProcess:
    answer = source.read(f"/proc/{process.pid}/status")
    if answer.status is Status.NOT_FOUND:
        return msgspec.structs.replace(process, alive=False)
    if answer.status is not Status.OK:
        return process
    uid = _UID.search(answer.text)
    cpus = _CPUS.search(answer.text)
    # the number, not the name: a recording must not carry the machine's account list
    return msgspec.structs.replace(
        process, alive=True, user=uid[1] if uid else None, cpus_allowed=cpus[1] if cpus else None
    )
