"""Opens what somebody attached to a ticket: recordings, files of other tools, directories and archives of those."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from gpudoctor.errors import GpudoctorError
from gpudoctor.facts import Document, DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources import content
from gpudoctor.sources.content import Content
from gpudoctor.sources.foreign.reading import Reading, read_content
from gpudoctor.sources.foreign.sosreport import request_of_member
from gpudoctor.sources.stored import Answers, StoredSource

FILES_LIMIT = 20_000
DEPTH_LIMIT = 16
_UNPACKED_LIMIT_BYTES = 16 << 30
# log, log.1, log-20240101.gz, messages, job.out, slurm-123.err
_LOG_NAME = Lazy(r"(?:\.(?:log|out|err|txt)|/(?:messages|syslog|[^/.]*log))(?:[.-][\w-]+)*$", re.IGNORECASE)
_ZIP = b"PK\x03\x04"
_HINT = "Supported: recordings of `gpudoctor collect`, nvidia-bug-report.log, nvidia-smi output, kernel logs, lspci and more."


def open_all(paths: Sequence[Path], interesting: Collection[bytes] | None = None) -> StoredSource:
    """One source over all of `paths`. Raises GpudoctorError, naming every path that cannot be used."""
    if not paths:
        raise GpudoctorError("no evidence was given", hint="Name a recording or a file with --from.")
    opened: list[StoredSource] = []
    problems: list[GpudoctorError] = []
    for path in paths:
        try:
            opened.append(_open(path, interesting))
        except GpudoctorError as error:
            problems.append(error)
    if problems:
        first = problems[0]
        others = tuple(error.message for error in problems[1:])
        raise GpudoctorError(first.message, hint=first.hint, details=(*first.details, *others))
    return opened[0] if len(opened) == 1 else _joined(opened)


def _joined(sources: Sequence[StoredSource]) -> StoredSource:
    answers = Answers()
    for source in sources:
        answers.merge(source.answers)
    return StoredSource(
        "foreign",
        ", ".join(source.name for source in sources),
        answers,
        now=max(source.now() for source in sources),
        documents=[document for source in sources for document in source.documents()],
        unrecognised=[name for source in sources for name in source.unrecognised],
    )


def _open(path: Path, interesting: Collection[bytes] | None) -> StoredSource:
    try:
        about = path.stat()
    except (OSError, ValueError) as error:
        raise GpudoctorError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if stat.S_ISDIR(about.st_mode):
        from gpudoctor.sources import recording

        if recording.is_recording_directory(path):
            return recording.open_directory(path)
        return _source(path, _directory_readings(path, interesting), about.st_mtime)
    if not stat.S_ISREG(about.st_mode):
        raise GpudoctorError(f"cannot read {path}: not a regular file")
    if about.st_size == 0:
        raise GpudoctorError(f"{path} is empty", hint=_HINT)
    try:
        with content.open_file(path) as opened:
            if not _is_tar(opened.head) and not opened.head.startswith(_ZIP):
                reading = read_content(opened, interesting)
                return _source(path, iter([reading]), about.st_mtime, single=True)
            is_zip = opened.head.startswith(_ZIP)
    except OSError as error:
        raise GpudoctorError(f"cannot read {path}: {error.strerror or error}") from error
    if is_zip:
        return _source(path, _zip_readings(path, interesting), about.st_mtime)
    from gpudoctor.sources import recording

    if recording.is_recording_archive(path):
        return recording.open_archive(path)
    return _source(path, _archive_readings(path, interesting), about.st_mtime)


def _is_tar(head: bytes) -> bool:
    return len(head) >= 265 and head[257:262] == b"ustar"


def _source(path: Path, readings: Iterator[Reading], modified: float, *, single: bool = False) -> StoredSource:
    answers = Answers()
    documents: list[Document] = []
    unrecognised: list[str] = []
    for reading in readings:
        if reading.problem is not None:
            unrecognised.append(f"{reading.name}: {reading.problem}")
        answers.merge(reading.answers)
        documents += reading.documents
    if not answers and not documents:
        if single:
            raise GpudoctorError(
                f"{path}: {unrecognised[0].split(': ', 1)[-1] if unrecognised else 'not recognised'}", hint=_HINT
            )
        shown = tuple(unrecognised[:20])
        raise GpudoctorError(f"{path}: nothing in it is recognised", hint=_HINT, details=shown)
    return StoredSource("foreign", path.name, answers, now=modified, documents=documents, unrecognised=unrecognised)


def _directory_readings(path: Path, interesting: Collection[bytes] | None) -> Iterator[Reading]:
    """Every regular file below a directory, in sorted order; links are not followed."""
    count = 0
    for folder, folders, names in os.walk(path, followlinks=False):
        folders.sort()
        below = Path(folder).relative_to(path)
        if len(below.parts) >= DEPTH_LIMIT:
            folders.clear()
        for name in sorted(names):
            place = Path(folder) / name
            count += 1
            if count > FILES_LIMIT:
                raise GpudoctorError(f"{path}: more than {FILES_LIMIT} files")
            try:
                if not stat.S_ISREG(place.lstat().st_mode):
                    continue
                with content.open_file(place) as opened:
                    opened.name = str(below / name)
                    yield _read_member(opened, interesting)
            except OSError as error:
                yield Reading(name=str(below / name), problem=error.strerror or str(error))


def _archive_readings(path: Path, interesting: Collection[bytes] | None) -> Iterator[Reading]:
    from gpudoctor.sources.archive import ArchiveLimits, open_members

    limits = ArchiveLimits(members=200_000, member_bytes=1 << 40, total_bytes=_UNPACKED_LIMIT_BYTES)
    read = 0
    for name, member, file in open_members(path, limits, strict=False):
        read += member.size
        if read > _UNPACKED_LIMIT_BYTES:
            raise GpudoctorError(f"{path}: more than {_UNPACKED_LIMIT_BYTES >> 30} GiB when unpacked")
        yield _read_member(Content(name, _envelope_in_archive(file, name)), interesting)


def _envelope_in_archive(file: Any, name: str) -> Any:
    """A compressed member of an archive, such as a rotated log; streams of tar cannot be rewound, so by its name."""
    import gzip
    import lzma

    if name.endswith(".gz"):
        return gzip.GzipFile(fileobj=file)
    return lzma.LZMAFile(file) if name.endswith(".xz") else file


def _zip_readings(path: Path, interesting: Collection[bytes] | None) -> Iterator[Reading]:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist()[:FILES_LIMIT]:
                if not member.is_dir():
                    with archive.open(member) as file:
                        yield _read_member(Content(member.filename, file), interesting)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError) as error:
        raise GpudoctorError(f"{path}: damaged or protected zip file: {error}") from error


def _read_member(opened: Content, interesting: Collection[bytes] | None) -> Reading:
    """One of many files: one of no known kind is searched for messages only where its name says that it is a log."""
    reading = read_content(opened, interesting, request_of_member(opened.name))
    if not reading.answers and not _LOG_NAME.search(opened.name) and not _is_log(reading):
        reading.documents = []
        reading.problem = reading.problem and reading.problem.replace("; only searched for messages", "")
    return reading


def _is_log(reading: Reading) -> bool:
    return any(document.kind is DocumentKind.KERNEL_LOG for document in reading.documents)
