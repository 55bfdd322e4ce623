"""What one output of nvidia-smi tells, whatever its form."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudoctor.facts import Evidence, Gpu
from gpudoctor.knowledge.nvml_codes import LOST


class SmiReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one output of nvidia-smi tells. `gpus` is None where it tells nothing of GPUs."""

    gpus: list[Gpu] | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    library_version: str | None = None
    attached_gpus: int | None = None
    evidence: dict[str, Evidence] = {}


def refused_gpu(index: int | None, fault: str, quoted: Evidence, bdf: str | None = None) -> Gpu:
    """A GPU of which the driver tells nothing but a fault."""
    return Gpu(
        index=index,
        bdf=bdf,
        lost=fault in LOST or None,
        reset_required=True if fault == "RESET_REQUIRED" else None,
        errors={"handle": fault},
        evidence=dict.fromkeys(("", "lost", "errors", "reset_required"), quoted),
    )


def finish(index: int | None, known: dict[str, Any], errors: dict[str, str], evidence: dict[str, Evidence]) -> Gpu:
    """A GPU of what was read; fields that have a value have no error, and faults of the whole device are said as such."""
    errors = {name: fault for name, fault in errors.items() if known.get(name) is None}
    faults = set(errors.values())
    if errors:
        first = next(iter(errors))
        evidence.setdefault("errors", evidence.get(first, Evidence(source="nvidia-smi")))
    if "GPU_IS_LOST" in faults:
        known["lost"] = True
        known["processes"] = None  # an empty list of a GPU that does not answer says nothing
        evidence["lost"] = evidence[next(name for name, fault in errors.items() if fault == "GPU_IS_LOST")]
    elif known:
        known.setdefault("lost", False)
    if "RESET_REQUIRED" in faults:
        known["reset_required"] = True
    if "CORRUPTED_INFOROM" in faults:
        known["inforom_corrupted"] = True
    present = {name: value for name, value in known.items() if value is not None}
    return Gpu(index=index, errors=errors, evidence=evidence, **present)
