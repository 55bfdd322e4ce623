"""GPU utilisation over time: `nvidia-smi dmon`, and queries repeated in a loop."""

from __future__ import annotations

import msgspec

from gpudoctor.lazy import Lazy

_HEADER = Lazy(r"^#\s*gpu\b.*\bsm\b", needs=("#",))
_ROW = Lazy(r"^\s*\d+(?:\s+(?:-|\d+|N/A))+\s*$")
# nvidia-smi --query-gpu=timestamp,utilization.gpu --format=csv -l 1
_LOOPED = Lazy(
    r"nvidia-smi\b.*--query-gpu[= ](?P<fields>[\w.,]*utilization\.gpu[\w.,]*).*\s(?:-l|-lms|--loop)\b",
    needs=("--query-gpu",),
)
_NAMES = Lazy(r"^\s*timestamp, .*utilization\.gpu \[%\]", needs=("utilization.gpu",))
_FEWEST = 3


class Samples(msgspec.Struct, frozen=True):
    """Percentages of the busiest GPU in order; `line` is the 0-based number of the first's line."""

    values: list[int]
    line: int


def parse_samples(text: str) -> Samples | None:
    """The busiest GPU's samples; None for fewer than three."""
    by_gpu: dict[str, Samples] = {}
    column: int | None = None
    key: int | None = None
    separated = False
    for index, line in enumerate(text.splitlines()):
        if _HEADER.match(line):
            names = line.lstrip("#").split()
            column, key, separated = names.index("sm"), names.index("gpu"), False
        elif (looped := _LOOPED.search(line)) or _NAMES.match(line):
            names = (
                looped["fields"].split(",")
                if looped
                else [name.split()[0] for name in line.split(",") if name.strip()]
            )
            column = next(i for i, name in enumerate(names) if name == "utilization.gpu")
            key = names.index("index") if "index" in names else None
            separated = True
        elif column is not None:
            cells = _cells(line, separated)
            if cells is None:
                column = None if line.strip() and not line.startswith("#") else column
            elif column < len(cells) and cells[column].isdecimal() and int(cells[column]) <= 100:
                gpu = cells[key] if key is not None and key < len(cells) else ""
                by_gpu.setdefault(gpu, Samples([], index)).values.append(int(cells[column]))
    found = [samples for samples in by_gpu.values() if len(samples.values) >= _FEWEST]
    return max(found, key=lambda samples: sum(samples.values), default=None)


def _cells(line: str, separated: bool) -> list[str] | None:
    if not separated:
        return line.split() if _ROW.match(line) else None
    import csv

    cells = next(csv.reader([line], skipinitialspace=True), [])
    return (
        [cell.removesuffix(" %").strip() for cell in cells]
        if any("%" in c or c.strip().isdecimal() for c in cells)
        else None
    )
