"""The machine (or container) itself."""

from gpudoctor.facts.base import Fact


class BmcEvent(Fact, frozen=True, kw_only=True):
    """One event in the log of the management controller (IPMI SEL) that was not deasserted since."""

    sensor: str  # Power Supply PSU2 Status
    event: str  # Power Supply AC lost
    time: str | None = None  # as the controller gave it


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
    time: str | None = None  # ISO 8601, UTC: when the evidence was taken; of pasted text, when it was read
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
    address_space_limit_kib: int | None = None  # ulimit -v; -1: unlimited
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
    clocksource: str | None = None  # tsc, kvm-clock, hpet, acpi_pm, ...
    clock_synchronized: bool | None = None  # NTP or PTP keeps the clock right
    memory_errors_corrected: int | None = None  # of host memory, since boot (EDAC)
    memory_errors_uncorrected: int | None = None
    bmc_events: list[BmcEvent] | None = None
    blocked_processes: list[str] | None = None  # in uninterruptible sleep: "4242 python train.py"
    cpu_idle_pct: float | None = None  # of all CPUs together: pasted vmstat, mpstat, iostat or top
    iowait_pct: float | None = None  # CPU time in which processes waited for a disk
    runnable_processes: int | None = None  # want a CPU at the same time
    swap_traffic_kib: int | None = None  # in and out, per second
    disks_busy: list[str] | None = None  # at their limit by `iostat -x`: "sda"
    full_core_processes: list[str] | None = None  # `top` shows them with a core or more: "python"
    cloud: str | None = None  # aws, gcp, azure, oci, ... from DMI
