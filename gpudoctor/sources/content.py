"""Bytes of a file somebody attached: decompressed, decoded, and no more of it in memory than it deserves."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Self, cast

HEAD_BYTES = 65536
_CHUNK_BYTES = 1 << 20
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)
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

    def _read(self, size: int) -> bytes:
        pieces: list[bytes] = []
        while size > 0 and self.problem is None:
            try:
                piece = self._file.read(min(size, _CHUNK_BYTES))
            except _DAMAGE as error:
                self.problem = f"damaged or truncated: {error}"
                break
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def chunks(self) -> Iterator[bytes]:
        """All bytes from the start, in pieces of a MiB or less. Can be taken once."""
        if self._head:
            yield self._head
        while piece := self._read(_CHUNK_BYTES):
            yield piece

    def upto(self, limit: int) -> tuple[bytes, bool]:
        """The first `limit` bytes, and whether that is all. `chunks` still gives everything."""
        self._head += self._read(limit + 1 - len(self._head))
        return self._head[:limit], len(self._head) <= limit


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
    return cast(IO[bytes], gzip.GzipFile(fileobj=raw))


def _xz(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], lzma.open(raw))


def _bzip2(raw: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], bz2.open(raw))


def _zstd(raw: IO[bytes]) -> IO[bytes]:
    """Python reads zstd from 3.14 on; before that the `zstd` program does, where there is one."""
    program = shutil.which("zstd")
    if program is None:
        raise OSError("compressed with zstd: unpack it first")
    data = subprocess.run([program, "-dcq"], stdin=raw, capture_output=True, timeout=60, check=False)
    return io.BytesIO(data.stdout)


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
    if head[1:400:2].count(0) > len(head[1:400:2]) * 0.6:
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
    """Text with plain line ends, never failing. NUL bytes, which terminals swallow, are dropped."""
    return data.decode(name, "replace").replace("\r\n", "\n").replace("\0", "").removeprefix("\ufeff")
