"""Recordings: what is written, what a person may edit, what is refused, and that secrets do not get in."""

from __future__ import annotations

import io
import json
import os
import tarfile
import time
from pathlib import Path

import pytest

from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import DocumentKind
from gpudoctor.sources import Recorder, open_live, open_paths
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status
from gpudoctor.sources.archive import ArchiveLimits
from gpudoctor.sources.stored import Answers, StoredSource, documents_of, filled


def machine() -> StoredSource:
    """A source that says what a live machine might, secrets and all."""
    answers = Answers(environment={"NCCL_DEBUG": "INFO", "CUDA_TOKEN": "s3cret", "PATH": "/home/alice/bin:/usr/bin"})
    for answer in (
        CommandAnswer(
            argv=("nvidia-smi", "-q", "-x"), status=Status.OK, exit_code=0, stdout="<nvidia_smi_log/>", seconds=0.5
        ),
        CommandAnswer(argv=("nvidia-smi",), status=Status.TIMEOUT, stdout="half", seconds=5.0),
        CommandAnswer(argv=("dkms", "status"), status=Status.NOT_FOUND, stderr="No such file or directory"),
        CommandAnswer(
            argv=("dmesg",),
            status=Status.OK,
            exit_code=0,
            stdout="[1.0] NVRM: Xid (PCI:0000:3b:00): 79\nJan  2 03:04:05 node17 kernel: 10.1.2.3 at 0c:42:a1:11:22:33\n",
            truncated=True,
            line_numbers=[7, 9],
        ),
        FileAnswer(
            path="/proc/cmdline", status=Status.OK, text="root=/dev/sda1 api_key=abcdef123 user_token=zzz quiet\n"
        ),
        FileAnswer(path="/proc/pci", status=Status.NOT_FOUND),
        FileAnswer(path="/etc/motd:odd name", status=Status.OK, text="hello"),
        FileAnswer(path="/proc/1", status=Status.OK, text="a"),
        FileAnswer(path="/proc/1/environ", status=Status.DENIED),
        FileAnswer(path="/home/alice/train.log", status=Status.OK, text="Authorization: Bearer abcdefghijk.lmnop\n"),
        ListAnswer(path="/dev", status=Status.OK, names=["null", "nvidia0"]),
        StatAnswer(path="/dev/nvidia0", status=Status.OK, kind="char", mode="0666", major=195, minor=0),
    ):
        answers.add(answer)
    return StoredSource("live", "live", answers, now=1_700_000_000.0)


def asked(source: StoredSource) -> Recorder:
    recorder = Recorder(source)
    for argv in source.answers.commands:
        recorder.run(*argv)
    for path in source.answers.files:
        recorder.read(path)
    for path in source.answers.lists:
        recorder.list(path)
    for path in source.answers.stats:
        recorder.stat(path)
    return recorder


@pytest.mark.parametrize("name", ["recording", "recording.tar.gz"])
def test_every_answer_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    source = machine()
    asked(source).save(tmp_path / name)
    back = open_paths([tmp_path / name])
    for argv, command in source.answers.commands.items():
        assert back.run(*argv) == command
    for path, file in source.answers.files.items():
        if path not in ("/proc/cmdline", "/home/alice/train.log"):
            assert back.read(path) == file
    assert back.list("/dev") == source.list("/dev")
    assert back.stat("/dev/nvidia0") == source.stat("/dev/nvidia0")
    assert back.now() == source.now()
    assert back.env("NCCL_DEBUG") == "INFO"


def test_the_same_texts_are_searched_live_and_later(tmp_path: Path) -> None:
    (tmp_path / "var/log").mkdir(parents=True)
    (tmp_path / "var/log/fabricmanager.log").write_text("started\n")
    recorder = Recorder(open_live(str(tmp_path)))
    recorder.read("/var/log/fabricmanager.log")
    recorder.run("uname", "--no-such-option")
    recorder.run("uname", "-r")
    live = recorder.documents()
    assert [d.name for d in live] == ["/var/log/fabricmanager.log", "uname --no-such-option"]
    recorder.save(tmp_path / "r")
    assert open_paths([tmp_path / "r"]).documents() == live


def test_it_reads_like_a_directory(tmp_path: Path) -> None:
    asked(machine()).save(tmp_path / "r")
    assert (tmp_path / "r/commands/nvidia-smi_-q_-x/stdout").read_text() == "<nvidia_smi_log/>"
    assert (tmp_path / "r/files/proc/cmdline").exists()
    manifest = json.loads((tmp_path / "r/manifest.json").read_text())
    assert manifest["schema"] == 1
    assert manifest["tool"] == "gpudoctor"
    smi = next(entry for entry in manifest["requests"] if entry.get("command") == ["nvidia-smi"])
    assert (smi["status"], smi["seconds"]) == ("timeout", 5.0)


def test_it_may_be_edited(tmp_path: Path) -> None:
    asked(machine()).save(tmp_path / "r")
    (tmp_path / "r/commands/dmesg/stdout").write_text("[2.0] edited\n")
    (tmp_path / "r/commands/nvidia-smi_-q_-x/stdout").unlink()
    manifest = json.loads((tmp_path / "r/manifest.json").read_text())
    manifest["requests"] = [e for e in manifest["requests"] if e.get("list") != "/dev"]
    manifest["requests"].append({"quantum": "request of a later version", "status": "ok"})
    manifest["note"] = "edited"
    (tmp_path / "r/manifest.json").write_text(json.dumps(manifest))
    back = open_paths([tmp_path / "r"])
    assert back.run("dmesg").stdout == "[2.0] edited\n"
    assert back.run("nvidia-smi", "-q", "-x").status is Status.NOT_RECORDED
    assert back.list("/dev").status is Status.NOT_RECORDED


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"not json",
        b'{"tool": "gpudoctor"}',
        b'{"tool": "gpudoctor", "schema": "one"}',
        b'{"tool": "gpudoctor", "schema": 99, "requests": []}',
        b'{"tool": "gpudoctor", "schema": 1, "requests": [{"command": 5, "status": "ok"}]}',
        b'{"tool": "gpudoctor", "schema": 1, "requests": [{"file": "/x", "status": "splendid"}]}',
        b'{"tool": "gpudoctor", "schema": 1, "requests": {}}',
        b'{"tool": "gpudoctor", "schema": 1, "requests": [' + b"[" * 100_000,
    ],
)
def test_a_damaged_manifest_is_a_clear_error(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r/manifest.json").write_bytes(damage)
    with pytest.raises(GpudoctorError) as caught:
        open_paths([tmp_path / "r"])
    assert str(tmp_path / "r") in caught.value.message


def test_a_manifest_cannot_reach_outside(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("outside")
    entry = {"file": "/x", "status": "ok", "content": "../secret"}
    manifest = {
        "tool": "gpudoctor",
        "schema": 1,
        "requests": [entry, {**entry, "file": "/y", "content": "/etc/passwd"}],
    }
    (tmp_path / "r").mkdir()
    (tmp_path / "r/manifest.json").write_text(json.dumps(manifest))
    back = open_paths([tmp_path / "r"])
    assert back.read("/x").status is Status.NOT_RECORDED
    assert back.read("/y").status is Status.NOT_RECORDED


def archive(path: Path, *extra: tarfile.TarInfo) -> None:
    manifest = b'{"tool": "gpudoctor", "schema": 1, "now": 1, "requests": []}'
    with tarfile.open(path, "w:gz") as made:
        member = tarfile.TarInfo("host/manifest.json")
        member.size = len(manifest)
        made.addfile(member, io.BytesIO(manifest))
        for info in extra:
            made.addfile(info, io.BytesIO(b"\0" * info.size) if info.size else None)


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, target, size
    return info


@pytest.mark.parametrize(
    "bad",
    [
        member("../evil"),
        member("/etc/evil"),
        member("host/../../evil"),
        member("host/link", tarfile.SYMTYPE, "/etc/passwd"),
        member("host/hard", tarfile.LNKTYPE, "host/manifest.json"),
        member("host/null", tarfile.CHRTYPE),
        member("host/pipe", tarfile.FIFOTYPE),
        member("host/bomb", size=65 << 20),
    ],
    ids=lambda info: info.name,
)
def test_an_unsafe_archive_is_refused(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    archive(tmp_path / "r.tar.gz", bad)
    with pytest.raises(GpudoctorError) as caught:
        open_paths([tmp_path / "r.tar.gz"])
    assert "r.tar.gz" in caught.value.message
    assert not (tmp_path / "evil").exists()


def test_an_archive_of_very_many_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = ArchiveLimits(members=100, member_bytes=1 << 20, total_bytes=1 << 20)
    monkeypatch.setattr("gpudoctor.sources.recording._LIMITS", limits)
    archive(tmp_path / "r.tar.gz", *(member(f"host/{i}") for i in range(101)))
    with pytest.raises(GpudoctorError, match="more than 100 members"):
        open_paths([tmp_path / "r.tar.gz"])


def test_a_truncated_archive_is_a_clear_error(tmp_path: Path) -> None:
    asked(machine()).save(tmp_path / "r.tar.gz")
    whole = (tmp_path / "r.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(GpudoctorError):
        open_paths([tmp_path / "cut.tar.gz"])


def test_secrets_are_not_recorded(tmp_path: Path) -> None:
    asked(machine()).save(tmp_path / "r")
    written = "".join(p.read_text() for p in (tmp_path / "r").rglob("*") if p.is_file())
    for secret in ("s3cret", "abcdef123", "zzz", "abcdefghijk"):
        assert secret not in written
    assert "root=/dev/sda1" in written
    assert "alice" in written


def test_redacting_takes_names_and_addresses_out_of_everything(tmp_path: Path) -> None:
    asked(machine()).save(tmp_path / "r", redact=True)
    written = "".join(p.read_text() for p in (tmp_path / "r").rglob("*") if p.is_file())
    written += " ".join(str(p) for p in (tmp_path / "r").rglob("*"))
    for name in ("alice", "node17", "10.1.2.3", "0c:42:a1:11:22:33"):
        assert name not in written
    assert "PCI:0000:3b:00" in written
    back = open_paths([tmp_path / "r"])
    assert "Xid (PCI:0000:3b:00): 79" in back.run("dmesg").stdout
    assert back.run("dmesg").line_numbers == [7, 9]


def test_the_same_name_gets_the_same_stand_in(tmp_path: Path) -> None:
    from gpudoctor.sources.secrets import Scrubber

    log = "Jan  2 03:04:05 node17 kernel: a\nJan  2 03:04:06 node17 kernel: peer 10.1.2.3 lost, 10.1.2.3 again\n"
    scrubbed = Scrubber(redact=True, texts=[("dmesg", log)]).text(log)
    hosts = {line.split()[3] for line in scrubbed.splitlines()}
    assert len(hosts) == 1
    assert scrubbed.count(scrubbed.split("peer ")[1].split()[0]) == 2


@pytest.mark.parametrize(
    "text",
    [
        "NVRM: Xid (PCI:0000:3b:00): 63, pid=1, Row Remapper: New row (0x000000000a3b2c1d) marked",
        "Driver Version: 535.183.01   CUDA Version: 12.2",
        "cudnn 8.9.7.29",
        "kernel: pci 0000:3b:00.0: BAR 1: assigned [mem 0x20000000-0x2fffffff 64bit pref]",
        "author:         NVIDIA",
        "LnkSta: Speed 16GT/s, Width x8 (downgraded)",
        "20:15:30 up 3 days",
    ],
)
def test_redacting_leaves_evidence_alone(text: str) -> None:
    from gpudoctor.sources.secrets import Scrubber

    assert Scrubber(redact=True).text(text) == text


def test_an_existing_directory_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/precious").write_text("x")
    with pytest.raises(GpudoctorError, match="already exists"):
        asked(machine()).save(tmp_path / "full")
    assert os.listdir(tmp_path / "full") == ["precious"]


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(GpudoctorError, match="cannot write"):
        asked(machine()).save(tmp_path / "file/r.tar.gz")


def test_the_first_answer_is_the_answer() -> None:
    class Changing(StoredSource):
        def read(self, path: str) -> FileAnswer:
            return FileAnswer(path=path, status=Status.OK, text=str(time.monotonic_ns()))

    recorder = Recorder(Changing("live", "live", Answers(), now=0.0))
    assert recorder.read("/x") == recorder.read("/x")


def test_a_recorded_kernel_log_is_searched_as_one(tmp_path: Path) -> None:
    asked(machine()).save(tmp_path / "r")
    documents = {d.name: d for d in open_paths([tmp_path / "r"]).documents()}
    assert documents["dmesg"].kind is DocumentKind.KERNEL_LOG
    assert documents["dmesg"].line_numbers == [7, 9]
    assert documents["nvidia-smi"].kind is DocumentKind.COMMAND


def test_messages_are_not_looked_for_in_package_managers_logs() -> None:
    answers = filled(
        [
            FileAnswer(path=path, status=Status.OK, text="x")
            for path in ("/var/log/apt/history.log", "/var/log/Xorg.0.log")
        ]
    )
    assert [document.name for document in documents_of(answers.commands, answers.files)] == ["/var/log/Xorg.0.log"]
