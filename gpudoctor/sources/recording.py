"""Reads a recording back: the directory or archive that `gpudoctor collect` wrote, also after somebody edited it."""

from __future__ import annotations

import posixpath
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor.errors import GpudoctorError
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer
from gpudoctor.sources.archive import ArchiveLimits, members
from gpudoctor.sources.stored import Answers, StoredSource

SCHEMA = 1
MANIFEST = "manifest.json"
MANIFEST_LIMIT_BYTES = 64 * 1024 * 1024
CONTENT_LIMIT_BYTES = 64 * 1024 * 1024
_LIMITS = ArchiveLimits(members=50_000, member_bytes=CONTENT_LIMIT_BYTES, total_bytes=256 * 1024 * 1024)
_Content = Callable[[str], str | None]


class _Manifest(msgspec.Struct, kw_only=True):
    schema: int
    tool: str
    now: float = 0.0
    environment: dict[str, str] | None = None
    requests: list[dict[str, Any]] = []


def is_recording_directory(path: Path) -> bool:
    """Whether this directory is a recording."""
    try:
        with open(path / MANIFEST, "rb") as file:
            return b'"gpudoctor"' in file.read(4096)
    except OSError:
        return False


def open_directory(path: Path) -> StoredSource:
    """The recording in this directory. Raises GpudoctorError when its manifest cannot be read."""
    base = path.resolve()

    def content(name: str) -> str | None:
        place = (base / name).resolve()
        if not place.is_relative_to(base) or not place.is_file():
            return None
        with open(place, "rb") as file:
            return file.read(CONTENT_LIMIT_BYTES).decode("utf-8", "replace")

    try:
        with open(path / MANIFEST, "rb") as file:
            manifest = file.read(MANIFEST_LIMIT_BYTES)
    except OSError as error:
        raise GpudoctorError(f"cannot read {path / MANIFEST}: {error.strerror or error}") from error
    return _source(manifest, content, path.name, str(path / MANIFEST))


def open_archive(path: Path) -> StoredSource:
    """The recording in this `.tar.gz`. Nothing is unpacked to disk. Raises GpudoctorError for a damaged or unsafe one."""
    contents = dict(members(path, _LIMITS, strict=True))
    manifests = [name for name in contents if posixpath.basename(name) == MANIFEST and name.count("/") <= 1]
    if len(manifests) != 1:
        raise GpudoctorError(f"{path} is not a recording: it has no {MANIFEST}")
    top = posixpath.dirname(manifests[0])

    def content(name: str) -> str | None:
        data = contents.get(posixpath.normpath(posixpath.join(top, name)))
        return None if data is None else data.decode("utf-8", "replace")

    return _source(contents[manifests[0]], content, path.name, f"{path}: {manifests[0]}")


def is_recording_archive(path: Path) -> bool:
    """Whether this tar file holds a recording. Looks at names only."""
    try:
        with tarfile.open(path, "r:*") as archive:
            for _ in range(_LIMITS.members):
                member = archive.next()
                if member is None:
                    return False
                name = posixpath.normpath(member.name)
                if posixpath.basename(name) == MANIFEST and name.count("/") <= 1:
                    opened = archive.extractfile(member) if member.isreg() else None
                    return opened is not None and b'"gpudoctor"' in opened.read(4096)
    except (tarfile.TarError, OSError, EOFError, ValueError):
        return False
    return False


def _source(raw: bytes, content: _Content, name: str, where: str) -> StoredSource:
    try:
        manifest = msgspec.json.decode(raw, type=_Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise GpudoctorError(
            f"{where}: not a readable manifest: {error}", hint="Record again with `gpudoctor collect`."
        ) from error
    if manifest.schema != SCHEMA:
        raise GpudoctorError(
            f"{where}: this recording has schema {manifest.schema}, this version reads {SCHEMA}",
            hint="Use the version of gpudoctor that made the recording, or a newer one.",
        )
    answers = Answers(environment=manifest.environment)
    for number, entry in enumerate(manifest.requests, 1):
        try:
            answer = _answer(entry, content)
        except (msgspec.MsgspecError, TypeError, ValueError) as error:
            raise GpudoctorError(f"{where}: request {number}: {error}") from error
        if answer is not None:
            answers.add(answer)
    return StoredSource("recording", f"recording {name}", answers, now=manifest.now)


def _answer(entry: dict[str, Any], content: _Content) -> CommandAnswer | FileAnswer | ListAnswer | StatAnswer | None:
    """The answer of one manifest entry; None where its text was deleted, which is the same as not recorded."""
    fields = dict(entry)
    if "command" in fields:
        fields["argv"] = fields.pop("command")
        for stream in ("stdout", "stderr"):
            if stream in fields:
                text = content(str(fields[stream]))
                if text is None:
                    return None
                fields[stream] = text
        return msgspec.convert(fields, CommandAnswer)
    if "file" in fields:
        fields["path"] = fields.pop("file")
        if "content" in fields:
            text = content(str(fields.pop("content")))
            if text is None:
                return None
            fields["text"] = text
        return msgspec.convert(fields, FileAnswer)
    if "list" in fields:
        fields["path"] = fields.pop("list")
        return msgspec.convert(fields, ListAnswer)
    if "stat" in fields:
        fields["path"] = fields.pop("stat")
        return msgspec.convert(fields, StatAnswer)
    return None  # a kind of request of a later version
