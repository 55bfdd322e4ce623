"""Real containers in scratch folders: dockerd, podman and runc, with no network and no image from anywhere else.

The image holds only folders and links; the host's /usr is mounted into each container read-only, so that every program
of the host (Python, nvidia-smi) is there and nothing has to be copied.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import real_parts

IMAGE = "gpudoctor-testbed:1"
_FOLDERS = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr", "var/lib", "work")
_MERGED = ("bin", "lib", "lib32", "lib64", "sbin")  # links into /usr on a merged system
_START_TIMEOUT, _STOP_TIMEOUT = 60.0, 20.0


def root_file_system(folder: Path) -> Path:
    """Writes the image's content: folders, links into /usr, and the few files that programs ask for."""
    for name in _FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in _MERGED:
        if Path("/", name).is_symlink() and not (folder / name).is_symlink():
            (folder / name).symlink_to(f"usr/{name}")
    (folder / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (folder / "etc/group").write_text("root:x:0:\n")
    shutil.copy("/etc/os-release", folder / "etc/os-release")
    shutil.copy("/etc/ld.so.cache", folder / "etc/ld.so.cache")
    if Path("/etc/alternatives").is_dir() and not (folder / "etc/alternatives").exists():
        shutil.copytree("/etc/alternatives", folder / "etc/alternatives", symlinks=True)
    return folder


def image_tar(folder: Path) -> Path:
    """The image as the tar file that `docker import` and `podman import` take."""
    tar = folder / "image.tar"
    root = root_file_system(folder / "image-root")
    subprocess.run(["tar", "-C", str(root), "-cf", str(tar), "."], check=True, timeout=60)
    return tar


def _mounts(more: Mapping[str | Path, str]) -> list[str]:
    mounts = ["-v", "/usr:/usr:ro"]
    for source, target in more.items():
        mounts += ["-v", f"{source}:{target}"]
    return mounts


@dataclass(frozen=True)
class Docker:
    """A running daemon of its own. `environment` makes any `docker` client talk to it."""

    folder: Path
    client: str

    @property
    def environment(self) -> dict[str, str]:
        return {"DOCKER_HOST": f"unix://{self.folder}/docker.sock"}

    def command(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs the genuine client. Raises TimeoutExpired."""
        environment = {**os.environ, **self.environment, "LC_ALL": "C", "HOME": str(self.folder)}
        return subprocess.run(
            [self.client, *arguments], env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    def run(
        self, argv: Sequence[str], options: Sequence[str] = (), mounts: Mapping[str | Path, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`docker run` of the image without network. `mounts` are further {host path: container path[:ro]}."""
        fixed = ["run", "--pull=never", "--rm", "--network=none"]
        return self.command(*fixed, *_mounts(mounts or {}), *options, IMAGE, *argv)


def _wait_for(ready: Path, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the daemon did not start:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def dockerd(options: Sequence[str] = (), path: Sequence[str | Path] = ()) -> Iterator[Docker]:
    """A Docker daemon with the image loaded, in its own mount namespace, for as long as the block lasts.

    `options` are further arguments of dockerd (`--add-runtime=nvidia=/nonexistent`); `path` are folders put first on
    the daemon's PATH, where it looks for its hooks (an own `nvidia-container-runtime-hook`).
    Needs root and `real("dockerd", "docker", "containerd", "runc")`. Raises RuntimeError with the daemon's log.
    """
    with tempfile.TemporaryDirectory(prefix="gd-docker-") as name:  # short: a socket's path has a limit of 107 bytes
        folder, log = Path(name), Path(name) / "log"
        command = [
            real_parts.require("dockerd"), f"--data-root={folder}/data", f"--exec-root={folder}/exec",
            f"--host=unix://{folder}/docker.sock", f"--pidfile={folder}/pid",
            "--iptables=false", "--ip6tables=false", "--bridge=none", *options,
        ]  # fmt: skip
        search = ":".join([*map(str, path), "/usr/sbin:/usr/bin:/sbin:/bin"])
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["unshare", "-m", "--", *command], env={**os.environ, "PATH": search}, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        try:
            _wait_for(folder / "docker.sock", process, log)
            docker = Docker(folder, real_parts.require("docker"))
            loaded = docker.command("import", str(image_tar(folder)), IMAGE)
            if loaded.returncode != 0:
                raise RuntimeError(f"docker import failed: {loaded.stderr}")
            yield docker
        finally:
            _stop(process)
            _remove_tree(folder)
            _remove_cgroups("docker")


def _remove_tree(folder: Path) -> None:
    """Empties the folder, taking away mounts that a killed daemon left."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if f"{folder}/" in line]
    for target in reversed(mounted):
        subprocess.run(["umount", "-l", target], check=False, capture_output=True)
    for entry in folder.iterdir():
        shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def _remove_cgroups(name: str) -> None:
    """Removes the empty control groups that an engine leaves; one that still has processes stays."""
    top = Path("/sys/fs/cgroup")
    for group in (top / name, *top.glob(f"*/{name}")):
        for folder, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):
                Path(folder).rmdir()


@dataclass(frozen=True)
class Podman:
    """Podman with storage of its own in `folder`; it needs no daemon."""

    folder: Path

    def command(self, *arguments: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs the genuine podman. Raises TimeoutExpired."""
        storage = [f"--root={self.folder}/root", f"--runroot={self.folder}/run"]
        engine = ["--cgroup-manager=cgroupfs", "--events-backend=file", f"--runtime={real_parts.require('runc')}"]
        return subprocess.run(
            [real_parts.require("podman"), *storage, *engine, *arguments],
            env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip

    def run(
        self, argv: Sequence[str], options: Sequence[str] = (), mounts: Mapping[str | Path, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """`podman run` of the image without network; the limits are those that a root without CAP_SYS_RESOURCE may set."""
        fixed = [
            "run",
            "--pull=never",
            "--rm",
            "--network=none",
            "--ulimit=nofile=20000:20000",
            "--ulimit=nproc=1024:1024",
        ]
        return self.command(*fixed, *_mounts(mounts or {}), *options, IMAGE, *argv)


@contextlib.contextmanager
def podman() -> Iterator[Podman]:
    """Podman with the image loaded. Needs root and `real("podman", "runc")`. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="gd-podman-") as name:
        engine = Podman(Path(name))
        try:
            loaded = engine.command("import", str(image_tar(Path(name))), IMAGE)
            if loaded.returncode != 0:
                raise RuntimeError(f"podman import failed: {loaded.stderr}")
            yield engine
        finally:
            _remove_tree(Path(name))
            _remove_cgroups("libpod_parent")


def runc(
    argv: Sequence[str], bundle: Path, env: Mapping[str, str] | None = None, cgroups: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `argv` in a bare OCI container below `bundle`, an empty folder. Needs root and `real("runc")`."""
    program = real_parts.require("runc")
    root_file_system(bundle / "rootfs")
    subprocess.run([program, "spec"], cwd=bundle, check=True, timeout=20)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"].update(args=list(argv), terminal=False, rlimits=[])
    spec["process"]["env"] = [
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        *(f"{key}={value}" for key, value in (env or {}).items()),
    ]
    spec["mounts"].append({"destination": "/usr", "source": "/usr", "type": "none", "options": ["rbind", "ro"]})
    if cgroups:
        spec["linux"]["cgroupsPath"] = cgroups
    (bundle / "config.json").write_text(json.dumps(spec))
    identity = f"gpudoctor-{os.getpid()}-{bundle.name}"
    command = [program, "--root", str(bundle / "state"), "run", "--bundle", str(bundle), identity]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
