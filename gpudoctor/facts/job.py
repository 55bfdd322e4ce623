"""A running job, and what the operator expects of the machine."""

from __future__ import annotations

from gpudoctor.facts.base import Fact


class Training(Fact, frozen=True, kw_only=True):
    """The job's environment, where known."""

    env: dict[str, str] | None = None
    world_size: int | None = None
    dataloader_workers: int | None = None


class Expectation(Fact, frozen=True, kw_only=True):
    """What the operator says this machine should have (`--expect FILE`)."""

    gpu_count: int | None = None
    gpu_name: str | None = None
    driver_version: str | None = None
    cuda_version: str | None = None
    memory_total_mib: int | None = None
    nvlink_count: int | None = None
    ecc_mode: bool | None = None
    mig_mode: bool | None = None
    persistence_mode: bool | None = None
    power_limit_w: float | None = None
