"""What nvidia-smi says when it fails, and the NVML code behind the words.

    Failed to initialize NVML: Driver/library version mismatch
    NVML library version: 535.309

Words and exit codes were taken from the genuine program with each return code of nvmlInit in turn.
"""

from __future__ import annotations

import msgspec

from gpudoctor.facts import Evidence, Gpu
from gpudoctor.knowledge.nvml_codes import WORDS
from gpudoctor.lazy import Lazy
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.probes.smi_report import refused_gpu
from gpudoctor.probes.smi_values import fault_of

SOURCE = "nvidia-smi"

# Words of a failed start that are not NVML's own -> code. The first that occurs holds.
_STARTS: tuple[tuple[Lazy, str], ...] = (
    (Lazy(r"(?i)driver/library version mismatch"), "LIB_RM_VERSION_MISMATCH"),
    (Lazy(r"(?i)couldn.t communicate with the NVIDIA driver"), "DRIVER_NOT_LOADED"),
    (Lazy(r"(?i)couldn.t find libnvidia-ml\.so|could not load NVML library"), "LIBRARY_NOT_FOUND"),
)
_START = Lazy(r"Failed to (?:initialize|properly shut down) NVML:? *(?P<words>[^\n.]*)")
# WSL: the shim of the Windows driver.
_WSL = Lazy(r"(?i)GPU access blocked by the operating system")
_NO_DEVICES = Lazy(r"(?im)^\s*No devices (?:were )?found\.?\s*$")
_NOT_THERE = Lazy(
    r"(?im)^.*nvidia-smi.*(?:command not found|: not found|No such file or directory|executable file not found).*$"
    r"|^.*Command 'nvidia-smi' not found.*$"
)
# "GPU 0000:0F:00.0: Unknown Error", "GPU0000:0F:00.0: ...", "GPU1: 0000:34:00.0: ...", "GPU1: GPU is lost. ...".
_HANDLE = Lazy(
    r"Unable to determine the device handle for (?:the )?GPU\s?"
    r"(?:(?P<index>\d{1,3})(?=:\s|:$))?:?\s*(?P<bdf>(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])?"
    r":?\s*(?P<words>[^.\n]*)",
    needs=("Unable to determine the device handle",),
)
# Instead of a GPU's block or row: "Unable to determine the PCI bus id for the target device: GPU is lost".
_REFUSED = Lazy(r"Unable to determine the [^<\n]*")
_LIBRARY = Lazy(r"NVML library version:\s*(?P<version>\d[\d.]*)", needs=("NVML library version:",))
_INFOROM = Lazy(r"(?i)infoROM is corrupted at gpu\s+(?P<bdf>[0-9A-Fa-f:.]+)")


class SmiFailure(msgspec.Struct, frozen=True, kw_only=True):
    """`error` is nvidia-smi's own words; `nvml_error` the code by name; `no_devices` when it says that there are none."""

    error: str | None = None
    nvml_error: str | None = None
    library_version: str | None = None
    missing: bool = False
    no_devices: bool = False
    gpus: list[Gpu] = []
    line: int | None = None


def parse_failure(text: str, source: str = SOURCE) -> SmiFailure:
    """What of the text reports a failure; nothing set when none does."""
    gpus = [*_handles(text, source), *_inforom(text, source)]
    library = _LIBRARY.search(text)
    start = _failed_start(text)
    if start is not None:
        offset, name = start
        return SmiFailure(
            error=_sentence(text, offset),
            nvml_error=name,
            library_version=library["version"] if library else None,
            gpus=gpus,
            line=_line(text, offset),
        )
    if match := _NOT_THERE.search(text):
        return SmiFailure(error=match[0].strip()[:400], missing=True, line=_line(text, match.start()))
    no_devices = _NO_DEVICES.search(text)
    first = _REFUSED.search(text) or no_devices or _INFOROM.search(text)
    if first is None and (blocked := _WSL.search(text)):
        return SmiFailure(
            error=_sentence(text, blocked.start()),
            nvml_error="OPERATING_SYSTEM",
            gpus=gpus,
            line=_line(text, blocked.start()),
        )
    return SmiFailure(
        error=_sentence(text, first.start()) if first else None,
        no_devices=no_devices is not None,
        gpus=gpus,
        line=_line(text, first.start()) if first else None,
    )


def _failed_start(text: str) -> tuple[int, str] | None:
    """Where a failed start is reported, and its code."""
    for pattern, name in _STARTS:
        if match := pattern.search(text):
            return match.start(), name
    if match := _START.search(text):
        return match.start(), WORDS.get(match["words"].strip().lower(), "UNKNOWN")
    return None


def _handles(text: str, source: str) -> list[Gpu]:
    """GPUs whose handle the driver refuses: there, but not to be spoken to."""
    found: list[Gpu] = []
    for match in _HANDLE.finditer(text):
        bdf = normal_bdf(match["bdf"])
        index = int(match["index"]) if match["index"] else None
        if bdf is None and index is None:
            continue
        fault = fault_of(match["words"]) or "UNKNOWN"
        quoted = Evidence(source=source, line=_line(text, match.start()), text=_sentence(text, match.start()))
        found.append(refused_gpu(index, fault, quoted, bdf))
    return found


def _inforom(text: str, source: str) -> list[Gpu]:
    found: list[Gpu] = []
    for match in _INFOROM.finditer(text):
        if bdf := normal_bdf(match["bdf"].rstrip(".")):
            quoted = Evidence(source=source, line=_line(text, match.start()), text=_sentence(text, match.start()))
            found.append(Gpu(bdf=bdf, inforom_corrupted=True, evidence={"": quoted, "inforom_corrupted": quoted}))
    return found


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def _sentence(text: str, offset: int) -> str:
    """The whole line at an offset."""
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : end if end >= 0 else len(text)].strip()
    return line.removeprefix("<error_string>").removesuffix("</error_string>")[:400]
