"""What the running kernel says of itself: command line, modules, taint. The log is the kernel_log probe's."""

from __future__ import annotations

from gpudoctor.facts import Kernel
from gpudoctor.probes.ask import read_text
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.probes.driver_modules import loaded_modules
from gpudoctor.sources.answers import Source, Status

NAME = "kernel_state"
GROUP = "kernel"

# Documentation/admin-guide/tainted-kernels.rst: bit -> letter.
_TAINT_LETTERS = "PFSRMBUDAWCIOELKXTN"


def taint_letters(value: str) -> str | None:
    """The letters of a taint value, "POE" for 12289; "" for an untainted kernel, `None` when it is no number."""
    if not value.isdecimal() or len(value) > 12:
        return None
    number = int(value)
    return "".join(letter for bit, letter in enumerate(_TAINT_LETTERS) if number >> bit & 1)


def probe(source: Source) -> Kernel | None:
    """The kernel's own state, apart from its log."""
    found = Collected()
    cmdline = source.read("/proc/cmdline")
    if cmdline.status is Status.OK:
        found.set("cmdline", cmdline.text.strip(), quote(cmdline, 0))
    modules = loaded_modules(source)
    if modules is not None and modules.complete:
        found.set("modules", modules.names)
    found.set("tainted", taint_letters(read_text(source, "/proc/sys/kernel/tainted") or ""))
    return found.build(Kernel)
