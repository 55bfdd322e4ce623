"""Reads the text after an Xid number: registers, fault types and sub-codes as one sentence for people.

Formats follow the public kernel module (kernel_rc.c, kern_gpu_error_cont_ga100.c, kernel_gsp.c, ras_events.c) and NVIDIA's
catalogue, https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpudoctor.knowledge.nvlink_decode import decode_link_registers, decode_nvlink5

RECOVERY_ACTIONS = {
    0: ("none", "nothing: the GPU has recovered"),
    1: ("gpu_reset", "a GPU reset, after its users were stopped"),
    2: ("node_reboot", "a reboot of the node"),
    3: ("drain_p2p", "an end of peer-to-peer work so that the driver can clean up; no reset yet"),
    4: ("drain_and_reset", "an end of the running work, then a GPU reset"),
    5: ("recover_imex_domain", "a recovery of the IMEX domain (NVLink across nodes)"),
    6: ("bus_reset", "a reset of the GPU at bus level"),
    7: ("system_reboot", "a full reboot of the system"),
}
"""Values of Xid 154 and of NVML's recovery action: name of the fact and what the driver asks for."""

_WARP_ERRORS = (
    ("out of range shared or local address", "a kernel reached outside its shared or local memory"),
    ("out of range address", "a kernel read or wrote outside its memory"),
    ("misaligned address", "a kernel used an address that is not aligned for the access"),
    ("misaligned pc", "a kernel jumped to a misaligned address"),
    ("pc overflow", "a kernel ran past its end"),
    ("invalid pc", "a kernel jumped to an invalid address"),
    ("illegal instruction encoding", "a kernel holds an instruction that this GPU does not know"),
    ("illegal instruction param", "an instruction had an illegal parameter"),
    ("illegal sph instr combo", "an instruction is not allowed in this kind of program"),
    ("out of range register", "an instruction used a register that the kernel does not have"),
    ("invalid address space", "a kernel used an address of the wrong address space"),
    ("mmu nack", "the memory unit refused an access of a kernel"),
    ("mmu fault", "a kernel touched an unmapped address"),
    ("stack error", "the call stack of a kernel is damaged or full"),
    ("stack overflow", "the call stack of a kernel is full"),
    ("assert fail", "an assertion in a kernel failed"),
    ("trap", "a kernel ran into a trap"),
    ("multiple warp errors", "several warps failed at once"),
    ("illegal", "a kernel did something that is not allowed"),
)
_WARP_CODES = {
    0x01: "the call stack of a kernel is damaged or full",
    0x02: "the call stack of a kernel is damaged or full",
    0x03: "a kernel returned from nowhere",
    0x05: "a kernel jumped to a misaligned address",
    0x06: "a kernel ran past its end",
    0x09: "a kernel holds an instruction that this GPU does not know",
    0x0B: "an instruction had an illegal parameter",
    0x0C: "a kernel used an invalid constant address",
    0x0D: "an instruction used a register that the kernel does not have",
    0x0E: "a kernel read or wrote outside its memory",
    0x0F: "a kernel used an address that is not aligned for the access",
    0x10: "a kernel used an address of the wrong address space",
    0x11: "an instruction had an illegal parameter",
    0x12: "a kernel used an invalid constant address",
}
_FAULT_TYPES = {
    "FAULT_PDE": "the address lies in no mapped region",
    "FAULT_PDE_SIZE": "the page table has the wrong size",
    "FAULT_PTE": "the page is not mapped",
    "FAULT_VA_LIMIT_VIOLATION": "the address is beyond the address space",
    "FAULT_UNBOUND_INST_BLOCK": "the channel has no address space any more",
    "FAULT_PRIV_VIOLATION": "the page is reserved to the driver",
    "FAULT_RO_VIOLATION": "the page is read-only",
    "FAULT_WO_VIOLATION": "the page is write-only",
    "FAULT_ATOMIC_VIOLATION": "the page allows no atomic access",
    "FAULT_UNSUPPORTED_APERTURE": "the memory it points to cannot be reached from here",
    "FAULT_UNSUPPORTED_KIND": "the kind of page does not fit the access",
    "FAULT_REGION_VIOLATION": "the region is protected",
    "FAULT_POISONED": "the memory holds a known uncorrectable error",
}
_ACCESS = {"READ": "read", "WRITE": "write", "ATOMIC": "atomic access", "PREFETCH": "prefetch"}


def _process(text: str) -> str:
    match = re.search(r"\bpid='?(\d+)'?(?:, name=([^,<]{1,64}))?", text)
    if not match:
        return ""
    name = (match.group(2) or "").strip()
    return f" Process {match.group(1)}{f' ({name})' if name else ''}."


def decode_recovery(text: str) -> tuple[int, int] | None:
    """(old, new) value of an Xid 154 line; the hex values count, as their words differ between drivers."""
    match = re.search(r"changed from 0x([0-9a-fA-F]{1,2})\b.*?\bto 0x([0-9a-fA-F]{1,2})\b", text)
    return (int(match.group(1), 16), int(match.group(2), 16)) if match else None


def _recovery(text: str) -> str | None:
    values = decode_recovery(text)
    if values is None:
        return None
    wanted = RECOVERY_ACTIONS.get(values[1])
    if wanted is None:
        return f"The driver now asks for recovery action {values[1]:#x}, which this version does not know."
    return f"The driver now asks for {wanted[1]}."


def _status_registers(text: str) -> str | None:
    """A line of error status registers; the low bits of a compute unit's warp register tell the fault.

    Register layout and codes: nvkm/engine/gr/gf100.c of the Linux nouveau driver.
    """
    pairs = re.findall(r"0x([0-9a-fA-F]{6})=0x([0-9a-fA-F]{1,8})", text)
    if not pairs or "ESR" not in text:
        return None
    for register, value in ((int(name, 16), int(number, 16)) for name, number in pairs):
        error = _WARP_CODES.get(value & 0xFFFF)
        if register & 0x7FF in (0x648, 0x730, 0x7B0) and 0x500000 <= register < 0x600000 and error:
            gpc, tpc = (register - 0x500000) // 0x8000, ((register & 0x7FFF) - 0x4000) // 0x800
            where = f" in GPC {gpc}, TPC {tpc}" if tpc >= 0 else ""
            return f"{error[0].upper()}{error[1:]}{where}."
    return "Error status registers of a compute unit; the lines beside it say what happened."


def _exception(text: str) -> str | None:
    lower = text.lower()
    place = re.search(r"\(?GPC (\d+), TPC (\d+)(?:, SM (\d+))?", text)
    where = f" in GPC {place.group(1)}, TPC {place.group(2)}" if place else ""
    if place and place.group(3):
        where += f", SM {place.group(3)}"
    for words, meaning in _WARP_ERRORS:
        if words in lower:
            return f"{meaning[0].upper()}{meaning[1:]}{where}.{_process(text)}"
    if (registers := _status_registers(text)) is not None:
        return f"{registers}{_process(text)}"
    if match := re.search(r"Class ([0-9a-fA-F]{4,8}), Offset ([0-9a-fA-F]+), Data ([0-9a-fA-F]+)", text):
        return f"The engine failed at method {match.group(2)} of class {match.group(1).lstrip('0')}.{_process(text)}"
    return f"A fault{where}.{_process(text)}" if where else None


def _page_fault(text: str) -> str | None:
    fault = re.search(r"Fault is of type (\w+)(?: ACCESS_TYPE_(\w+))?", text)
    engine = re.search(r"MMU Fault: ENGINE (\w+)(?: (\w*CLIENT\w*))?", text)
    address = re.search(r"faulted @ (0x[0-9a-fA-F_]+)", text)
    if not (fault or engine or address):
        return None
    access = "access"
    if fault and fault.group(2):
        access = next((word for key, word in _ACCESS.items() if key in fault.group(2)), "access")
    who = f"Engine {engine.group(1).lower()}" if engine else "An engine"
    kind = ""
    if fault:
        name = fault.group(1).replace("FAULT_INFO_TYPE_", "FAULT_")
        kind = f": {_FAULT_TYPES.get(name, name.lower())}"
    where = f" at {address.group(1).replace('_', '')}" if address else ""
    return f"{who} faulted on a {access}{where}{kind}.{_process(text)}"


def _cleanup(text: str) -> str | None:
    channel = re.search(r"\bCh(?:annel)? (?:ID )?([0-9a-fA-F]{2,8})\b", text)
    before = re.search(r"caused by previous Xid (\d+)", text)
    if not (channel or before):
        return None
    sentence = f"Channel {channel.group(1)} was torn down" if channel else "A channel was torn down"
    return f"{sentence}{f', because of Xid {before.group(1)}' if before else ''}.{_process(text)}"


def _double_bit(text: str) -> str | None:
    if re.search(r"framebuffer|\bFB\b|DRAM", text):
        address = re.search(r"physAddr (0x[0-9a-fA-F]+)", text)
        part = re.search(r"partition (\d+)(?:, subpartition (\d+))?", text)
        place = f" at {address.group(1)}" if address else ""
        place += f", partition {part.group(1)}" if part else ""
        return f"The error is in the GPU's memory (DRAM){place}; such rows are remapped at the next reset."
    unit = re.search(r"DBE\) has been detected on GPU in (?:the )?([\w ]{1,40}?)(?: at|\.|,|$)", text)
    if unit:
        return f"The error is in an on-chip memory ({unit.group(1)}), which has no spare rows; look at the SRAM threshold flag."
    return None


def _memory_repair(text: str) -> str | None:
    address = re.search(r"\((0x[0-9a-fA-F]+)\)", text)
    place = f" {address.group(1)}" if address else ""
    lower = text.lower()
    if "bank remapper" in lower:
        return f"Memory bank{place} is marked to be replaced at the next GPU reset."
    if "new row" in lower:
        return f"Row{place} is marked to be replaced by a spare at the next GPU reset."
    if "row remapper error" in lower:
        reason = re.search(r" - ([^,]{3,80})$", text.strip())
        return f"Row{place} could not be remapped{f': {reason.group(1)}' if reason else ''}."
    if "unable to retire" in lower:
        return f"Page{place} could not be retired."
    if "retired page" in lower or "retirement" in lower:
        return f"Page{place} is retired; it goes out of use when the driver is loaded again."
    return None


def _containment(text: str) -> str | None:
    match = re.search(r"\b(Contained|Uncontained): ([\w /-]{1,40}?) ?\(([^)]*)\)\.?(.*)", text)
    if not match:
        return _cleanup(text)
    reset = "; the GPU asks for a reset" if re.search(r"(?<!D-)RST: Yes", match.group(4)) else ""
    if not reset and "D-RST: Yes" in match.group(4):
        reset = "; the GPU asks for a reset once its work has ended"
    return f"{match.group(1)} error in {match.group(2).strip()}{reset}.{_process(text)}"


def _gsp(text: str) -> str | None:
    match = re.search(r"Expected function (\d+) \((\w+)\)", text)
    if not match:
        return None
    wait = re.search(r"Timeout after (\d+m?s)", text)
    return f"No answer{f' after {wait.group(1)}' if wait else ''} to the request {match.group(2)} ({match.group(1)}).{_process(text)}"


def _class_error(text: str) -> str | None:
    match = re.search(r"Class ([0-9a-fA-F]+), Offset ([0-9a-fA-F]+), Data ([0-9a-fA-F]+)", text)
    if not match:
        return None
    return f"Class {match.group(1).lstrip('0')} rejected the value {match.group(3)} for method {match.group(2)}.{_process(text)}"


_DECODERS: dict[int, Callable[[str], str | None]] = {
    13: _exception,
    31: _page_fault,
    43: _cleanup,
    45: _cleanup,
    48: _double_bit,
    63: _memory_repair,
    64: _memory_repair,
    69: _class_error,
    94: _containment,
    95: _containment,
    119: _gsp,
    154: _recovery,
}


def decode(code: int, text: str, architecture: str | None = None) -> str | None:
    """What the text after the number says, as one or two sentences; None where nothing can be told."""
    text = text[:2000]
    if 144 <= code <= 150:
        return decode_nvlink5(code, text)
    if code in (74, 136):
        return decode_link_registers(text, architecture)
    decoder = _DECODERS.get(code)
    return decoder(text) if decoder else None
