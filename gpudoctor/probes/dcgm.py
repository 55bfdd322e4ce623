"""DCGM's own answers, where somebody brought them: `dcgmi diag` and `dcgmi discovery -l`. Never run by us."""

from __future__ import annotations

import re
from typing import Any

from gpudoctor.facts import Dcgm, DcgmResult, Driver, Evidence, Facts, Gpu
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import said
from gpudoctor.probes.collect import quote
from gpudoctor.sources.answers import CommandAnswer, Source
from gpudoctor.sources.requests import DCGMI_DIAG, DCGMI_DISCOVERY

NAME = "dcgm"

# | GPU Memory                | Fail - GPU: 0                                  |
_ROW = Lazy(r"^\s*\|\s?(?P<test>[^|]*?)\s*\|\s?(?P<result>.*?)\|?\s*$")
_SECTION = Lazy(r"-{3,}")
_GPUS = Lazy(r"GPUs?:?\s*([\d, ]+)")
_GPU_ROW = Lazy(r"^\s*\|\s*(\d*)\s*\|\s*(Name|PCI Bus ID|Device UUID): (\S.*?)\s*\|")
_FOUND = Lazy(r"^\s*(\d+) GPUs? found\.")


def probe(source: Source) -> Facts | None:
    """Results of a DCGM diagnostic, GPUs of its discovery, and the driver version it names; None when there is none."""
    if source.kind == "live":
        return None
    diag, discovery = source.run(*DCGMI_DIAG), source.run(*DCGMI_DISCOVERY)
    results = _results(diag) if said(diag) else []
    fields = {r.test: r.result for r in results}
    count = parse_discovery(discovery) if said(discovery) else None
    if not results and count is None:
        return None
    found = Dcgm(
        version=fields.get("DCGM Version"),
        driver_version=fields.get("Driver Version Detected"),
        results=results or None,
        gpu_count=count[0] if count else None,
        evidence={"gpu_count": count[1]} if count else {},
    )
    driver = Driver(version=found.driver_version) if found.driver_version else None
    return Facts(dcgm=found, driver=driver, gpus=parse_discovered(discovery) or None)


def _results(diag: CommandAnswer) -> list[DcgmResult]:
    from gpudoctor.probes.dcgm_json import parse_json

    return parse_json(diag) or parse_diag(diag)


def parse_diag(answer: CommandAnswer) -> list[DcgmResult]:
    """Rows of the diagnostic's table; a cell that goes on in the next row is joined."""
    rows: list[tuple[str, str, int]] = []
    for index, line in enumerate(answer.stdout.splitlines()):
        match = _ROW.match(line)
        if match is None or _SECTION.search(line):
            continue
        test, result = match["test"].strip(), match["result"]
        if test in ("Diagnostic", ""):
            if not test and rows and rows[-1][0]:
                rows.append(_continued(rows, result, index))
            continue
        rows.append((test, result, index))
    return [_result(answer, *row) for row in rows if row[0]]


def _continued(rows: list[tuple[str, str, int]], result: str, index: int) -> tuple[str, str, int]:
    test, before, first = rows.pop()
    if re.match(r"\s*(Pass|Fail|Warn|Skip)", result):  # one line per outcome: both stand
        rows.append((test, before, first))
        return test, result, index
    return test, before.rstrip() + result.rstrip(), first  # a cut at a space leaves it in the next row


def _result(answer: CommandAnswer, test: str, words: str, index: int) -> DcgmResult:
    words = words.strip()
    outcome = re.match(r"(Pass|Fail|Warn|Skip)\w*", words)
    gpus = _GPUS.search(words)
    return DcgmResult(
        test=test,
        result=outcome.group(1).lower() if outcome else words,
        gpus=[int(n) for n in re.findall(r"\d+", gpus.group(1))] if gpus else None,
        message=None if outcome and outcome.end() == len(words) else words,
        evidence={"": quote(answer, index)},
    )


def parse_discovery(answer: CommandAnswer) -> tuple[int, Evidence] | None:
    """`7 GPUs found.`"""
    for index, line in enumerate(answer.stdout.splitlines()):
        match = _FOUND.match(line)
        if match:
            return int(match.group(1)), quote(answer, index)
    return None


def parse_discovered(answer: CommandAnswer) -> list[Gpu]:
    """| 0      | Name: NVIDIA B300 SXM6 AC | and the PCI bus and UUID rows below it."""
    found: list[dict[str, Any]] = []
    for index, line in enumerate(answer.stdout.splitlines() if said(answer) else []):
        match = _GPU_ROW.match(line)
        if match is None:
            continue
        number, key, value = match.groups()
        if key == "Name" and number:
            found.append({"index": int(number), "name": value, "evidence": {"": quote(answer, index)}})
        elif found and key == "PCI Bus ID":
            found[-1]["bdf"] = value.lower()[-12:]
        elif found and key == "Device UUID":
            found[-1]["uuid"] = value
    return [Gpu(**one) for one in found]
