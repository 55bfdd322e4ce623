"""The IOMMU's mode by the kernel's command line and its boot messages, where sysfs does not tell it.

iommu: Default domain type: Translated (set via kernel command line)
Command line: BOOT_IMAGE=/vmlinuz-6.8.0 root=UUID=1 ro amd_iommu=on iommu=pt
"""

from __future__ import annotations

import msgspec

from gpudoctor.facts import Evidence, Pci
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import quote_document
from gpudoctor.sources.answers import Source

_DOMAIN = Lazy(r"\biommu: Default domain type: (Passthrough|Translated)")
_COMMAND_LINE = Lazy(r"\b(?:BOOT_IMAGE=|Command line: |GRUB_CMDLINE_LINUX\w*=)(?P<words>.*)")
_OFF = frozenset({"iommu=off", "intel_iommu=off", "amd_iommu=off"})
_PASSTHROUGH = frozenset({"iommu=pt", "iommu.passthrough=1"})
_TRANSLATED = frozenset({"iommu=nopt", "iommu.passthrough=0", "iommu=force"})


def mode_of_command_line(text: str) -> str | None:
    """off, passthrough or translated; None where the kernel's default holds, which differs between kernels."""
    words = {word.strip("\"'") for word in text.split()}
    words |= {"iommu=pt" for word in words if word.startswith(("intel_iommu=", "amd_iommu=")) and ",pt" in word}
    if words & _OFF:
        return "off"
    if words & _PASSTHROUGH:
        return "passthrough"
    return "translated" if words & _TRANSLATED else None


def with_iommu_of_logs(source: Source, pci: Pci | None) -> Pci | None:
    """Adds the mode that attached or pasted text tells; the kernel's own word comes before the command line's."""
    if pci is not None and pci.iommu_mode is not None:
        return pci
    found: tuple[str, Evidence] | None = None
    for document in source.documents():
        if "iommu" not in document.text.lower():
            continue
        for index, line in enumerate(document.text.splitlines()):
            if match := _DOMAIN.search(line):
                return _set(pci, match[1].lower(), quote_document(document, index))
            if found is None and (match := _COMMAND_LINE.search(line)):
                mode = mode_of_command_line(match["words"])
                found = (mode, quote_document(document, index)) if mode else None
    return _set(pci, *found) if found else pci


def _set(pci: Pci | None, mode: str, evidence: Evidence) -> Pci:
    pci = pci or Pci()
    return msgspec.structs.replace(
        pci,
        iommu_mode=mode,
        iommu_enabled=mode != "off",
        evidence={**pci.evidence, "iommu_mode": evidence, "iommu_enabled": evidence},
    )
