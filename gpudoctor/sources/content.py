"""Bytes of a file somebody attached: decompressed, decoded, and no more of it in memory than it deserves."""

from __future__ import annotations

import codecs
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Self, cast

from gpudoctor.sources.terminal import TERMINAL_CODES

HEAD_BYTES = 65536
UNPACKED_LIMIT_BYTES = 8 << 30  # of a compressed file: a bomb must not keep us for ever
_CHUNK_BYTES = 1 << 20
_GZIP, _XZ, _BZ2, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh", b"\x28\xb5\x2f\xfd"
_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Content:
    """One file's decompressed bytes, read once from the start. `problem` says what cut it short."""

    def __init__(self, name: str, file: IO[bytes], raw: IO[bytes] | None = None) -> None:
        self.name = name
        self.problem: str | None = None
        self._file = file
        self._raw = raw
        # One piece at a time: what was unpacked before the damage is kept.
        self._read_some: Callable[[int], bytes] = getattr(file, "read1", file.read)
        self._left = UNPACKED_LIMIT_BYTES if raw is not file else sys.maxsize
        self._head = self._read(HEAD_BYTES)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()
        if self._raw is not None:
            self._raw.close()

    @property
    def head(self) -> bytes:
        """The first 64 KiB."""
        return self._head[:HEAD_BYTES]

    def _piece(self, size: int) -> bytes:
        """Some bytes; none at the end, at damage, and at the limit for compressed files."""
        if self.problem is not None:
            return b""
        if self._left <= 0:
            self.problem = f"only the first {UNPACKED_LIMIT_BYTES >> 30} GiB were read"
            return b""
        try:
            piece = self._read_some(min(size, _CHUNK_BYTES, self._left))
        except _damage() as error:
            self.problem = f"damaged or truncated: {error}"
            return b""
        self._left -= len(piece)
        return piece

    def _read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and (piece := self._piece(size)):
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def chunks(self) -> Iterator[bytes]:
        """All bytes from the start, in pieces. Can be taken once."""
        if self._head:
            yield self._head
        while piece := self._piece(_CHUNK_BYTES):
            yield piece

    def upto(self, limit: int) -> tuple[bytes, bool]:
        """The first `limit` bytes, and whether that is all. `chunks` still gives everything."""
        self._head += self._read(limit + 1 - len(self._head))
        return self._head[:limit], len(self._head) <= limit


def _damage() -> tuple[type[Exception], ...]:
    """What reading a damaged file raises. Asked for when something is raised: most files need none of these modules."""
    import lzma
    import tarfile
    import zipfile
    import zlib

    return EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, ValueError


def open_file(path: Path) -> Content:
    """A file with its gzip, xz, bzip2 or zstd envelope taken off. Raises OSError where it cannot be opened at all."""
    raw = open(path, "rb")  # noqa: SIM115 - closed with the content that is read through it
    try:
        return Content(path.name, unwrapped(raw), raw)
    except OSError:
        raw.close()
        raise


def unwrapped(raw: IO[bytes]) -> IO[bytes]:
    """The stream below a compression envelope, told by its first bytes."""
    magic = raw.read(6)
    raw.seek(0)
    opener = next((opener for sign, opener in _ENVELOPES if magic.startswith(sign)), None)
    return opener(raw) if opener is not None else raw


def _gzip(raw: IO[bytes]) -> IO[bytes]:
    import gzip

    return cast(IO[bytes], gzip.GzipFile(fileobj=raw))


def _xz(raw: IO[bytes]) -> IO[bytes]:
    import lzma

    return cast(IO[bytes], lzma.open(raw))


def _bzip2(raw: IO[bytes]) -> IO[bytes]:
    import bz2

    return cast(IO[bytes], bz2.open(raw))


class _Zstd(io.RawIOBase):
    """Python reads zstd from 3.14 on; before that the `zstd` program does, where there is one."""

    def __init__(self, raw: IO[bytes]) -> None:
        program = shutil.which("zstd")
        if program is None:
            raise OSError("compressed with zstd: unpack it first")
        os.lseek(raw.fileno(), 0, os.SEEK_SET)  # the child reads the file itself, not what is buffered here
        self._child = subprocess.Popen(
            [program, "-dcq"], stdin=raw, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def read(self, size: int = -1) -> bytes:
        assert self._child.stdout is not None
        piece = os.read(self._child.stdout.fileno(), size)
        if not piece and self._child.wait(timeout=10) != 0:
            raise OSError("zstd cannot unpack it")
        return piece

    def close(self) -> None:
        if not self.closed:
            assert self._child.stdout is not None
            self._child.stdout.close()
            self._child.kill()
            self._child.wait()
        super().close()


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], _Zstd(raw))


_ENVELOPES: tuple[tuple[bytes, Callable[[IO[bytes]], IO[bytes]]], ...] = (
    (_GZIP, _gzip),
    (_XZ, _xz),
    (_BZ2, _bzip2),
    (_ZSTD, _zstd),
)


def encoding(head: bytes) -> str | None:
    """How the text is encoded; None for binary data."""
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name
    odd_bytes, even_bytes = head[1:400:2], head[:400:2]
    if odd_bytes.count(0) > len(odd_bytes) * 0.6 and even_bytes.count(0) * 10 < len(even_bytes):
        return "utf-16-le"  # Windows' redirection without a byte order mark
    if head.count(0) > len(head) // 100 + (1 if len(head) < 200 else 0):
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        odd = sum(1 for byte in head if byte >= 0x80)
        control = sum(1 for byte in head if byte < 9 or 13 < byte < 27)
        if control > len(head) // 50:
            return None
        # A few broken characters in a long UTF-8 log, or an old 8-bit encoding throughout?
        replaced = head.decode("utf-8", "replace").count("\ufffd")
        return "latin-1" if replaced * 2 > odd else "utf-8"
    return "utf-8"


def decode(data: bytes, name: str) -> str:
    """Text with plain line ends and without terminal codes; never fails. NUL bytes, which terminals swallow, are dropped."""
    text = data.decode(name, "replace").replace("\r\n", "\n").replace("\0", "").removeprefix("\ufeff")
    return TERMINAL_CODES.sub("", text) if "\x1b" in text or "\x9b" in text else text


def as_utf8(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """The chunks in UTF-8, for encodings that are not a superset of ASCII."""
    if not name.startswith(("utf-16", "utf-32")):
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(name)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
