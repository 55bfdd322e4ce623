"""nccl-tests, where they are installed: run on this host's GPUs, their rows as figures."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpudoctor.workers import nccl_plan
from gpudoctor.workers.bench_lines import Error, Fault, Figure, say
from gpudoctor.workers.bench_main import Work
from gpudoctor.workers.cuda_errors import WorkerError

# Of the rows' columns, after the size: count, type, [redop, [root]], then time, algbw, busbw, #wrong, twice.
_ROW = re.compile(
    r"^\s*(?P<size>\d+)\s+\d+\s+\w+(?:\s+\w+)?(?:\s+-?\d+)?"
    r"\s+[\d.]+\s+[\d.]+\s+(?P<busbw>[\d.]+)\s+(?P<wrong>\S+)\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+\S+\s*$"
)
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class Row:
    """One size, out of place. `wrong` elements are None where nccl-tests did not check."""

    size: int
    busbw: float
    wrong: int | None


def program_of(collective: str) -> str | None:
    """Where the program for a collective is installed; None when it is not."""
    return shutil.which(f"{collective}_perf")


def command(program: str, gpus: int, smallest: int, largest: int) -> list[str]:
    """https://github.com/NVIDIA/nccl-tests#arguments."""
    sizes = ["-b", str(smallest), "-e", str(largest), "-f", "4"]
    return [program, *sizes, "-g", str(gpus), "-n", "20", "-w", "5", "-c", "1"]


def parse_row(line: str) -> Row | None:
    """A row of its table; None for any other line."""
    found = _ROW.match(line)
    if found is None:
        return None
    wrong = found["wrong"]
    return Row(int(found["size"]), float(found["busbw"]), int(float(wrong)) if re.match(r"\d", wrong) else None)


@contextlib.contextmanager
def running(arguments: list[str], devices: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """The program, on the devices with these UUIDs; killed at the end if it still runs."""
    environment = {name: value for name, value in os.environ.items() if name != "NCCL_DEBUG_FILE"}
    if devices:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    # In a row, not in a session of its own: who kills this worker's group kills it as well.
    process = subprocess.Popen(
        arguments, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(5)


def lines_of(process: subprocess.Popen[bytes], check_time: Callable[[], None]) -> Iterator[str]:
    """Its output, line by line; `check_time` is called meanwhile and may raise."""
    assert process.stdout is not None
    rest = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            check_time()
            if not selector.select(_LOOK_EVERY_S):
                continue
            more = os.read(process.stdout.fileno(), 1 << 16)
            if not more:
                break
            *lines, rest = (rest + more).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
    if rest:
        yield rest.decode("utf-8", "replace")
    while process.poll() is None:
        check_time()
        time.sleep(0.02)


def run_installed(work: Work) -> bool:
    """Measures by nccl-tests; False when they are not installed."""
    programs = {name: program for name in nccl_plan.COLLECTIVES if (program := program_of(name))}
    if not programs:
        work.note("skipped", "nccl-tests are not installed (all_reduce_perf is not in PATH)")
        return False
    free = min((device.memory_free_bytes or 0 for device in work.devices), default=0)
    largest = min(nccl_plan.SIZES[-1], work.arguments.max_bytes, nccl_plan.buffer_bytes(free))
    smallest = min(largest, nccl_plan.SIZES[0])
    uuids = [device.uuid for device in work.devices if device.uuid]
    if len(uuids) < len(work.devices) or len(work.devices) == work.visible:
        uuids = []  # those that CUDA shows anyway
    for done, (collective, program) in enumerate(programs.items()):
        work.progress(done / len(programs), f"{collective}_perf")
        work.note("other", f"{collective} by {program}")
        arguments = command(program, len(work.devices), smallest, largest)
        last: list[str] = []
        with running(arguments, uuids) as process:
            for line in lines_of(process, work.check_time):
                row = parse_row(line)
                if row is None:
                    last = [*last, line.strip()][-8:]
                    continue
                say(Figure(metric=collective, value=row.busbw, unit="GB/s", size_bytes=row.size))
                if row.wrong:
                    text = f"{collective}_perf found {row.wrong} wrong elements at {row.size} bytes"
                    say(Fault(kind="wrong_result", text=text, metric=collective, count=row.wrong))
        if process.returncode != 0:
            words = "\n".join(text for text in last if text)[-1500:] or "no output"
            where = f"running {' '.join(arguments)}"
            name = f"exit {process.returncode}"
            work.failure(WorkerError(Error(api="nccl", message=words, name=name, where=where)), where)
    return True
