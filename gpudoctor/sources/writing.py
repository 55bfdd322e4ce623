"""Writes a recording: a directory that a person can read and edit, or the same in a `.tar.gz`.

manifest.json                       every request with its status, exit code, seconds
files/proc/driver/nvidia/version    what was read
commands/nvidia-smi_-q_-x/stdout    what was said; stderr beside it
"""

from __future__ import annotations

import gzip
import hashlib
import io
import posixpath
import re
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from gpudoctor import __version__
from gpudoctor.errors import GpudoctorError
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer
from gpudoctor.sources.secrets import Scrubber

SCHEMA = 1


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """What a recorder remembers."""

    commands: dict[tuple[str, ...], CommandAnswer]
    files: dict[str, FileAnswer]
    lists: dict[str, ListAnswer]
    stats: dict[str, StatAnswer]
    environment: dict[str, str] | None
    now: float
    source: str


def write(path: Path, kept: Kept, *, redact: bool) -> None:
    """Writes what was kept to `path` without its secrets. Raises GpudoctorError where it cannot be written."""
    scrubber = Scrubber(redact=redact, texts=_texts(kept))
    contents = dict(_contents(kept, scrubber, redact))
    try:
        if path.name.endswith((".tar.gz", ".tgz")):
            _write_archive(path, contents)
        else:
            _write_directory(path, contents)
    except OSError as error:
        raise GpudoctorError(
            f"cannot write the recording {path}: {error.strerror or error}", hint="Choose another place with -o."
        ) from error


def _texts(kept: Kept) -> Iterator[tuple[str, str]]:
    for command in kept.commands.values():
        yield command.request, command.text
    for file in kept.files.values():
        yield file.path, file.text
    paths = [*kept.files, *kept.lists, *kept.stats, *(command.request for command in kept.commands.values())]
    yield "paths", "\n".join(paths)
    yield "environment", "\n".join((kept.environment or {}).values())


def _contents(kept: Kept, scrubber: Scrubber, redact: bool) -> Iterator[tuple[str, bytes]]:
    """Every file of the recording by its relative name, the manifest last."""
    entries: list[dict[str, Any]] = []
    used: set[str] = set()
    for argv in sorted(kept.commands):
        command = kept.commands[argv]
        place = _free(f"commands/{_slug(argv)}", used)
        entries.append({"command": [scrubber.text(part) for part in argv]} | _facts_of(command))
        if command.stdout:
            entries[-1]["stdout"] = f"{place}/stdout"
            yield entries[-1]["stdout"], scrubber.text(command.stdout).encode()
        if command.stderr:
            entries[-1]["stderr"] = f"{place}/stderr"
            yield entries[-1]["stderr"], scrubber.text(command.stderr).encode()
    for path in sorted(kept.files):
        file = kept.files[path]
        entries.append({"file": scrubber.text(path)} | _facts_of(file))
        if file.text:
            entries[-1]["content"] = _free(_file_place(scrubber.text(path)), used)
            yield entries[-1]["content"], scrubber.text(file.text).encode()
    for path in sorted(kept.lists):
        listed = kept.lists[path]
        names = [scrubber.text(name) for name in listed.names]
        entries.append({"list": scrubber.text(path), "names": names} | _facts_of(listed))
    for path in sorted(kept.stats):
        stat = kept.stats[path]
        target = {"target": scrubber.text(stat.target)} if stat.target is not None else {}
        entries.append({"stat": scrubber.text(path)} | _facts_of(stat) | target)
    environment = kept.environment
    if environment is not None:
        environment = {name: scrubber.variable(name, value) for name, value in environment.items()}
    manifest = {
        "schema": SCHEMA,
        "tool": "gpudoctor",
        "version": __version__,
        "recorded": datetime.fromtimestamp(kept.now, UTC).isoformat(timespec="seconds"),
        "now": kept.now,
        "source": kept.source,
        "redacted": redact,
        "environment": environment,
        "requests": entries,
    }
    yield "manifest.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


_ELSEWHERE = frozenset({"argv", "path", "stdout", "stderr", "text", "names"})


def _facts_of(answer: CommandAnswer | FileAnswer | ListAnswer | StatAnswer) -> dict[str, Any]:
    """What the manifest says of an answer besides its text: only what differs from the default, and the status."""
    fields = msgspec.structs.fields(answer)
    values = {field.name: getattr(answer, field.name) for field in fields if field.name not in _ELSEWHERE}
    defaults = {field.name: field.default for field in fields}
    return {name: value for name, value in values.items() if name == "status" or value != defaults[name]}


def _slug(argv: tuple[str, ...]) -> str:
    """A directory name that says the command."""
    name = re.sub(r"[^A-Za-z0-9.,=+@-]+", "_", "_".join(argv)).strip("_.") or "command"
    return name if len(name) <= 100 else f"{name[:80]}_{_digest(' '.join(argv))}"


def _file_place(path: str) -> str:
    """Where a file's content is kept: its own path below files/, unless a name in it cannot be one here."""
    parts = [part for part in path.split("/") if part]
    odd = any(
        part in (".", "..") or len(part.encode("utf-8", "replace")) > 200 or re.search(r"[\0\\:]", part)
        for part in parts
    )
    if odd and not re.fullmatch(r"/[\w./:@+,-]+", path):
        return f"files/other/{_digest(path)}"
    return posixpath.join("files", *parts) if parts else f"files/other/{_digest(path)}"


def _free(place: str, used: set[str]) -> str:
    """A place that is neither used nor below a used one nor above one (a file cannot also be a directory)."""
    candidate, number = place, 1
    while candidate in used or any(candidate.startswith(other + "/") for other in used):
        number += 1
        candidate = f"{place}~{number}"
    used.add(candidate)
    return candidate


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def _write_directory(path: Path, contents: dict[str, bytes]) -> None:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise GpudoctorError(f"{path} already exists", hint="Choose a name that is not taken, with -o.")
    for name, data in contents.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        target.write_bytes(data)


def _write_archive(path: Path, contents: dict[str, bytes]) -> None:
    top = re.sub(r"\.(tar\.gz|tgz)$", "", path.name) or "recording"
    temporary = path.with_name(path.name + ".part")
    with (
        open(temporary, "wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as envelope,
        tarfile.open(fileobj=envelope, mode="w") as archive,
    ):
        for name, data in contents.items():
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size = len(data)
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(data))
    temporary.replace(path)
