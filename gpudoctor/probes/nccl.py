"""NCCL: results of nccl-tests and what NCCL_DEBUG=INFO says of version, transports and interfaces."""

from __future__ import annotations

import re

from gpudoctor.facts import Evidence, Nccl, NcclRow, NcclTest
from gpudoctor.probes.ask import said
from gpudoctor.probes.collect import find_line, quote
from gpudoctor.sources.answers import CommandAnswer, Source
from gpudoctor.sources.requests import NCCL_DEBUG_LOG, NCCL_TESTS

NAME = "nccl"

_AVERAGE = re.compile(r"^\s*#\s*Avg bus bandwidth\s*:\s*([\d.]+)")
_OUT_OF_BOUNDS = re.compile(r"^\s*#\s*Out of bounds values\s*:\s*(\d+)")
_RANK = re.compile(r"^\s*#\s*Rank\s+(\d+)\s.*?(?:\bon\s+(\S+)\s+)?\bdevice\s+\d+\s+\[[^\]]*\]\s+(.*\S)")
_COLLECTIVE = re.compile(
    r"\b(all_?reduce|all_?gather|reduce_?scatter|broadcast|reduce|alltoall|sendrecv|scatter|gather|hypercube)_perf\b"
)
_VERSION = re.compile(r"\bNCCL version (\d[\w.+]*)|\bNCCL/(\d[\d.]+)")
_NUMBER = re.compile(r"^(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|N/A|-1)$")
# Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM   and   NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>
_VIA = re.compile(r"\bvia ((?:P2P|SHM|NET|NVLS|COLLNET)(?:/[\w-]+)*)")
_USING = re.compile(r"\b(NET/\w+) : Using (.*)")
_NO_DEVICE = re.compile(r"\b(NET/\w+) : No device found")
_INTERFACE = re.compile(r"\[\d+\]([\w.\-]+):|OOB ([\w.\-]+):")
_ENV = re.compile(r"\b(NCCL_\w+) set (?:by environment )?to (\S+?)\.?(?:\s|$)")


def probe(source: Source) -> Nccl | None:
    """Tests and debug logs that were brought; None when there are none."""
    if source.kind == "live":
        return None
    tests = source.run(*NCCL_TESTS)
    log = source.run(*NCCL_DEBUG_LOG)
    found = parse_tests(tests) if said(tests) else []
    texts = [answer for answer in (log, tests) if said(answer)]
    if not texts:
        return None
    environment = {name: value for answer in texts for name, value in _ENV.findall(answer.stdout)}
    version, quoted = _version(texts)
    return Nccl(
        version=version,
        tests=found or None,
        transports=_unique(_transports(texts)),
        interfaces=_unique(name for answer in texts for name in _interfaces(answer)),
        env=environment or None,
        evidence=_evidence(texts) | ({"version": quoted} if quoted else {}),
    )


def _unique(names: object) -> list[str] | None:
    return list(dict.fromkeys(names)) or None  # type: ignore[call-overload]


def _version(texts: list[CommandAnswer]) -> tuple[str | None, Evidence | None]:
    for answer in texts:
        match = _VERSION.search(answer.stdout)
        if match:
            index = answer.stdout.count("\n", 0, match.start())
            return match.group(1) or match.group(2), quote(answer, index)
    return None, None


def _transports(texts: list[CommandAnswer]) -> list[str]:
    found = []
    for answer in texts:
        found += _VIA.findall(answer.stdout) + [name for name, _ in _USING.findall(answer.stdout)]
    return found


def _interfaces(answer: CommandAnswer) -> list[str]:
    lines = [rest for _, rest in _USING.findall(answer.stdout)]
    return [first or second for line in lines for first, second in _INTERFACE.findall(line)]


def _evidence(texts: list[CommandAnswer]) -> dict[str, Evidence]:
    for answer in texts:
        for needle in (": Using ", " via "):
            if (index := find_line(answer.stdout, needle)) is not None:
                quoted = quote(answer, index)
                return {"transports": quoted, "interfaces": quoted}
    return {}


def parse_tests(answer: CommandAnswer) -> list[NcclTest]:
    """nccl-tests output of any vintage (with or without root, #wrong or error columns); several runs in one text."""
    tests: list[NcclTest] = []
    rows: list[NcclRow] = []
    devices: list[str] = []
    hosts: set[str] = set()
    ranks, collective, wrong, average, average_line = None, None, None, None, None

    def finish() -> None:
        nonlocal rows, devices, hosts, ranks, wrong, average, average_line
        if rows or average is not None:
            quoted: dict[str, Evidence] = {}
            if average_line is not None:
                quoted = {"": quote(answer, average_line)}
            tests.append(
                NcclTest(
                    collective=collective,
                    ranks=ranks,
                    nodes=len(hosts) or None,
                    rows=rows or None,
                    avg_busbw_gbps=average,
                    out_of_bounds=wrong,
                    version=_version([answer])[0],
                    devices=devices or None,
                    evidence=quoted,
                )
            )
        rows, devices, hosts, ranks, wrong, average, average_line = [], [], set(), None, None, None, None

    for index, line in enumerate(answer.stdout.splitlines()):
        if match := _COLLECTIVE.search(line):
            collective = match.group(1).replace("_", "")
        if "# nThread" in line:
            finish()
        if match := _RANK.match(line):
            ranks = max(ranks or 0, int(match.group(1)) + 1)
            hosts |= {match.group(2)} if match.group(2) else set()
            devices.append(match.group(3))
        elif match := _OUT_OF_BOUNDS.match(line):
            wrong = int(match.group(1))
        elif match := _AVERAGE.match(line):
            average, average_line = float(match.group(1)), index
            finish()
        elif (row := parse_row(line)) is not None:
            rows.append(row)
    finish()
    return tests


def parse_row(line: str) -> NcclRow | None:
    """`size count type redop [root] time algbw busbw wrong time algbw busbw wrong`, possibly behind a `[1,0]<stdout>:` prefix.

    The slower of out-of-place and in-place would hide which was measured: out-of-place is kept. Bandwidth in GB/s, time in us.
    """
    words = re.sub(r"^\[\d+,\d+\]<std\w+>:?", "", line).split()
    if len(words) < 11 or not (words[0].isdigit() and words[1].isdigit()) or words[2].isdigit():
        return None
    tail = [w for w in words[3:] if _NUMBER.match(w)]
    if len(tail) not in (8, 9):
        return None
    time, algorithm, bus, wrong = tail[-8:-4]
    try:
        return NcclRow(
            size_bytes=int(words[0]),
            count=int(words[1]),
            dtype=words[2],
            time_us=float(time),
            algbw_gbps=float(algorithm),
            busbw_gbps=float(bus),
            errors=None if wrong == "N/A" else int(float(wrong)),
        )
    except ValueError:
        return None
