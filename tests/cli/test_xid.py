"""`gpudoctor xid`."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Gpudoctor


def test_a_page_says_what_it_is_and_what_to_do(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("xid", "79")
    assert run.returncode == 0
    assert run.stdout.startswith("Xid 79 ")
    assert "fallen off the bus" in run.stdout
    assert "what to do:" in run.stdout
    assert max(map(len, run.stdout.splitlines())) <= 80


@pytest.mark.parametrize("written", ["79", "xid79", "Xid 79"])
def test_the_number_may_be_written_as_people_write_it(gpudoctor: Gpudoctor, written: str) -> None:
    assert gpudoctor("xid", written).stdout.startswith("Xid 79 ")


def test_json(gpudoctor: Gpudoctor) -> None:
    entry = json.loads(gpudoctor("xid", "48", "--format", "json").stdout)
    assert entry["code"] == 48
    assert entry["advice"]
    many = json.loads(gpudoctor("xid", "--list", "--format", "json").stdout)
    assert len(many) > 150
    assert [one["code"] for one in many] == sorted(one["code"] for one in many)


@pytest.mark.parametrize("gpu", ["hopper", "10de:2330", "H100", "NVIDIA H100 80GB HBM3", "GH100"])
def test_a_gpu_may_be_named_in_several_ways(gpudoctor: Gpudoctor, gpu: str) -> None:
    assert gpudoctor("xid", "79", "--gpu", gpu, "--driver", "550.54.15").returncode == 0


def test_the_list_has_a_line_each(gpudoctor: Gpudoctor) -> None:
    lines = gpudoctor("xid", "--list").stdout.splitlines()
    assert any(line.split()[0] == "79" for line in lines)
