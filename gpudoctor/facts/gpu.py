"""GPUs as NVML and nvidia-smi show them."""

from gpudoctor.facts.base import Fact


class GpuProcess(Fact, frozen=True, kw_only=True):
    pid: int
    name: str | None = None
    kind: str | None = None  # C, G, C+G
    memory_used_mib: int | None = None
    alive: bool | None = None
    user: str | None = None
    cpus_allowed: str | None = None  # "0-15,64-79"
    far_from_gpu: bool | None = None  # none of the CPUs that it may use is on the GPU's NUMA node


class NvLink(Fact, frozen=True, kw_only=True):
    link: int
    active: bool | None = None
    speed_gbps: float | None = None
    remote: str | None = None  # BDF of the other end
    remote_kind: str | None = None  # gpu, switch, npu
    crc_errors: int | None = None
    replay_errors: int | None = None
    recovery_errors: int | None = None
    effective_ber: float | None = None  # NVLink 5: bit error rate that error correction leaves over
    symbol_ber: float | None = None  # NVLink 5: before the last correction


class Gpu(Fact, frozen=True, kw_only=True):
    """One GPU as the driver sees it (NVML, or nvidia-smi's XML, -q or table: the same facts)."""

    index: int | None = None  # None: the evidence names the GPU otherwise, by address or UUID
    uuid: str | None = None
    name: str | None = None
    bdf: str | None = None
    serial: str | None = None
    device_id: str | None = None
    minor: int | None = None
    vbios: str | None = None
    board_part_number: str | None = None
    architecture: str | None = None
    compute_capability: str | None = None  # "8.0"
    memory_total_mib: int | None = None
    memory_used_mib: int | None = None
    memory_reserved_mib: int | None = None
    bar1_total_mib: int | None = None
    temperature_c: int | None = None
    temperature_memory_c: int | None = None
    temperature_slowdown_c: int | None = None
    temperature_shutdown_c: int | None = None
    temperature_max_operating_c: int | None = None
    temperature_margin_c: int | None = None  # degrees left below the limit, where the driver reports a margin
    fan_pct: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    power_limit_min_w: float | None = None
    power_limit_max_w: float | None = None
    utilization_gpu_pct: int | None = None
    utilization_memory_pct: int | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    memory_clock_mhz: int | None = None
    memory_clock_max_mhz: int | None = None
    performance_state: str | None = None
    throttle_reasons: list[str] | None = (
        None  # idle, app_clocks, sw_power_cap, hw_slowdown, sync_boost, sw_thermal, hw_thermal, hw_power_brake, display
    )
    persistence_mode: bool | None = None
    compute_mode: str | None = None  # default, exclusive_process, prohibited
    mig_mode: bool | None = None
    mig_mode_pending: bool | None = None
    mig_devices: int | None = None
    ecc_mode: bool | None = None
    ecc_mode_pending: bool | None = None
    ecc_corrected_volatile: int | None = None
    ecc_uncorrected_volatile: int | None = None
    ecc_corrected_aggregate: int | None = None
    ecc_uncorrected_aggregate: int | None = None
    ecc_sram_uncorrected_aggregate: int | None = None
    ecc_sram_threshold_exceeded: bool | None = None
    retired_pages_single_bit: int | None = None
    retired_pages_double_bit: int | None = None
    retired_pages_pending: bool | None = None
    remapped_rows_correctable: int | None = None
    remapped_rows_uncorrectable: int | None = None
    remapped_rows_pending: bool | None = None
    remapped_rows_failure: bool | None = None
    remap_banks_max: int | None = None  # banks with all spare rows
    remap_banks_high: int | None = None
    remap_banks_partial: int | None = None
    remap_banks_low: int | None = None
    remap_banks_none: int | None = None  # banks without a spare row
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_generation_device_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_replay_count: int | None = None
    recovery_action: str | None = None  # none, gpu_reset, node_reboot, drain_p2p, drain_and_reset
    reset_required: bool | None = None
    drain_and_reset_recommended: bool | None = None
    fabric_state: str | None = None  # not_supported, not_started, in_progress, completed
    fabric_status: str | None = None  # success or the error's words
    fabric_health: str | None = None
    fabric_cluster_uuid: str | None = None  # the NVLink domain that the GPU is registered with
    fabric_clique: int | None = None  # the part of it whose GPUs reach each other
    inforom_corrupted: bool | None = None
    inforom_image: str | None = None  # version of the InfoROM image, "G500.0202.00.02"
    memory_unrepairable: bool | None = None  # the driver has given up on repairing the memory
    channel_repair_pending: bool | None = None  # a memory channel is repaired at the next reset
    tpc_repair_pending: bool | None = None  # a compute unit (TPC) is replaced at the next reset
    display_active: bool | None = None
    virtualization_mode: str | None = None  # none, passthrough, vgpu, host_vgpu
    addressing_mode: str | None = None
    gsp_firmware_version: str | None = None
    processes: list[GpuProcess] | None = None
    nvlinks: list[NvLink] | None = None
    nvlinks_active: int | None = None
    nvlinks_expected: int | None = (
        None  # of this model on its board; 0 for cards, which have them with a bridge at most
    )
    lost: bool | None = None  # the driver answers "GPU is lost" or cannot give a handle
    # field or "handle" -> NVML error by name (NOT_SUPPORTED and other ways to have no value are not listed), or CRASHED
    errors: dict[str, str] = {}  # noqa: RUF012 - a frozen struct copies its defaults
