"""What active tests are asked to do, on what, and what they pass around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from gpudoctor.facts import Gpu, Kernel
from gpudoctor.knowledge.gpus import GpuModel
from gpudoctor.sources.answers import CommandAnswer, Source

# In the order in which they run: what says most in the least time first.
TESTS = ("memory", "gemm", "pcie", "p2p", "nccl", "memtest", "burn")
LEVEL_TESTS: dict[int, tuple[str, ...]] = {2: TESTS[:5], 3: TESTS}


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A device that CUDA shows, with what is known of it."""

    ordinal: int
    name: str | None = None
    bdf: str | None = None  # 0000:3b:00.0
    mig: str | None = None  # UUID of a MIG slice
    uuid: str | None = None
    memory_total_bytes: int | None = None
    gpu: Gpu | None = None
    device_id: str | None = None
    model: GpuModel | None = None
    numa_node: int | None = None
    path_generation_max: int | None = None  # slowest and narrowest maximum on the way up
    path_width_max: int | None = None

    @property
    def key(self) -> str:
        """How runs name it."""
        return self.mig or self.bdf or f"device {self.ordinal}"

    @property
    def index(self) -> int:
        """nvidia-smi's number; CUDA's where that is not known."""
        return self.gpu.index if self.gpu is not None and self.gpu.index is not None else self.ordinal

    @property
    def label(self) -> str:
        """For people."""
        return f"GPU {self.index}" if self.mig is None else f"GPU {self.index} MIG {self.ordinal}"


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One worker on some devices. `request` names it; how long it may take is not part of that."""

    test: str
    request: tuple[str, ...]
    targets: tuple[Target, ...]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """One test. Its groups run side by side, a group's jobs one after the other, each within `seconds`."""

    test: str
    groups: tuple[tuple[Job, ...], ...]
    seconds: float
    least_seconds: float

    @property
    def jobs(self) -> list[Job]:
        return [job for group in self.groups for job in group]

    @property
    def depth(self) -> int:
        """How many jobs have to run one after the other."""
        return max((len(group) for group in self.groups), default=0)


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. `gpus` are indexes, addresses or UUIDs; None: all that CUDA shows."""

    tests: tuple[str, ...]
    level: int = 2
    gpus: tuple[str, ...] | None = None
    seconds: float | None = None  # for each test; None: by test and level
    deadline: float  # time.monotonic() at which everything must be over
    with_launcher: bool = False  # NCCL's test together with the other processes of srun, mpirun or torchrun
    nccl_tests: bool = False  # by nccl-tests, where they are installed


class Readers(msgspec.Struct, frozen=True):
    """How answers of the machine become facts: the probes' parsers, handed in since active tests do not know probes."""

    gpus: Callable[[CommandAnswer], list[Gpu] | None]
    kernel: Callable[[Source], Kernel | None]
    throttle_reasons: Callable[[int], list[str]]


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of one device (or of all, `label` "all GPUs") in one test; `done` is 0 to 1."""

    test: str
    label: str
    done: float
    what: str = ""


OnEvent = Callable[[Event], None]
Plain = dict[str, Any]
