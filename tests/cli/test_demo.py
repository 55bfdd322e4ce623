"""The bundled scenarios: each gives the right cause, and a recording says what the machine said."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from gpudoctor.cli.pipeline import Request, examine
from gpudoctor.demo import SCENARIOS, path_of
from gpudoctor.engine.load import load_rules
from gpudoctor.report import Report, Verdict
from gpudoctor.sources import Recorder, open_paths
from tests.cli.conftest import Gpudoctor
from tests.cli.demo_machines import SCENARIOS as MACHINES

# Scenario -> verdict, word of the first finding's rule, what the first cause must say, a command among its steps.
EXPECTED = {
    "kernel-updated": (Verdict.FAIL, "kernel-headers-missing", "headers", "apt-get install linux-headers-"),
    "secure-boot": (Verdict.FAIL, "secure-boot/", "key", "mokutil"),
    "driver-library-mismatch": (Verdict.FAIL, "version-mismatch", "580.105.08", "reboot"),
    "off-the-bus": (Verdict.FAIL, "xid/fallen-off-bus", "power", "lspci -s 0000:ca:00.0"),
    "ecc-row-remap": (Verdict.FAIL, "xid/", "replacement", "ROW_REMAPPER"),
    "container-without-gpu": (Verdict.FAIL, "container/", "started without GPUs", "--gpus all"),
}


def report_of(source: object) -> Report:
    return examine(source, load_rules(), Request())  # type: ignore[arg-type]


def comparable(report: Report) -> Report:
    """Without what differs between two runs on the same evidence: times, and where it came from."""
    probes = [msgspec.structs.replace(run, seconds=0.0) for run in report.probes]
    return msgspec.structs.replace(report, probes=probes, source="")


@pytest.mark.parametrize("name", EXPECTED)
def test_a_scenario_gives_its_cause_and_the_step(name: str) -> None:
    verdict, rule, title, step = EXPECTED[name]
    report = report_of(open_paths([path_of(name)]))
    first = report.findings[0]
    cause = first.causes[0]
    assert report.verdict is verdict
    assert rule in first.rule
    assert title.lower() in cause.title.lower()
    assert any(step in (one.run or "") for one in cause.steps)


def test_the_healthy_machine_passes_with_nothing_to_say() -> None:
    report = report_of(open_paths([path_of("healthy")]))
    assert (report.verdict, report.findings) == (Verdict.PASS, [])


def test_every_scenario_is_tested() -> None:
    assert set(SCENARIOS) == set(MACHINES) == {*EXPECTED, "healthy"}


@pytest.mark.parametrize("name", list(MACHINES))
def test_the_report_on_a_recording_is_the_report_on_the_machine(name: str, tmp_path: Path) -> None:
    recorder = Recorder(MACHINES[name]())
    live = report_of(recorder)
    for form in ("recording.tar.gz", "recording"):
        recorder.save(tmp_path / form)
        assert comparable(report_of(open_paths([tmp_path / form]))) == comparable(live)


@pytest.mark.parametrize("name", list(MACHINES))
def test_the_verdict_survives_redaction(name: str, tmp_path: Path) -> None:
    recorder = Recorder(MACHINES[name]())
    live = report_of(recorder)
    recorder.save(tmp_path / "redacted", redact=True)
    redacted = report_of(open_paths([tmp_path / "redacted"]))
    assert redacted.verdict is live.verdict
    assert [(f.rule, [c.id for c in f.causes]) for f in redacted.findings] == [
        (f.rule, [c.id for c in f.causes]) for f in live.findings
    ]


def test_demo_without_a_name_lists_them(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("demo")
    assert run.returncode == 0
    for name, about in SCENARIOS.items():
        assert name in run.stdout
        assert about in run.stdout


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_demo_reads_well_at_80_columns(gpudoctor: Gpudoctor, name: str) -> None:
    run = gpudoctor("demo", name)
    assert run.returncode == (0 if name == "healthy" else 1)
    assert run.stderr == ""
    for line in run.stdout.splitlines():
        assert len(line) <= 80 or " " not in line.strip(), line
    assert "{" not in run.stdout.replace("'{{", "").replace("{{", "") or name == "container-without-gpu"


def test_demo_in_every_format(gpudoctor: Gpudoctor) -> None:
    report = json.loads(gpudoctor("demo", "off-the-bus", "--format", "json").stdout)
    assert report["schema"] == 1
    assert gpudoctor("demo", "off-the-bus", "--format", "junit").stdout.startswith("<?xml")
    assert gpudoctor("demo", "off-the-bus", "--format", "markdown").stdout.startswith("## FAIL: gpu-node-07")
