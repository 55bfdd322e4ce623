"""What every source promises, asked of each kind with the same evidence."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.sources import Recorder, Source, open_live, open_paths, open_text
from gpudoctor.sources.answers import Status

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
PASTE = f"""$ cat /proc/driver/nvidia/version
{VERSION}$ ls /etc/modprobe.d
blacklist.conf  nvidia.conf
$ cat /etc/nothing
cat: /etc/nothing: No such file or directory
$ uname -r
6.8.0-49-generic
$ env | grep CUDA
CUDA_VISIBLE_DEVICES=1
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host's file system with a little of everything."""
    root = tmp_path / "host"
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text(VERSION)
    (root / "etc/modprobe.d").mkdir(parents=True)
    (root / "etc/modprobe.d/nvidia.conf").write_text("options nvidia NVreg_EnableMSI=1\n")
    (root / "etc/modprobe.d/blacklist.conf").write_text("blacklist nouveau\n")
    (root / "etc/alternatives").mkdir()
    (root / "etc/alternatives/absolute").symlink_to("/etc/modprobe.d/nvidia.conf")
    (root / "etc/dangling").symlink_to("/etc/gone")
    (root / "etc/binary").write_bytes(b"a\xff\xfeb\0c")
    os.mkfifo(root / "etc/pipe")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "do-not-tell")
    return root


def live(root: Path, place: Path) -> Source:
    return open_live(str(root))


def asked(recorder: Recorder) -> None:
    for path in (
        "/proc/driver/nvidia/version",
        "/etc/nothing",
        "/etc/binary",
        "/etc/pipe",
        "/etc/alternatives/absolute",
    ):
        recorder.read(path)
    for path in ("/etc/modprobe.d", "/etc/nothing"):
        recorder.list(path)
    for path in ("/etc/modprobe.d/nvidia.conf", "/etc/dangling", "/etc/nothing", "/etc/pipe"):
        recorder.stat(path)
    recorder.run("uname", "-r")
    recorder.run("dkms", "status")


def recording(root: Path, place: Path) -> Source:
    recorder = Recorder(open_live(str(root)))
    asked(recorder)
    recorder.save(place / "recorded")
    return open_paths([place / "recorded"])


def archive(root: Path, place: Path) -> Source:
    recorder = Recorder(open_live(str(root)))
    asked(recorder)
    recorder.save(place / "recorded.tar.gz")
    return open_paths([place / "recorded.tar.gz"])


def foreign(root: Path, place: Path) -> Source:
    (place / "ticket.txt").write_text(PASTE)
    return open_paths([place / "ticket.txt"])


def text(root: Path, place: Path) -> Source:
    return open_text(PASTE)


Open = Callable[[Path, Path], Source]
EVERY = [live, recording, archive, foreign, text]


@pytest.fixture(params=EVERY, ids=lambda kind: str(kind.__name__))
def source(request: pytest.FixtureRequest, machine: Path, tmp_path: Path) -> Source:
    kind: Open = request.param
    return kind(machine, tmp_path)


@pytest.fixture(params=EVERY[:3], ids=lambda kind: str(kind.__name__))
def complete(request: pytest.FixtureRequest, machine: Path, tmp_path: Path) -> Source:
    """The sources that know everything that was asked."""
    kind: Open = request.param
    return kind(machine, tmp_path)


def test_reads_a_file(source: Source) -> None:
    answer = source.read("/proc/driver/nvidia/version")
    assert answer.status is Status.OK
    assert answer.text == VERSION


def test_reads_the_same_file_by_another_spelling(source: Source) -> None:
    assert source.read("/proc/driver//nvidia/./version").text == VERSION


def test_says_that_a_file_is_not_there(source: Source) -> None:
    assert source.read("/etc/nothing").status is Status.NOT_FOUND


def test_lists_a_directory_in_order(source: Source) -> None:
    answer = source.list("/etc/modprobe.d/")
    assert answer.status is Status.OK
    assert answer.names == ["blacklist.conf", "nvidia.conf"]


def test_runs_a_command(source: Source) -> None:
    answer = source.run("uname", "-r")
    assert answer.status is Status.OK
    assert answer.stdout.strip()


def test_what_was_never_asked_is_not_absent(source: Source) -> None:
    if source.kind != "live":
        assert source.read("/etc/never-asked").status is Status.NOT_RECORDED
        assert source.list("/etc/never-asked").status is Status.NOT_RECORDED
        assert source.stat("/etc/never-asked").status is Status.NOT_RECORDED
        assert source.run("never", "asked").status is Status.NOT_RECORDED


def test_gives_gpu_related_variables_only(source: Source) -> None:
    if "below" in source.name:  # this process's variables say nothing of the host whose files are read
        assert source.env("CUDA_VISIBLE_DEVICES") is None
        return
    assert source.env("CUDA_VISIBLE_DEVICES") == "1"
    assert source.env("AWS_SECRET_ACCESS_KEY") is None
    environment = source.environment()
    assert environment is not None
    assert "AWS_SECRET_ACCESS_KEY" not in environment


def test_names_itself(source: Source) -> None:
    assert source.kind in ("live", "recording", "foreign", "text")
    assert source.name
    assert source.now() > 1_500_000_000


def test_odd_paths_are_answered(source: Source) -> None:
    for path in ("", "/", "relative", "/etc/\0nul", "/" + "x" * 5000, "/../../etc/../etc", "/etc/\udcff"):
        source.read(path)
        source.list(path)
        source.stat(path)


def test_binary_data_is_decoded_with_replacement(complete: Source) -> None:
    assert complete.read("/etc/binary").text == "a\ufffd\ufffdb\0c"


def test_a_pipe_is_not_waited_for(complete: Source) -> None:
    assert complete.read("/etc/pipe").status is Status.FAILED


def test_absolute_links_stay_inside_the_root(complete: Source) -> None:
    assert complete.read("/etc/alternatives/absolute").text == "options nvidia NVreg_EnableMSI=1\n"


def test_stat_tells_kinds_and_dangling_links(complete: Source) -> None:
    assert complete.stat("/etc/modprobe.d/nvidia.conf").kind == "file"
    assert complete.stat("/etc/pipe").kind == "fifo"
    dangling = complete.stat("/etc/dangling")
    assert (dangling.kind, dangling.target, dangling.target_exists) == ("link", "/etc/gone", False)
    assert complete.stat("/etc/nothing").status is Status.NOT_FOUND


def test_a_container_does_not_answer_for_the_hosts_programs(complete: Source) -> None:
    assert complete.run("dkms", "status").status is Status.NOT_RECORDED
