"""The lines of the worker `nvml_dump`, and what they say of the driver and of CUDA."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudoctor.facts import Cuda, Driver, Evidence
from gpudoctor.knowledge.nvml_codes import name_of

SOURCE = "nvml"


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker's lines say, by kind. `finished` is false when it was given up or crashed."""

    begin: dict[str, Any] = {}
    init: dict[str, Any] | None = None
    system: dict[str, Any] = {}
    devices: list[dict[str, Any]] = []
    pairs: list[Any] = []
    finished: bool = False


def parse_dump(text: str) -> Dump:
    """The worker's lines. Damaged or unknown lines are passed over."""
    import json

    found: dict[str, Any] = {}
    devices: dict[int, dict[str, Any]] = {}
    for line in text.splitlines():
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(item, dict):
            continue
        if item.get("kind") == "device" and isinstance(item.get("index"), int):
            devices[item["index"]] = item
        elif item.get("kind") == "pairs" and isinstance(item.get("pairs"), list):
            found["pairs"] = item["pairs"]
        elif item.get("kind") in ("begin", "init", "system", "end"):
            found[item["kind"]] = item
    return Dump(
        begin=found.get("begin", {}),
        init=found.get("init"),
        system=found.get("system", {}),
        devices=[devices[index] for index in sorted(devices)],
        pairs=found.get("pairs", []),
        finished="end" in found,
    )


def driver_of(dump: Dump, timed_out: bool) -> Driver | None:
    """Versions, and how NVML's start went."""
    values = mapping(dump.system.get("values"))
    init = dump.init or {}
    known: dict[str, Any] = {}
    evidence: dict[str, Evidence] = {}

    def note(name: str, value: object, text: str) -> None:
        known[name] = value
        evidence[name] = Evidence(source=SOURCE, text=text)

    if version := stripped(values.get("driver_version")):
        note("version", version, f"driver version {version}")
    if library := stripped(values.get("nvml_version")) or stripped(init.get("nvml_version")):
        version = _without_api_number(library)
        note("library_version", version, f"NVML library version {version}")
    code = init.get("code")
    if isinstance(code, int) and code:
        words = f"nvmlInit: {init.get('text') or name_of(code)} ({name_of(code)}, {code})"
        note("nvml_error", name_of(code), words)
        note("nvml_error_code", code, words)
    if timed_out:
        note("nvml_timed_out", True, "nvmlInit did not return in time")
    elif dump.init is not None:
        known["nvml_timed_out"] = False
    return Driver(**known, evidence=evidence) if known else None


def _without_api_number(version: str) -> str:
    """ "535.183.01" of "12.535.183.01": NVML puts the number of its interface first."""
    first, _, rest = version.partition(".")
    return rest if len(first) <= 2 and rest.count(".") >= 1 else version


def cuda_of(dump: Dump) -> Cuda | None:
    """The CUDA version that the driver runs."""
    number = mapping(dump.system.get("values")).get("cuda_driver_version")
    if not isinstance(number, int) or number <= 0:
        return None
    version = f"{number // 1000}.{number % 1000 // 10}"
    evidence = {"driver_cuda_version": Evidence(source=SOURCE, text=f"the driver runs CUDA up to {version}")}
    return Cuda(driver_cuda_version=version, evidence=evidence)


def stripped(value: Any) -> str | None:
    """A text without blanks around it; None for anything else, and for an empty one."""
    return value.strip() or None if isinstance(value, str) else None


def mapping(value: Any) -> dict[str, Any]:
    """An object of the worker's JSON; empty for anything else."""
    return value if isinstance(value, dict) else {}
