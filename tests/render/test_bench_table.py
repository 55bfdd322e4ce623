"""Tables of active tests: columns hold, marks stand where they belong, captured text stays text."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Bench, BenchFault, BenchFigure, BenchRun
from gpudoctor.render import FORMATS
from gpudoctor.render.bench_table import bench_lines, number
from gpudoctor.render.options import RenderOptions
from gpudoctor.render.paint import Paint
from gpudoctor.report import Report, Verdict


def figure(index: int, metric: str = "copy", value: float = 3010.0, **more: object) -> BenchFigure:
    known: dict[str, object] = {
        "test": "memory", "unit": "GB/s", "bdf": f"0000:{0x18 + index:02x}:00.0", "gpu_index": index, "size_bytes": 1 << 30,
        "expected": 3352.0, "threshold_ratio": 0.8, "verdict": "right",
    }  # fmt: skip
    return BenchFigure(metric=metric, value=value, **(known | more))  # type: ignore[arg-type]


METRICS = ("read", "write", "copy", "scale", "triad", "device_copy")


def memory(count: int) -> Bench:
    return Bench(figures=[figure(n, m, 3000.0 + i) for n in range(count) for i, m in enumerate(METRICS)])


def lines(bench: Bench, *, width: int = 80, every: bool = True, colour: bool = False) -> list[str]:
    return bench_lines(bench, width, Paint(colour), every=every)


def test_columns_stand_below_their_headings() -> None:
    shown = lines(memory(2))
    heading, row, limit = shown[2], shown[3], shown[5]
    assert heading.split() == ["read", "write", "copy", "scale", "triad", "memcpy"]
    for i, name in enumerate(heading.split()):
        assert heading.index(name) + len(name) == row.index(f"{3000 + i}") + 4
    assert len(heading) <= len(row) <= 80
    assert limit.split()[:2] == ["right", "from"]
    assert set(limit.split()[2:]) == {"2682"}


def test_a_narrow_terminal_loses_columns_not_alignment() -> None:
    assert all(len(line) <= 60 for line in lines(memory(2), width=60)[:6])


def test_many_gpus_are_one_row_and_those_to_look_at() -> None:
    bench = Bench(figures=[*(figure(n) for n in range(7)), figure(7, value=2000.0, verdict="low")])
    shown = "\n".join(lines(bench, every=False))
    assert "median of 8" in shown
    assert "GPU 7 0000:1f:00.0      2000!" in shown
    assert "GPU 3" not in shown
    assert "1 low (!)" in shown


def test_behind_its_siblings_has_a_mark_of_its_own() -> None:
    shown = "\n".join(lines(Bench(figures=[figure(0, siblings_ratio=0.92, siblings_threshold=0.95)])))
    assert "3010<" in shown


def test_low_for_a_reason_is_seen_and_not_called_low() -> None:
    shown = "\n".join(lines(Bench(figures=[figure(0, verdict="unjudged", ratio=0.4, value=1340.0)])))
    assert "1340?" in shown
    assert "none is low" in shown
    assert "?: low, but not judged" in " ".join(shown.split())


def test_colour_adds_nothing_to_what_is_read() -> None:
    import re

    bench = Bench(figures=[figure(0, verdict="low"), figure(1)])
    assert [re.sub("\x1b\\[[0-9;]*m", "", line) for line in lines(bench, colour=True)] == lines(bench)


@pytest.mark.parametrize("count", [2, 8, 16])
def test_pairs_are_a_matrix_as_long_as_it_fits(count: int) -> None:
    pairs = [
        figure(a, "p2p_unidirectional", 392.0, test="p2p", peer_bdf=f"x{b}", peer_index=b, path="nvlink")
        for a in range(count)
        for b in range(count)
        if a != b
    ]
    shown = lines(Bench(figures=pairs))
    assert all(len(line) <= 80 for line in shown)
    assert any("from \\ to" in line for line in shown) == (count <= 9)
    assert any(f"{count * (count - 1)} pairs: 392 to 392" in line for line in shown) == (count > 9)


def test_the_memory_test_says_how_much_and_what() -> None:
    run = BenchRun(test="memtest", state="done", gpus=["0000:18:00.0"], memory_tested_mib=78000)
    assert any("78000 MiB: no error" in line for line in lines(Bench(runs=[run], figures=[])))
    fault = BenchFault(test="memtest", kind="bit_flip", bdf="0000:18:00.0", count=12)
    assert any("78000 MiB: 12 wrong words (!)" in line for line in lines(Bench(runs=[run], faults=[fault])))


def test_nothing_measured_is_no_table() -> None:
    assert lines(Bench()) == []
    assert lines(Bench(runs=[BenchRun(test="memory", state="failed")], figures=[])) == []


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_captured_text_stays_text(name: str) -> None:
    evil = "\x1b[31m[bold]x[/bold]\n```\n<script>"
    bench = Bench(
        runs=[BenchRun(test="memory", state="done", notes=[evil])],
        figures=[figure(0, gpu_name=evil, mig="MIG-" + evil), figure(1, metric=evil), figure(2, test=evil, bdf=evil)],
    )
    text = FORMATS[name](Report(verdict=Verdict.PASS, bench=bench), RenderOptions())
    assert "\x1b" not in text
    assert name == "text" or text.count("```") == 2


def test_numbers_have_three_or_four_digits() -> None:
    assert [number(value) for value in (3010.4, 392.4, 55.16, 8.4, 0.5)] == ["3010", "392", "55.2", "8.40", "0.50"]
