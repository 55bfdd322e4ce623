"""GPUs as NVML tells them: the worker `nvml_dump` asks in a child process and prints JSON lines.

    {"kind": "init", "code": 18, "name": "LIB_RM_VERSION_MISMATCH", "nvml_version": "12.535.309.01"}
    {"kind": "device", "index": 0, "handle": 0, "values": {"temperature_c": 34}, "errors": {"fan_pct": 3}}

An empty answer says nothing. A worker that was given up leaves the lines it had written: these are facts all the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gpudoctor.facts import Cuda, Driver, Evidence, Facts, Gpu, GpuProcess, NvLink
from gpudoctor.knowledge.nvml_codes import CODES, FIELD_FAULTS, LOST, name_of
from gpudoctor.probes.gpu_processes import with_life
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.probes.nvml_fabric import health_of_mask
from gpudoctor.probes.nvml_pairs import topology_of
from gpudoctor.probes.throttle import reasons_of_mask
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.requests import WORKER_NVML

NAME = "nvml"
GROUP = "gpus"
TIMEOUT_SECONDS = 12.0
SOURCE = "nvml"
_FLAGS = frozenset(
    {
        "persistence_mode",
        "mig_mode",
        "mig_mode_pending",
        "ecc_mode",
        "ecc_mode_pending",
        "ecc_sram_threshold_exceeded",
        "retired_pages_pending",
        "remapped_rows_pending",
        "remapped_rows_failure",
        "channel_repair_pending",
        "tpc_repair_pending",
        "memory_unrepairable",
        "reset_required",
        "drain_and_reset_recommended",
        "display_active",
    }
)
# Values that only help to make another fact.
_INGREDIENTS = frozenset(
    {
        "throttle_mask",
        "processes",
        "nvlinks",
        "fabric_status_code",
        "fabric_health_mask",
        "temperature_shutdown_margin_c",
        "temperature_slowdown_margin_c",
        "temperature_max_operating_margin_c",
        "power_limit_requested_w",
    }
)
_MOST_GPUS = 256
_GPU_FIELDS = frozenset(Gpu.__struct_fields__)


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker's lines say, by kind. `finished` is false when it was given up or crashed."""

    begin: dict[str, Any] = {}
    init: dict[str, Any] | None = None
    system: dict[str, Any] = {}
    devices: list[dict[str, Any]] = []
    pairs: list[Any] = []
    finished: bool = False


def probe(source: Source) -> Facts | None:
    """GPUs, the driver's versions and NVML's error, if any."""
    answer = source.run(*WORKER_NVML, timeout=TIMEOUT_SECONDS)
    facts = facts_of(answer)
    if facts is None or not facts.gpus:
        return facts
    return msgspec.structs.replace(facts, gpus=[with_life(source, gpu) for gpu in facts.gpus])


def facts_of(answer: CommandAnswer) -> Facts | None:
    """The facts of a worker's answer; None when it holds none."""
    if answer.status not in (Status.OK, Status.FAILED, Status.TIMEOUT):
        return None
    dump = parse_dump(answer.stdout)
    timed_out = answer.status is Status.TIMEOUT and dump.init is None
    if dump.init is None and not timed_out:
        return None
    driver = driver_of(dump, timed_out)
    cuda = _cuda_of(dump)
    gpus = gpus_of(dump, _cut_short(answer)) if dump.init and dump.init.get("code") == 0 else None
    return Facts(gpus=gpus, driver=driver, cuda=cuda, topology=topology_of(dump.pairs) if gpus else None)


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
    values = _map(dump.system.get("values"))
    init = dump.init or {}
    known: dict[str, Any] = {}
    evidence: dict[str, Evidence] = {}

    def note(name: str, value: object, text: str) -> None:
        known[name] = value
        evidence[name] = Evidence(source=SOURCE, text=text)

    if version := _text(values.get("driver_version")):
        note("version", version, f"driver version {version}")
    if library := _text(values.get("nvml_version")) or _text(init.get("nvml_version")):
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


def _cuda_of(dump: Dump) -> Cuda | None:
    number = _map(dump.system.get("values")).get("cuda_driver_version")
    if not isinstance(number, int) or number <= 0:
        return None
    version = f"{number // 1000}.{number % 1000 // 10}"
    evidence = {"driver_cuda_version": Evidence(source=SOURCE, text=f"the driver runs CUDA up to {version}")}
    return Cuda(driver_cuda_version=version, evidence=evidence)


def _cut_short(answer: CommandAnswer) -> tuple[str, str]:
    """Why GPUs may be missing in an unfinished dump: the error's name, and words."""
    if answer.status is Status.TIMEOUT:
        return "TIMEOUT", f"NVML gave no answer in {answer.seconds:.0f} s"
    signal = f" by signal {-answer.exit_code}" if answer.exit_code is not None and answer.exit_code < 0 else ""
    return "CRASHED", f"asking NVML was ended{signal}"


def gpus_of(dump: Dump, cut_short: tuple[str, str] = ("TIMEOUT", "the dump ends early")) -> list[Gpu] | None:
    """One entry a device, also for those that gave no handle or were not reached. None when even their number is not known."""
    count = _map(dump.system.get("values")).get("device_count")
    if not isinstance(count, int):
        return [gpu_of(device) for device in dump.devices] or None
    answered = {device["index"]: device for device in dump.devices}
    fault, words = cut_short
    return [
        gpu_of(answered[index]) if index in answered else _without_answer(index, fault, f"GPU {index}: {words}")
        for index in range(min(count, _MOST_GPUS))
    ]


def _without_answer(index: int, fault: str, words: str) -> Gpu:
    quoted = Evidence(source=SOURCE, text=words)
    return Gpu(index=index, errors={"handle": fault}, evidence={"": quoted, "errors": quoted})


def gpu_of(device: dict[str, Any]) -> Gpu:
    """One GPU of a device line."""
    index = device["index"]
    handle = device.get("handle")
    if handle:
        name = name_of(handle) if isinstance(handle, int) else "UNKNOWN"
        words = f"GPU {index}: no handle: {name} ({handle})"
        return Gpu(
            index=index,
            lost=name in LOST or None,
            reset_required=True if name == "RESET_REQUIRED" else None,
            errors={"handle": name},
            evidence={key: Evidence(source=SOURCE, text=words) for key in ("", "lost", "errors", "reset_required")},
        )
    values = _map(device.get("values"))
    known = {name: _typed(name, value) for name, value in values.items() if name in _GPU_FIELDS - _INGREDIENTS}
    known |= _made(values)
    errors = _faults(_map(device.get("errors")))
    evidence = {name: Evidence(source=SOURCE, text=f"{name} = {_said(value)}") for name, value in known.items()}
    for name, fault in errors.items():
        evidence[name] = Evidence(source=SOURCE, text=f"{name}: {fault} ({CODES.get(fault, '?')})")
    if errors:
        first = next(iter(errors))
        evidence["errors"] = evidence[first]
    if values or errors:
        lost = "GPU_IS_LOST" in errors.values()
        known["lost"] = lost
        if lost:
            text = f"GPU {index}: {sum(e == 'GPU_IS_LOST' for e in errors.values())} fields answer GPU_IS_LOST (15)"
            evidence["lost"] = evidence[""] = Evidence(source=SOURCE, text=text)
    if "RESET_REQUIRED" in errors.values():
        known["reset_required"] = True
        evidence["reset_required"] = Evidence(source=SOURCE, text=f"GPU {index} answers RESET_REQUIRED (16)")
    if "CORRUPTED_INFOROM" in errors.values():
        known["inforom_corrupted"] = True
    return Gpu(index=index, errors=errors, evidence=evidence, **{k: v for k, v in known.items() if v is not None})


def _typed(name: str, value: Any) -> Any:
    if name == "bdf":
        return normal_bdf(value) or value
    if name in _FLAGS and isinstance(value, int):
        return bool(value)
    return value


def _made(values: dict[str, Any]) -> dict[str, Any]:
    """Facts that are made of several values or of a mask."""
    made: dict[str, Any] = {}
    if isinstance(mask := values.get("throttle_mask"), int):
        made["throttle_reasons"] = reasons_of_mask(mask)
    if isinstance(processes := values.get("processes"), list):
        made["processes"] = [_process(item) for item in processes if isinstance(item, dict) and "pid" in item]
    if isinstance(links := values.get("nvlinks"), list) and links:
        made["nvlinks"] = [_link(item) for item in links if isinstance(item, dict) and "link" in item]
    if isinstance(code := values.get("fabric_status_code"), int):
        made["fabric_status"] = "success" if code == 0 else name_of(code)
    if isinstance(mask := values.get("fabric_health_mask"), int) and values.get("fabric_health") is None:
        made["fabric_health"] = health_of_mask(mask)
    made |= _limits(values)
    return made


def _limits(values: dict[str, Any]) -> dict[str, int]:
    """Temperature limits of GPUs that tell margins: limit = temperature + margin - offset (offsets are 0 or negative)."""
    now, margin = values.get("temperature_c"), values.get("temperature_margin_c")
    if not isinstance(now, int) or not isinstance(margin, int):
        return {}
    limits: dict[str, int] = {}
    for name in ("temperature_shutdown", "temperature_slowdown", "temperature_max_operating"):
        offset = values.get(f"{name}_margin_c")
        if isinstance(offset, int) and not isinstance(values.get(f"{name}_c"), int):
            limits[f"{name}_c"] = now + margin - offset
    return limits


def _faults(codes: dict[str, Any]) -> dict[str, str]:
    named = {name: name_of(code) for name, code in codes.items() if isinstance(code, int)}
    return {name: fault for name, fault in named.items() if fault in FIELD_FAULTS and name in _GPU_FIELDS}


def _process(item: dict[str, Any]) -> GpuProcess:
    name = _text(item.get("name"))
    return GpuProcess(
        pid=int(item["pid"]),
        name=None if name in (None, "[Not Found]") else name,
        kind=item.get("kind"),
        memory_used_mib=item.get("memory_used_mib"),
    )


def _link(item: dict[str, Any]) -> NvLink:
    known = {name: item[name] for name in NvLink.__struct_fields__ if name in item and name != "evidence"}
    if isinstance(known.get("remote"), str):
        known["remote"] = normal_bdf(known["remote"]) or known["remote"]
    return NvLink(**known)


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list):
        return (
            f"{len(value)} entries"
            if value and not isinstance(value[0], str)
            else ", ".join(map(str, value)) or "none"
        )
    return str(value)


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
