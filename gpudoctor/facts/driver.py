"""The driver: its module, packages, device nodes and user-space libraries."""

from gpudoctor.facts.base import Fact


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
    branch_end_of_life: str | None = None  # "2026-06": month after which the vendor mends nothing in it
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
    nodes_wrong: list[str] | None = (
        None  # nodes whose major number is not the driver's: "/dev/nvidia-uvm 508, not 511"
    )
    persistenced_running: bool | None = None
    fabric_manager_running: bool | None = None
    fabric_manager_version: str | None = None
    fabric_manager_installed: bool | None = None
    fabric_manager_failed: bool | None = None  # its service ended with an error
    imex_running: bool | None = None
    install_method: str | None = None  # package, runfile, container, wsl
    runfile_log: str | None = None
    gsp_firmware_version: str | None = None
    nvidia_smi_error: str | None = None  # what nvidia-smi said when it failed, its own words
    attached_gpus: int | None = None  # how many GPUs nvidia-smi -q says there are, however many its output shows
    nvidia_smi_exit_code: int | None = None
    nvml_error: str | None = None  # NVML return by name: DRIVER_NOT_LOADED, LIB_RM_VERSION_MISMATCH, ...
    nvml_error_code: int | None = None
    nvml_timed_out: bool | None = None  # NVML or nvidia-smi never answered
