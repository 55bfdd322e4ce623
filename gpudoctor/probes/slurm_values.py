"""The small languages in Slurm's fields: GRES and TRES strings, host lists, absent values."""

from __future__ import annotations

import re

from gpudoctor.lazy import Lazy

GPU_GRES = Lazy(r"\bgpu(?=[:(,]|$)(?::[^:,(]*[A-Za-z_][^:,(]*)?(?::(\d+))?")


def given(text: str | None) -> str | None:
    """A field's text; None for the ways in which Slurm says that there is none."""
    return None if text is None or text.strip() in ("", "(null)", "N/A", "n/a") else text.strip()


def given_time(text: str | None) -> str | None:
    """A time as Slurm prints it; None where it is not known."""
    return None if text in (None, "None", "Unknown", "N/A", "(null)", "") else text


def gres_gpus(gres: str | None) -> int:
    """GPUs of a Gres string such as `gpu:a100:4(S:0-1),gpu:h100:2`; a bare `gpu` is one."""
    return sum(int(match[1] or 1) for match in GPU_GRES.finditer(gres or "") if len(match[1] or "") < 6)


def tres_gpus(tres: str) -> int:
    """GPUs of a TRES string: `gres/gpu=8`; typed ones (`gres/gpu:a100=4`) count only where the plain one is missing."""
    plain = re.search(r"(?:^|,)gres/gpu=(\d{1,5})\b", tres)
    return int(plain[1]) if plain else sum(int(n) for n in re.findall(r"(?:^|,)gres/gpu:[^=,]+=(\d{1,5})\b", tres))


def expand_hostlist(text: str, limit: int = 4096) -> list[str]:
    """`gpu[01-03,07],login` as names; a list that is damaged or longer than `limit` stays one name."""
    names: list[str] = []
    if text.count("[") != text.count("]"):
        return [text]
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[\]]*)*", text):
        names += _expand(part, limit)
        if len(names) > limit:
            return [text]
    return names or [text]


def _expand(part: str, limit: int) -> list[str]:
    match = re.match(r"^([^\[]*)\[([\d,\-]+)\](.*)$", part)
    if not match:
        return [part]
    numbers: list[str] = []
    for piece in match[2].split(","):
        low, dash, high = piece.partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()) or (dash and int(high) - int(low) > limit):
            return [part]
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)]
        if len(numbers) > limit:
            return [part]
    return [
        match[1] + number + tail for number in numbers for tail in (_expand(match[3], limit) if match[3] else [""])
    ]
