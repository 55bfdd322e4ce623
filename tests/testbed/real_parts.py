"""Finds the genuine programs that `.ci/install-real-parts` installs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

# Debian keeps some of them where PATH does not look.
_FOLDERS = ("/usr/sbin", "/sbin", "/usr/bin", "/bin", "/lib/systemd", "/usr/lib/systemd")
SMI_GENERATIONS = ("470", "535", "550")


def cache_folder() -> Path:
    """Where `.ci/install-real-parts` puts what is not installed as a package: GPUDOCTOR_REAL_PARTS, or its default."""
    return Path(os.environ.get("GPUDOCTOR_REAL_PARTS", "/var/cache/gpudoctor-real-parts"))


def smi_path(generation: str) -> Path:
    return cache_folder() / f"nvidia-smi-{generation}" / "nvidia-smi"


def program(name: str) -> str | None:
    """The path of a genuine program, or None. Names of the form nvidia-smi-470 are looked up in the cache folder."""
    if name.startswith("nvidia-smi-"):
        path = smi_path(name.removeprefix("nvidia-smi-"))
        return str(path) if os.access(path, os.X_OK) else None
    # Debian's own programs first: another client of the same name may come earlier on PATH.
    return shutil.which(name, path=":".join(_FOLDERS)) or shutil.which(name)


def missing(names: tuple[str, ...]) -> list[str]:
    """Those of `names` that are not installed. "root" asks for being root, "python:MODULE" for an importable module."""
    return [name for name in names if not _present(name)]


def _present(name: str) -> bool:
    if name == "root":
        return os.geteuid() == 0
    if name.startswith("python:"):
        from importlib.util import find_spec

        try:
            return find_spec(name.removeprefix("python:")) is not None
        except ModuleNotFoundError:  # of a package that it is in
            return False
    if name == "kernel-headers":
        return kernel_with_headers() is not None
    return program(name) is not None


def kernel_with_headers() -> str | None:
    """The release of a kernel whose headers are installed, newest name last, or None."""
    modules = Path("/lib/modules")
    found = sorted(entry.name for entry in modules.glob("*") if (entry / "build" / "Makefile").exists())
    return found[-1] if found else None


def require(name: str) -> str:
    """The path of a program that a `real` test said it needs. Raises FileNotFoundError when the test did not say so."""
    path = program(name)
    if path is None:
        raise FileNotFoundError(f"{name} is not installed; run .ci/install-real-parts")
    return path
