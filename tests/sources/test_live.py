"""The live source on a machine that misbehaves: programs that hang, flood, fork, or are not there."""

from __future__ import annotations

import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpudoctor.sources import open_live, process
from gpudoctor.sources.answers import Status
from gpudoctor.sources.live import LiveSource


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def install(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_a_command_that_hangs_costs_its_timeout(programs: Path) -> None:
    install(programs, "nvidia-smi", "echo started; sleep 60")
    started = time.monotonic()
    answer = open_live().run("nvidia-smi", timeout=0.3)
    assert time.monotonic() - started < 2
    assert answer.status is Status.TIMEOUT
    assert answer.stdout == "started\n"
    assert answer.exit_code is None


def test_a_command_that_ignores_signals_is_given_up(programs: Path) -> None:
    install(programs, "stubborn", "trap '' TERM INT HUP; while :; do sleep 1; done")
    started = time.monotonic()
    assert open_live().run("stubborn", timeout=0.2).status is Status.TIMEOUT
    assert time.monotonic() - started < 2


def test_a_grandchild_that_keeps_the_pipe_is_not_waited_for(programs: Path) -> None:
    install(programs, "forks", "echo done; (setsid sleep 30 &) ; exit 3")
    started = time.monotonic()
    answer = open_live().run("forks", timeout=10)
    assert time.monotonic() - started < 5
    assert (answer.status, answer.exit_code, answer.stdout) == (Status.FAILED, 3, "done\n")


def test_endless_output_is_capped(programs: Path) -> None:
    install(programs, "flood", "yes 0123456789")
    answer = open_live().run("flood", timeout=1)
    assert answer.status is Status.TIMEOUT
    assert answer.truncated
    assert len(answer.stdout) <= 16 * 1024 * 1024


def test_of_a_long_log_the_end_is_kept_with_its_line_numbers(programs: Path) -> None:
    install(programs, "dmesg", "seq 1 3000000")
    answer = open_live().run("dmesg", timeout=30)
    lines = answer.stdout.rstrip("\n").split("\n")
    assert answer.truncated
    assert lines[-1] == "3000000"
    assert answer.line_numbers is not None
    assert answer.line_numbers[0] == int(lines[0])


def test_nothing_waits_for_input(programs: Path) -> None:
    assert open_live().run("cat", timeout=5).status is Status.OK


def test_runs_in_the_c_locale_without_a_shell(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "ru_RU.UTF-8")
    assert open_live().run("printenv", "LC_ALL").stdout == "C\n"
    assert open_live().run("echo", "$HOME; `id`").stdout == "$HOME; `id`\n"


def test_a_missing_program_is_not_found() -> None:
    answer = open_live().run("no-such-program-here")
    assert (answer.status, answer.exit_code) == (Status.NOT_FOUND, None)


def test_a_program_that_may_not_be_run_is_denied(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (programs / "locked").write_text("#!/bin/sh\n")
    (programs / "locked").chmod(0o644)
    monkeypatch.setenv("PATH", str(programs))
    assert open_live().run("locked").status is Status.DENIED


def test_a_broken_interpreter_is_an_answer(programs: Path) -> None:
    (programs / "broken").write_text("#!/no/such/interpreter\n")
    (programs / "broken").chmod(0o755)
    (programs / "garbage").write_bytes(b"\x7fELF garbage")
    (programs / "garbage").chmod(0o755)
    assert open_live().run("broken").status is Status.NOT_FOUND
    assert open_live().run("garbage").status is Status.FAILED


def test_odd_arguments_are_answers() -> None:
    assert open_live().run("echo", "a\0b").status is Status.FAILED
    assert open_live().run().status is Status.NOT_FOUND


def test_bytes_that_are_no_text_are_replaced(programs: Path) -> None:
    install(programs, "bytes", r"printf 'a\377b\n'")
    assert open_live().run("bytes").stdout == "a\ufffdb\n"


def test_a_command_runs_once_for_all_who_ask(programs: Path, tmp_path: Path) -> None:
    install(programs, "counts", f"echo x >> {tmp_path}/ran; sleep 0.2; wc -l < {tmp_path}/ran")
    source = open_live()
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(source.run("counts").stdout.strip())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["1"] * 4


def test_a_worker_is_this_python_and_not_a_file_in_the_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gpudoctor").mkdir()
    (tmp_path / "gpudoctor/__init__.py").write_text("print('shadowed')")
    monkeypatch.chdir(tmp_path)
    answer = open_live().run("worker", "no_such_worker", timeout=20)
    assert answer.argv == ("worker", "no_such_worker")
    assert answer.status is Status.FAILED
    assert "shadowed" not in answer.stdout
    assert "gpudoctor.workers.no_such_worker" in answer.stderr


def test_devices_and_directories_are_not_read() -> None:
    source = open_live()
    assert source.read("/dev/zero").status is Status.FAILED
    assert source.read("/tmp").status is Status.FAILED
    assert source.stat("/dev/null").kind == "char"
    assert (source.stat("/dev/null").major, source.stat("/dev/null").minor) == (1, 3)


def test_a_large_file_is_capped_and_of_a_log_the_end_is_read(tmp_path: Path) -> None:
    (tmp_path / "var/log").mkdir(parents=True)
    for name in ("big", "var/log/kern.log"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(40 * 1024 * 1024)
            file.seek(0, os.SEEK_END)
            file.write(b"\nlast line\n")
    source = open_live(str(tmp_path))
    assert source.read("/big").truncated
    assert len(source.read("/big").text) == 16 * 1024 * 1024
    assert source.read("/var/log/kern.log").text.endswith("\nlast line\n")


def test_circular_links_are_an_answer(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for source in (open_live(str(tmp_path)),):
        assert source.read("/a").status is Status.FAILED
        assert source.stat("/a").target_exists is False


def test_an_unreadable_file_is_denied(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read everything")
    assert open_live().read(str(secret)).status is Status.DENIED


def test_a_bare_proc_below_the_root_is_this_kernels(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert open_live(str(tmp_path)).read("/proc/version").text.startswith("Linux version ")
    assert open_live(str(tmp_path)).read("/proc/self/status").status is Status.NOT_FOUND


def test_driver_files_are_read_by_a_child_that_can_be_given_up(tmp_path: Path, programs: Path) -> None:
    version = tmp_path / "proc/driver/nvidia/version"
    version.parent.mkdir(parents=True)
    version.write_text("NVRM version: x\n")
    install(programs, "cat", "sleep 60")
    source = LiveSource(str(tmp_path))
    started = time.monotonic()
    assert source.read("/proc/driver/nvidia/version").status is Status.TIMEOUT
    assert time.monotonic() - started < 6


def test_modes_are_octal(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "file").chmod(stat.S_IRUSR | stat.S_IWUSR)
    assert open_live(str(tmp_path)).stat("/file").mode == "0600"


def test_documents_are_failures_and_nvidia_smi_and_the_kernel_log(programs: Path) -> None:
    install(programs, "nvidia-smi", "echo 'NVIDIA-SMI has failed because ...'; exit 9")
    install(programs, "dmesg", "echo '[    1.0] NVRM: hello'")
    install(programs, "fine", "echo nothing to see")
    source = open_live()
    for program in ("nvidia-smi", "dmesg", "fine", "no-such-program-here"):
        source.run(program)
    assert [(d.name, d.kind.value) for d in source.documents()] == [
        ("dmesg", "kernel_log"),
        ("nvidia-smi", "command"),
    ]


def test_what_a_command_prints_just_before_its_end_is_never_lost() -> None:
    over = threading.Event()

    def keep_busy() -> None:
        while not over.is_set():
            sum(range(1000))

    def said(number: int) -> str:
        # Around the 50 ms of a round: the end then falls between looking for output and looking for the end.
        argv = ["sh", "-c", f"sleep 0.0{40 + number % 20}; echo x"]
        return process.run(argv, request=("x",), timeout=30, environment={"PATH": os.environ["PATH"]}).stdout

    busy = [threading.Thread(target=keep_busy) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(said, range(200))) == {"x\n"}
    finally:
        over.set()
        for thread in busy:
            thread.join()
