"""`gpudoctor check`: exit codes, formats, files, colour, and that nothing but the report is on standard output."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from gpudoctor.demo import path_of
from tests.cli.conftest import Gpudoctor

HEALTHY, BROKEN = path_of("healthy"), path_of("kernel-updated")
ROOT = Path(__file__).parents[2]
RULE = """\
id: site/too-few-cpus
title: This site wants more CPUs
severity: {severity}
symptom: {{when: host.cpu_count_total < 1000}}
causes: [{{id: small, title: The machine is small, steps: [{{say: Look., run: nproc}}]}}]
references: ["https://example.org/"]
examples:
  - {{name: small, facts: {{host: {{cpu_count_total: 4}}}}, expect: {{fires: yes}}}}
  - {{name: big, facts: {{host: {{cpu_count_total: 4000}}}}, expect: {{fires: no}}}}
  - {{name: unknown, facts: {{}}, expect: {{fires: unknown}}}}
"""


@pytest.fixture
def unreadable(tmp_path: Path) -> Path:
    """Evidence that says nothing of the GPUs and has no kernel log."""
    path = tmp_path / "dkms.txt"
    path.write_text("nvidia/580.95.05, 6.8.0-49-generic, x86_64: installed\n")
    return path


def site_rules(tmp_path: Path, severity: str) -> Path:
    (tmp_path / "rules" / "site").mkdir(parents=True)
    (tmp_path / "rules" / "site" / "too-few-cpus.yaml").write_text(RULE.format(severity=severity))
    return tmp_path / "rules"


def test_exit_0_when_nothing_is_wrong(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("check", "--from", HEALTHY)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("PASS  gpu-node-07: nothing wrong found\n")


def test_exit_1_for_findings(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("check", "--from", BROKEN)
    assert (run.returncode, run.stderr) == (1, "")
    assert run.stdout.startswith("FAIL  gpu-node-07: 1 root cause")


def test_exit_3_when_something_essential_could_not_be_checked(gpudoctor: Gpudoctor, unreadable: Path) -> None:
    run = gpudoctor("check", "--from", unreadable)
    assert run.returncode == 3
    assert run.stdout.startswith("UNKNOWN  ")
    assert "NOT CHECKED" in run.stdout
    assert gpudoctor("check", "--from", unreadable, "--allow-unknown").returncode == 0


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"), [("warning", "error", 0), ("warning", "warning", 1), ("info", "info", 1)]
)
def test_fail_on_moves_the_bar(gpudoctor: Gpudoctor, tmp_path: Path, severity: str, fail_on: str, code: int) -> None:
    rules = site_rules(tmp_path, severity)
    run = gpudoctor("check", "--from", HEALTHY, "--rules", rules, "--fail-on", fail_on)
    assert run.returncode == code
    assert "site/too-few-cpus" in run.stdout


def test_a_broken_rule_is_a_clear_error_never_ignored(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    rules = site_rules(tmp_path, "warning")
    file = rules / "site" / "too-few-cpus.yaml"
    file.write_text(file.read_text().replace("host.cpu_count_total < 1000", "host.cpu_cuont < 1000"))
    run = gpudoctor("check", "--from", HEALTHY, "--rules", rules)
    assert (run.returncode, run.stdout) == (2, "")
    assert f"{file}:4:" in run.stderr
    assert "cpu_cuont" in run.stderr


def test_json_fits_the_published_schema(gpudoctor: Gpudoctor) -> None:
    report = json.loads(gpudoctor("check", "--from", BROKEN, "--format", "json").stdout)
    jsonschema.validate(report, json.loads((ROOT / "docs" / "report.schema.json").read_text()))


def test_the_report_goes_to_a_file(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    run = gpudoctor("check", "--from", BROKEN, "-o", tmp_path / "report.md", "--format", "markdown")
    assert (run.returncode, run.stdout) == (1, "")
    assert (tmp_path / "report.md").read_text().startswith("## FAIL")


def test_several_attachments_make_one_report(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    (tmp_path / "dmesg").write_text(
        "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    )
    (tmp_path / "lspci").write_text(
        "0000:3b:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 80GB] [10de:20b5] (rev ff)\n"
    )
    run = gpudoctor("check", "--from", tmp_path / "dmesg", "--from", tmp_path / "lspci", "--format", "json")
    report = json.loads(run.stdout)
    assert run.returncode == 1
    assert report["findings"][0]["rule"] == "xid/fallen-off-bus"


def test_areas_are_what_is_looked_at(gpudoctor: Gpudoctor) -> None:
    report = json.loads(gpudoctor("check", "pci", "--from", HEALTHY, "--format", "json").stdout)
    states = {run["name"]: run["state"] for run in report["probes"]}
    assert states["pci"] == "ok"
    assert states["kernel_log"] == "skipped"
    assert not any(run["essential"] for run in report["probes"] if run["state"] == "skipped")


def test_what_was_expected_and_is_not_there_is_a_finding(gpudoctor: Gpudoctor, tmp_path: Path) -> None:
    (tmp_path / "expect.yaml").write_text("gpu_count: 4\n")
    run = gpudoctor("check", "--from", HEALTHY, "--expect", tmp_path / "expect.yaml")
    assert run.returncode == 1
    assert "2 of 4 GPUs" in run.stdout
    (tmp_path / "expect.yaml").write_text("gpu_count: 2\n")
    assert gpudoctor("check", "--from", HEALTHY, "--expect", tmp_path / "expect.yaml").returncode == 0


def test_this_machine_is_checked_within_its_deadline(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("check", "--deadline", "20", "--format", "json")
    report = json.loads(run.stdout)
    assert run.returncode in (0, 1, 3)
    assert report["source"] == "live"
    assert not [one for one in report["probes"] if one["state"] == "crashed"]


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What a terminal of 80 columns gets."""
    controller, terminal = pty.openpty()
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM", "COLUMNS")}
    child = subprocess.Popen(
        [sys.executable, "-m", "gpudoctor", *arguments],
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        stdin=subprocess.DEVNULL,
        env={**env, "TERM": "xterm", **environment},
    )
    os.close(terminal)
    shown = b""
    try:
        while data := os.read(controller, 65536):
            shown += data
    except OSError:  # the terminal's other end is closed
        pass
    os.close(controller)
    child.wait(timeout=60)
    return shown.decode()


def test_colour_on_a_terminal_only_and_never_with_no_color(gpudoctor: Gpudoctor) -> None:
    arguments = ("check", "--from", str(BROKEN))
    assert "\x1b[1;31mFAIL\x1b[0m" in on_a_terminal(*arguments)
    assert "\x1b" not in on_a_terminal(*arguments, NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(*arguments, TERM="dumb")
    assert "\x1b" not in gpudoctor(*arguments).stdout
