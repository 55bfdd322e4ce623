"""The `device` lines of the worker `nvml_dump` as GPUs."""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Evidence, Gpu, GpuProcess, NvLink
from gpudoctor.knowledge.nvml_codes import CODES, FIELD_FAULTS, LOST, name_of
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.probes.nvml_answer import SOURCE, Dump, mapping, stripped
from gpudoctor.probes.nvml_fabric import health_of_mask
from gpudoctor.probes.throttle import reasons_of_mask

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


def gpus_of(dump: Dump, cut_short: tuple[str, str] = ("TIMEOUT", "the dump ends early")) -> list[Gpu] | None:
    """One entry a device, also for those that gave no handle or were not reached. None when even their number is not known."""
    count = mapping(dump.system.get("values")).get("device_count")
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
    values = mapping(device.get("values"))
    known = {name: _typed(name, value) for name, value in values.items() if name in _GPU_FIELDS - _INGREDIENTS}
    known |= _made(values)
    errors = _faults(mapping(device.get("errors")))
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
    name = stripped(item.get("name"))
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
