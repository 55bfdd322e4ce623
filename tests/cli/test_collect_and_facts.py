"""`gpudoctor collect` and `gpudoctor facts`."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from gpudoctor.demo import path_of
from gpudoctor.facts import Facts
from tests.cli.conftest import Gpudoctor


def findings(text: str) -> list[tuple[str, str, list[str]]]:
    report = json.loads(text)
    return [(f["rule"], f["subject"], [c["id"] for c in f["causes"]]) for f in report["findings"]]


@pytest.mark.parametrize("name", ["host.tar.gz", "host"])
def test_a_recording_of_this_machine_gives_this_machines_report(
    gpudoctor: Gpudoctor, tmp_path: Path, name: str
) -> None:
    made = gpudoctor("collect", "-o", tmp_path / name)
    assert made.returncode == 0
    assert made.stdout == f"{tmp_path / name}\n"
    assert f"gpudoctor check --from {tmp_path / name}" in made.stderr
    live = gpudoctor("check", "--format", "json")
    later = gpudoctor("check", "--from", tmp_path / name, "--format", "json")
    assert later.returncode == live.returncode
    assert findings(later.stdout) == findings(live.stdout)


def test_the_default_name_says_the_host_and_the_time(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    made = gpudoctor("collect", cwd=tmp_path)
    files = list(tmp_path.iterdir())
    assert [file.name for file in files] == [made.stdout.strip()]
    assert files[0].name.endswith("Z.tar.gz")
    with tarfile.open(files[0]) as archive:
        assert any(name.endswith("/manifest.json") for name in archive.getnames())


def test_nothing_is_overwritten(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    (tmp_path / "mine.tar.gz").write_text("precious")
    run = gpudoctor("collect", "-o", tmp_path / "mine.tar.gz")
    assert run.returncode == 2
    assert "exists" in run.stderr
    assert (tmp_path / "mine.tar.gz").read_text() == "precious"


def test_facts_as_json_have_every_group_and_null_for_unknown(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("facts", "--from", path_of("healthy"), "--format", "json")
    known = json.loads(run.stdout)
    assert run.returncode == 0
    assert list(known) == [name for name in Facts.__struct_fields__ if name != "evidence"]
    assert known["host"]["kernel_release"] == "6.8.0-49-generic"
    assert [gpu["bdf"] for gpu in known["gpus"]] == ["0000:17:00.0", "0000:ca:00.0"]
    assert known["kubernetes"] is None


def test_facts_as_text_name_what_rules_name(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("facts", "--from", path_of("healthy"))
    assert "driver.loaded = true\n" in run.stdout
    assert "gpus[1].bdf = 0000:ca:00.0\n" in run.stdout
    assert "not known: " in run.stdout


def test_facts_of_one_area(gpudoctor: Gpudoctor) -> None:
    known = json.loads(gpudoctor("facts", "pci", "--from", path_of("healthy"), "--format", "json").stdout)
    assert known["pci"] is not None
    assert known["cuda"] is None or known["gpus"] is None
