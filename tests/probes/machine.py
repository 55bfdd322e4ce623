"""Makes a complete recording of a machine out of a few files and commands: whatever is not given is known to be absent."""

from __future__ import annotations

import posixpath

from gpudoctor.sources.answers import CommandAnswer, FileAnswer, ListAnswer, StatAnswer, Status
from gpudoctor.sources.stored import Answers, StoredSource

NOW = 1_700_000_000.0


def machine(
    files: dict[str, str] | None = None,
    *,
    links: dict[str, str] | None = None,
    broken_links: dict[str, str] | None = None,
    dirs: tuple[str, ...] = (),
    stats: tuple[StatAnswer, ...] = (),
    commands: dict[tuple[str, ...], str] | None = None,
    failed: dict[tuple[str, ...], str] | None = None,
    environment: dict[str, str] | None = None,
    denied: tuple[str, ...] = (),
) -> StoredSource:
    """A recording with these files (text), links (path -> target), directories, `stats` (device nodes) and commands."""
    answers = Answers(absent_globs=["*"], environment=environment or {})
    children: dict[str, set[str]] = {}

    def place(path: str) -> None:
        while path not in ("/", ""):
            parent = posixpath.dirname(path)
            children.setdefault(parent, set()).add(posixpath.basename(path))
            path = parent

    for path, text in (files or {}).items():
        answers.add(FileAnswer(path=path, status=Status.OK, text=text))
        size = len(text.encode())
        answers.add(StatAnswer(path=path, status=Status.OK, kind="file", size_bytes=size, openable=True))
        place(path)
    for table, good in ((links or {}, True), (broken_links or {}, False)):
        for path, target in table.items():
            answers.add(StatAnswer(path=path, status=Status.OK, kind="link", target=target, target_exists=good))
            place(path)
    for stat in stats:
        answers.add(stat)
        place(stat.path)
    for path in dirs:
        children.setdefault(path, set())
        place(path)
    for path in denied:
        answers.add(FileAnswer(path=path, status=Status.DENIED))
        place(path)
    for path, names in children.items():
        answers.add(ListAnswer(path=path, status=Status.OK, names=sorted(names)))
        if path not in answers.stats:
            answers.add(StatAnswer(path=path, status=Status.OK, kind="dir"))
    for argv, text in (commands or {}).items():
        answers.add(CommandAnswer(argv=argv, status=Status.OK, exit_code=0, stdout=text))
    for argv, text in (failed or {}).items():
        answers.add(CommandAnswer(argv=argv, status=Status.FAILED, exit_code=1, stderr=text))
    return StoredSource("recording", "recording test", answers, now=NOW)


def node(path: str, major: int = 195, minor: int = 0, mode: str = "0666", openable: bool = True) -> StatAnswer:
    """A character device."""
    return StatAnswer(
        path=path, status=Status.OK, kind="char", mode=mode, uid=0, gid=0, major=major, minor=minor, openable=openable
    )
