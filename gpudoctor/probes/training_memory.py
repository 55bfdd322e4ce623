"""The numbers in a message about GPU memory: PyTorch's wordings since 1.0, and vLLM's."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence, OutOfMemory
from gpudoctor.lazy import Lazy

_MOST = 20  # failures of one text
_LENGTH = 900  # characters of one message, however it is wrapped
_SIZE = r"(\d[\d.]* ?(?:bytes|[KMGT]i?B))"
_UNITS = {"b": 1 / 1024 / 1024, "k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}

_START = Lazy(r"Tried to allocate " + _SIZE, needs=("Tried to allocate ",))
_PYTORCH: dict[str, Lazy] = {
    # "GPU 0; 23.69 GiB total capacity" until 2.0, "has a total capacity of 23.64 GiB" since (2.1: "capacty")
    "total": Lazy(rf"total capac\w* of {_SIZE}|{_SIZE} total capacity"),
    "free": Lazy(rf"of which {_SIZE} is free|; {_SIZE} free"),
    "allocated": Lazy(rf"memory {_SIZE} is allocated by PyTorch|{_SIZE} already allocated"),
    "unused": Lazy(rf"{_SIZE} is reserved by PyTorch but unallocated"),
    "reserved": Lazy(rf"{_SIZE} reserved in total by PyTorch"),
    "cached": Lazy(rf"{_SIZE} cached"),
    "allowed": Lazy(rf"{_SIZE} allowed"),
    "own": Lazy(rf"this process has {_SIZE} memory in use"),
}
_OTHERS = Lazy(rf"(?<!his )Process \d+ has {_SIZE} memory in use")
# Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization (0.95, 45.01 GiB)
_VLLM = Lazy(
    r"Free memory on device[^(\n]{0,20}\(([\d.]+)/([\d.]+) GiB\) on startup is less than desired GPU memory utilization"
    r" \([\d.]+, ([\d.]+) GiB\)",
    needs=("Free memory on device",),
)
_CONTEXT_MIB = 700.0  # what a CUDA context and libraries take besides the allocator


class Failure(msgspec.Struct, frozen=True):
    """One message; sizes in MiB, `line` its 0-based number."""

    line: int
    requested: float | None = None
    total: float | None = None
    free: float | None = None
    allocated: float | None = None
    reserved: float | None = None
    allowed: float | None = None
    others: float | None = None

    def fact(self, evidence: Evidence) -> OutOfMemory:
        return OutOfMemory(
            requested_mib=self.requested,
            total_mib=self.total,
            free_mib=self.free,
            allocated_mib=self.allocated,
            reserved_mib=self.reserved,
            allowed_mib=self.allowed,
            others_mib=self.others,
            evidence={"": evidence},
        )


def mebibytes(size: str) -> float | None:
    """ "2.35 GiB" -> 2406.4; None for what is no number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(\w)\w*", size)
    return float(match[1]) * _UNITS[match[2].lower()] if match and match[2].lower() in _UNITS else None


def parse_out_of_memory(text: str) -> list[Failure]:
    """Every failure that tells numbers, in order, at most twenty; the ones of equal words once."""
    found: dict[tuple[float | None, ...], Failure] = {}
    for match in _START.finditer(text):
        message = " ".join(text[match.start() : match.start() + _LENGTH].split())
        message = message[: message.find("Tried to allocate", 10)] if "Tried to allocate" in message[10:] else message
        failure = _pytorch(message, mebibytes(match[1]), text.count("\n", 0, match.start()))
        found.setdefault(msgspec.structs.astuple(failure)[1:], failure)
        if len(found) >= _MOST:
            break
    for match in _VLLM.finditer(text):
        free, total, wanted = (float(group) * 1024 for group in match.groups())
        failure = Failure(
            text.count("\n", 0, match.start()), wanted, total, free, others=max(0.0, total - free - _CONTEXT_MIB)
        )
        found.setdefault(msgspec.structs.astuple(failure)[1:], failure)
    return sorted(found.values(), key=lambda failure: failure.line)[:_MOST]


def _pytorch(message: str, requested: float | None, index: int) -> Failure:
    sizes: dict[str, float | None] = {}
    for name, pattern in _PYTORCH.items():
        match = pattern.search(message)
        sizes[name] = mebibytes(next(group for group in match.groups() if group)) if match else None
    allocated, unused, reserved = sizes["allocated"], sizes["unused"], sizes["reserved"]
    if reserved is None and allocated is not None and (cached := sizes["cached"]) is not None:
        # until 1.3 what is cached beyond what is allocated; a few builds tell the sum
        reserved = cached if cached >= allocated else allocated + cached
    elif reserved is None and allocated is not None and unused is not None:
        reserved = allocated + unused
    return Failure(
        index,
        requested,
        sizes["total"],
        sizes["free"],
        allocated,
        reserved,
        sizes["allowed"],
        _others(message, sizes["total"], sizes["free"], sizes["own"], reserved),
    )


def _others(
    message: str, total: float | None, free: float | None, own: float | None, reserved: float | None
) -> float | None:
    """What other processes hold: as the message says, or what is neither free nor this process's."""
    named = [size for size in map(mebibytes, _OTHERS.findall(message)) if size is not None]
    if named:
        return sum(named)
    if total is None or free is None:
        return None
    mine = own if own is not None else None if reserved is None else reserved + _CONTEXT_MIB
    return None if mine is None else max(0.0, total - free - mine)
