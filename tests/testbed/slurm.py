"""A real Slurm cluster of several nodes on this machine: one munged, one slurmctld, a slurmd per node, all in a scratch folder."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from . import real_parts

_TIMEOUT = 40.0


@dataclass(frozen=True)
class Node:
    """One node: what slurm.conf says of it, and the devices that its gres.conf finds (or does not)."""

    name: str
    gpus: int = 0
    devices: int | None = None  # how many it really reports; None: as many as configured
    memory_mib: int = 1000
    features: str = "testbed"


@dataclass(frozen=True)
class Cluster:
    folder: Path

    def command(self, *argv: str, timeout: float = 30) -> subprocess.CompletedProcess[str]:
        """Runs a Slurm client (scontrol, sinfo, squeue, srun, ...). Raises TimeoutExpired."""
        environment = {**os.environ, **self.environment, "LC_ALL": "C"}
        program = real_parts.require(argv[0])
        return subprocess.run(
            [program, *argv[1:]], env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )

    @property
    def environment(self) -> dict[str, str]:
        """What makes any Slurm client talk to this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def wait_for(self, node: str, text: str) -> str:
        """`scontrol show node` as soon as it contains `text`. Raises TimeoutError with what it said last."""
        deadline = time.monotonic() + _TIMEOUT
        while text not in (shown := self.command("scontrol", "show", "node", node).stdout):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} does not appear:\n{shown}")
            time.sleep(0.2)
        return shown


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _configuration(folder: Path, nodes: Sequence[Node], extra: Sequence[str]) -> None:
    controller, *ports = _free_ports(len(nodes) + 1)
    lines = [
        "ClusterName=testbed", f"SlurmctldHost={socket.gethostname()}(127.0.0.1)", "SlurmUser=root", "SlurmdUser=root",
        "AuthType=auth/munge", f"AuthInfo=socket={folder}/munge.socket", f"SlurmctldPort={controller}", "ReturnToService=0",
        f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
        f"SlurmctldPidFile={folder}/ctld.pid", f"SlurmdPidFile={folder}/%n.pid",
        f"SlurmctldLogFile={folder}/ctld.log", f"SlurmdLogFile={folder}/%n.log",
        "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none", "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core", "GresTypes=gpu", "JobAcctGatherType=jobacct_gather/none", *extra,
    ]  # fmt: skip
    gres = []
    for node, port in zip(nodes, ports, strict=True):
        gpus = f" Gres=gpu:{node.gpus}" if node.gpus else ""
        lines.append(
            f"NodeName={node.name} NodeAddr=127.0.0.1 NodeHostname={socket.gethostname()} Port={port} CPUs=1"
            f" RealMemory={node.memory_mib} Feature={node.features}{gpus}"
        )
        for number in range(node.gpus if node.devices is None else node.devices):
            device = folder / node.name / f"nvidia{number}"
            device.parent.mkdir(exist_ok=True)
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(195, number))
            gres.append(f"NodeName={node.name} Name=gpu File={device} Flags=nvidia_gpu_env")
    lines.append("PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP")
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    (folder / "gres.conf").write_text("\n".join(gres) + "\n")
    (folder / "state").mkdir()


def _start(folder: Path, argv: list[str]) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    with (folder / "daemons.log").open("ab") as log:
        return subprocess.Popen(
            argv, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _munged(folder: Path) -> subprocess.Popen[bytes]:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    files = [
        f"--{name}={folder}/munge.{name.split('-')[0]}" for name in ("socket", "pid-file", "log-file", "seed-file")
    ]
    return _start(folder, [real_parts.require("munged"), "--foreground", "--force", f"--key-file={key}", *files])


def _stop(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
    for process in reversed(processes):
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def cluster(nodes: Sequence[Node], extra: Sequence[str] = ()) -> Iterator[Cluster]:
    """The cluster, for as long as the block lasts. `extra` are further lines of slurm.conf.

    Needs root and `real("slurmctld", "slurmd", "munged", "scontrol")`. Raises RuntimeError with the logs.
    """
    with tempfile.TemporaryDirectory(prefix="gd-slurm-") as name:
        folder = Path(name)
        processes: list[subprocess.Popen[bytes]] = []
        try:
            _configuration(folder, nodes, extra)
            processes.append(_munged(folder))
            _wait(folder, folder / "munge.socket")
            processes.append(_start(folder, [real_parts.require("slurmctld"), "-D"]))
            processes += [_start(folder, [real_parts.require("slurmd"), "-D", "-N", node.name]) for node in nodes]
            made = Cluster(folder)
            _wait_until_answering(made)
            yield made
        finally:
            _stop(processes)


def _logs(folder: Path) -> str:
    return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-800:]}" for log in folder.glob("*.log"))


def _wait(folder: Path, ready: Path) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not ready.exists():
        if time.monotonic() > deadline:
            raise RuntimeError(_logs(folder))
        time.sleep(0.05)


def _wait_until_answering(made: Cluster) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while made.command("scontrol", "ping").returncode != 0:
        if time.monotonic() > deadline:
            raise RuntimeError(_logs(made.folder))
        time.sleep(0.2)
