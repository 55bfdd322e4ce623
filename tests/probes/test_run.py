"""The runner: probes side by side, bounded, none able to stop the rest; and what it says of each."""

from __future__ import annotations

import threading
import time
from types import ModuleType

import pytest

from gpudoctor.facts import Driver, Evidence, Facts, Gpu, Host, Kernel
from gpudoctor.probes import PROBES
from gpudoctor.probes.run import run_probes
from gpudoctor.report import ProbeState
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.stored import Answers, StoredSource
from tests.probes.machine import NOW, machine


def made_probe(name, function, group=None):
    module = ModuleType(name)
    module.NAME = name
    module.probe = function
    if group:
        module.GROUP = group
    return module


def states(runs):
    return {run.name: run.state for run in runs}


def test_a_crash_loses_one_probe_and_names_the_reason_in_one_line():
    def crash(source: Source):
        raise ValueError("first\nsecond")

    probes = [made_probe("host", lambda source: Host(hostname="node1")), made_probe("pci", crash)]
    facts, runs = run_probes(machine(), probes=probes)
    assert facts.host is not None
    assert facts.host.hostname == "node1"
    assert states(runs) == {"host": ProbeState.OK, "pci": ProbeState.CRASHED}
    assert runs[1].problems == ["ValueError: first second"]


def test_a_probe_that_never_answers_is_given_up_at_the_deadline():
    released = threading.Event()
    probes = [
        made_probe("host", lambda source: Host(hostname="node1")),
        made_probe("pci", lambda source: released.wait(20)),
    ]
    started = time.monotonic()
    facts, runs = run_probes(machine(), probes=probes, deadline_seconds=0.3)
    released.set()
    assert time.monotonic() - started < 5
    assert facts.host is not None
    assert states(runs)["pci"] is ProbeState.TIMED_OUT
    assert "0.3 s" in runs[1].problems[0]


def test_a_probe_that_hangs_on_stored_evidence_does_not_keep_the_others_waiting():
    released = threading.Event()
    probes = [
        made_probe("pci", lambda source: released.wait(20)),
        made_probe("nvml", lambda source: released.wait(20), "host"),
        made_probe("host", lambda source: Host(hostname="node1")),
    ]
    started = time.monotonic()
    facts, runs = run_probes(machine(), probes=probes, deadline_seconds=2)
    released.set()
    assert time.monotonic() - started < 5
    assert facts.host is not None
    assert states(runs) == {"pci": ProbeState.TIMED_OUT, "nvml": ProbeState.TIMED_OUT, "host": ProbeState.OK}


def test_every_probe_is_reported_once_in_order_and_progress_is_told():
    seen = []
    _, runs = run_probes(machine(), on_progress=lambda name, done: seen.append((name, done)))
    names = [probe.NAME for probe in PROBES]
    assert [run.name for run in runs] == names
    assert sorted(name for name, done in seen if done) == sorted(names)


def test_areas_skip_the_rest_but_keep_the_context():
    probes = [
        made_probe("host", lambda source: Host(hostname="node1")),
        made_probe("pci", lambda source: None),
        made_probe("slurm", lambda source: None),
    ]
    _, runs = run_probes(machine(), probes=probes, areas={"pci"})
    assert states(runs) == {
        "host": ProbeState.OK,
        "pci": ProbeState.NO_EVIDENCE,
        "slurm": ProbeState.SKIPPED,
    }


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (Status.DENIED, ProbeState.DENIED),
        (Status.TIMEOUT, ProbeState.TIMED_OUT),
        (Status.NOT_FOUND, ProbeState.NO_EVIDENCE),
        (Status.FAILED, ProbeState.NO_EVIDENCE),
    ],
)
def test_what_was_not_answered_decides_the_state(status, state):
    answers = Answers()
    answers.add(CommandAnswer(argv=("dmesg",), status=status, stderr="dmesg: no"))
    source = StoredSource("recording", "test", answers, now=NOW)
    probes = [made_probe("kernel_log", lambda s: s.run("dmesg") and None, "kernel")]
    _, runs = run_probes(source, probes=probes)
    assert runs[0].state is state
    assert (runs[0].problems == []) == (status is Status.NOT_FOUND)


def test_partial_when_something_was_denied_beside_what_was_learnt():
    def learn(source: Source):
        source.read("/etc/docker/daemon.json")
        return Host(hostname="node1")

    _, runs = run_probes(machine(denied=("/etc/docker/daemon.json",)), probes=[made_probe("host", learn)])
    assert runs[0].state is ProbeState.PARTIAL
    assert runs[0].problems == ["/etc/docker/daemon.json: permission denied"]


def test_nvml_error_alone_is_no_answer_about_gpus():
    error = Facts(driver=Driver(nvml_error="DRIVER_NOT_LOADED"))
    probes = [
        made_probe("nvml", lambda s: error, "gpus"),
        made_probe("kernel_log", lambda s: Kernel(xids=[]), "kernel"),
    ]
    facts, runs = run_probes(machine(), probes=probes)
    assert facts.driver is not None
    assert facts.driver.nvml_error == "DRIVER_NOT_LOADED"
    assert states(runs)["nvml"] is ProbeState.NO_EVIDENCE
    assert {run.name: run.essential for run in runs} == {"nvml": True, "kernel_log": True}


def test_one_of_two_ways_to_the_gpus_is_enough():
    probes = [
        made_probe("nvml", lambda s: None, "gpus"),
        made_probe("nvidia_smi", lambda s: Facts(gpus=[Gpu(index=0)]), "gpus"),
        made_probe("kernel_log", lambda s: None, "kernel"),
        made_probe("kernel_state", lambda s: Kernel(cmdline="quiet"), "kernel"),
    ]
    _, runs = run_probes(machine(), probes=probes)
    # The kernel's state does not stand in for its log.
    assert [run.name for run in runs if run.essential] == ["nvidia_smi", "kernel_log"]
    _, runs = run_probes(machine(), probes=probes, profile="container")
    assert [run.name for run in runs if run.essential] == ["nvidia_smi"]


def test_of_an_attachment_the_gpus_are_essential_but_not_the_kernel_log():
    log = made_probe("kernel_log", lambda s: Kernel(xids=[]), "kernel")
    _, runs = run_probes(open_text("x"), probes=[made_probe("nvidia_smi", lambda s: None, "gpus"), log])
    # A log without a complaint says nothing of GPUs that nobody looked at.
    assert [run.name for run in runs if run.essential] == ["nvidia_smi"]
    gpus = made_probe("nvidia_smi", lambda s: Facts(gpus=[Gpu(index=0)]), "gpus")
    _, runs = run_probes(open_text("x"), probes=[gpus, made_probe("kernel_log", lambda s: None, "kernel")])
    assert [run.name for run in runs if run.essential] == ["nvidia_smi"]


def test_two_probes_of_a_group_complete_one_another_the_earlier_one_holding():
    first = Host(hostname="a", evidence={"hostname": Evidence(source="first")})
    second = Host(hostname="b", arch="x86_64", evidence={"arch": Evidence(source="second")})
    probes = [made_probe("host", lambda s: first), made_probe("more", lambda s: second, "host")]
    facts, _ = run_probes(machine(), probes=probes)
    assert facts.host is not None
    assert (facts.host.hostname, facts.host.arch) == ("a", "x86_64")
    assert {name: proof.source for name, proof in facts.host.evidence.items()} == {
        "hostname": "first",
        "arch": "second",
    }


@pytest.mark.parametrize(
    "other",
    [
        Gpu(index=7, bdf="00000000:3B:00.0", power_w=100.0),
        Gpu(index=0, power_w=100.0),
        Gpu(index=9, uuid="GPU-1", power_w=100.0),
    ],
)
def test_gpus_of_two_tools_are_matched_by_address_uuid_or_index(other):
    nvml = Gpu(index=0, bdf="0000:3b:00.0", uuid="GPU-1", temperature_c=40, errors={"fan_pct": "UNKNOWN"})
    probes = [
        made_probe("nvml", lambda s: Facts(gpus=[nvml]), "gpus"),
        made_probe("nvidia_smi", lambda s: Facts(gpus=[other, Gpu(index=8, bdf="0000:af:00.0")]), "gpus"),
    ]
    facts, _ = run_probes(machine(), probes=probes)
    assert facts.gpus is not None
    assert [(gpu.index, gpu.bdf) for gpu in facts.gpus] == [(0, "0000:3b:00.0"), (8, "0000:af:00.0")]
    assert (facts.gpus[0].temperature_c, facts.gpus[0].power_w) == (40, 100.0)
    assert facts.gpus[0].errors == {"fan_pct": "UNKNOWN"}


@pytest.mark.parametrize(
    "text", ["", "\x00\x01\x02", "a" * 300_000, "\n" * 5000, "$ lspci\n\x1b[31mred\x1b[0m\n", "<b>hi</b>"]
)
def test_no_text_crashes_a_probe(text):
    _, runs = run_probes(open_text(text))
    assert [run for run in runs if run.state is ProbeState.CRASHED] == []


HOSTILE = {
    "cdi": "$ nvidia-ctk cdi list\n" + "a." * 50_000,
    "lspci": "$ lspci\n01:00.0 VGA: " + "[10de:" * 20_000,
    "dkms": "$ dkms status\n" + "nvidia" * 20_000,
    "dpkg": "$ dpkg -l\nii " + "n" * 100_000,
    "docker": "$ docker info\n" + "A " * 50_000 + ":\n",
    "version": "$ cat /proc/version\nLinux version " + "(" * 100_000,
    "compiler": "compiler used to compile the kernel (gcc" + " " * 100_000,
    "modules": "/lib/modules/" + "a/" * 50_000,
    "history": "$ cat /var/log/apt/history.log\nUpgrade: nvidia" + "a" * 100_000 + "(",
    "config": "$ cat /etc/containerd/config.toml\n" + "\n" * 50_000,
    "word": "a" * 100_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_takes_no_more_than_linear_time(name):
    started = time.monotonic()
    _, runs = run_probes(open_text(HOSTILE[name]))
    assert time.monotonic() - started < 10
    assert [run for run in runs if run.state in (ProbeState.CRASHED, ProbeState.TIMED_OUT)] == []
