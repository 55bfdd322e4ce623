"""Paths and commands when the host's file system is mounted below a directory (`--root /host`)."""

from __future__ import annotations

import errno
import os
import posixpath
import stat

from gpudoctor.sources.answers import StatAnswer, Status

_LINK_LIMIT = 40  # as the kernel's ELOOP
_KINDS = (
    (stat.S_ISLNK, "link"),
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "dir"),
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
    (stat.S_ISFIFO, "fifo"),
    (stat.S_ISSOCK, "socket"),
)
# A kernel-wide file system that is a bare mount point below the root: the host's own, seen from here, is the same kernel's.
_SHARED_WITH_HOST = (
    "/proc/driver",
    "/proc/version",
    "/proc/modules",
    "/proc/cmdline",
    "/proc/meminfo",
    "/proc/stat",
    "/sys",
)


def real_path(root: str | None, path: str, *, follow_last: bool = True) -> str:
    """The path to open for the host's `path`. Links are followed inside the root, as the host itself would.

    Raises OSError (ELOOP) for circular links.
    """
    if root is None:
        return path
    if path.startswith(_SHARED_WITH_HOST) and _is_bare(root + "/" + path.split("/", 2)[1]):
        return path
    done = ""
    rest = [part for part in path.split("/") if part not in ("", ".")]
    links = 0
    while rest:
        part = rest.pop(0)
        if part == "..":
            done = posixpath.dirname(done).rstrip("/")
            continue
        here = f"{done}/{part}"
        try:
            target = os.readlink(root + here) if (rest or follow_last) else None
        except OSError:
            target = None
        if target is None:
            done = here
            continue
        links += 1
        if links > _LINK_LIMIT:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            done = ""
        rest[:0] = [step for step in target.split("/") if step not in ("", ".")]
    return root + (done or "/")


def _is_bare(mount_point: str) -> bool:
    """Whether it is an empty directory: the host's root was mounted without its /proc or /sys."""
    try:
        with os.scandir(mount_point) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def stat_answer(root: str | None, path: str) -> StatAnswer:
    """lstat of `path`, and what its link leads to. Raises OSError."""
    real = real_path(root, path, follow_last=False)
    about = os.lstat(real)
    kind = next((name for test, name in _KINDS if test(about.st_mode)), None)
    target: str | None = None
    exists: bool | None = None
    final = real
    if kind == "link":
        target = os.readlink(real)
        try:
            final = real_path(root, path)
            exists = os.path.exists(final)
        except OSError:
            exists = False
    device = kind in ("char", "block")
    return StatAnswer(
        path=path,
        status=Status.OK,
        kind=kind,
        mode=f"{stat.S_IMODE(about.st_mode):04o}",
        uid=about.st_uid,
        gid=about.st_gid,
        size_bytes=about.st_size,
        major=os.major(about.st_rdev) if device else None,
        minor=os.minor(about.st_rdev) if device else None,
        modified=about.st_mtime,
        target=target,
        target_exists=exists,
        openable=_openable(final, kind),
    )


def _openable(real: str, kind: str | None) -> bool | None:
    """Whether this user may open it: read and write for devices (as CUDA does), else read. Nothing is opened."""
    need = os.R_OK | os.W_OK if kind in ("char", "block") else os.R_OK
    try:
        return os.access(real, need)
    except OSError:
        return None


def command_below(root: str, argv: tuple[str, ...], actual: object) -> list[str] | None:
    """The command line that reads the host's files below `root` instead of the container's; None where there is none."""
    if argv[0] == "journalctl":
        return ["journalctl", f"--root={root}", *argv[1:]]
    if argv == ("dpkg", "-l"):
        return ["dpkg-query", f"--admindir={root}/var/lib/dpkg", "-l"]
    if argv[0] == "modinfo":
        return ["modinfo", "-b", root, *argv[1:]]
    return None
