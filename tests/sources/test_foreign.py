"""Files that other tools wrote, recognised by what is in them."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

import pytest

from gpudoctor.facts import DocumentKind
from gpudoctor.sources import open_paths
from gpudoctor.sources import requests as known
from gpudoctor.sources.answers import Source, Status
from tests.sources import samples


def opened(tmp_path: Path, text: str, name: str = "attachment.bin") -> Source:
    """The text in a file whose name says nothing."""
    (tmp_path / name).write_text(text)
    return open_paths([tmp_path / name])


@pytest.mark.parametrize(
    ("text", "request_", "has"),
    [
        (samples.TABLE_535, known.NVIDIA_SMI, "Tesla T4"),
        (samples.TABLE_361, known.NVIDIA_SMI, "Tesla K80"),
        ("    " + samples.TABLE_361.replace("\n", "\n    "), known.NVIDIA_SMI, "Tesla K80"),
        ("Hi, my card is slow:\n\n" + samples.TABLE_535 + "\nAny idea?\n", known.NVIDIA_SMI, "Tesla T4"),
        (samples.XML, known.NVIDIA_SMI_XML, "</nvidia_smi_log>"),
        (samples.QUERY, known.NVIDIA_SMI_Q, "Tesla T4"),
        (samples.LISTING, known.NVIDIA_SMI_L, "GPU-1111"),
        (samples.TOPOLOGY, known.NVIDIA_SMI_TOPO, "NV12"),
        (samples.NVLINK, known.NVIDIA_SMI_NVLINK, "<inactive>"),
        (samples.LSPCI, known.LSPCI, "driver in use: nvidia"),
        (samples.LSPCI_VVV, known.LSPCI_VVV, "rev ff"),
        ("SecureBoot enabled\n", known.MOKUTIL_SB_STATE, "enabled"),
        ("nvidia/535.183.01, 6.8.0-49-generic, x86_64: installed\n", known.DKMS_STATUS, "installed"),
        ("nvidia, 470.82.01, 5.4.0-90-generic, x86_64: installed\n", known.DKMS_STATUS, "470"),
        ("Module                  Size  Used by\nnvidia              56717312  0\n", known.LSMOD, "56717312"),
        ("Unit nvidia-fabricmanager.service could not be found.\n", known.FABRIC_MANAGER_STATUS, "could not"),
    ],
)
def test_an_output_answers_its_request(tmp_path: Path, text: str, request_: tuple[str, ...], has: str) -> None:
    answer = opened(tmp_path, text).run(*request_)
    assert answer.status in (Status.OK, Status.FAILED)
    assert has in answer.stdout


@pytest.mark.parametrize("name", samples.LOGS)
def test_every_form_of_kernel_log_is_one(tmp_path: Path, name: str) -> None:
    source = opened(tmp_path, samples.LOGS[name])
    answers = [source.run(*argv) for argv in (known.DMESG, known.JOURNAL_KERNEL, known.SYSLOG)]
    assert [samples.XID in answer.stdout for answer in answers].count(True) == 1
    assert [document.kind for document in source.documents()] == [DocumentKind.KERNEL_LOG]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure ...",
            Status.FAILED,
        ),
        ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.309", Status.FAILED),
        ("No devices were found", Status.FAILED),
        ("Unable to determine the device handle for GPU0000:0F:00.0: Unknown Error", Status.FAILED),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", Status.FAILED),
        ("bash: nvidia-smi: command not found", Status.NOT_FOUND),
        (
            "Command 'nvidia-smi' not found, but can be installed with:\nsudo apt install nvidia-utils-535",
            Status.NOT_FOUND,
        ),
    ],
)
def test_what_nvidia_smi_says_when_it_fails(tmp_path: Path, said: str, status: Status) -> None:
    answer = opened(tmp_path, said + "\n").run("nvidia-smi")
    assert answer.status is status
    assert answer.stdout.split("\n")[0] == said.split("\n")[0]


def test_a_table_cut_in_the_middle_is_partial(tmp_path: Path) -> None:
    lines = samples.TABLE_535.split("\n")
    assert opened(tmp_path, "\n".join(lines[:4])).run("nvidia-smi").truncated


def test_xml_cut_in_the_middle_is_partial(tmp_path: Path) -> None:
    answer = opened(tmp_path, samples.XML[:-40]).run(*known.NVIDIA_SMI_XML)
    assert answer.status is Status.OK
    assert answer.truncated


def test_only_some_sections_of_the_query_are_partial(tmp_path: Path) -> None:
    text = samples.QUERY.replace("    Product Name                          : Tesla T4\n", "")
    assert opened(tmp_path, text).run(*known.NVIDIA_SMI_Q).truncated


def test_line_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    answer = opened(tmp_path, "some\nprose\n" + samples.QUERY).run(*known.NVIDIA_SMI_Q)
    assert answer.line_numbers is not None
    assert answer.line_numbers[0] == 4


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("compressed", [False, True])
def test_a_bug_report_is_split_into_its_requests(tmp_path: Path, newline: str, compressed: bool) -> None:
    data = samples.BUG_REPORT.replace("\n", newline).encode()
    (tmp_path / "report").write_bytes(gzip.compress(data) if compressed else data)
    source = open_paths([tmp_path / "report"])
    assert "6.8.0-49-generic" in source.run("uname", "-a").stdout
    assert source.read("/etc/os-release").text == 'ID=ubuntu\nVERSION_ID="24.04"\n'
    assert source.stat("/etc/os-release").target == "../usr/lib/os-release"
    assert source.read("/proc/pci").status is Status.NOT_FOUND
    assert "535.183.01" in source.read("/proc/driver/nvidia/version").text
    assert source.run(*known.DMESG).stdout.startswith("[    0.000000] Linux version")
    assert source.run(*known.DMESG).status is Status.OK
    assert "Tesla T4" in source.run(*known.LSPCI).stdout
    assert "rev ff" in source.run(*known.LSPCI_VVV).stdout
    assert source.run("modinfo", "nvidia").filtered_by == "vermagic"
    assert "6.8.0-49" in source.run("modinfo", "nvidia_uvm").stdout
    assert source.read("/sys/module/nvidia_drm/parameters/fbdev").text == "N\n"
    assert "Tesla T4" in source.run(*known.NVIDIA_SMI_Q).stdout
    assert "disabled" in source.run("systemctl", "status", "nvidia-powerd").stdout
    assert source.run("systemctl", "status", "nvidia-persistenced").status is Status.NOT_RECORDED
    assert "Xid (PCI:0000:3b:00): 31" in source.run("journalctl", "-k", "-b", "-1").stdout


def test_a_bug_reports_quotes_have_the_reports_line_numbers(tmp_path: Path) -> None:
    source = opened(tmp_path, samples.BUG_REPORT)
    lines = samples.BUG_REPORT.split("\n")
    for argv in (known.DMESG, known.LSPCI, known.NVIDIA_SMI_Q, ("systemctl", "status", "nvidia-powerd")):
        answer = source.run(*argv)
        assert answer.line_numbers is not None
        for number, line in zip(answer.line_numbers, answer.stdout.split("\n"), strict=True):
            assert lines[number - 1] == line
    answer_ = source.read("/proc/driver/nvidia/version")
    assert answer_.line_numbers is not None
    assert lines[answer_.line_numbers[0] - 1].startswith("NVRM version")


def test_messages_of_the_past_and_blobs_of_a_bug_report_are_not_searched(tmp_path: Path) -> None:
    texts = "\n".join(document.text for document in opened(tmp_path, samples.BUG_REPORT).documents())
    assert samples.XID in texts
    assert "API mismatch" not in texts
    assert "UEsDB" not in texts


@pytest.mark.parametrize("envelope", ["directory", "tar", "tar.gz", "tar.xz", "zip"])
def test_a_folder_or_archive_of_files_is_one_machine(tmp_path: Path, envelope: str) -> None:
    files = {
        "ticket/a.txt": samples.TABLE_535,
        "ticket/sub/b": samples.LOGS["dmesg"],
        "ticket/photo.png": "\0\1\2" * 99,
    }
    place = tmp_path / f"evidence.{envelope}"
    if envelope == "directory":
        for name, text in files.items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(text)
        os.mkfifo(place / "pipe")
        (place / "loop").symlink_to(place)
    elif envelope == "zip":
        import zipfile

        with zipfile.ZipFile(place, "w") as made:
            for name, text in files.items():
                made.writestr(name, text)
    else:
        with tarfile.open(place, "w:" + envelope.removeprefix("tar").removeprefix(".")) as made_tar:
            for name, text in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(text)
                made_tar.addfile(member, io.BytesIO(text.encode()))
            link = tarfile.TarInfo("ticket/link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            made_tar.addfile(link)
    source = open_paths([place])
    assert "Tesla T4" in source.run("nvidia-smi").stdout
    assert samples.XID in source.run("dmesg").stdout
    assert source.unrecognised == ("ticket/photo.png: binary data",)  # type: ignore[attr-defined]


@pytest.mark.parametrize("as_archive", [False, True])
def test_the_gpu_parts_of_a_sosreport(tmp_path: Path, as_archive: bool) -> None:
    top = tmp_path / "sosreport-node7-2025-01-20-abcdefg"
    for name, text in {
        "sos_commands/pci/lspci_-nnvv": samples.LSPCI_VVV,
        "sos_commands/kernel/dmesg": samples.LOGS["dmesg"],
        "sos_commands/kernel/lsmod": "Module                  Size  Used by\next4  1 0\n",
        "sos_commands/nvidia/nvidia-smi": samples.TABLE_535,
        "sos_commands/dkms/dkms_status": "nvidia/535.183.01: added\n",
        "installed-rpms": "bash-5.1-1.el9.x86_64   Mon\nkmod-nvidia-535-1.el9.x86_64   Mon\n",
        "etc/os-release": 'ID="rhel"\n',
        "proc/cmdline": "root=/dev/sda1 nouveau.modeset=0\n",
        "etc/docker/daemon.json": "{broken",
        "sos_commands/networking/ip_addr": "1: lo\n",
    }.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    place = top
    if as_archive:
        place = tmp_path / "sosreport.tar.xz"
        with tarfile.open(place, "w:xz") as made:
            made.add(top, top.name)
    source = open_paths([place])
    assert "rev ff" in source.run(*known.LSPCI_VVV).stdout
    assert "ext4" in source.run(*known.LSMOD).stdout
    assert "nvidia" not in source.run(*known.LSMOD).stdout
    assert not source.run(*known.LSMOD).truncated
    assert "kmod-nvidia" in source.run(*known.RPM_LIST).stdout
    assert source.read("/etc/os-release").text == 'ID="rhel"\n'
    assert "nouveau.modeset=0" in source.read("/proc/cmdline").text
    assert source.read("/etc/docker/daemon.json").text == "{broken"


def test_several_attachments_are_one_source(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(samples.TABLE_535)
    (tmp_path / "b").write_text(samples.LOGS["journal-iso"])
    source = open_paths([tmp_path / "a", tmp_path / "b"])
    assert "Tesla T4" in source.run("nvidia-smi").stdout
    assert samples.XID in source.run(*known.JOURNAL_KERNEL).stdout
    assert len(source.documents()) == 2


def test_a_log_with_colours_is_a_log(tmp_path: Path) -> None:
    coloured = "".join(f"\x1b[32m[  {i}.000000] \x1b[0m\x1b[33mNVRM: \x1b[0mline {i}\n" for i in range(9))
    assert "[  3.000000] NVRM: line 3" in opened(tmp_path, coloured).run("dmesg").stdout


def test_a_terminals_transcript_is_read_as_a_paste(tmp_path: Path) -> None:
    text = "Script started\n$ uname -r\n6.8.0-49-generic\n$ lsmod | grep nvidia\n$ dkms status\nnvidia/535.1: added\n"
    source = opened(tmp_path, text)
    assert source.run("uname", "-r").stdout == "6.8.0-49-generic"
    assert source.run("lsmod").filtered_by == "nvidia"
    assert source.run(*known.DKMS_STATUS).stdout == "nvidia/535.1: added"


def test_an_application_log_is_searched_for_messages(tmp_path: Path) -> None:
    source = opened(tmp_path, "step 1 loss 3.2\nRuntimeError: CUDA error: an illegal memory access was encountered\n")
    assert [document.kind for document in source.documents()] == [DocumentKind.LOG]
    assert "illegal memory access" in source.documents()[0].text
