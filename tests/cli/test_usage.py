"""Wrong usage, help, and what the program does when its surroundings are odd."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Gpudoctor

COMMANDS = ["check", "explain", "collect", "facts", "xid", "demo", "rules"]


def process(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own, where that makes a difference."""
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


def test_version() -> None:
    from gpudoctor import __version__

    for option in ("--version", "-V"):
        run = process(option)
        assert (run.returncode, run.stdout) == (0, f"gpudoctor {__version__}\n")


def test_help_names_every_command_and_the_exit_codes(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("--help")
    assert run.returncode == 0
    for command in COMMANDS:
        assert f"\n  {command} " in run.stdout
    assert "3 something essential could not be checked" in run.stdout.replace("\n  ", " ")
    assert max(map(len, run.stdout.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_within_80_columns(gpudoctor: Gpudoctor, command: str) -> None:
    run = gpudoctor(command, "--help")
    assert run.returncode == 0
    assert max(map(len, run.stdout.splitlines())) <= 80


def test_no_command_is_wrong_usage_not_success(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor()
    assert run.returncode == 2
    assert "Commands:" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--nonsense"], "--nonsense"),
        (["chek"], "chek"),
        (["check", "--nonsense"], "--nonsense"),
        (["check", "--format", "pdf"], "one of text, json, junit, markdown"),
        (["check", "--fail-on", "fatal"], "one of critical, error, warning, info"),
        (["check", "--profile", "laptop"], "one of host, container, training, ci"),
        (["check", "--deadline", "soon"], "soon"),
        (["check", "--deadline", "0"], "--deadline"),
        (["check", "--deadline", "nan"], "--deadline"),
        (["check", "no-such-area"], "no such area: no-such-area"),
        (["check", "--from", "/no/such/file"], "/no/such/file"),
        (["check", "--from", "/dev/null", "--root", "/host"], "--root"),
        (["check", "--rules", "/no/such/rules"], "/no/such/rules"),
        (["check", "--expect", "/no/such/file.yaml"], "/no/such/file.yaml"),
        (["check", "-o", "/no/such/directory/report"], "/no/such/directory"),
        (["explain", "/no/such/file.log"], "no such file"),
        (["explain", "driver/no-such-rule"], "no rule driver/no-such-rule"),
        (["explain", "-"], "standard input"),
        (["xid", "79", "--gpu", "voodoo2"], "voodoo2"),
        (["xid", "79", "--driver", "new"], "not a driver version"),
        (["xid", "seventy"], "not an Xid number"),
        (["xid", "99999"], "not in the catalogue"),
        (["xid"], "which Xid?"),
        (["demo", "no-such-scenario"], "one of kernel-updated"),
        (["rules", "show", "no/such-rule"], "no rule or area no/such-rule"),
    ],
)
def test_wrong_usage_is_told_in_a_line_with_a_hint_and_exit_2(
    gpudoctor: Gpudoctor, arguments: list[str], says: str
) -> None:
    run = gpudoctor(*arguments)
    assert run.returncode == 2
    assert run.stdout == ""
    assert says in run.stderr
    assert run.stderr.startswith("gpudoctor: ")
    assert "Traceback" not in run.stderr


def test_a_hostile_argument_does_not_reach_the_terminal(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("demo", "\x1b[31mred\x1b]0;title\x07")
    assert run.returncode == 2
    assert "\x1b" not in run.stderr


def test_a_closed_pipe_is_quiet() -> None:
    script = f"{sys.executable} -m gpudoctor xid --list | head -1; echo ${{PIPESTATUS[0]}}"
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stderr == ""
    assert run.stdout.splitlines()[-1] in ("0", "141")


def test_closed_standard_streams_are_no_crash() -> None:
    script = f"{sys.executable} -m gpudoctor demo >&- 2>&-; echo $?"
    run = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert run.stdout == "0\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("redirection", [">/dev/full", "2>/dev/full >/dev/full", "--output /dev/full"])
def test_a_full_disk_is_said_and_is_no_verdict(redirection: str) -> None:
    script = f"{sys.executable} -m gpudoctor demo healthy {redirection}; echo $? >&3"
    run = subprocess.run(["bash", "-c", f"exec 3>&1; {script}"], capture_output=True, text=True, timeout=60)
    assert run.stdout == "2\n"
    assert "Traceback" not in run.stderr
    if "2>" not in redirection:
        assert "no space left on device" in run.stderr.lower()


def test_an_ascii_locale_is_no_crash() -> None:
    env = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    run = process("explain", "NVRM: Xid (PCI:0000:3b:00): 79, 显卡", "--format", "json", env=env)
    assert run.returncode in (0, 1, 3)
    assert run.stdout.startswith("{")


def test_an_unexpected_fault_is_one_line_and_a_saved_traceback(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom gpudoctor.cli import main\n"
        "def broken(*a, **k): raise RuntimeError('boom \\x1b[31m')\n"
        "main._call = broken\nsys.exit(main.run(['check']))\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, env=env)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1
    assert "boom" in run.stderr
    saved = list(tmp_path.glob("gpudoctor-*.txt"))
    assert len(saved) == 1
    assert str(saved[0]) in run.stderr
    assert "RuntimeError: boom" in saved[0].read_text()


def test_interrupt_is_130() -> None:
    script = (
        "import sys\nfrom gpudoctor.cli import main\n"
        "def broken(*a, **k): raise KeyboardInterrupt\n"
        "main._call = broken\nsys.exit(main.run(['check']))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert run.returncode == 130
    assert "Traceback" not in run.stderr


def test_explain_on_a_terminal_without_a_text_says_how_it_is_used() -> None:
    controller, terminal = pty.openpty()
    try:
        run = subprocess.run(
            [sys.executable, "-m", "gpudoctor", "explain"], stdin=terminal, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(controller)
        os.close(terminal)
    assert run.returncode == 2
    assert "dmesg | gpudoctor explain -" in run.stderr


@pytest.mark.parametrize("deadline", ["-1", "1"])
def test_no_command_is_left_behind(tmp_path: Path, deadline: str) -> None:
    """Not when the program ends before a command has answered either: commands run in sessions of their own."""
    hanging = tmp_path / "nvidia-smi"
    hanging.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/started\nexec sleep 300\n")
    hanging.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert process("check", "--deadline", deadline, env=env).returncode in (1, 2, 3)
    started = (tmp_path / "started").read_text().split() if (tmp_path / "started").exists() else []
    assert deadline == "-1" or started
    time.sleep(0.3)
    assert [pid for pid in started if Path(f"/proc/{pid}/stat").exists() and not _is_dead(pid)] == []


def _is_dead(pid: str) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in ("Z", "X")


@pytest.mark.parametrize(
    "words", [["explain", "NVRM: Xid (PCI:0000:3b:00): 79"], ["explain", "xid/79", ""], ["check", "nonsense"]]
)
def test_a_call_without_options_says_what_one_with_options_says(gpudoctor: Gpudoctor, words: list[str]) -> None:
    plain, parsed = gpudoctor(*words), gpudoctor(*words, "--deadline", "30")
    assert (plain.returncode, plain.stdout, plain.stderr) == (parsed.returncode, parsed.stdout, parsed.stderr)


def test_words_after_two_dashes_are_words(gpudoctor: Gpudoctor) -> None:
    run = gpudoctor("explain", "--", "-bash: nvidia-smi: command not found")
    assert run.returncode == 1
