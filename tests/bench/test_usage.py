"""Wrong usage of active tests is told before any GPU is touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Gpudoctor


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["bench", "fast"], "TEST fast: not known"),
        (["bench", "--seconds", "0"], "--seconds 0: out of range"),
        (["bench", "--format", "yaml"], "--format yaml: not known"),
        (["bench", "--baseline", "/no/such/file"], "--baseline /no/such/file: No such file"),
        (["bench", "--expected", "/no/such/file"], "--expected /no/such/file: No such file"),
        (["bench", "--deadline", "-1"], "--deadline -1: out of range"),
        (["check", "--level", "4"], "--level"),
        (["check", "--level", "2", "--root", "/"], "--level 2 and --root exclude each other"),
        (["check", "--level", "2", "--deadline", "0"], "--deadline 0: out of range"),
    ],
)
def test_it_is_a_line_and_exit_code_2(gpudoctor: Gpudoctor, arguments: list[str], said: str) -> None:
    run = gpudoctor(*arguments)
    assert run.returncode == 2
    assert said in run.stderr
    assert run.stdout == ""


def test_a_baseline_is_never_overwritten(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    path = tmp_path / "good.json"
    path.write_text("mine")
    run = gpudoctor("bench", "memory", "--save-baseline", path)
    assert run.returncode == 2
    assert path.read_text() == "mine"


def test_help_names_every_test(gpudoctor: Gpudoctor) -> None:
    help_text = gpudoctor("bench", "--help").stdout
    for name in ("memory", "gemm", "pcie", "p2p", "nccl", "memtest", "burn"):
        assert name in help_text
    assert "bench" in gpudoctor("--help").stdout
