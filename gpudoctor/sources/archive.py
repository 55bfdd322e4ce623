"""Reads the members of a tar archive without unpacking to disk, within limits: attachments may be hostile."""

from __future__ import annotations

import lzma
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec

from gpudoctor.errors import GpudoctorError

_DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)


class ArchiveLimits(msgspec.Struct, frozen=True):
    """How much of an archive is read, after decompression."""

    members: int
    member_bytes: int
    total_bytes: int


def members(path: Path, limits: ArchiveLimits, *, strict: bool) -> Iterator[tuple[str, bytes]]:
    """(normal name, content) of every regular file. Raises GpudoctorError for damage, for more than the limits allow, and
    where `strict` for anything that tar's data filter refuses; else such members are left out.
    """
    total = 0
    for name, member, file in open_members(path, limits, strict=strict):
        if member.size > limits.member_bytes:
            raise GpudoctorError(f"{path}: {name} is larger than {limits.member_bytes >> 20} MiB")
        total += member.size
        if total > limits.total_bytes:
            raise GpudoctorError(f"{path}: more than {limits.total_bytes >> 20} MiB when unpacked")
        try:
            data = file.read(limits.member_bytes)
        except _DAMAGE as error:
            raise _damaged(path, error) from error
        yield name, data


def open_members(
    path: Path, limits: ArchiveLimits, *, strict: bool
) -> Iterator[tuple[str, tarfile.TarInfo, IO[bytes]]]:
    """(normal name, member, open file) of every regular file, in the archive's order. The file is to be read at once."""
    try:
        with tarfile.open(path, "r|*") as archive:
            for count, member in enumerate(archive):
                if count >= limits.members:
                    raise GpudoctorError(f"{path}: more than {limits.members} members")
                name = posixpath.normpath(member.name)
                problem = _problem(member)
                if problem is not None and strict:
                    raise GpudoctorError(f"{path}: unsafe archive: {member.name!r} {problem}", hint="Record again.")
                if problem is not None or not member.isreg():
                    continue
                file = archive.extractfile(member)
                if file is not None:
                    yield name, member, file
    except _DAMAGE as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> GpudoctorError:
    return GpudoctorError(f"{path}: damaged or truncated archive: {error}")


def _problem(member: tarfile.TarInfo) -> str | None:
    """Why this member must not be trusted."""
    if member.islnk() or member.issym():
        return "is a link"
    if member.isdev() or member.isfifo():
        return "is a device"
    if member.name.startswith("/"):
        return "is an absolute path"
    try:
        tarfile.data_filter(member, "/nowhere")
    except tarfile.FilterError as error:
        return str(error)
    return None
