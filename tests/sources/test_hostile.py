"""Attachments that are empty, binary, damaged, enormous, in other encodings, or not there."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import random
import shutil
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import DocumentKind
from gpudoctor.sources import open_paths, open_text
from gpudoctor.sources.answers import Status
from gpudoctor.sources.thin import thin
from tests.sources import samples


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (bytes(range(256)) * 40, "binary"),
        (b"\x7fELF\x02\x01\x01" + b"\0" * 400, "binary"),
        (b"\x89PNG\r\n\x1a\n" + os.urandom(4000), "binary"),
        (b"\x1f\x8b\x08\0garbage", "damaged"),
        (b"\xfd7zXZ\x00garbage", "damaged"),
        (b"PK\x03\x04garbage", "zip"),
        (gzip.compress(b""), "empty"),
        (gzip.compress(b"\0" * 3_000_000), "binary"),
    ],
    ids=["empty", "bytes", "elf", "png", "gzip", "xz", "zip", "gzip-empty", "gzip-zeros"],
)
def test_what_is_no_evidence_is_a_clear_error(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(GpudoctorError) as caught:
        open_paths([tmp_path / "file"])
    assert str(tmp_path / "file") in caught.value.message
    assert says in caught.value.message


def test_what_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dir").mkdir()
    for path in ("absent", "pipe", "dir", "x" * 300):
        with pytest.raises(GpudoctorError, match=str(tmp_path)):
            open_paths([tmp_path / path])
    with pytest.raises(GpudoctorError):
        open_paths([])


def test_every_bad_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(GpudoctorError) as caught:
        open_paths([tmp_path / "one", tmp_path / "two"])
    assert "one" in caught.value.message
    assert any("two" in detail for detail in caught.value.details)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_text_in_another_encoding_is_read(tmp_path: Path, encoding: str) -> None:
    text = "Größe: ok\n" * 3 + samples.LOGS["dmesg"] * 5
    data = text.encode(encoding)
    if encoding == "utf-16-be":
        data = b"\xfe\xff" + data
    (tmp_path / "log").write_bytes(data.replace(b"\n", b"\r\n") if encoding == "latin-1" else data)
    source = open_paths([tmp_path / "log"])
    assert samples.XID in source.run("dmesg").stdout.replace("\r", "")
    assert "Größe" in source.documents()[0].text


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_of_a_truncated_file_what_can_be_read_is_read(tmp_path: Path, compress) -> None:  # type: ignore[no-untyped-def]
    noise = random.Random(1)
    lines = [f"[{i:5d}.000000] usb 1-1: {noise.getrandbits(256):x}" for i in range(15_000)]
    lines[2] = f"[    2.000000] {samples.XID}"
    data = compress("\n".join(lines).encode())
    (tmp_path / "cut").write_bytes(data[: len(data) * 3 // 4])
    source = open_paths([tmp_path / "cut"])
    assert samples.XID in source.run("dmesg").stdout
    assert source.run("dmesg").stdout.count("\n") > 1000
    assert any("truncated" in problem for problem in source.unrecognised)  # type: ignore[attr-defined]


def test_zstd(tmp_path: Path) -> None:
    if shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    (tmp_path / "log").write_text(samples.LOGS["dmesg"])
    subprocess.run(["zstd", "-q", str(tmp_path / "log")], check=True)
    assert samples.XID in open_paths([tmp_path / "log.zst"]).run("dmesg").stdout


def huge_log(path: Path, megabytes: int, xids: list[int]) -> None:
    """A syslog of that size with an Xid on the given 1-based lines."""
    filler = "".join(
        f"Nov 12 10:00:{i % 60:02d} node7 systemd[1]: Started Session {i} of user root.\n" for i in range(10_000)
    )
    size = written = 0
    with open(path, "w") as file:
        while size < megabytes << 20:
            block = filler
            inside = [x for x in xids if written < x <= written + 10_000]
            if inside:
                lines = filler.split("\n")
                for x in inside:
                    lines[x - written - 1] = f"Nov 12 10:00:00 node7 kernel: [{x}.000000] {samples.XID}"
                block = "\n".join(lines)
            file.write(block)
            size += len(block)
            written += 10_000


def test_a_huge_log_is_thinned_with_its_line_numbers(tmp_path: Path) -> None:
    huge_log(tmp_path / "syslog", 20, [1, 12_345, 250_000])
    source = open_paths([tmp_path / "syslog"])
    answer = source.run("syslog")
    assert answer.line_numbers == [1, 12_345, 250_000]
    assert answer.stdout.count(samples.XID) == 3
    assert answer.truncated
    assert source.documents()[0].kind is DocumentKind.KERNEL_LOG
    assert source.documents()[0].line_numbers == [1, 12_345, 250_000]


def test_a_huge_utf16_log_is_thinned(tmp_path: Path) -> None:
    huge_log(tmp_path / "plain", 9, [77])
    (tmp_path / "utf16").write_bytes((tmp_path / "plain").read_text().encode("utf-16"))
    assert open_paths([tmp_path / "utf16"]).run("syslog").line_numbers == [77]


def test_the_rules_messages_are_found_in_a_huge_log(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_bytes(
        b"step\n" * 2_000_000 + b"RuntimeError: CUDA error: OUT of luck\n" + b"step\n" * 9
    )
    source = open_paths([tmp_path / "train.log"], [b"out of luck", b"step", b"other"])
    document = source.documents()[0]
    assert document.text == "step\n" * 5 + "RuntimeError: CUDA error: OUT of luck"
    assert document.line_numbers == [1, 2, 3, 4, 5, 2_000_001]
    assert "step" in source.unrecognised[0]  # type: ignore[attr-defined]


def test_of_a_storm_the_beginning_and_the_end_are_kept_and_what_happens_within() -> None:
    lines = [b"[%5d.5] NVRM: the same again %d" % (i, i) for i in range(1, 20_001)]
    lines[11_999] = b"[12000.5] NVRM: Xid (PCI:0000:3b:00): 79"
    data = b"\n".join(lines)
    thinned = thin(data[i : i + 100_000] for i in range(0, len(data), 100_000))
    assert thinned.numbers[:2_000] == list(range(1, 2_001))
    assert 12_000 in thinned.numbers
    assert thinned.numbers[-1_000:] == list(range(19_001, 20_001))
    assert thinned.dropped == 20_000 - 2_000 - 1 - 1_000


def test_a_storm_of_matches_takes_little_memory() -> None:
    tracemalloc.start()
    for storm in (b"xid\n", b"xid"):
        assert len(thin([storm * 50_000 for _ in range(4)]).numbers) <= 3_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 << 20


def test_a_word_that_fills_a_log_is_not_looked_for_and_said_so() -> None:
    data = b"".join(b"veth%d entered the state\n" % i for i in range(2_000)) + b"the frobnicator gave up\n"
    thinned = thin([data], {b"tate", b"frobnicator"})
    assert thinned.common == ["tate"]
    assert thinned.text.splitlines()[-1] == "the frobnicator gave up"
    assert len(thinned.numbers) == 6


def test_a_common_word_that_another_hides_is_found_too() -> None:
    data = b"".join(b"port forwarded %d\n" % i for i in range(2_000))
    assert thin([data], {b"port for", b"forward"}).common == ["forward", "port for"]


def test_other_bytes_that_re2_takes_for_a_word_do_no_harm() -> None:
    word = "größe".encode()
    data = b"".join(word.replace(b"\xc3", b"\xe3") + b" %d\n" % i for i in range(2_000))
    assert thin([data], {word}).common == []


@given(
    lines=st.lists(
        st.sampled_from([b"", b"x", b"NVRM: a", b"  nvrm b", b"\xff\xfe", b"y" * 50, b"Xid"]), max_size=40
    ),
    size=st.integers(1, 64),
)
@settings(max_examples=60, deadline=None)
def test_thinning_does_not_depend_on_how_the_bytes_come(lines: list[bytes], size: int) -> None:
    data = b"\n".join(lines)
    whole = thin(iter([data]))
    pieces = thin(data[i : i + size] for i in range(0, len(data), size))
    expected = [i for i, line in enumerate(data.split(b"\n"), 1) if b"nvrm" in line.lower() or b"xid" in line.lower()]
    assert whole.numbers == pieces.numbers == expected
    assert whole.text == pieces.text


@pytest.mark.slow
def test_two_hundred_megabytes_take_little_memory(tmp_path: Path) -> None:
    huge_log(tmp_path / "syslog", 200, [5, 1_000_000])
    script = (
        "import re, sys; from pathlib import Path; from gpudoctor.sources import open_paths\n"
        "answer = open_paths([Path(sys.argv[1])]).run('syslog')\n"
        # VmHWM starts anew with the program; ru_maxrss would count the test run that it was forked from
        "peak = re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1]\n"
        "print(answer.line_numbers, int(peak) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "syslog")], capture_output=True, text=True, check=True
    )
    numbers, megabytes = done.stdout.rsplit(" ", 1)
    assert numbers == "[5, 1000000]"
    assert int(megabytes) < 150


def test_a_compressed_bomb_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpudoctor.sources.content.UNPACKED_LIMIT_BYTES", 20 << 20)
    with gzip.open(tmp_path / "bomb.gz", "wb", compresslevel=1) as file:
        file.write(b"[    1.000000] NVRM: hello\n")
        for _ in range(64):
            file.write(b"a" * (1 << 20))
    source = open_paths([tmp_path / "bomb.gz"])
    assert "NVRM: hello" in source.documents()[0].text
    assert "were read" in source.unrecognised[0]  # type: ignore[attr-defined]


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"[    1.000000] NVRM: " + b"x" * (9 << 20) + b"\n[    2.000000] NVRM: y\n")
    source = open_paths([tmp_path / "log"])
    assert source.run("dmesg").line_numbers == [1, 2]
    assert len(source.run("dmesg").stdout) < 100_000


@pytest.mark.parametrize(
    "line",
    [
        "\n\n\nx",
        "\n" * 20,
        "$ x\n",
        "## x\n\n",
        ">>> x\n... y\n",
        "$ a \\\n",
        "| x |\n",
        "a" * 80 + "\n",
        "\x1b[31m",
        "$ ls /dev/nvidia*\n",
    ],
)
def test_very_much_of_anything_can_be_pasted(line: str) -> None:
    started = time.perf_counter()
    open_text(line * 5_000)
    assert time.perf_counter() - started < 20


@given(st.text(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_text_can_be_pasted(text: str) -> None:
    source = open_text(text)
    assert source.run("nvidia-smi").status in Status
    assert len(source.documents()) >= 1


_PIECES = st.sampled_from(
    [
        *samples.TABLE_535.split("\n"),
        *samples.LSPCI.split("\n"),
        *samples.BUG_REPORT.split("\n"),
        *samples.LOGS.values(),
        "$ ls /dev/nvidia*",
        "$ dmesg | grep -i '",
        "# ",
        "> ",
        "```",
        "$ docker run x nvidia-smi",
        ">>> import torch",
        "$ cat /x",
        "|",
        "\x1b[31m",
    ]
)


@given(st.lists(_PIECES, max_size=25))
@settings(max_examples=100, deadline=None)
def test_any_mixture_of_outputs_can_be_pasted(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    source = open_text(text)
    count = text.count("\n") + 1
    for answer in source.answers.commands.values():  # type: ignore[attr-defined]
        numbers = answer.line_numbers or []
        assert all(1 <= number <= count for number in numbers)
        assert not answer.stdout or not numbers or len(numbers) == answer.stdout.count("\n") + 1


@given(st.binary(max_size=600))
@settings(max_examples=100, deadline=None)
def test_any_file_is_read_or_a_clear_error(data: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(data)
        with contextlib.suppress(GpudoctorError):
            open_paths([path])
