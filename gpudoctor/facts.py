"""Every fact type: frozen values with units in their names. `None` always means "not known".

Names are a contract: `gpudoctor facts --format json` prints them and rules refer to them. Add freely, rename never.
Each fact value carries `evidence`: for a field name (or "" for the whole value) the request, line and text it was read from.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Evidence(msgspec.Struct, frozen=True):
    """Where something was read: a request such as `nvidia-smi -q -x`, a 1-based line (None: whole answer), the quoted line."""

    source: str
    text: str = ""
    line: int | None = None


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A group or item of facts. `evidence` maps a field name, or "" for the whole value, to where it was read."""

    evidence: dict[str, Evidence] = {}


# --- host -----------------------------------------------------------------------------------------------------------


class Host(Fact, frozen=True, kw_only=True):
    """The machine (or container) that the evidence was taken on."""

    hostname: str | None = None
    os_id: str | None = None  # os-release ID: ubuntu, debian, rhel, rocky, sles, amzn, arch, ...
    os_version: str | None = None  # os-release VERSION_ID
    os_name: str | None = None  # os-release PRETTY_NAME
    package_manager: str | None = None  # apt, dnf, yum, zypper, pacman, apk; told by os-release or the kernel's name
    kernel_release: str | None = None  # uname -r
    kernel_version_string: str | None = None  # /proc/version: tells the compiler
    kernel_compiler: str | None = None  # "gcc 12.3.0"
    arch: str | None = None  # x86_64, aarch64
    in_container: bool | None = None
    container_kind: str | None = None  # docker, podman, kubernetes, lxc, wsl, systemd-nspawn, slurm-pyxis, ...
    virtualization: str | None = None  # none, kvm, vmware, microsoft, xen, amazon, firecracker, wsl, ...
    is_wsl: bool | None = None
    is_tegra: bool | None = None  # a Jetson or other Tegra: its GPU is part of the chip, not on PCI
    secure_boot: bool | None = None
    lockdown: str | None = None  # none, integrity, confidentiality
    boot_time: str | None = None  # ISO 8601, UTC
    uptime_seconds: float | None = None
    cpu_count: int | None = None  # CPUs this process may use (affinity and cgroup quota applied)
    cpu_count_total: int | None = None
    memory_total_mib: int | None = None
    memory_available_mib: int | None = None
    swap_total_mib: int | None = None
    shm_total_mib: int | None = None  # size of /dev/shm
    memlock_limit_kib: int | None = None  # -1: unlimited
    nofile_limit: int | None = None
    is_root: bool | None = None
    user_groups: list[str] | None = None
    init_system: str | None = None  # systemd, ...
    reboot_required: bool | None = None
    newest_kernel_installed: str | None = None  # newest release under /lib/modules
    kernels_installed: list[str] | None = None
    kernel_headers_installed: bool | None = None  # /lib/modules/$(uname -r)/build resolves
    compiler_version: str | None = None  # gcc --version on this host, "11.4.0"
    cpu_governor: str | None = None
    numa_balancing: bool | None = None
    cloud: str | None = None  # aws, gcp, azure, oci, ... from DMI


# --- PCI ------------------------------------------------------------------------------------------------------------


class PciDevice(Fact, frozen=True, kw_only=True):
    """One PCI function of vendor 10de that is a GPU (class 0300 / 0302), as the bus shows it."""

    bdf: str  # 0000:3b:00.0
    device_id: str | None = None  # "10de:20b2"
    subsystem_id: str | None = None
    name: str | None = None
    revision: str | None = None
    class_code: str | None = None  # "0302"
    driver_in_use: str | None = None  # nvidia, nouveau, vfio-pci, ...; "" when no driver is bound
    kernel_modules: list[str] | None = None
    link_speed_gts: float | None = None
    link_width: int | None = None
    link_speed_max_gts: float | None = None
    link_width_max: int | None = None
    path_link_speed_max_gts: float | None = None  # slowest maximum on the way up to the root port
    path_link_width_max: int | None = None  # narrowest maximum on the way up to the root port
    path_bottleneck_bdf: str | None = (
        None  # the bridge whose link is narrower or slower than the device's own maximum
    )
    upstream_bdfs: list[str] | None = None  # bridges from the device up to the root port
    numa_node: int | None = None
    iommu_group: int | None = None
    bar_unassigned: bool | None = None  # a memory BAR of the device has no address
    bar1_size_mib: int | None = None
    revision_ff: bool | None = None  # configuration space reads all ones: the device does not answer
    power_state: str | None = None  # D0, D3hot, D3cold
    enabled: bool | None = None
    slot: str | None = None  # physical slot
    architecture: str | None = (
        None  # kepler, maxwell, pascal, volta, turing, ampere, ada, hopper, blackwell; by PCI id
    )
    product: str | None = None  # model by PCI id
    open_module_support: str | None = None  # required, supported, unsupported
    last_driver_branch: int | None = None  # newest branch that still drives it; None: still supported
    first_driver_branch: int | None = None  # oldest branch that drives it


class Pci(Fact, frozen=True, kw_only=True):
    """The PCI bus."""

    nvidia_devices: list[PciDevice] | None = None
    nvswitches: list[str] | None = None  # BDFs of NVSwitch bridges
    mellanox_devices: list[str] | None = None
    acs_enabled_bridges: list[str] | None = None  # bridges with ACS source validation / request redirect on
    iommu_enabled: bool | None = None
    iommu_mode: str | None = None  # "off", "passthrough", "translated"


# --- driver ---------------------------------------------------------------------------------------------------------


class DkmsModule(Fact, frozen=True, kw_only=True):
    module: str
    version: str
    kernel: str | None = None  # None: only added
    arch: str | None = None
    state: str  # added, built, installed, broken


class Package(Fact, frozen=True, kw_only=True):
    name: str
    version: str
    state: str | None = None  # installed, half-configured, config-files, unpacked, held, ...
    manager: str | None = None  # dpkg, rpm, pacman
    driver_version: str | None = None  # the driver version inside a package version, "535.183.01"


class PackageEvent(Fact, frozen=True, kw_only=True):
    """One line of apt, dpkg or dnf history that touched a GPU or kernel package."""

    time: str | None = None
    action: str  # install, upgrade, remove
    package: str
    old_version: str | None = None
    new_version: str | None = None


class DeviceNode(Fact, frozen=True, kw_only=True):
    path: str
    major: int | None = None
    minor: int | None = None
    mode: str | None = None  # "0666"
    owner: str | None = None
    group: str | None = None
    openable: bool | None = None


class Driver(Fact, frozen=True, kw_only=True):
    """The NVIDIA kernel module and its user-space half."""

    version: str | None = None  # the version in use, whatever told it
    branch: int | None = None  # 535
    installed: bool | None = None  # any trace on disk: module for some kernel, DKMS tree, package, library
    kernel_module_version: str | None = None  # loaded module, /proc/driver/nvidia/version
    module_on_disk_version: str | None = None  # modinfo nvidia for the running kernel
    module_on_disk_kernels: list[str] | None = None  # kernels under /lib/modules that have an nvidia module
    module_for_running_kernel: bool | None = None
    library_version: str | None = (
        None  # libnvidia-ml / libcuda on disk, or the client's version in a mismatch message
    )
    library_paths: list[str] | None = None
    library_versions: list[str] | None = None  # all versions found on disk
    nvidia_smi_present: bool | None = None
    module_flavor: str | None = None  # open, proprietary
    module_compiler: str | None = None
    loaded: bool | None = None
    uvm_loaded: bool | None = None
    modeset_loaded: bool | None = None
    peermem_loaded: bool | None = None
    nouveau_loaded: bool | None = None
    nova_loaded: bool | None = None
    vfio_bound: bool | None = None
    blacklisted_by: list[str] | None = None  # modprobe.d files that blacklist nvidia
    nouveau_blacklisted: bool | None = None
    module_options: dict[str, str] | None = None  # NVreg_* as loaded
    dkms: list[DkmsModule] | None = None
    dkms_autoinstall_error: str | None = None
    packages: list[Package] | None = None
    package_history: list[PackageEvent] | None = None
    device_nodes: list[DeviceNode] | None = None
    nodes_missing: list[str] | None = None  # nodes that should exist and do not
    nodes_denied: list[str] | None = None  # nodes that exist and this user may not open
    persistenced_running: bool | None = None
    fabric_manager_running: bool | None = None
    fabric_manager_version: str | None = None
    fabric_manager_installed: bool | None = None
    imex_running: bool | None = None
    install_method: str | None = None  # package, runfile, container, wsl
    runfile_log: str | None = None
    gsp_firmware_version: str | None = None
    nvidia_smi_error: str | None = None  # what nvidia-smi said when it failed, its own words
    nvidia_smi_exit_code: int | None = None
    nvml_error: str | None = None  # NVML return by name: DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, ...
    nvml_error_code: int | None = None
    nvml_timed_out: bool | None = None  # NVML or nvidia-smi never answered


# --- GPUs -----------------------------------------------------------------------------------------------------------


class GpuProcess(Fact, frozen=True, kw_only=True):
    pid: int
    name: str | None = None
    kind: str | None = None  # C, G, C+G
    memory_used_mib: int | None = None
    alive: bool | None = None
    user: str | None = None


class NvLink(Fact, frozen=True, kw_only=True):
    link: int
    active: bool | None = None
    speed_gbps: float | None = None
    remote: str | None = None
    crc_errors: int | None = None
    replay_errors: int | None = None
    recovery_errors: int | None = None


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
    inforom_corrupted: bool | None = None
    display_active: bool | None = None
    virtualization_mode: str | None = None  # none, passthrough, vgpu, host_vgpu
    addressing_mode: str | None = None
    gsp_firmware_version: str | None = None
    processes: list[GpuProcess] | None = None
    nvlinks: list[NvLink] | None = None
    lost: bool | None = None  # the driver answers "GPU is lost" or cannot give a handle
    # field or "handle" -> NVML error by name (NOT_SUPPORTED and other ways to have no value are not listed), or CRASHED
    errors: dict[str, str] = {}


# --- kernel log -----------------------------------------------------------------------------------------------------


class Xid(Fact, frozen=True, kw_only=True):
    """One Xid line, or a burst of equal ones (`count`). Time as the log gave it, normalised to ISO 8601 where possible."""

    code: int
    bdf: str | None = None  # 0000:3b:00
    time: str | None = None
    seconds: float | None = None  # since boot, where the log has it
    pid: int | None = None
    process: str | None = None
    text: str = ""  # what follows the code
    count: int = 1
    boot: int | None = None  # 0 this boot, -1 the one before
    mig: str | None = None
    recovery: str | None = None  # Xid 154: the recovery action's words
    name: str | None = None
    blame: str | None = None  # application, driver, hardware, bus, system_memory, thermal, fabric, unknown
    meaning: str | None = None  # from the catalogue, for this architecture and driver branch; so are the next ones
    advice: str | None = None
    severity: str | None = None  # critical, error, warning, info: by the number and by what the line's words say
    decoded: str | None = None  # what the rest of the line says, as a sentence
    vendor_action: str | None = None  # the vendor's action class, in words
    last_time: str | None = None  # time of a burst's last line


class SXid(Fact, frozen=True, kw_only=True):
    code: int
    bdf: str | None = None
    switch: int | None = None
    time: str | None = None
    severity: str | None = None  # fatal, non-fatal
    link: int | None = None
    text: str = ""
    count: int = 1
    meaning: str | None = None  # from the catalogue; so are the next ones
    advice: str | None = None
    weight: str | None = None  # critical, error, warning, info: the line's severity word before the table
    boot: int | None = None  # 0 this boot, -1 the one before
    last_time: str | None = None


class KernelEvent(Fact, frozen=True, kw_only=True):
    """An AER, MCE, EDAC, OOM, I/O or other line of the kernel log."""

    kind: str
    bdf: str | None = None
    severity: str | None = None
    time: str | None = None
    text: str = ""
    process: str | None = None
    pid: int | None = None
    count: int = 1
    boot: int | None = None  # 0 this boot, -1 the one before
    last_time: str | None = None


class NvrmMessage(Fact, frozen=True, kw_only=True):
    """An NVRM line that is not an Xid, such as an RmInitAdapter failure; `id` names the known family."""

    id: str | None = None
    bdf: str | None = None
    time: str | None = None
    text: str = ""
    count: int = 1
    boot: int | None = None  # 0 this boot, -1 the one before
    seconds: float | None = None  # since boot, where the log has it
    last_time: str | None = None


class Kernel(Fact, frozen=True, kw_only=True):
    """The kernel log and what the kernel says of itself."""

    cmdline: str | None = None
    modules: list[str] | None = None
    log_complete: bool | None = None  # false: filtered by grep or wrapped, so absence proves nothing
    xids: list[Xid] | None = None
    sxids: list[SXid] | None = None
    nvrm: list[NvrmMessage] | None = None
    aer: list[KernelEvent] | None = None
    mce: list[KernelEvent] | None = None
    oom_kills: list[KernelEvent] | None = None
    io_errors: list[KernelEvent] | None = None
    other: list[KernelEvent] | None = None  # panics, hung tasks, IOMMU faults, PCIe bandwidth limits, ...
    tainted: str | None = None


# --- CUDA and frameworks --------------------------------------------------------------------------------------------


class Library(Fact, frozen=True, kw_only=True):
    name: str  # libcuda, libcudart, libcudnn, libnccl, libcublas, ...
    version: str | None = None
    path: str | None = None
    size_bytes: int | None = None


class Cuda(Fact, frozen=True, kw_only=True):
    driver_cuda_version: str | None = None  # highest CUDA version this driver runs, "12.2"
    toolkits: list[str] | None = None  # installed toolkit versions
    nvcc_version: str | None = None
    libraries: list[Library] | None = None
    compat_package: str | None = None  # version of cuda-compat found
    env: dict[str, str] | None = None  # CUDA_*, NVIDIA_*, LD_LIBRARY_PATH, NCCL_* of this process
    visible_devices: str | None = None  # CUDA_VISIBLE_DEVICES
    error_code: int | None = None  # CUresult / cudaError number seen
    error_name: str | None = None


class Framework(Fact, frozen=True, kw_only=True):
    name: str  # torch, tensorflow, jax, cupy, ...
    version: str | None = None
    cuda_build: str | None = None  # "12.1"; "" for a CPU-only build
    cudnn_version: str | None = None
    nccl_version: str | None = None
    arch_list: list[str] | None = None  # sm_70, ...
    cuda_available: bool | None = None
    debug_build: bool | None = None


# --- topology, NCCL, network ----------------------------------------------------------------------------------------


class TopologyLink(Fact, frozen=True, kw_only=True):
    a: str
    b: str
    kind: str  # NV18, PIX, PXB, PHB, NODE, SYS


class Topology(Fact, frozen=True, kw_only=True):
    gpus: list[str] | None = None
    nics: list[str] | None = None
    nic_names: dict[str, str] | None = None  # NIC0 -> mlx5_0, from the legend
    links: list[TopologyLink] | None = None  # each pair once
    cpu_affinity: dict[str, str] | None = None
    numa_affinity: dict[str, str] | None = None


class NcclRow(Fact, frozen=True, kw_only=True):
    size_bytes: int
    count: int | None = None
    dtype: str | None = None
    time_us: float | None = None
    algbw_gbps: float | None = None  # GB/s, as nccl-tests prints
    busbw_gbps: float | None = None
    errors: int | None = None
    in_place: bool | None = None


class NcclTest(Fact, frozen=True, kw_only=True):
    collective: str | None = None
    ranks: int | None = None
    nodes: int | None = None  # hosts in the device list
    rows: list[NcclRow] | None = None
    avg_busbw_gbps: float | None = None
    out_of_bounds: int | None = None
    version: str | None = None
    devices: list[str] | None = None


class Nccl(Fact, frozen=True, kw_only=True):
    version: str | None = None
    tests: list[NcclTest] | None = None
    transports: list[str] | None = None  # NET/IB, NET/Socket, P2P/CUMEM, SHM, ...
    interfaces: list[str] | None = None
    env: dict[str, str] | None = None


class DcgmResult(Fact, frozen=True, kw_only=True):
    """One line of a DCGM diagnostic."""

    test: str  # "GPU Memory", "Error", "Warning", ...
    result: str  # pass, fail, warn, skip; the words for Error and Warning
    gpus: list[int] | None = None
    message: str | None = None


class Dcgm(Fact, frozen=True, kw_only=True):
    """What DCGM says: its diagnostic's results and how many GPUs it discovered."""

    version: str | None = None
    driver_version: str | None = None
    results: list[DcgmResult] | None = None
    gpu_count: int | None = None


class RdmaPort(Fact, frozen=True, kw_only=True):
    device: str
    ca_type: str | None = None  # MT4129
    port: int | None = None
    state: str | None = None
    physical_state: str | None = None
    rate_gbps: float | None = None
    link_layer: str | None = None
    firmware: str | None = None


class Network(Fact, frozen=True, kw_only=True):
    rdma_ports: list[RdmaPort] | None = None
    interfaces: list[str] | None = None
    routes_overlapping: list[str] | None = None  # connected IPv4 networks that overlap on different interfaces


# --- containers, runtimes, schedulers -------------------------------------------------------------------------------


class InjectedLibrary(Fact, frozen=True, kw_only=True):
    path: str
    size_bytes: int | None = None
    version: str | None = None
    problem: str | None = None  # empty, dangling, mismatched


class Container(Fact, frozen=True, kw_only=True):
    """What this container sees of the host. The whole group is None on a host."""

    kind: str | None = None
    visible_devices: str | None = None  # NVIDIA_VISIBLE_DEVICES
    driver_capabilities: str | None = None  # NVIDIA_DRIVER_CAPABILITIES
    require_cuda: str | None = None  # NVIDIA_REQUIRE_CUDA
    device_nodes: list[str] | None = None
    injected_libraries: list[InjectedLibrary] | None = None
    libraries_missing: list[str] | None = None
    cgroup_version: int | None = None
    cgroup_denies_gpu: bool | None = None
    hidden: list[str] | None = None  # what cannot be seen from in here: kernel log, host packages, ...
    privileged: bool | None = None
    user_namespace: bool | None = None


class Runtime(Fact, frozen=True, kw_only=True):
    """Container engines on the host."""

    toolkit_installed: bool | None = None
    toolkit_version: str | None = None
    docker_installed: bool | None = None
    docker_running: bool | None = None
    docker_version: str | None = None
    docker_runtimes: list[str] | None = None
    docker_default_runtime: str | None = None
    docker_daemon_json: str | None = None  # daemon.json as text
    docker_daemon_json_valid: bool | None = None
    docker_nvidia_configured: bool | None = None  # daemon.json names the nvidia runtime
    docker_restarted_since_config: bool | None = None
    docker_is_snap: bool | None = None
    docker_is_rootless: bool | None = None
    docker_is_desktop: bool | None = None
    docker_cgroup_driver: str | None = None
    docker_cgroup_version: int | None = None
    containerd_installed: bool | None = None
    containerd_nvidia_configured: bool | None = None
    containerd_default_runtime: str | None = None
    containerd_restarted_since_config: bool | None = None
    podman_installed: bool | None = None
    podman_version: str | None = None
    crio_nvidia_configured: bool | None = None
    cdi_specs: list[str] | None = None  # spec files found
    cdi_devices: list[str] | None = None
    cdi_spec_version_stale: bool | None = None  # a spec names driver files that do not exist any more
    cdi_stale_paths: list[str] | None = None
    toolkit_no_cgroups: bool | None = None
    toolkit_mode: str | None = None  # auto, legacy, cdi, csv


class KubernetesNode(Fact, frozen=True, kw_only=True):
    name: str
    capacity_gpu: int | None = None
    allocatable_gpu: int | None = None
    allocated_gpu: int | None = None
    ready: bool | None = None
    unschedulable: bool | None = None
    taints: list[str] | None = None
    labels: dict[str, str] | None = None
    runtime_version: str | None = None
    kubelet_version: str | None = None
    kernel_version: str | None = None
    os_image: str | None = None
    capacity_resources: dict[str, int] | None = None  # every nvidia.com/... resource, MIG and .shared ones too
    allocatable_resources: dict[str, int] | None = None
    allocated_resources: dict[str, int] | None = None
    problems: list[str] | None = None  # conditions that are bad: "DiskPressure", "Ready: container runtime is down"
    runtime_handlers: list[str] | None = None  # runtime handlers that the kubelet reports: runc, nvidia, ...
    device_plugin_pods: list[str] | None = None  # pods on the node whose name says NVIDIA device plugin


class KubernetesPod(Fact, frozen=True, kw_only=True):
    name: str
    namespace: str | None = None
    node: str | None = None
    phase: str | None = None
    requested_gpu: int | None = None
    reason: str | None = None
    message: str | None = None
    runtime_class: str | None = None
    requested_resources: dict[str, int] | None = None  # limits of nvidia.com/... resources, summed over containers
    status: str | None = None  # the word kubectl prints: Running, CrashLoopBackOff, Init:0/1, ...
    ready: bool | None = None
    restarts: int | None = None
    exit_code: int | None = None  # of the last container that ended badly
    container_reason: str | None = None  # OOMKilled, Error, CrashLoopBackOff, ...


class Kubernetes(Fact, frozen=True, kw_only=True):
    nodes: list[KubernetesNode] | None = None
    pods: list[KubernetesPod] | None = None


class SlurmNode(Fact, frozen=True, kw_only=True):
    name: str
    gres: str | None = None
    gres_used: str | None = None
    state: str | None = None
    reason: str | None = None
    cfg_tres: str | None = None
    alloc_tres: str | None = None
    partitions: str | None = None
    gpus: int | None = None  # GPUs in Gres=; 0 when the node has no GPU gres
    gpus_in_tres: int | None = None  # gres/gpu of CfgTRES; 0 when it is not counted there
    gpus_allocated: int | None = None
    version: str | None = None  # slurmd
    boot_time: str | None = None
    reason_by: str | None = None  # user who set the reason; "slurm" or "root" when the controller did
    reason_time: str | None = None


class Slurm(Fact, frozen=True, kw_only=True):
    nodes: list[SlurmNode] | None = None


# --- a running job, expectations ------------------------------------------------------------------------------------


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


class Facts(Fact, frozen=True, kw_only=True):
    """All facts; a group is None when its probe had no evidence."""

    host: Host | None = None
    pci: Pci | None = None
    driver: Driver | None = None
    gpus: list[Gpu] | None = None
    kernel: Kernel | None = None
    cuda: Cuda | None = None
    frameworks: list[Framework] | None = None
    topology: Topology | None = None
    nccl: Nccl | None = None
    network: Network | None = None
    dcgm: Dcgm | None = None
    container: Container | None = None
    runtime: Runtime | None = None
    kubernetes: Kubernetes | None = None
    slurm: Slurm | None = None
    training: Training | None = None
    expect: Expectation | None = None


class DocumentKind(StrEnum):
    """What a text is, so that a message may be looked for in the right texts only."""

    KERNEL_LOG = "kernel_log"
    COMMAND = "command"
    FILE = "file"
    LOG = "log"  # application, container or job logs
    PASTE = "paste"  # anything a user pasted


class Document(msgspec.Struct, frozen=True):
    """A text in which rules look for messages. `line_numbers` gives each line's number in the original when lines were left out."""

    name: str
    kind: DocumentKind
    text: str
    line_numbers: list[int] | None = None


def plain(value: Any) -> Any:
    """Plain JSON values of a fact without its evidence; None, a fact that is not known, stays None."""
    if isinstance(value, Fact):
        names = (name for name in value.__struct_fields__ if name != "evidence")
        return {name: plain(getattr(value, name)) for name in names}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value
