"""Output of nccl-tests, of any vintage: with or without the root, #wrong or error columns; several runs in one text.

# nThread 1 nGpus 8 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 ...
#  Rank  0 Group  0 Pid   1234 on node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
  8589934592    2147483648     float     sum      -1    31411  273.47  478.57      0    31402  273.55  478.71      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 197.413
"""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Evidence, NcclRow, NcclTest
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import quote
from gpudoctor.sources.answers import CommandAnswer

_AVERAGE = Lazy(r"^\s*#\s*Avg bus bandwidth\s*:\s*([\d.]+)")
_OUT_OF_BOUNDS = Lazy(r"^\s*#\s*Out of bounds values\s*:\s*(\d+)")
_RANK = Lazy(r"^\s*#\s*Rank\s+(\d+)\s.*?(?:\bon\s+(\S+)\s+)?\bdevice\s+\d+\s+\[[^\]]*\]\s+(.*\S)")
_COLLECTIVE = Lazy(
    r"\b(all_?reduce|all_?gather|reduce_?scatter|broadcast|reduce|alltoall|sendrecv|scatter|gather|hypercube)_perf\b"
)
VERSION = Lazy(r"\bNCCL version (\d[\w.+]*)|\bNCCL/(\d[\d.]+)|\bnccl-library=(\d{5})\b")
_NUMBER = Lazy(r"^(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|-1)$")
_LAUNCHER = Lazy(r"^\s*(?:\[\d+,\d+\]<std\w+>:?|\[\d+\]:?\s|\d+:\s)")  # mpirun --tag-output, pdsh-like, srun -l
_MEASURABLE_BYTES = 1 << 20  # below, rounding of the printed bandwidths hides their ratio


def parse_tests(answer: CommandAnswer) -> list[NcclTest]:
    """Every run in the text; a run that was cut short counts when it has rows."""
    runs: list[_Run] = []
    current = _Run()
    collective: str | None = None
    for index, line in enumerate(answer.stdout.splitlines()):
        if match := _COLLECTIVE.search(line):
            collective = match[1].replace("_", "")
        if "# nThread" in line and current.begun:
            runs.append(current)
            current = _Run()
        if not current.rows:
            current.collective = collective
        if current.read(line, index):
            runs.append(current)
            current = _Run()
    runs.append(current)
    return [run.result(answer) for run in runs if run.worth_telling]


class _Run:
    """One run while it is read."""

    def __init__(self) -> None:
        self.collective: str | None = None
        self.rows: list[NcclRow] = []
        self.operators: set[str] = set()
        self.devices: list[str] = []
        self.hosts: set[str] = set()
        self.ranks: int | None = None
        self.roots = 0
        self.wrong: int | None = None
        self.average: float | None = None
        self.lines: dict[str, int] = {}  # "": the largest message's, so far

    @property
    def begun(self) -> bool:
        return bool(self.rows or self.devices or self.average is not None)

    @property
    def worth_telling(self) -> bool:
        return bool(self.rows) or self.average is not None

    def read(self, line: str, index: int) -> bool:
        """Takes one line; True when it was the run's last."""
        if match := _RANK.match(line):
            self.ranks = max(self.ranks or 0, int(match[1]) + 1)
            self.roots += int(match[1]) == 0
            self.hosts |= {match[2]} if match[2] else set()
            self.devices.append(match[3])
        elif match := _OUT_OF_BOUNDS.match(line):
            self.wrong = int(match[1])
            self.lines["out_of_bounds"] = index
        elif match := _AVERAGE.match(line):
            self.average = float(match[1])
            self.lines["avg_busbw_gbps"] = index
            self.lines.setdefault("", index)
            return True
        elif (row := parse_row(line)) is not None:
            if row.size_bytes >= max((known.size_bytes for known in self.rows[-1:]), default=0):
                self.lines[""] = index
            self.rows.append(row)
            self.operators |= {word for word in line.split() if word in ("sum", "prod", "max", "min", "avg")}
        return False

    def result(self, answer: CommandAnswer) -> NcclTest:
        factor = _factor(self.rows)
        quoted: dict[str, Evidence] = {name: quote(answer, index) for name, index in self.lines.items()}
        collective, ranks = self.collective, self.ranks
        if collective is None:
            collective = _collective_of(factor, ranks, bool(self.operators))
        if ranks is None and collective == "allreduce":
            ranks = _ranks_of(factor)
        return NcclTest(
            collective=collective,
            ranks=ranks,
            nodes=len(self.hosts) or None,
            rows=self.rows or None,
            avg_busbw_gbps=self.average,
            out_of_bounds=self.wrong,
            version=version_of(answer.stdout),
            devices=self.devices or None,
            separate_runs=self.roots if self.roots > 1 else None,
            evidence=quoted,
        )


def version_of(text: str) -> str | None:
    """The library that a text names; nccl-tests since 2.17 writes it as one number (22807 is 2.28.7)."""
    match = VERSION.search(text)
    if match is None:
        return None
    if match[3]:
        number = int(match[3])
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return match[1] or match[2]


def _factor(rows: list[NcclRow]) -> float | None:
    """Bus bandwidth over algorithm bandwidth, which tells the collective when its name is not in the text."""
    for row in reversed(rows):
        if row.size_bytes >= _MEASURABLE_BYTES and row.algbw_gbps and row.busbw_gbps:
            return row.busbw_gbps / row.algbw_gbps
    return None


def _collective_of(factor: float | None, ranks: int | None, reduces: bool) -> str | None:
    """all_reduce by 2(n-1)/n, reduce_scatter by (n-1)/n and an operator; the others share their factors."""
    if factor is None or not reduces:
        return None
    if ranks is None:
        return "allreduce" if factor > 1.05 else None
    if abs(factor - 2 * (ranks - 1) / ranks) < 0.03 and ranks > 2:
        return "allreduce"
    return "reducescatter" if ranks > 2 and abs(factor - (ranks - 1) / ranks) < 0.02 else None


def _ranks_of(factor: float | None) -> int | None:
    """The ranks n of an all_reduce with the factor 2(n-1)/n; from 16 on the printed digits do not tell."""
    if factor is None or not 1 < factor < 1.88:
        return None
    return round(2 / (2 - factor))


def parse_row(line: str) -> NcclRow | None:
    """`size count type redop [root] time algbw busbw wrong time algbw busbw wrong`, possibly behind a launcher's prefix.

    Of out-of-place and in-place the former is kept. Bandwidth in GB/s, time in us.
    """
    words = _LAUNCHER.sub("", line).split()
    if len(words) < 11 or not (words[0].isdecimal() and words[1].isdecimal()) or words[2].isdecimal():
        return None
    tail = words[3:] if _NUMBER.match(words[3]) else words[4:]  # all but reductions print no operator
    if len(tail) not in (8, 9) or not all(_NUMBER.match(word) for word in tail):
        return None
    time, algorithm, bus, wrong = tail[-8:-4]
    try:
        values: dict[str, Any] = {
            "time_us": float(time),
            "algbw_gbps": float(algorithm),
            "busbw_gbps": float(bus),
            "errors": None if wrong == "N/A" else int(float(wrong)),
        }
        return NcclRow(size_bytes=int(words[0]), count=int(words[1]), dtype=words[2], **values)
    except ValueError:
        return None
