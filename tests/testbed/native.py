"""Builds the test-bed's C sources with gcc, once per version of the sources."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent


def cache_folder() -> Path:
    """Where built libraries are kept between runs: a folder of this user's in the temporary directory."""
    folder = Path(tempfile.gettempdir()) / f"gpudoctor-testbed-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _digest(files: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def build_shared(name: str, sources: Sequence[Path], links: Sequence[str] = ()) -> Path:
    """The folder that holds shared library `name`, built from C `sources` if it is not there yet.

    Headers and lists beside the sources count for whether it is still right; `links` are further names for it.
    Raises RuntimeError with gcc's words when it does not compile.
    """
    beside = [file for source in sources for file in source.parent.iterdir() if file.suffix in {".c", ".h", ".inc"}]
    folder = cache_folder() / f"{name}-{_digest(beside)}"
    if not (folder / name).exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            _compile(Path(scratch) / name, sources)
            folder.mkdir(exist_ok=True)
            for link in links:
                (folder / link).unlink(missing_ok=True)
                (folder / link).symlink_to(name)
            (Path(scratch) / name).replace(
                folder / name
            )  # last and atomic: other test processes may be building it too
    return folder


def _compile(output: Path, sources: Sequence[Path]) -> None:
    flags = ["-std=gnu11", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{output.name}"]
    command = ["gcc", *flags, "-o", str(output), *map(str, sources), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"gcc failed on {output.name}:\n{done.stderr}")
