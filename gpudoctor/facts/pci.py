"""The PCI bus."""

from gpudoctor.facts.base import Fact


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
    aer_correctable: int | None = None  # PCIe errors that the device counted since boot: repaired by the link itself,
    aer_nonfatal: int | None = None  # failed transfers,
    aer_fatal: int | None = None  # and losses of the link
    max_payload_bytes: int | None = None  # largest PCIe packet in use, and largest piece that the device asks for
    max_read_request_bytes: int | None = None
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
    nic_read_request_min_bytes: int | None = None  # smallest MaxReadReq of Mellanox / NVIDIA network cards
    numa_cpus: dict[str, str] | None = None  # CPUs of the NUMA nodes that GPUs are on: "1" -> "64-127,192-255"
    acs_enabled_bridges: list[str] | None = None  # bridges with ACS source validation / request redirect on
    acs_on_gpu_path: list[str] | None = (
        None  # of those, ports of PCIe switches above a GPU: copies below them go to the root
    )
    iommu_enabled: bool | None = None
    iommu_mode: str | None = None  # "off", "passthrough", "translated"
