"""Runs the workers of links on several GPUs that are pieces of host memory (cuda_on_cpu/several)."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from typing import Any

from tests.testbed import cuda_on_cpu
from tests.testbed.cuda_on_cpu import Ran

SEVERAL = cuda_on_cpu.SITE.parent / "several"
# A launcher's variables of the machine that runs the tests must not make ranks of the workers.
_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "MPI_", "NCCL_")


@cache
def _meeting_places() -> str:
    folder = tempfile.mkdtemp(prefix="gpudoctor-nccl-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def environment(scenario: dict[str, Any] | None = None, nccl: str | None = None, **more: str) -> dict[str, str]:
    """For a worker that should see these GPUs. `nccl`: the folder over which the ranks meet, or "genuine" for the real
    library; a new folder by default. `more` are further variables."""
    inherited = cuda_on_cpu.environment(scenario)
    kept = {name: value for name, value in inherited.items() if not name.startswith(_LAUNCHERS)}
    places = {
        "PYTHONPATH": f"{SEVERAL}:{kept['PYTHONPATH']}",
        "NCCL_ON_CPU": nccl or tempfile.mkdtemp(dir=_meeting_places()),
    }
    return {**kept, **places, **more}


def run(worker: str, *arguments: str, scenario: dict[str, Any] | None = None, **more: str) -> Ran:
    """Runs a worker to its end."""
    return cuda_on_cpu.finish(cuda_on_cpu.start(worker, *arguments, env=environment(scenario, **more)))
