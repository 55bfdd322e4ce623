"""What somebody with a broken machine reads: short, 80 columns, commands that survive copying."""

from __future__ import annotations

import re
import shlex

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.render import FORMATS, RenderOptions
from gpudoctor.render.safe import cells, cut
from gpudoctor.render.wrap import command, quote, wrap
from gpudoctor.report import Finding, NextCheck, ProbeRun, ProbeState, Report, Severity, Verdict

LONG = "sudo modprobe nvidia && sudo modprobe nvidia_uvm && nvidia-smi --query-gpu=index,name,driver_version --format=csv"


def text(report: Report, **options: object) -> str:
    return FORMATS["text"](report, RenderOptions(**options))  # type: ignore[arg-type]


def test_the_verdict_comes_first(report: Report) -> None:
    first = text(report).splitlines()[0]
    assert first.startswith("FAIL  gpu-node-07: 1 root cause, 3 consequences")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_prose_stays_within_the_width(report: Report, width: int) -> None:
    for line in text(report, width=width, verbose=True).splitlines():
        assert cells(line) <= width or " " not in line.strip().removesuffix(" \\"), line


def test_colour_changes_nothing_but_colour(report: Report) -> None:
    coloured = text(report, colour=True)
    assert "\x1b[" in coloured
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == text(report)


def test_every_command_can_be_copied_whole(report: Report) -> None:
    joined = text(report, verbose=True).replace(" \\\n", " ")
    joined = re.sub(" +", " ", joined)
    steps = [step for finding in report.findings for cause in finding.causes for step in cause.steps if step.run]
    assert len(steps) > 8
    for step in steps:
        if step.run and "af:00" not in step.run:  # the second GPU's finding is told with the first
            assert step.run in joined


def test_a_long_command_is_broken_where_a_paste_still_works() -> None:
    lines = command(LONG, 80, "  ")
    assert len(lines) > 1
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(LONG)


@pytest.mark.parametrize(
    "run",
    [
        "printf '%s\\n' " + "word " * 30,
        "echo '" + "quoted words " * 10 + "'",
        "cat <<EOF " + "x " * 50,
        "true # " + "comment " * 20,
        'python3 -c "' + "print(1); " * 20 + '"',
    ],
)
def test_a_command_that_could_change_its_meaning_stays_on_one_line(run: str) -> None:
    lines = command(run, 80, "  ")
    joined = "".join(line.removesuffix("\\") for line in lines)
    assert shlex.split(joined, comments=True) == shlex.split(run, comments=True)


@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp"])), min_size=1, max_size=20)
)
@settings(max_examples=150, deadline=None)
def test_any_quoted_command_means_the_same_after_breaking(arguments: list[str]) -> None:
    run = shlex.join(["cmd", *arguments])
    joined = "\n".join(command(run, 40, "  ")).replace("\\\n", "")
    assert shlex.split(joined) == shlex.split(run)


def test_the_effect_stands_at_the_step(report: Report) -> None:
    shown = text(report)
    assert "[reboots: every job ends]" in shown
    assert "[hardware work]" in shown


def test_a_step_that_only_reads_what_is_quoted_is_left_out(report: Report) -> None:
    shown = text(report)
    assert "[dkms status:1]" in shown
    assert "See which kernels it was built for" not in shown
    assert "1. Install the headers of the running kernel." in shown


def test_equal_findings_are_told_once_with_all_their_subjects(report: Report) -> None:
    shown = text(report)
    assert shown.count("The PCIe link runs at x8 of x16") == 1
    assert "the same: gpu 0000:af:00.0" in shown


def test_what_could_not_be_checked_says_why_and_what_to_do(report: Report) -> None:
    shown = text(report)
    assert "NOT CHECKED  kernel log: permission denied (run as root, or join group adm)" in shown
    assert "GPUs (NVML): no answer in time (--deadline SECONDS waits longer)" in shown
    assert "slurm" not in shown


def test_a_check_that_is_shown_already_is_not_repeated(report: Report) -> None:
    assert text(report).count("mokutil --sb-state") == 1


def test_no_findings_is_not_praise_when_nothing_was_read() -> None:
    report = Report(
        verdict=Verdict.UNKNOWN,
        host="h",
        probes=[ProbeRun(name="gpus", state=ProbeState.NO_EVIDENCE, essential=True)],
    )
    shown = text(report)
    assert shown.startswith("UNKNOWN  h: nothing wrong found so far; 1 thing could not be checked")
    assert "NOT CHECKED  gpus: nothing to read here" in shown


def test_a_pass_says_what_it_rests_on() -> None:
    probes = [ProbeRun(name=name, state=ProbeState.OK) for name in ("pci", "kernel_log")]
    assert "checked: pci, kernel log" in text(Report(verdict=Verdict.PASS, host="h", probes=probes))


def test_sixteen_gpus_do_not_fill_the_screen(report: Report) -> None:
    one = report.findings[1]
    many = [msgspec.structs.replace(one, subject=f"gpu 0000:{n:02x}:00.0") for n in range(16)]
    shown = text(Report(findings=many, verdict=Verdict.WARN, host="h"))
    assert len(shown.splitlines()) < 20
    assert "and 7 more" in shown


def test_a_finding_without_causes_is_still_told() -> None:
    finding = Finding(rule="a/b", subject="node", severity=Severity.ERROR, title="Something is wrong")
    assert "ERROR  Something is wrong" in text(Report(findings=[finding], verdict=Verdict.FAIL))


def test_next_checks_are_few_unless_asked_for() -> None:
    checks = [NextCheck(say=f"check {n}", run=f"cmd{n}") for n in range(9)]
    report = Report(next_checks=checks, verdict=Verdict.UNKNOWN)
    assert "cmd8" not in text(report)
    assert "and 5 more with -v" in text(report)
    assert "cmd8" in text(report, verbose=True)


def test_wide_characters_count_two_columns() -> None:
    assert cells("显卡") == 4
    assert cut("显卡显卡显卡", 8) == "显卡..."
    assert all(cells(line) <= 20 for line in wrap("显卡 " * 20, 20, "  ", "  "))
    assert all(cells(line) <= 30 for line in quote("长" * 100, 30, "    "))
