"""Which rank this process is, from what launchers (torchrun, mpirun, srun) put into the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# Far below the range that kernels give to outgoing connections (32768 and up by default).
_FIRST_PORT, _PORTS = 21000, 8000
# Slurm numbers its own steps (batch, interactive, extern, pending) down from 2^32 - 3.
_FIRST_SPECIAL_STEP = 2**32 - 16
_TORCH_PORT = 29500  # torchrun's and torch.distributed's own default


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """One process among `world`; `local_world` is how many of them run on this host, None when not told."""

    launcher: str
    rank: int
    world: int
    local_rank: int
    local_world: int | None = None
    master: str | None = None  # host of rank 0
    port: int = _TORCH_PORT


class RankError(Exception):
    """The launcher's variables are missing or contradict each other; the text says which and what to set."""


def ranks_of(environment: Mapping[str, str], *, plain: bool = False) -> Ranks | None:
    """The rank that a launcher gave this process; None when it runs alone.

    Bare RANK and WORLD_SIZE count only with `plain`: training operators and old shells leave them where no
    other rank will ever come. Raises RankError.
    """
    for reader in (_torchrun, _open_mpi, _srun, _hydra, *((_plain,) if plain else ())):
        found = reader(environment)
        if found is not None:
            _check(found)
            return found if found.world > 1 else None
    return None


def first_host(nodelist: str) -> str:
    """The first host of a Slurm host list: `gpu[03-07,11],login1` -> `gpu03`."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodelist)
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first.group() if first else "").strip()


def tasks_on_node(tasks_per_node: str, node: int) -> int | None:
    """How many tasks Slurm starts on the node with that number: (`8(x2),4`, 2) -> 4. None when it does not say."""
    counts: list[int] = []
    for part in tasks_per_node.split(","):
        found = re.fullmatch(r"\s*(\d{1,6})(?:\(x(\d{1,6})\))?\s*", part)
        if found is None:
            return None
        counts += [int(found[1])] * int(found[2] or 1)
    return counts[node] if 0 <= node < len(counts) else None


def _torchrun(environment: Mapping[str, str]) -> Ranks | None:
    if "TORCHELASTIC_RUN_ID" not in environment:
        return None
    return _torch_names(environment, "torchrun")


def _plain(environment: Mapping[str, str]) -> Ranks | None:
    return _torch_names(environment, "environment")


def _torch_names(environment: Mapping[str, str], launcher: str) -> Ranks | None:
    """https://docs.pytorch.org/docs/stable/elastic/run.html, Environment Variables."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return None
    port = _number(environment, "MASTER_PORT", _TORCH_PORT)
    if environment.get("TORCHELASTIC_USE_AGENT_STORE", "").lower() == "true":
        port += 1  # torchrun itself listens on MASTER_PORT
    return Ranks(
        launcher=launcher,
        rank=_number(environment, "RANK"),
        world=_number(environment, "WORLD_SIZE"),
        local_rank=_number(environment, "LOCAL_RANK", 0),
        local_world=_optional(environment, "LOCAL_WORLD_SIZE"),
        master=environment.get("MASTER_ADDR") or None,
        port=port,
    )


def _open_mpi(environment: Mapping[str, str]) -> Ranks | None:
    """https://docs.open-mpi.org/en/main/tuning-apps/environment-var.html."""
    if "OMPI_COMM_WORLD_RANK" not in environment or "OMPI_COMM_WORLD_SIZE" not in environment:
        return None
    return _mpi(environment, "OMPI_COMM_WORLD_", "LOCAL_RANK", "LOCAL_SIZE")


def _hydra(environment: Mapping[str, str]) -> Ranks | None:
    """MPICH and Intel MPI."""
    if "PMI_RANK" not in environment or "PMI_SIZE" not in environment:
        return None
    names = {f"PMI_{key}": value for key, value in environment.items() if key.startswith("MPI_LOCAL")}
    return _mpi({**environment, **names}, "PMI_", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")


def _mpi(environment: Mapping[str, str], prefix: str, local_rank: str, local_size: str) -> Ranks:
    world = _number(environment, prefix + "SIZE")
    local_world = _optional(environment, prefix + local_size)
    return Ranks(
        launcher="mpirun",
        rank=_number(environment, prefix + "RANK"),
        world=world,
        local_rank=_number(environment, prefix + local_rank, 0),
        local_world=local_world,
        master=environment.get("MASTER_ADDR") or ("127.0.0.1" if local_world == world else None),
        port=_number(environment, "MASTER_PORT", _TORCH_PORT),
    )


def _srun(environment: Mapping[str, str]) -> Ranks | None:
    """A task of a job step. Batch scripts and interactive shells have SLURM_PROCID too, but no step or a special one."""
    if "SLURM_STEP_NUM_TASKS" not in environment or "SLURM_PROCID" not in environment:
        return None
    if not 0 <= _number(environment, "SLURM_STEP_ID", _FIRST_SPECIAL_STEP) < _FIRST_SPECIAL_STEP:
        return None
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST") or ""
    tasks = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
    job = _number(environment, "SLURM_JOB_ID", 0)
    return Ranks(
        launcher="srun",
        rank=_number(environment, "SLURM_PROCID"),
        world=_number(environment, "SLURM_STEP_NUM_TASKS"),
        local_rank=_number(environment, "SLURM_LOCALID", 0),
        local_world=tasks_on_node(tasks, _number(environment, "SLURM_NODEID", 0)),
        master=environment.get("MASTER_ADDR") or first_host(nodes) or None,
        port=_number(environment, "MASTER_PORT", _FIRST_PORT + job % _PORTS),
    )


def _optional(environment: Mapping[str, str], name: str) -> int | None:
    return _number(environment, name) if name in environment else None


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name, "")
    if not text and default is not None:
        return default
    if not re.fullmatch(r"\d{1,10}", text):
        raise RankError(f"{name} is {text[:40]!r} and must be a number")
    return int(text)


def _check(ranks: Ranks) -> None:
    if ranks.rank >= ranks.world:
        raise RankError(f"this is rank {ranks.rank} of {ranks.world} ranks: the launcher's variables contradict")
    if ranks.world > 1 and not ranks.master:
        raise RankError(
            f"{ranks.launcher} started {ranks.world} ranks but does not say where rank 0 runs: "
            "set MASTER_ADDR to its host name for all ranks (mpirun -x MASTER_ADDR=HOST)"
        )
    if not 0 < ranks.port < 65536:
        raise RankError(f"port {ranks.port} (MASTER_PORT) is not a TCP port")
