"""Where raw evidence comes from: the live machine, a recording of it, files from a ticket, pasted text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.sources.answers import ActiveSource, Source
from gpudoctor.sources.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

__all__ = ["ActiveSource", "Recorder", "Source", "open_live", "open_paths", "open_text"]


def open_live(root: str | None = None) -> ActiveSource:
    """This machine; `root` is where the host's file system is mounted when this runs in a container."""
    from gpudoctor.sources.live import LiveSource

    return LiveSource(root)


def open_paths(paths: list[Path], interesting: Collection[bytes] | None = None) -> ActiveSource:
    """A recording, or files from a ticket (also a directory or archive of them), together as one source.

    `interesting` are the words that a line of a huge log must have one of to be kept. Raises GpudoctorError for what
    cannot be read or is not recognised.
    """
    from gpudoctor.sources.opening import open_all

    return open_all(paths, interesting)


def open_text(text: str, name: str = "pasted text") -> ActiveSource:
    """What a user pasted: outputs of commands in it answer the same requests as a live machine."""
    from gpudoctor.sources.text import open_paste

    return open_paste(text, name)
