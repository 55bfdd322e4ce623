"""`--expect FILE`."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.cli.expect import read_expectation
from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Expectation


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "expect.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_values_get_the_type_of_their_field(tmp_path: Path) -> None:
    text = "# our nodes\ngpu_count: 8\ncuda_version: 12.10\ndriver_version: 580.95.05\necc_mode: yes\nmig_mode: off\npower_limit_w: 700\n"
    assert read_expectation(write(tmp_path, text)) == Expectation(
        gpu_count=8,
        cuda_version="12.10",
        driver_version="580.95.05",
        ecc_mode=True,
        mig_mode=False,
        power_limit_w=700.0,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gpu_count: many\n", ":1: `gpu_count: many`"),
        ("gpu_count: 8\ngpus: 8\n", ":2: `gpus` is not known"),
        ("gpu_count: 8\ngpu_count: 4\n", ":2: `gpu_count` occurs twice"),
        ("gpu_count: [8]\n", ":1: `gpu_count` takes one value"),
        ("ecc_mode: perhaps\n", ":1: `ecc_mode: perhaps`"),
        ("evidence: {}\n", ":1: `evidence` is not known"),
        ("- gpu_count\n", "an expectation is a mapping"),
        ("", "an expectation is a mapping"),
        ("gpu_count: {8\n", "not YAML"),
        ("a: &a [*a]\n", "not known"),
        (b"\xff\xfe\x00", "not UTF-8"),
        ("x" * 70_000, "larger than 64 KiB"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(GpudoctorError) as error:
        read_expectation(write(tmp_path, text))
    assert says in "\n".join([error.value.message, *error.value.details])


def test_all_problems_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(GpudoctorError) as error:
        read_expectation(write(tmp_path, "gpus: 1\ngpu_count: x\nmig_mode: y\n"))
    assert len(error.value.details) == 3
