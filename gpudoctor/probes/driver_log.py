"""What attached or pasted logs say of the driver's versions, where nothing better does."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import Collected, quote_document
from gpudoctor.probes.driver_modules import parse_banner
from gpudoctor.sources.answers import Source

# NVRM: API mismatch: the client has the version 535.54.03, but
# NVRM: this kernel module has the version 530.30.02.  Please
# Newer releases name the program, and break the lines elsewhere:
# NVRM: API mismatch: the client 'nvidia-smi' (pid 4711)
# NVRM: has the version 570.86.10, but this kernel module has
# NVRM: the version 565.77.  Please make sure that this
_CLIENT = Lazy(
    r"API mismatch: the client (?:'[^'\n]*' )?(?:\(pid \d+\) )?has (?:the )?version (\d+\.\d+(?:\.\d+)*)",
    re.IGNORECASE,
)
_MODULE = Lazy(r"this kernel module has (?:the )?version (\d+\.\d+(?:\.\d+)*)", re.IGNORECASE)
_LINE_START = Lazy(r"^.*?NVRM:\s*|^\s+")
# NVRM: installed in this system is not supported by the
# NVRM: NVIDIA 570.86.15 driver release.
_REFUSES = Lazy(
    r"is not supported by the\s+(?:\S.{0,60}?NVRM:\s*|NVRM:\s*)?NVIDIA (\d{3}\.\d+(?:\.\d+)?)\s+driver release",
    needs=("driver release",),
)
# nouveau 0000:01:00.0: NVIDIA GM204 (124020a1); nouveau 0000:01:00.0: DRM: VRAM: 4096 MiB
_NOUVEAU = Lazy(
    r"^.*\bnouveau (?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]: (?:NVIDIA|DRM|fb|bios|drm|disp)\b.*",
    re.MULTILINE,
    needs=("nouveau ",),
)
# NVRM:  information.  The 535.129.03 NVIDIA driver will ignore
_IGNORES = Lazy(r"The (\d{3}\.\d+(?:\.\d+)?) NVIDIA driver will ignore", needs=("driver will ignore",))
# Error! Bad return status for module build on kernel: 6.4.6-76060406-generic (x86_64)
_BUILD_FAILED = Lazy(r"Bad return status for module build on kernel: .*", needs=("Bad return status",))


class Mismatch(msgspec.Struct, frozen=True):
    """The last API mismatch of a log; lines are 0-based."""

    client: str
    client_line: int
    module: str | None = None
    module_line: int | None = None


def parse_mismatch(text: str) -> Mismatch | None:
    """The two versions of an "API mismatch", which the kernel log spreads over lines."""
    found: Mismatch | None = None
    lines = text.splitlines()
    for index, line in enumerate(lines):
        if "api mismatch: the client" not in line.lower():
            continue
        # As one sentence, whatever stands before each of its lines.
        parts = [line, *(_LINE_START.sub("", part, 1) for part in lines[index + 1 : index + 8])]
        sentence = " ".join(part.strip() for part in parts)
        client = _CLIENT.search(sentence)
        if client is None:
            continue
        module = _MODULE.search(sentence)
        if module is None:
            found = Mismatch(client[1], index)
            continue
        end, read = index, 0
        for offset, part in enumerate(parts):
            read += len(part.strip()) + 1
            if read > module.start(1):
                end = index + offset
                break
        found = Mismatch(client[1], index, module[1], end)
    return found


def collect_from_logs(source: Source, found: Collected) -> None:
    """Sets versions and flavour. That a module was loaded when the log was written does not prove that it still is."""
    for document in source.documents():
        text = document.text
        if "NVIDIA UNIX" in text:
            banner = parse_banner(text)
            if banner is not None:
                found.set("kernel_module_version", banner.version, quote_document(document, banner.line))
                found.set("module_flavor", banner.flavor, quote_document(document, banner.line))
        mismatch = parse_mismatch(text) if "API mismatch" in text else None
        if mismatch is not None and found.get("kernel_module_version") in (None, mismatch.module):
            found.set("library_version", mismatch.client, quote_document(document, mismatch.client_line))
            if mismatch.module is not None and mismatch.module_line is not None:
                found.set("kernel_module_version", mismatch.module, quote_document(document, mismatch.module_line))
        nouveau = _NOUVEAU.search(text)
        if nouveau is not None and "NVRM: loading NVIDIA" not in text:
            found.set("nouveau_loaded", True, quote_document(document, text.count("\n", 0, nouveau.start())))
        failed = _BUILD_FAILED.search(text)
        if failed is not None:
            line = text.count("\n", 0, failed.start())
            found.set("dkms_autoinstall_error", failed[0].strip()[:400], quote_document(document, line))
        for refusal in (_IGNORES.search(text), _REFUSES.search(text)):
            if refusal is not None:
                line = text.count("\n", 0, refusal.start())
                found.set("kernel_module_version", refusal[1], quote_document(document, line))
