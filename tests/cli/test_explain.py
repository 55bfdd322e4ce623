"""`gpudoctor explain`: text, files, standard input, rule ids."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Gpudoctor

XID = "[  100.000000] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n"
SMI = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."


def rules_in(text: str) -> list[str]:
    return [finding["rule"] for finding in json.loads(text)["findings"]]


def test_a_pasted_error(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("explain", SMI)
    assert run.returncode == 1
    assert run.stdout.startswith("FAIL  this evidence: 1 root cause\n")
    assert "driver/module-not-loaded" in run.stdout
    assert "NOT CHECKED" not in run.stdout


def test_words_without_quotes_are_one_text(gpudoctor: Gpudoctor) -> None:
    quoted = gpudoctor("explain", SMI, "--format", "json")
    bare = gpudoctor("explain", *SMI.split(), "--format", "json")
    assert rules_in(bare.stdout) == rules_in(quoted.stdout) != []


@pytest.mark.parametrize("way", ["file", "from", "stdin", "dash", "gz", "gz-stdin", "utf-16"])
def test_every_way_to_hand_over_a_log_says_the_same(gpudoctor: Gpudoctor, tmp_path: Path, way: str) -> None:
    log, packed, wide = tmp_path / "kern.log", tmp_path / "kern.log.gz", tmp_path / "wide.log"
    log.write_text(XID)
    packed.write_bytes(gzip.compress(XID.encode()))
    wide.write_bytes(XID.encode("utf-16"))
    run = {
        "file": lambda: gpudoctor("explain", log, "--format", "json"),
        "from": lambda: gpudoctor("explain", "--from", log, "--format", "json"),
        "stdin": lambda: gpudoctor("explain", "--format", "json", input=XID),
        "dash": lambda: gpudoctor("explain", "-", "--format", "json", input=XID),
        "gz": lambda: gpudoctor("explain", packed, "--format", "json"),
        "gz-stdin": lambda: gpudoctor("explain", "-", "--format", "json", input=packed.read_bytes()),
        "utf-16": lambda: gpudoctor("explain", "-", "--format", "json", input=wide.read_bytes()),
    }[way]()
    assert run.returncode == 1, run.stderr
    assert rules_in(run.stdout) == ["xid/fallen-off-bus"]


def test_a_huge_standard_input(gpudoctor: Gpudoctor) -> None:
    filler = "[   50.000000] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n" * 120_000
    run = gpudoctor("explain", "-", "--format", "json", input=filler + XID)
    assert run.returncode == 1, run.stderr
    assert rules_in(run.stdout) == ["xid/fallen-off-bus"]
    assert json.loads(run.stdout)["findings"][0]["evidence"][0]["line"] == 120_001


def test_a_text_that_says_nothing_is_unknown_not_healthy(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("explain", "hello world")
    assert run.returncode == 3
    assert run.stdout.startswith("UNKNOWN  ")


def test_a_rule_id_shows_its_page(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("explain", "driver/module-not-loaded")
    assert run.returncode == 0
    assert run.stdout.startswith("driver/module-not-loaded  (critical)\n")
    assert "cause 1: " in run.stdout
    page = json.loads(gpudoctor("explain", "driver/module-not-loaded", "--format", "json").stdout)
    assert page["id"] == "driver/module-not-loaded"


@pytest.mark.parametrize("data", [b"\0" * 5000, bytes(range(256)) * 40, b"\x1f\x8b broken", b"\xff" * 1000])
def test_binary_input_is_no_crash(gpudoctor: Gpudoctor, data: bytes) -> None:
    run = gpudoctor("explain", "-", input=data)
    assert run.returncode in (2, 3)
    assert "Traceback" not in run.stderr
    assert "fault of gpudoctor" not in run.stderr


def test_hostile_text_does_not_reach_the_terminal(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("explain", "-", input=XID.replace("python3", "\x1b[31m\x1b]0;x\x07evil\u202e[red]"))
    assert run.returncode == 1
    assert "\x1b" not in run.stdout
    assert "\u202e" not in run.stdout


HEALTHY_SMI = """\
$ nvidia-smi --query-gpu=index,name,ecc.errors.uncorrected.volatile.total,temperature.gpu --format=csv
index, name, ecc.errors.uncorrected.volatile.total, temperature.gpu
0, NVIDIA L4, 0, 40
"""


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: the flux of tensor 7 is negative",
        "ncclx: fatal: the moon is in the wrong quarter",
        "frobnicator[77]: error: could not align the widgets",
    ],
)
def test_an_error_that_no_rule_knows_is_said_and_is_no_pass(gpudoctor: Gpudoctor, line: str) -> None:
    run = gpudoctor("explain", "-", input=f"{HEALTHY_SMI}$ python train.py\nstep 1 loss 2.3\n{line}\n")
    assert run.returncode == 3, run.stdout
    assert run.stdout.startswith("UNKNOWN")
    assert f'no rule knows "{line}"' in " ".join(run.stdout.split())
    assert gpudoctor("explain", "-", "--allow-unknown", input=line).returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "0 errors, 0 warnings",
        "rx_errors: 0",
        "epoch 3: loss 0.2, error_rate 0.01",
        "# this cannot fail",
        "    Volatile Uncorr. ECC | 0",
    ],
)
def test_ordinary_words_are_no_unknown_errors(gpudoctor: Gpudoctor, line: str) -> None:
    run = gpudoctor("explain", "-", input=f"{HEALTHY_SMI}$ python train.py\n{line}\n")
    assert "no rule knows" not in run.stdout


def test_errors_beside_a_known_one_are_not_listed(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("explain", f"{SMI}\nRuntimeError: the flux of tensor 7 is negative")
    assert run.returncode == 1
    assert "no rule knows" not in run.stdout


PLOTTER = """\
id: site/plotter
title: The plotter beside the GPU server is clogged
severity: critical
symptom: {messages: ["plotter: nozzle 7 dry"]}
causes:
  - id: pigment
    title: Pigment dried in the nozzle of the plotter
    supports: [{message: "magenta", because: magenta dries first, check: plotter --nozzles}]
    steps: [{say: "Rinse the clogged nozzle with warm water, pigment by pigment.", run: plotter --rinse, effect: changes}]
references: ["https://example.com/"]
examples: []
"""
CLOGGED = "Our plotter beside the GPU server is not drawing any more, the nozzle seems clogged with dried pigment. How can I rinse it with water?"


@pytest.fixture
def plotter(tmp_path: Path) -> Path:
    file = tmp_path / "rules" / "site" / "plotter.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(PLOTTER)
    return tmp_path / "rules"


def test_what_no_rule_knows_is_guessed_by_its_words_and_stays_unknown(gpudoctor: Gpudoctor, plotter: Path) -> None:
    run = gpudoctor("explain", CLOGGED, "--rules", plotter, "--fail-on", "info")
    assert run.returncode == 3
    lines = run.stdout.splitlines()
    assert lines[0].startswith("UNKNOWN  this evidence: no rule knows this, 1 guess")
    assert any(line.startswith("MAYBE  The plotter beside the GPU server is clogged") for line in lines)
    assert "  fix, if it is that" in lines
    assert "  fix" not in lines
    assert "said in like words:" in run.stdout
    assert "no rule knows what this tells" in run.stdout
    assert "plotter --nozzles" in run.stdout


def test_a_guess_is_one_in_every_format(gpudoctor: Gpudoctor, plotter: Path) -> None:
    report = json.loads(gpudoctor("explain", CLOGGED, "--rules", plotter, "--format", "json").stdout)
    (finding,) = report["findings"]
    assert (report["verdict"], finding["guess"], finding["severity"], finding["action"]) == (
        "unknown",
        True,
        "info",
        "none",
    )
    assert "### Maybe: " in gpudoctor("explain", CLOGGED, "--rules", plotter, "--format", "markdown").stdout
    junit = gpudoctor("explain", CLOGGED, "--rules", plotter, "--format", "junit", "--fail-on", "info").stdout
    assert 'failures="0"' in junit
    assert "maybe: " in junit
