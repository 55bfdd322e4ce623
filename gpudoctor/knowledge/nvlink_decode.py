"""Reads the registers that Xid 74 prints and the words that Xid 144 to 150 (NVLink 5) print.

Bit meanings and the table behind nvlink5.json: https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec

_WORD_BITS: dict[int, tuple[tuple[str, frozenset[int]], ...]] = {
    1: (
        ("nothing to act on", frozenset({0, 23, 30})),
        ("a side effect of another error", frozenset({1, 20})),
        ("an ECC or parity error of the link", frozenset({4, 5})),
        ("perhaps the hardware: check the connection", frozenset({8, 9, 12, 16, 17, 24, 28})),
        ("a marginal signal: check the seating", frozenset({21, 22})),
        ("to be reported when it repeats", frozenset({27, 29})),
    ),
    3: (
        ("an ECC or parity error of the link", frozenset({0, 1, 2, 6})),
        ("not expected: report it", frozenset({13})),
        ("to be tested with the field diagnostic when it repeats", frozenset({16, 19})),
        ("to be reported when it repeats", frozenset({17, 18})),
    ),
    4: (
        ("a side effect of another error", frozenset({16, 17})),
        ("a side effect, but the fabric needs a reset", frozenset({18})),
    ),
    5: (
        ("an ECC or parity error of the link", frozenset({18, 19, 21, 22, 24, 25, 27, 28})),
        ("corrected errors above their limit", frozenset({20, 23, 26, 29})),
    ),
}
_DOWN_REASONS = {
    "INVESTIGATE_LINK_SI": "the signal quality of the link",
    "INVESTIGATE_LINK_SI_AND_CABLES": "the link's cable, connector or signal quality",
    "INVESTIGATE_PEER_DEVICE": "the device at the other end of the link",
    "INVESTIGATE_SW_USER": "software or a person that took the link down",
    "INVESTIGATE_SW_USER_LINK_SI": "software that took the link down, or else the signal quality of the link",
    "INVESTIGATE_HOST": "the host: the link went down as a side effect",
}
_TYPE_TO_XID = {0: 150, 1: 144, 2: 145, 3: 146, 4: 147, 5: 148, 6: 149}


class _Row(msgspec.Struct, frozen=True, kw_only=True):
    xid: int
    unit: str
    v1: int
    v2: int
    type: int
    reason: int
    status: str
    action: str
    investigate: str
    severity: str
    effects: list[str] = []
    promoted_action: str | None = None


class LinkEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An NVLink 5 line taken apart. `action` and `investigate` are the vendor's buckets; None where its table has no such row."""

    unit: str
    fatal: bool | None
    link: int | None
    reason: int
    status: int
    action: str | None
    investigate: str | None


@cache
def _rows() -> list[_Row]:
    data = (Path(__file__).parent / "nvlink5.json").read_bytes()
    return msgspec.json.decode(data, type=list[_Row])


def _words(text: str) -> list[int]:
    match = re.search(r"\(((?:0x[0-9a-fA-F]{1,8}[, ]*){2,})\)", text)
    return [int(word, 16) for word in re.findall(r"0x([0-9a-fA-F]{1,8})", match.group(1))] if match else []


def _matches(row: _Row, unit: str, info: int) -> tuple[bool, bool]:
    """Whether a row fits the first word, and whether the promoted bit is set, under the layout that fits (R575 changed it)."""
    names = row.unit.split("/")
    named = not unit or any(unit.startswith(name) or name.startswith(unit) for name in names)
    if not named:
        return False, False
    if _TYPE_TO_XID.get(info & 0x1F) == row.xid and (info >> 5) & 0x1F == row.v1:
        return True, bool(info >> 10 & 1)
    return info & 0x7F == row.v2, bool(info >> 7 & 1)


def parse_nvlink5(code: int, text: str) -> LinkEvent | None:
    """Takes a line of Xid 144 to 150 apart; None where it has no words."""
    words = _words(text)
    if len(words) < 2:
        return None
    head = re.search(r"\b([A-Z][A-Z0-9_]{2,30}) +(Fatal|Nonfatal|Non-fatal)?", text)
    unit = head.group(1) if head else ""
    fatal = head.group(2) == "Fatal" if head and head.group(2) else None
    link = re.search(r"\bLink (-?\d{1,3})\b", text)
    info, status = words[0], words[1]
    reason = info >> 20 & 0x3F
    found: tuple[_Row, bool] | None = None
    for row in _rows():
        fits, promoted = _matches(row, unit, info)
        if row.xid != code or not fits:
            continue
        wanted = row.status == "any" or int(row.status, 16) == status
        if wanted and row.reason == reason:
            found = (row, promoted)
            break
    action = None
    if found:
        action = found[0].promoted_action if found[1] and found[0].promoted_action else found[0].action
    return LinkEvent(
        unit=unit,
        fatal=fatal,
        link=int(link.group(1)) if link and int(link.group(1)) >= 0 else None,
        reason=reason,
        status=status,
        action=action,
        investigate=found[0].investigate if found else None,
    )


def decode_nvlink5(code: int, text: str) -> str | None:
    """A line of Xid 144 to 150 in words."""
    event = parse_nvlink5(code, text)
    if event is None:
        return None
    where = f"NVLink {event.link}" if event.link is not None else "NVLink"
    kind = {True: "fatal", False: "non-fatal", None: ""}[event.fatal]
    what = f"{where}: {kind} event".replace("  ", " ")
    if event.unit:
        what += f" of {event.unit}"
    if event.action is None:
        return f"{what}; the vendor's table has no row for its words, so follow an Xid 154 that comes with it."
    advice = {
        "IGNORE": "nothing to do for a single one",
        "RESET_GPU": "the GPU needs a reset",
        "XID_154_EVAL": "follow an Xid 154 that comes with it, else restart the program",
    }.get(event.action, event.action.replace("_", " ").lower())
    sentence = f"{what}; {advice}."
    if reason := _DOWN_REASONS.get(event.investigate or ""):
        sentence += f" It points to {reason}."
    elif event.investigate == "CHECK_NVLINK_FAILURE_FLOW":
        sentence += " It follows when another link of the partition drops; look for that one."
    elif event.investigate == "SYMPATHETIC_REPORT_SOLO":
        sentence += " It is often a side effect of another error."
    return sentence


def decode_link_registers(text: str, architecture: str | None = None) -> str | None:
    """The link and the set bits of an Xid 74 or 136 line; bits have published meanings on Hopper only."""
    link = re.search(r"\blink (\d{1,3})", text, re.IGNORECASE)
    if not link:
        return None
    kind = "fatal " if "fatal" in text.lower() and "non-fatal" not in text.lower() else ""
    sentence = (
        f"NVLink {link.group(1)}: {kind}error"
        if "training" not in text
        else f"NVLink {link.group(1)}: training failed"
    )
    meanings: list[str] = []
    for number, word in enumerate(_words(text), start=1):
        for bit in (bit for bit in range(32) if word >> bit & 1):
            known = next(
                (what for what, bits in _WORD_BITS.get(number, ()) if bit in bits), "not in the vendor's table"
            )
            meanings.append(f"word {number} bit {bit}, {known}")
    if meanings and architecture in (None, "hopper"):
        sentence += f" ({'; '.join(meanings[:6])}{'; ...' if len(meanings) > 6 else ''})"
    return f"{sentence}."
