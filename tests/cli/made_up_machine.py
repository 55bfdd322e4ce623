"""A machine that does not exist: files, links, devices and commands in dictionaries, behind the Source protocol.

It answers like a live machine (what is not there is not found), so that the recordings of the demo hold an answer to
every question that a live run asks.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpudoctor.facts import Document
from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status
from gpudoctor.sources.stored import documents_of

NOW = 1_772_337_600.0  # 2026-03-01 04:00 UTC


class MadeUpMachine:
    """`files` by path, `links` by path, character `devices` by path, `commands` by argv, `environ`.

    `aliases`: a program that gives one answer whatever its arguments are.
    """

    kind = "live"
    name = "live"

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.links: dict[str, str] = {}
        self.devices: dict[str, tuple[int, int]] = {}
        self.directories: set[str] = {"/"}
        self.commands: dict[tuple[str, ...], tuple[int, str, str]] = {}
        self.aliases: dict[str, tuple[str, ...]] = {}
        self.denied: set[str] = set()
        self.environ: dict[str, str] = {}
        self._answered: dict[tuple[str, ...], CommandAnswer] = {}

    def command(self, line: str, stdout: str, code: int = 0, stderr: str = "") -> None:
        self.commands[tuple(line.split())] = (code, stdout, stderr)

    def without(self, *prefixes: str) -> None:
        """Takes away everything at or below these paths."""
        for table in (self.files, self.links, self.devices):
            for path in list(table):
                if any(path == prefix or path.startswith(prefix + "/") for prefix in prefixes):
                    del table[path]
        self.directories = {
            path for path in self.directories if not any(path == p or path.startswith(p + "/") for p in prefixes)
        }

    def _children(self, path: str) -> list[str]:
        base = path.rstrip("/") + "/"
        every = [*self.files, *self.links, *self.devices, *self.directories]
        return sorted(
            {other[len(base) :].split("/")[0] for other in every if other.startswith(base) and other != base}
        )

    def read(self, path: str) -> FileAnswer:
        if path in self.denied:
            return FileAnswer(path=path, status=Status.DENIED)
        if path in self.files:
            return FileAnswer(path=path, status=Status.OK, text=self.files[path])
        return FileAnswer(path=path, status=Status.NOT_FOUND)

    def list(self, path: str) -> ListAnswer:
        names = self._children(path)
        found = bool(names) or path in self.directories
        return ListAnswer(path=path, status=Status.OK if found else Status.NOT_FOUND, names=names)

    def stat(self, path: str) -> StatAnswer:
        if path in self.links:
            target = self.links[path]
            return StatAnswer(
                path=path, status=Status.OK, kind="link", target=target, target_exists=True, openable=True
            )
        if path in self.devices:
            major, minor = self.devices[path]
            return StatAnswer(
                path=path, status=Status.OK, kind="char", mode="0666", uid=0, gid=0, major=major, minor=minor, openable=True
            )  # fmt: skip
        if path in self.files:
            size = len(self.files[path])
            return StatAnswer(
                path=path, status=Status.OK, kind="file", mode="0644", uid=0, gid=0, size_bytes=size, openable=True
            )
        if self._children(path) or path in self.directories:
            return StatAnswer(path=path, status=Status.OK, kind="dir", mode="0755", uid=0, gid=0)
        return StatAnswer(path=path, status=Status.NOT_FOUND)

    def run(self, *argv: str, timeout: float = 5.0) -> CommandAnswer:
        known = argv if argv in self.commands else self.aliases.get(argv[0], argv)
        if known not in self.commands:
            return CommandAnswer(argv=argv, status=Status.NOT_FOUND)
        code, stdout, stderr = self.commands[known]
        answer = CommandAnswer(
            argv=argv,
            status=Status.FAILED if code else Status.OK,
            exit_code=code,
            stdout=stdout,
            stderr=stderr,
            seconds=0.02,
        )
        self._answered[argv] = answer
        return answer

    def env(self, name: str) -> str | None:
        return self.environ.get(name)

    def environment(self) -> dict[str, str] | None:
        return dict(self.environ)

    def now(self) -> float:
        return NOW

    def documents(self) -> Sequence[Document]:
        logs = {path: self.read(path) for path in self.files if path.startswith("/var/log/")}
        return documents_of(self._answered, logs)


def nvml_lines(driver: str, gpus: list[dict[str, Any]]) -> str:
    """What the NVML worker prints for these GPUs."""
    lines: list[dict[str, Any]] = [
        {"kind": "begin", "schema": 1, "binding": "pynvml", "binding_problems": []},
        {"kind": "init", "code": 0, "name": "SUCCESS"},
        {
            "kind": "system",
            "values": {
                "driver_version": driver,
                "nvml_version": f"13.{driver}",
                "cuda_driver_version": 13000,
                "device_count": len(gpus),
            },
            "errors": {},
        },
    ]
    for index, gpu in enumerate(gpus):
        lines.append({"kind": "device", "index": index, "broken": {}, "handle": 0, "errors": {}, **gpu})
    return "".join(json.dumps(line) + "\n" for line in [*lines, {"kind": "end"}])
