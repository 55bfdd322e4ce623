"""A site's own expectations and baselines: which holds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.bench.expectations import Node, limit_of
from gpudoctor.bench.model import Target
from gpudoctor.bench.site import (
    Baseline,
    BaselineFigure,
    Site,
    baseline_of,
    read_baseline,
    read_own,
    unfit_for_a_baseline,
)
from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Bench, BenchFault, BenchFigure, BenchRun
from gpudoctor.knowledge import gpus
from gpudoctor.knowledge.copy_expectations import Limit

H100 = Target(
    ordinal=0,
    bdf="0000:18:00.0",
    device_id="10de:2330",
    model=gpus.by_pci_id("10de:2330"),
    name="NVIDIA H100 80GB HBM3",
)


def figure(test: str = "memory", metric: str = "copy", value: float = 3000.0, **more: object) -> BenchFigure:
    return BenchFigure(test=test, metric=metric, value=value, unit="GB/s", bdf=H100.bdf, **more)  # type: ignore[arg-type]


def own(tmp_path: Path, text: str) -> Site:
    path = tmp_path / "expected.yaml"
    path.write_text(text)
    return Site(own=read_own(path), own_file=path.name)


def limit(site: Site, one: BenchFigure | None = None) -> Limit:
    found = limit_of(one or figure(), Node(targets=[H100], site=site))
    assert isinstance(found, Limit)
    return found


def test_without_a_site_the_datasheet_holds() -> None:
    assert (limit(Site()).expected, limit(Site()).threshold) == (3352, 0.8)


@pytest.mark.parametrize("name", ['"10de:2330"', "H100 SXM5 80GB", "NVIDIA H100 80GB HBM3", '"*"'])
def test_a_sites_figure_holds_first(tmp_path: Path, name: str) -> None:
    names = {"H100 SXM5 80GB": H100.model.product} if H100.model else {}
    found = limit(own(tmp_path, f"{names.get(name, name)}:\n  memory.copy: {{value: 3100, at_least: 2945}}\n"))
    assert (found.expected, found.threshold) == (3100, 0.95)
    assert found.basis.startswith("expected.yaml: ")


def test_a_bare_number_is_enough(tmp_path: Path) -> None:
    assert limit(own(tmp_path, '"*":\n  memory.copy: 3100\n')).threshold == 0.95
    assert limit(own(tmp_path, '"*":\n  memory.copy: {value: 3100, ratio: 0.9}\n')).threshold == 0.9


@pytest.mark.parametrize(
    "text", ["", "just words", "- a\n- b", '"*":\n  memory.copy: fast', '"*":\n  memory.copy: {vlaue: 3}', '"*":\n  memory.copy: -1', "a: [", "\x00\xff"]
)  # fmt: skip
def test_a_broken_file_is_told_in_a_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(GpudoctorError, match=r"--expected .*expected\.yaml"):
        own(tmp_path, text)


def baseline(*figures: BaselineFigure) -> Site:
    return Site(
        baseline=Baseline(kind="gpudoctor bench baseline", schema=1, host="good-1", figures=list(figures)),
        baseline_file="good.json",
    )


def test_a_baseline_holds_before_the_datasheet() -> None:
    site = baseline(BaselineFigure(test="memory", metric="copy", value=3020.0, unit="GB/s", device_id="10de:2330"))
    found = limit(site)
    assert (found.expected, found.threshold, found.basis) == (3020.0, 0.95, "baseline good.json (good-1)")


def test_a_baseline_of_another_model_or_size_says_nothing() -> None:
    other = BaselineFigure(test="memory", metric="copy", value=900.0, unit="GB/s", device_id="10de:2684")
    size = BaselineFigure(test="memory", metric="copy", value=900.0, unit="GB/s", device_id="10de:2330", size_bytes=1)
    assert limit(baseline(other, size)).expected == 3352


def test_a_baseline_is_the_median_over_the_gpus(tmp_path: Path) -> None:
    bench = Bench(figures=[figure(value=value) for value in (3000.0, 3010.0, 2000.0)], gpus_visible=3)
    made = baseline_of(bench, {H100.bdf or "": "10de:2330"}, host="good-1", taken="2026", tool="gpudoctor 1")
    assert [(one.value, one.device_id) for one in made.figures] == [(3000.0, "10de:2330")]
    path = tmp_path / "b.json"
    import msgspec

    path.write_bytes(msgspec.json.encode(made))
    assert read_baseline(path) == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        '{"kind": "x", "schema": 1, "figures": []}',
        '{"kind": "gpudoctor bench baseline", "schema": 2, "figures": []}',
        "\x00",
    ],
)
def test_what_is_no_baseline(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(GpudoctorError, match="not a baseline"):
        read_baseline(path)


def test_a_bad_node_is_no_baseline() -> None:
    assert unfit_for_a_baseline(Bench(runs=[BenchRun(test="memory", state="done")], figures=[figure()])) == []
    bad = Bench(
        runs=[BenchRun(test="nccl", state="timed_out"), BenchRun(test="memory", state="done", busy=True)],
        figures=[figure(verdict="low")],
        faults=[BenchFault(test="memory", kind="bit_flip")],
    )
    assert len(unfit_for_a_baseline(bad)) == 4
