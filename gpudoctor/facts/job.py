"""A running job, and what the operator expects of the machine."""

from gpudoctor.facts.base import Fact


class OutOfMemory(Fact, frozen=True, kw_only=True):
    """The numbers of one message of a framework that got no GPU memory."""

    requested_mib: float | None = None  # what it asked for in one piece
    total_mib: float | None = None  # capacity of the GPU
    free_mib: float | None = None  # of the GPU, for anybody
    allocated_mib: float | None = None  # live tensors of this process
    reserved_mib: float | None = None  # what its allocator holds, live tensors included
    allowed_mib: float | None = None  # a limit that the program set itself
    others_mib: float | None = None  # what other processes must hold, where the numbers tell


class Training(Fact, frozen=True, kw_only=True):
    """The job's environment and what its log tells, where known."""

    env: dict[str, str] | None = None
    world_size: int | None = None
    dataloader_workers: int | None = None
    step_seconds: float | None = None  # median over the log's lines, without the first
    data_seconds: float | None = None  # of a step: waiting for input
    data_share: float | None = None  # data_seconds / step_seconds of the median line, 0 to 1
    utilization_mean_pct: float | None = None  # of the busiest GPU, over samples in time
    utilization_max_pct: int | None = None
    utilization_samples: int | None = None
    first_seconds: float | None = None  # of a piece of work that was timed again and again, where the first
    later_seconds: float | None = None  # took many times as long as the next ones
    out_of_memory: list[OutOfMemory] | None = None
    scaling_base_gpus: int | None = None  # speeds with the fewest
    scaling_gpus: int | None = None  # and with the most GPUs that the text has in one unit
    scaling_efficiency: float | None = (
        None  # the part of the ideal gain between them, where each GPU does a whole batch
    )


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
