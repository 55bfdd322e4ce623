"""Speeds that somebody measured with different numbers of GPUs.

1x A100: 1.31 s/it
4x A100 (torchrun): 2.90 s/it
"""

from __future__ import annotations

import re

import msgspec

from gpudoctor.lazy import Lazy

_WORDS = {"a single": 1, "single": 1, "one": 1, "two": 2, "dual": 2, "both": 2, "three": 3, "four": 4, "eight": 8}
_CARD = (
    r"(?:GPUs?\b(?!\s?(?:mem|ram\b|util|usage|time|\d))|(?:graphics )?cards?\b|(?:NVIDIA|GeForce|Tesla|Quadro|RTX|GTX|TITAN)\b"
    r"|(?:[ABHLPV]|GB|GH)\d{1,4}[A-Z]?s?\b|T4s?\b|[1-5]0[5-9]0(?:s|\s?Ti)?\b)"
)
_COUNT = (
    rf"(?<![\w.])(?<!batch )(?<!epoch )(?<!step )(?<!size )(?:(?P<count>\d{{1,3}})(?:\s?[x*\u00d7]\s?|[ -])|(?P<word>{'|'.join(_WORDS)})[ -])(?={_CARD})"
    r"|\bgpus\s?=\s?(?P<equal>\d{1,3})\b(?!\.)"
    r"|\b(?:n(?:um)?_?gpus?|nproc[_-]per[_-]node|num[_-]processes|tp|tensor[_-]parallel(?:[_-]size)?)"
    r"(?:\s?[=:]\s?|\s)(?P<set>\d{1,3})\b(?!\.)"
)
_STEP = r"(?:it|iters?|iterations?|steps?|batch(?:es)?)"
_SAMPLES = r"(?:samples?|imgs?|images?|tok(?:en)?s?|t|examples?|frames?|sequences?|sents?|utts?|clips?)"
_SECOND = r"\s?(?:/|per)\s?s(?:ec(?:ond)?s?)?\b"
_FIGURE = (
    rf"(?<![\w.])(?P<value>\d+(?:\.\d+)?)\s?(?:(?P<step_rate>{_STEP}{_SECOND})|(?P<rate>{_SAMPLES}{_SECOND}|FPS\b)"
    rf"|(?P<step_time>(?:m?s|sec(?:onds?)?)\s?(?:/|per)\s?{_STEP}\b)"
    r"|(?P<time>(?:s|sec(?:onds?)?|min(?:utes?)?|h(?:ours?)?)\s?(?:/|per)\s?epoch\b))"
)
_TOKEN = Lazy(f"{_COUNT}|{_FIGURE}", re.IGNORECASE)
_PER = r"(?:s|sec|second|it|iter|iteration|step|batch|epoch)\b"
# In small letters, each alternative beginning with a letter: five times as fast as ignoring case.
_UNIT = Lazy(rf"/ ?{_PER}|per {_PER}|fps\b")
_LONGEST_LINE = 500
_MOST = 1024  # GPUs


class Scaling(msgspec.Struct, frozen=True):
    """From how few GPUs to how many, and which part of the ideal gain came; `line` is the 0-based number of the last's line."""

    base: int
    gpus: int
    efficiency: float
    line: int


class _Speed(msgspec.Struct, frozen=True):
    gpus: int
    unit: str  # as it is written: only the same are compared
    kind: str
    value: float
    line: int


def parse_scaling(text: str) -> Scaling | None:
    """The smallest and the largest number of GPUs with speeds in the same unit; None where there are not two."""
    if not _UNIT.search(text.lower()):
        return None
    speeds: dict[str, dict[int, _Speed]] = {}
    for index, line in enumerate(text.splitlines()):
        if len(line) <= _LONGEST_LINE and _UNIT.search(line.lower()):
            for speed in _of_line(line, index):
                speeds.setdefault(speed.unit, {}).setdefault(speed.gpus, speed)
    for by_gpus in speeds.values():
        few, many = by_gpus[min(by_gpus)], by_gpus[max(by_gpus)]
        if few.gpus < many.gpus:
            return Scaling(few.gpus, many.gpus, round(_efficiency(few, many), 3), many.line)
    return None


def _efficiency(few: _Speed, many: _Speed) -> float:
    gain = few.value / many.value if few.kind.endswith("time") else many.value / few.value
    # a step of n GPUs does n batches; samples and epochs count the whole job
    return gain if few.kind.startswith("step") else gain * few.gpus / many.gpus


def _of_line(line: str, index: int) -> list[_Speed]:
    tokens = list(_TOKEN.finditer(line))
    if not any(one["value"] for one in tokens):
        return []
    if tokens[0]["value"]:  # 12 it/s with one GPU
        tokens.reverse()
    found: list[_Speed] = []
    gpus = 0
    for token in tokens:
        if token["value"] is None:
            gpus = _WORDS.get((token["word"] or "").lower(), 0) or int(
                token["count"] or token["equal"] or token["set"]
            )
            continue
        kind = next(name for name in ("step_rate", "rate", "step_time", "time") if token[name])
        if 0 < gpus <= _MOST and float(token["value"]) > 0:
            unit = re.sub(r"[\s/]|per", "", token[kind].lower())
            found.append(_Speed(gpus, unit, kind, float(token["value"]), index))
    return found
