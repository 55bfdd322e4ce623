"""Families of kernel messages by a stable id: what the driver prints besides Xids, and what else of the log bears on a GPU.

Formats of the driver's lines follow its published sources (NVIDIA/open-gpu-kernel-modules: osinit.c, nv.c, nv-pci.c,
kernel_gsp.c, nvidia-uvm, nvidia-drm, nvidia-modeset, nvidia-peermem) and logs in the field; the kernel's own follow its
sources (aer.c, dpc.c, pciehp, intel and amd iommu, edac, oom_kill.c). RE2 syntax; newer drivers put `GPU0` and a function
name or `GPU 0000:3b:00.0:` before the words, so patterns search anywhere behind the prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import re2


class Family(msgspec.Struct, frozen=True):
    """`group` is the list among the kernel facts that its lines go to."""

    id: str
    pattern: str
    group: str = "nvrm"
    severity: str | None = None


# Of several that match a line, the first holds.
FAMILIES: tuple[Family, ...] = (
    # --- nvidia.ko
    Family("fallen_off_bus", r"GPU (?:at \S+ )?has fallen off the bus"),
    Family("fallen_off_probe", r"fallen off the bus and is not responding"),
    Family("gpu_lost_callback", r"NVRM: GPU is lost"),
    Family("rm_init_adapter", r"RmInitAdapter failed!"),
    Family("rm_init_adapter2", r"rm_init_adapter failed"),
    Family("api_mismatch", r"NVRM: API mismatch"),
    Family("gsp_fw_mismatch", r"version mismatch: got version [\d.]+, expected version"),
    Family("needs_open_modules", r"requires use of the NVIDIA open kernel modules"),
    Family("open_not_supported", r"because it does not include the required GPU|not supported by open\b"),
    Family("unsupported_gpu", r"installed in this (?:system|vGPU host) is not supported by"),
    Family("legacy_gpu", r"ignoring the legacy GPU|supported through the NVIDIA [\d.]+xx? Legacy"),
    Family("no_pci_devices", r"NVRM: No NVIDIA PCI devices found"),
    Family("no_gpu_found", r"NVRM: No NVIDIA GPU found"),
    Family("no_devices_probed", r"NVRM: No NVIDIA devices probed"),
    Family("probe_not_called", r"probe routine was not called for \d+ device"),
    Family("probe_conflict_hint", r"This can occur when (?:another driver|a driver such as)"),
    Family(
        "probe_failed",
        r"probe routine failed for \d+ device|nvidia: probe of \S+ failed with error|nvidia \S+: probe with driver nvidia failed with error",
    ),
    Family("none_initialized", r"None of the NVIDIA (?:devices|graphics adapters) were initialized"),
    Family("obtained_ownership", r"obtained ownership of the NVIDIA"),
    Family("vf_probe", r"(?:Aborting|Ignoring) probe for VF"),
    Family("irq_missing", r"Can.t find an IRQ for your NVIDIA card"),
    Family("msix_fail", r"Failed to (?:allocate|enable) MSI"),
    Family("request_irq_fail", r"request_irq\(\) failed"),
    Family("unhandled_irq", r"Going over RM unhandled interrupt threshold"),
    Family("mem_region", r"request_mem_region failed for"),
    Family("invalid_region", r"PCI I/O region assigned to your NVIDIA device is invalid"),
    Family("bar_zero", r"NVRM: BAR\d is \d+M @ 0x0\b"),
    Family("bar_resize", r"resize PCIe BARs|allocate resized BAR1|re-allocate BAR1"),
    Family("pci_enable", r"pci_enable_device failed"),
    Family("register_chrdev", r"register_chrdev_region\(\) failed"),
    Family("nonzero_usage", r"Attempting to remove device \S+ with non-zero usage count"),
    Family("nonexistent_minor", r"open of non-existent GPU with minor number"),
    Family("device_unavailable", r"Device is currently unavailable"),
    Family("crash_dump", r"A GPU crash dump has been created"),
    Family("power_cables", r"does not have the necessary power cables connected"),
    Family("dma_config", r"Cannot configure the device for DMA"),
    Family("failing_engine", r"Failing GPU (?:Pre|Post)?(?:Init|Load) for Engine ID"),
    Family("sysenv", r"osVerifySystemEnvironment failed"),
    Family(
        "vbios_fail", r"Failed to copy vbios to system memory|failed to extract VBIOS image|failed to parse FWSEC"
    ),
    Family("wpr2_up", r"unexpected WPR2 already up"),
    Family("wpr2_hint", r"the GPU is likely in a bad state and may need to be reset"),
    Family("bar_firewall", r"failed to wait for bar firewall to lower"),
    Family("gsp_no_firmware", r"No firmware image found"),
    Family("gsp_init", r"Cannot initialize GSP firmware RM"),
    Family("gsp_heartbeat", r"heartbeat timed out|Heartbeat timed out"),
    Family("gsp_unresponsive", r"=+ GSP(?:-RM| core) unresponsive =+"),
    Family("gsp_slow", r"=+ GSP-RM is slow =+|Slow RPC response from GPU\d+ GSP"),
    Family("gsp_rate_limit", r"Rate limiting GSP RPC error prints"),
    Family("gsp_timeout_banner", r"\*{4,}\s*GSP(?:-CrashCat Report| Timeout)\s*\*{4,}"),
    Family("gsp_rpc_alloc", r"rpcRmApi(?:Alloc|Control)_GSP: (?:GspRmAlloc|GspRmControl) failed"),
    Family("pmu_halted", r"PMU has halted"),
    Family("reset_required", r"NV_ERR_RESET_REQUIRED"),
    Family("uvm_rm_fatal", r"uvm encountered global fatal error"),
    Family("nvlink_rxdet", r"Rx Detect Link mask|postRxDetLinkMask failed"),
    Family("nvassert", r"nvAssert(?:Ok)?Failed(?:NoLog)?|nvCheck(?:Ok)?FailedNoLog"),
    Family("persistence_deprecated", r"Persistence mode is deprecated"),
    Family("module_loading", r"NVRM: loading NVIDIA UNIX"),
    Family("imex_fail", r"(?i)imex.*(?:fail|error)"),
    Family("gpu_uuid_line", r"NVRM: GPU at PCI:\S+: GPU-[0-9a-f]"),
    Family("board_serial", r"NVRM: GPU Board Serial Number"),
    # --- its companions
    Family("modeset_mismatch", r"nvidia-modeset: Version mismatch"),
    Family("drm_mismatch", r"\[nvidia-drm\] Version mismatch"),
    Family("nvswitch_mismatch", r"nvidia-nvswitch: Version mismatch"),
    Family("nvswitch_storm", r"nvidia-nvswitch\S*:.*interrupt storm"),
    Family("nvswitch_blacklisted", r"nvidia-nvswitch\S*:.*(?:blacklisted|excluded)"),
    Family(
        "nvswitch_init_fail",
        r"nvidia-nvswitch\S*:.*(?:[Ff]ailed to (?:register|initialize|enable|probe)|initialization failed)",
    ),
    Family("uvm_ecc", r"nvidia-uvm:.*ECC error encountered"),
    Family("uvm_global_fatal", r"nvidia-uvm:.*Encountered a global fatal error"),
    Family("uvm_init_failed", r"nvidia-uvm:.*(?:init_module\(\) failed|[Ii]nitialization failed)"),
    Family("drm_alloc_fail", r"\[nvidia-drm\].*Failed to allocate NvKmsKapiDevice"),
    Family("drm_ownership", r"\[nvidia-drm\].*Failed to grab modeset ownership"),
    Family("drm_register_fail", r"\[nvidia-drm\].*Failed to register"),
    Family("modeset_error", r"nvidia-modeset: ERROR"),
    Family("peermem_err", r"nvidia-peermem \S+ ERROR"),
    # --- loading the module
    Family("module_unsigned", r"nvidia[\w-]*: module verification failed", "other", "info"),
    Family("lockdown", r"Lockdown: .*unsigned module loading is restricted", "other", "error"),
    Family(
        "key_rejected",
        r"Loading of (?:unsigned )?module .*(?:is )?rejected|Loading of unsigned module is rejected|Key was rejected by service",
        "other",
        "error",
    ),
    Family("pkcs_missing", r"PKCS#7 signature not signed with a trusted key", "other", "error"),
    Family("module_layout", r"disagrees about version of symbol|version magic '.*' should be", "other", "error"),
    Family("unknown_symbol", r"nvidia[\w-]*: Unknown symbol", "other", "error"),
    Family("firmware_direct_load", r"Direct firmware load for nvidia/\S+ failed", "other", "error"),
    Family("nouveau", r"nouveau (?:\d|\[)|nouveau: ", "other", "info"),
    Family("nova", r"NovaCore \d|nova[_-]core \d", "other", "info"),
    Family("vfio", r"vfio-pci [0-9a-f]{4}:.*(?:vgaarb|enabling device|resetting|reset done)", "other", "info"),
    # --- PCI Express
    Family("aer", r"PCIe Bus Error: severity=", "aer"),
    Family("aer_received", r"AER: .*error (?:message )?received", "aer"),
    Family("aer_no_recovery", r"AER: .*(?:can.t recover|device recovery failed)", "other", "error"),
    Family("dpc", r"DPC: containment event", "other", "critical"),
    Family("pcie_slot_down", r"pciehp: Slot\([^)]*\): (?:Link Down|Card not present)", "other", "error"),
    Family("pcie_bandwidth_limited", r"available PCIe bandwidth, limited by", "other", "warning"),
    Family(
        "pcie_config_unreadable",
        r"Unable to change power state from D3\w+ to D0|can.t change power state from D3\w+ to D0",
        "other",
        "error",
    ),
    Family(
        "bar_no_space", r"BAR [0-5](?: \[[^\]]*\])?: (?:no space for|failed to assign|can.t assign)", "other", "error"
    ),
    Family(
        "pcie_reset_failed",
        r"not ready \d+ms after (?:FLR|bus reset|resume|DPC)|timed out waiting for pending transaction",
        "other",
        "error",
    ),
    Family("bar_reserved", r"BAR \d+: can.t reserve", "other", "warning"),
    # --- IOMMU and DMA
    Family(
        "iommu_fault",
        r"DMAR: \[(?:DMA|INTR)[^\]]*\].*fault|DMAR: DRHD: handling fault|AMD-Vi: .*IO_PAGE_FAULT|AMD-Vi: .*(?:Completion-Wait loop timed out)|arm-smmu\S* .*(?:F_TRANSLATION|event 0x10)",
        "other",
        "error",
    ),
    Family("swiotlb_full", r"swiotlb buffer is full", "other", "error"),
    # --- host memory and processors
    Family("ghes", r"\[Hardware Error\]: Hardware error from APEI", "mce", "error"),
    Family("mce", r"mce: \[Hardware Error\]:|Machine Check(?: Exception)?:", "mce", "error"),
    Family("edac_ue", r"EDAC \S+: \d+ UE ", "mce", "critical"),
    Family("edac_ce", r"EDAC \S+: \d+ CE ", "mce", "warning"),
    Family("memory_failure", r"Memory failure: 0x[0-9a-f]+:", "mce", "error"),
    Family("oom_kill", r"Killed process \d+ \(", "oom_kills"),
    Family("oom_invoked", r"invoked oom-killer", "other", "warning"),
    Family("page_alloc_failure", r"page allocation failure: order:", "other", "warning"),
    Family("thermal_cpu", r"temperature(?:/speed)? (?:is )?above threshold", "other", "warning"),
    # --- storage and network file systems
    Family(
        "io_error",
        r"I/O error, dev |Buffer I/O error on dev|metadata I/O error|EXT4-fs error|XFS \(\S+\): .*(?:error|[Cc]orruption)"
        r"|BTRFS error|critical (?:medium|target) error|nvme\d*(?:n\d+)?: I/O .*timeout|nvme \S+: controller is down"
        r"|nfs: server \S+ not responding|Remounting filesystem read-only",
        "io_errors",
    ),
    # --- the kernel itself
    Family("kernel_panic", r"Kernel panic - not syncing", "other", "critical"),
    Family(
        "oops",
        r"BUG: (?:unable to handle|kernel NULL pointer|Bad page)|kernel BUG at|general protection fault|Oops: ",
        "other",
        "critical",
    ),
    Family("hung_task", r"blocked for more than \d+ seconds", "other", "error"),
    Family("soft_lockup", r"soft lockup - CPU#", "other", "error"),
    Family("hard_lockup", r"hard LOCKUP", "other", "critical"),
    Family("rcu_stall", r"rcu\S* (?:self-)?detected (?:expedited )?stalls?", "other", "warning"),
    Family("nmi", r"NMI received for unknown reason|NMI: (?:PCI system error|IOCK error)", "other", "critical"),
    Family("gpu_library_segfault", r"segfault at .* in lib(?:nccl|cuda|cudnn|cublas|nvidia)\S*", "other", "warning"),
    Family(
        "network_device_failed",
        r"mlx5_core \S+ .*(?:health compromised|Fatal error)|mlx5_core \S+: .*(?:health compromised|Fatal error)",
        "other",
        "error",
    ),
)
# Routine lines that say nothing: known, and left out.
ROUTINE = frozenset({"gpu_uuid_line", "board_serial", "obtained_ownership"})

# What a line must hold to be looked at at all; everything else is passed over in one RE2 search.
INTERESTING = (
    r"NVRM|Xid \(|nvidia|nouveau|NovaCore|nova_core|vfio-pci|AER: |PCIe Bus Error|PCIe bandwidth|DPC: |pciehp"
    r"|D3\w+ to D0|BAR \d|ms after |pending transaction|DMAR: |AMD-Vi: |arm-smmu|swiotlb buffer|Hardware Error"
    r"|Machine Check|EDAC |Memory failure|Killed process|oom-killer|page allocation failure|above threshold|I/O error"
    r"|I/O .*timeout|EXT4-fs error|XFS \(|BTRFS error|critical (?:medium|target) error|controller is down|not responding"
    r"|read-only|Kernel panic|BUG: |kernel BUG|general protection|Oops: |blocked for more|lockup|LOCKUP|detected (?:expedited )?stall"
    r"|NMI received|NMI: |segfault at|mlx5_core|Lockdown: |Loading of |PKCS#7|Key was rejected|disagrees about version"
    r"|version magic|Direct firmware load|Linux version|journalctl -b|-- (?:Boot|Reboot)"
)


@cache
def _set() -> Any:
    patterns = re2.Set.SearchSet()
    for family in FAMILIES:
        patterns.Add(family.pattern)
    patterns.Compile()
    return patterns


@cache
def interesting() -> Any:
    """The search, on bytes, for lines worth looking at."""
    return re2.compile(INTERESTING)


def family_of(body: str) -> Family | None:
    """The first family whose pattern occurs in a message."""
    found: Sequence[int] = _set().Match(body)
    return FAMILIES[min(found)] if found else None
