"""nvidia-smi's words as values: numbers with their units dropped, modes as booleans, and the words that mean there is none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gpudoctor.knowledge.nvml_codes import FIELD_FAULTS, WORDS
from gpudoctor.lazy import Lazy
from gpudoctor.probes.merge_gpus import normal_bdf

# Beside NVML's own words, what stands where there is no value.
_NO_VALUE = frozenset({"", "n/a", "na", "none", "not available", "unknown"})
_NUMBER = Lazy(r"-?\d+(?:\.\d+)?")
_ON = frozenset({"enabled", "on", "yes", "active", "1", "true"})
_OFF = frozenset({"disabled", "off", "no", "not active", "0", "false"})

_MOST_WATTS = 20_000.0  # ten times the largest module


def plain(text: str) -> str:
    """Lower case, without the brackets of `--query-gpu` and with single blanks."""
    return " ".join(text.strip().strip("[]").lower().split())


def fault_of(text: str) -> str | None:
    """The NVML code by name that the words stand for, when they report a fault."""
    name = WORDS.get(plain(text))
    return name if name in FIELD_FAULTS else None


def is_value(text: str) -> bool:
    """Whether the words are a value at all."""
    words = plain(text)
    return words not in _NO_VALUE and words not in WORDS


def text(value: str) -> str | None:
    return value.strip() if is_value(value) else None


def number(value: str) -> int | None:
    """The whole number that the words begin with: 34 of "34 C", 16 of "16x"."""
    match = _NUMBER.match(value.strip()) if is_value(value) else None
    return round(float(match[0])) if match else None


def decimal(value: str) -> float | None:
    match = _NUMBER.match(value.strip()) if is_value(value) else None
    return float(match[0]) if match else None


def watts(value: str) -> float | None:
    """A power; of a GPU that does not answer nvidia-smi may print whatever its memory held."""
    found = decimal(value)
    return found if found is not None and found <= _MOST_WATTS else None


def mebibytes(value: str) -> int | None:
    """MiB; nvidia-smi before 331 called them MB. GiB and KiB are converted."""
    amount = decimal(value)
    if amount is None:
        return None
    unit = value.strip().lower()
    factor = 1024.0 if unit.endswith(("gib", "gb")) else 1 / 1024 if unit.endswith(("kib", "kb")) else 1.0
    return round(amount * factor)


def flag(value: str) -> bool | None:
    word = plain(value)
    return True if word in _ON else False if word in _OFF else None


def identifier(value: str) -> str | None:
    """A serial number or version; all zeros is what virtual GPUs tell instead of one."""
    known = text(value)
    return known if known and known.strip("0.") else None


def bdf(value: str) -> str | None:
    return normal_bdf(value)


def device_id(value: str) -> str | None:
    """ "10de:20b2" of 0x20B210DE: nvidia-smi puts the device before the vendor."""
    match = re.fullmatch(r"(?:0x)?([0-9a-fA-F]{4})([0-9a-fA-F]{4})", value.strip())
    return f"{match[2]}:{match[1]}".lower() if match else None


def architecture(value: str) -> str | None:
    """The name as the facts have it: "Ada Lovelace" is ada."""
    known = text(value)
    return known.lower().split()[0] if known else None


def compute_mode(value: str) -> str | None:
    """default, exclusive_process, exclusive_thread or prohibited."""
    word = plain(value).replace("_", " ")
    if word == "default":
        return "default"
    if word in ("e. process", "exclusive process"):
        return "exclusive_process"
    if word in ("e. thread", "exclusive thread"):
        return "exclusive_thread"
    return "prohibited" if word == "prohibited" else None


def virtualization(value: str) -> str | None:
    word = plain(value).replace("-", "").replace(" ", "_")
    return {"none": "none", "passthrough": "passthrough", "vgpu": "vgpu", "host_vgpu": "host_vgpu"}.get(
        word, "host_vsga" if word == "host_vsga" else None
    )


def recovery_action(value: str) -> str | None:
    """NVML's name of the action: nvidia-smi says Reset for gpu_reset and Reboot for node_reboot."""
    word = plain(value)
    known = {
        "none": "none",
        "reset": "gpu_reset",
        "gpu reset": "gpu_reset",
        "reboot": "node_reboot",
        "node reboot": "node_reboot",
        "drain p2p": "drain_p2p",
        "drain and reset": "drain_and_reset",
        "drain p2p and reset": "drain_and_reset",
        "recover imex domain": "recover_imex_domain",
        "bus reset": "bus_reset",
        "system reboot": "system_reboot",
    }
    if word in known:
        return known[word]
    return word.replace(" ", "_") if is_value(value) else None


def snake(value: str) -> str | None:
    """Words of a state as the facts write them: "In Progress" is in_progress."""
    return plain(value).replace(" ", "_") if is_value(value) else None


def nvml_status(value: str) -> str | None:
    """As `snake`, where the words are an NVML result themselves: "Insufficient Resources" is the value, not the lack of one."""
    return plain(value).replace(" ", "_") if plain(value) not in _NO_VALUE else None


def none_or_snake(value: str) -> str | None:
    """As `snake`, where None is a state of its own."""
    return "none" if plain(value) == "none" else snake(value)


def performance_state(value: str) -> str | None:
    known = text(value)
    return known if known and re.fullmatch(r"P\d{1,2}", known) else None


Convert = Callable[[str], Any]
