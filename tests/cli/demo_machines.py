"""The machines of `gpudoctor demo`. `python -m tests.cli.demo_machines` records them anew into gpudoctor/demo/.

All of them are one server (Ubuntu 22.04, two A100 PCIe) with one thing changed, as that fault leaves a machine.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.cli.made_up_machine import MadeUpMachine, nvml_lines

KERNEL, NEWER_KERNEL = "6.8.0-49-generic", "6.8.0-51-generic"
DRIVER, NEWER_DRIVER = "580.95.05", "580.105.08"
GPUS = {
    "0000:17:00.0": "GPU-8f2c41d7-0b6e-4c3a-9a55-6d1e2f30a7b1",
    "0000:ca:00.0": "GPU-1d9e7730-5a8b-4f0c-b7c2-0e4c95d8f2a6",
}
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
SMI_FAILS = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA "
    "driver is installed and running.\n\n"
)


def healthy() -> MadeUpMachine:
    """Nothing wrong."""
    machine = MadeUpMachine()
    _host(machine, KERNEL)
    _driver_on_disk(machine, DRIVER, KERNEL)
    _load_driver(machine, DRIVER, KERNEL)
    for bdf in GPUS:
        _pci(machine, bdf)
    _nvml(machine, DRIVER, {})
    _log(machine, KERNEL, *_DRIVER_STARTS)
    return machine


def kernel_updated() -> MadeUpMachine:
    """Unattended upgrades brought a kernel; DKMS could not build for it, because its headers are not there."""
    machine = healthy()
    _unload(machine)
    _host(machine, NEWER_KERNEL)
    machine.links.pop(f"/lib/modules/{NEWER_KERNEL}/build")
    machine.directories.add(f"/lib/modules/{NEWER_KERNEL}/kernel")
    _packages(machine, DRIVER, [KERNEL, NEWER_KERNEL], headers=[KERNEL])
    machine.files["/var/log/apt/history.log"] += (
        "\nStart-Date: 2026-02-28  06:21:44\nCommandline: /usr/bin/unattended-upgrade\n"
        f"Install: linux-image-{NEWER_KERNEL}:amd64 (6.8.0-51.52~22.04.1, automatic), "
        f"linux-modules-{NEWER_KERNEL}:amd64 (6.8.0-51.52~22.04.1, automatic)\nEnd-Date: 2026-02-28  06:22:31\n"
    )
    _log(machine, NEWER_KERNEL)
    return machine


def secure_boot() -> MadeUpMachine:
    """Secure Boot was switched on in the firmware; the module that DKMS built carries no key that it knows."""
    machine = healthy()
    _unload(machine)
    machine.files[SECURE_BOOT] = "\x06\x00\x00\x00\x01"
    machine.files["/sys/kernel/security/lockdown"] = "none [integrity] confidentiality\n"
    machine.command("mokutil --sb-state", "SecureBoot enabled\n")
    _log(
        machine,
        KERNEL,
        (6.0, "Kernel is locked down from EFI Secure Boot mode; see man kernel_lockdown.7"),
        (9.412, "Loading of module with unavailable key is rejected"),
        (9.958, "Loading of module with unavailable key is rejected"),
    )
    return machine


def driver_library_mismatch() -> MadeUpMachine:
    """The packages were upgraded under the running driver: the loaded module is the old one, the libraries are new."""
    machine = healthy()
    machine.without(
        f"{LIBRARIES}/libnvidia-ml.so.{DRIVER}", f"{LIBRARIES}/libcuda.so.{DRIVER}", f"/var/lib/dkms/nvidia/{DRIVER}"
    )
    machine.without(f"/var/lib/dkms/nvidia/kernel-{KERNEL}-x86_64", f"/usr/src/nvidia-{DRIVER}")
    _driver_on_disk(machine, NEWER_DRIVER, KERNEL)
    machine.files["/var/log/apt/history.log"] += (
        "\nStart-Date: 2026-02-28  06:21:44\nCommandline: /usr/bin/unattended-upgrade\n"
        f"Upgrade: nvidia-driver-580-server:amd64 ({_package_version(DRIVER)}, {_package_version(NEWER_DRIVER)}), "
        f"libnvidia-compute-580-server:amd64 ({_package_version(DRIVER)}, {_package_version(NEWER_DRIVER)}), "
        f"nvidia-dkms-580-server:amd64 ({_package_version(DRIVER)}, {_package_version(NEWER_DRIVER)})\n"
        "End-Date: 2026-02-28  06:24:02\n"
    )
    library = NEWER_DRIVER.rsplit(".", 1)[0]
    machine.command(
        "nvidia-smi",
        f"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: {library}\n",
        18,
    )
    machine.command(
        "worker nvml_dump",
        '{"kind": "begin", "schema": 1, "binding": "pynvml", "binding_problems": []}\n'
        '{"kind": "init", "code": 18, "name": "LIB_RM_VERSION_MISMATCH", '
        f'"text": "Driver/library version mismatch", "nvml_version": "13.{NEWER_DRIVER}"}}\n{{"kind": "end"}}\n',
    )
    _log(
        machine,
        KERNEL,
        *_DRIVER_STARTS,
        (171_402.118, f"NVRM: API mismatch: the client has the version {NEWER_DRIVER}, but"),
        (171_402.118, f"NVRM: this kernel module has the version {DRIVER}.  Please"),
        (171_402.118, "NVRM: make sure that this kernel module and all NVIDIA driver"),
        (171_402.118, "NVRM: components have the same version."),
    )
    return machine


def off_the_bus() -> MadeUpMachine:
    """One of two GPUs stopped answering in the middle of a job."""
    machine = healthy()
    dead = "0000:ca:00.0"
    machine.files[f"/sys/bus/pci/devices/{dead}/config"] = "\ufffd" * 64
    machine.files[f"/sys/bus/pci/devices/{dead}/revision"] = "0xff\n"
    machine.files[f"/sys/bus/pci/devices/{dead}/current_link_width"] = "63\n"
    machine.files[f"/sys/bus/pci/devices/{dead}/current_link_speed"] = "Unknown\n"
    machine.command(
        "nvidia-smi",
        "Unable to determine the device handle for GPU1: GPU is lost.  Reboot the system to recover this GPU\n",
        15,
    )
    _nvml(machine, DRIVER, {dead: {"handle": 15}}, table=False)
    _log(
        machine,
        KERNEL,
        *_DRIVER_STARTS,
        (171_388.402, "pcieport 0000:c9:02.0: AER: Uncorrected (Fatal) error received: 0000:c9:02.0"),
        (
            171_388.402,
            "pcieport 0000:c9:02.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
        ),
        (171_388.402, "pcieport 0000:c9:02.0:    [ 5] SDES                   (First)"),
        (171_388.511, "NVRM: GPU at PCI:0000:ca:00: GPU-1d9e7730-5a8b-4f0c-b7c2-0e4c95d8f2a6"),
        (171_388.511, "NVRM: Xid (PCI:0000:ca:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        (171_388.511, "NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus."),
        (171_388.530, "NVRM: A GPU crash dump has been created. If possible, please run"),
        (171_388.530, "NVRM: nvidia-bug-report.sh as root to collect this data before"),
        (171_388.530, "NVRM: the NVIDIA kernel module is unloaded."),
    )
    return machine


def ecc_row_remap() -> MadeUpMachine:
    """A GPU's memory has failed so often that no spare row is left."""
    machine = healthy()
    worn = {
        "ecc_uncorrected_volatile": 1,
        "ecc_uncorrected_aggregate": 9,
        "ecc_corrected_aggregate": 41,
        "remapped_rows_uncorrectable": 8,
        "remapped_rows_failure": 1,
        "remap_banks_max": 639,
        "remap_banks_none": 1,
    }
    _nvml(machine, DRIVER, {"0000:ca:00.0": {"values": worn}})
    _log(
        machine,
        KERNEL,
        *_DRIVER_STARTS,
        (
            160_071.220,
            "NVRM: Xid (PCI:0000:ca:00): 94, pid=48213, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
        ),
        (
            160_071.226,
            "NVRM: Xid (PCI:0000:ca:00): 48, pid=48213, name=python3, DBE (double bit error) ECC Error, bank 5",
        ),
        (
            160_071.301,
            "NVRM: Xid (PCI:0000:ca:00): 64, pid='<unknown>', name=<unknown>, Row Remapper Error: no spare row left in bank 5",
        ),
    )
    return machine


def container_without_gpu() -> MadeUpMachine:
    """A Docker container of an image with CUDA that was started without --gpus."""
    machine = MadeUpMachine()
    _container(machine, KERNEL, DRIVER)
    for bdf in GPUS:
        _pci(machine, bdf)
    return machine


SCENARIOS: dict[str, Callable[[], MadeUpMachine]] = {
    "kernel-updated": kernel_updated,
    "secure-boot": secure_boot,
    "driver-library-mismatch": driver_library_mismatch,
    "off-the-bus": off_the_bus,
    "ecc-row-remap": ecc_row_remap,
    "container-without-gpu": container_without_gpu,
    "healthy": healthy,
}


def _kernel_says(kernel: str) -> str:
    build = kernel.split("-")[1]
    return (
        f"Linux version {kernel} (buildd@lcy02-amd64-103) (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, "
        f"GNU ld (GNU Binutils for Ubuntu) 2.38) #{build}~22.04.1-Ubuntu SMP PREEMPT_DYNAMIC"
    )


def _host(machine: MadeUpMachine, kernel: str) -> None:
    _shared_kernel(machine, kernel)
    machine.command(
        "uname -a",
        f"Linux gpu-node-07 {kernel} #49~22.04.1-Ubuntu SMP PREEMPT_DYNAMIC x86_64 x86_64 x86_64 GNU/Linux\n",
    )
    machine.command("uname -r", f"{kernel}\n")
    machine.files |= {
        "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n',
        "/proc/sys/kernel/hostname": "gpu-node-07\n",
        "/proc/1/comm": "systemd\n",
        "/proc/1/cgroup": "0::/init.scope\n",
        "/proc/2/comm": "kthreadd\n",
        "/proc/self/cgroup": "0::/user.slice/user-0.slice/session-4.scope\n",
        "/proc/1/environ": "HOME=/\0TERM=linux\0",
        "/proc/self/mounts": (
            "sysfs /sys sysfs rw,nosuid,nodev,noexec,relatime 0 0\n"
            "/dev/nvme0n1p2 / ext4 rw,relatime 0 0\n"
            "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=528302080k,inode64 0 0\n"
            "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n"
        ),
        "/sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
        "/sys/class/dmi/id/product_name": "PowerEdge R750xa\n",
        "/sys/class/dmi/id/board_vendor": "Dell Inc.\n",
        "/sys/class/dmi/id/bios_vendor": "Dell Inc.\n",
        SECURE_BOOT: "\x06\x00\x00\x00\x00",
        "/sys/kernel/security/lockdown": "[none] integrity confidentiality\n",
        "/proc/sys/kernel/tainted": "0\n",
    }  # fmt: skip
    machine.directories |= {
        "/sys/kernel/iommu_groups",
        "/sys/fs/cgroup/system.slice",
        "/run/systemd/system",
        "/var/lib/dkms",
    }
    machine.links["/proc/self/ns/pid"] = "pid:[4026531836]"
    machine.links["/proc/self/ns/cgroup"] = "cgroup:[4026531835]"
    machine.links["/proc/self/ns/user"] = "user:[4026531837]"
    machine.links[f"/lib/modules/{kernel}/build"] = f"/usr/src/linux-headers-{kernel}"
    machine.files[f"/lib/modules/{kernel}/modules.dep"] = ""
    _packages(machine, DRIVER, [kernel], headers=[kernel])
    machine.files.setdefault(
        "/var/log/apt/history.log",
        "\nStart-Date: 2026-01-12  09:14:03\nCommandline: apt-get install nvidia-driver-580-server\n"
        f"Install: nvidia-driver-580-server:amd64 ({_package_version(DRIVER)}), "
        f"nvidia-dkms-580-server:amd64 ({_package_version(DRIVER)}, automatic)\nEnd-Date: 2026-01-12  09:19:40\n",
    )


def _shared_kernel(machine: MadeUpMachine, kernel: str) -> None:
    """What a container sees of the host's kernel, too."""
    machine.files |= {
        "/proc/version": _kernel_says(kernel) + "\n",
        "/proc/sys/kernel/osrelease": f"{kernel}\n",
        "/proc/cmdline": f"BOOT_IMAGE=/boot/vmlinuz-{kernel} root=UUID=5a3c ro iommu=pt\n",
        "/proc/meminfo": "MemTotal:       1056604160 kB\nMemFree:        981234560 kB\nMemAvailable:   1010234880 kB\nSwapTotal:             0 kB\n",
        "/proc/uptime": "172800.42 10368000.00\n",
        "/proc/self/status": "Name:\tgpudoctor\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0\nCpus_allowed_list:\t0-63\n",
        "/proc/self/limits": (
            "Limit                     Soft Limit           Hard Limit           Units\n"
            "Max locked memory         unlimited            unlimited            bytes\n"
            "Max open files            1048576              1048576              files\n"
        ),
        "/etc/group": "root:x:0:\nadm:x:4:\nvideo:x:44:\n",
        "/sys/devices/system/cpu/online": "0-63\n",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "/proc/sys/kernel/numa_balancing": "0\n",
    }  # fmt: skip


def _package_version(driver: str) -> str:
    return f"{driver}-0ubuntu0.22.04.1"


def _packages(machine: MadeUpMachine, driver: str, kernels: list[str], headers: list[str]) -> None:
    names = {
        name: _package_version(driver)
        for name in (
            "libnvidia-compute-580-server",
            "nvidia-dkms-580-server",
            "nvidia-driver-580-server",
            "nvidia-utils-580-server",
        )
    }
    names |= {"dkms": "2.8.7-2ubuntu2.2"}
    names |= {
        f"linux-image-{kernel}": f"{kernel.removesuffix('-generic')}.{kernel.split('-')[1]}~22.04.1"
        for kernel in kernels
    }
    names |= {
        f"linux-headers-{kernel}": f"{kernel.removesuffix('-generic')}.{kernel.split('-')[1]}~22.04.1"
        for kernel in headers
    }
    machine.files["/var/lib/dpkg/status"] = "".join(
        f"Package: {name}\nStatus: install ok installed\nArchitecture: amd64\nVersion: {version}\n\n"
        for name, version in sorted(names.items())
    )
    for name in names:
        machine.files[f"/var/lib/dpkg/info/{name}.list"] = ""


def _driver_on_disk(machine: MadeUpMachine, driver: str, kernel: str) -> None:
    for name in ("libnvidia-ml", "libcuda"):
        machine.files[f"{LIBRARIES}/{name}.so.{driver}"] = ""
        machine.links[f"{LIBRARIES}/{name}.so.1"] = f"{name}.so.{driver}"
    machine.files["/usr/bin/nvidia-smi"] = ""
    machine.files[f"/lib/modules/{kernel}/updates/dkms/nvidia.ko"] = ""
    machine.command("modinfo nvidia", f"filename:       /lib/modules/{kernel}/updates/dkms/nvidia.ko\nversion:        {driver}\nlicense:        NVIDIA\nvermagic:       {kernel} SMP preempt mod_unload modversions\n")  # fmt: skip
    machine.links[f"/var/lib/dkms/nvidia/{driver}/source"] = f"/usr/src/nvidia-{driver}"
    machine.files[f"/var/lib/dkms/nvidia/{driver}/{kernel}/x86_64/module/nvidia.ko"] = ""
    machine.links[f"/var/lib/dkms/nvidia/kernel-{kernel}-x86_64"] = f"{driver}/{kernel}/x86_64"
    machine.command("dkms status", f"nvidia/{driver}, {kernel}, x86_64: installed\n")
    machine.files["/usr/lib/systemd/system/nvidia-persistenced.service"] = ""
    _packages(machine, driver, [kernel], headers=[kernel])


def _load_driver(machine: MadeUpMachine, driver: str, kernel: str) -> None:
    _loaded_module(machine, driver)
    machine.files["/proc/modules"] = (
        "nvidia_uvm 1536000 2 - Live 0x0000000000000000 (POE)\n"
        "nvidia_drm 77824 0 - Live 0x0000000000000000 (POE)\n"
        "nvidia_modeset 1306624 1 nvidia_drm, Live 0x0000000000000000 (POE)\n"
        "nvidia 56795136 71 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (POE)\n"
        "ast 57344 0 - Live 0x0000000000000000\n"
    )
    machine.files["/sys/fs/cgroup/system.slice/nvidia-persistenced.service/cgroup.procs"] = "1902\n"
    machine.files["/proc/1902/comm"] = "nvidia-persiste\n"
    machine.files["/proc/sys/kernel/tainted"] = "12289\n"
    for minor, name in ((0, "nvidia0"), (1, "nvidia1"), (255, "nvidiactl"), (254, "nvidia-modeset")):
        machine.devices[f"/dev/{name}"] = (195, minor)
    machine.devices["/dev/nvidia-uvm"] = (511, 0)
    machine.devices["/dev/nvidia-uvm-tools"] = (511, 1)


def _loaded_module(machine: MadeUpMachine, driver: str) -> None:
    machine.files["/proc/driver/nvidia/version"] = (
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Sun May 12 19:39:15 UTC 2025\n"
        "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
    )
    machine.files["/proc/driver/nvidia/params"] = (
        "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n"
    )
    machine.files["/sys/module/nvidia/version"] = f"{driver}\n"
    for bdf in GPUS:
        machine.files[f"/proc/driver/nvidia/gpus/{bdf}/information"] = (
            f"Model: \t\t NVIDIA A100 80GB PCIe\nBus Location: \t {bdf}\n"
        )


def _unload(machine: MadeUpMachine) -> None:
    """As after a boot in which the module could not be loaded."""
    machine.without(
        "/proc/driver/nvidia", "/sys/module/nvidia", "/dev", "/sys/fs/cgroup/system.slice/nvidia-persistenced.service"
    )
    machine.devices["/dev/null"] = (1, 3)
    machine.files["/proc/modules"] = (
        "ast 57344 0 - Live 0x0000000000000000\nixgbe 425984 0 - Live 0x0000000000000000\n"
    )
    machine.files["/proc/sys/kernel/tainted"] = "0\n"
    machine.files["/proc/uptime"] = "1804.11 110000.00\n"
    for bdf in GPUS:
        machine.links.pop(f"/sys/bus/pci/devices/{bdf}/driver", None)
    machine.command("nvidia-smi", SMI_FAILS, 9)
    machine.command(
        "worker nvml_dump",
        '{"kind": "begin", "schema": 1, "binding": "pynvml", "binding_problems": []}\n'
        '{"kind": "init", "code": 9, "name": "DRIVER_NOT_LOADED", "text": "Driver Not Loaded", '
        f'"nvml_version": "13.{DRIVER}"}}\n{{"kind": "end"}}\n',
    )


def _pci(machine: MadeUpMachine, bdf: str) -> None:
    """An A100 80GB PCIe below its root port, both with sixteen lanes of generation 4."""
    bus = {"0000:17:00.0": "16", "0000:ca:00.0": "c9"}[bdf]
    port = f"0000:{bus}:02.0"
    devices = "/sys/bus/pci/devices"
    link = {
        "current_link_speed": "16.0 GT/s PCIe\n",
        "max_link_speed": "16.0 GT/s PCIe\n",
        "current_link_width": "16\n",
        "max_link_width": "16\n",
    }
    gpu = {
        "vendor": "0x10de\n", "device": "0x20b5\n", "class": "0x030200\n", "revision": "0xa1\n", "enable": "1\n",
        "subsystem_vendor": "0x10de\n", "subsystem_device": "0x1533\n", "numa_node": "0\n" if bus == "16" else "1\n",
        "power_state": "D0\n", "config": "\xde\x10\xb5\x20" + "\x00" * 60,
        "resource": (
            "0x00000000d0000000 0x00000000d0ffffff 0x0000000000040200\n"
            "0x000020a000000000 0x000020bfffffffff 0x000000000014220c\n"
            "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
            "0x000020c000000000 0x000020c001ffffff 0x000000000014220c\n"
            "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
            "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
        ),
        **link,
    }  # fmt: skip
    bridge = {"vendor": "0x8086\n", "device": "0x347a\n", "class": "0x060400\n", **link}
    machine.files |= {f"{devices}/{bdf}/{name}": text for name, text in gpu.items()}
    machine.files |= {f"{devices}/{port}/{name}": text for name, text in bridge.items()}
    machine.links[f"{devices}/{bdf}"] = f"../../../devices/pci0000:{bus}/{port}/{bdf}"
    machine.links[f"{devices}/{port}"] = f"../../../devices/pci0000:{bus}/{port}"
    machine.links[f"{devices}/{bdf}/driver"] = "../../../../bus/pci/drivers/nvidia"
    machine.links[f"{devices}/{bdf}/iommu_group"] = f"../../../../kernel/iommu_groups/{12 if bus == '16' else 47}"


def _gpu_values(index: int, bdf: str) -> dict[str, Any]:
    return {
        "name": "NVIDIA A100 80GB PCIe", "uuid": GPUS[bdf], "bdf": bdf, "serial": f"13243220{index}8814", "minor": index,
        "vbios": "92.00.A0.00.05", "architecture": "ampere", "compute_capability": "8.0", "device_id": "10de:20b5",
        "memory_total_mib": 81920, "memory_used_mib": 448, "bar1_total_mib": 131072, "temperature_c": 34 + index,
        "temperature_memory_c": 36, "temperature_slowdown_c": 92, "temperature_shutdown_c": 95, "power_w": 44.2,
        "power_limit_w": 300.0, "power_limit_default_w": 300.0, "power_limit_min_w": 150.0, "power_limit_max_w": 300.0,
        "utilization_gpu_pct": 0, "utilization_memory_pct": 0, "sm_clock_mhz": 210, "sm_clock_max_mhz": 1410,
        "memory_clock_mhz": 1512, "memory_clock_max_mhz": 1512, "performance_state": "P0", "throttle_mask": 1,
        "persistence_mode": 1, "compute_mode": "default", "mig_mode": 0, "mig_mode_pending": 0, "ecc_mode": 1,
        "ecc_mode_pending": 1, "ecc_corrected_volatile": 0, "ecc_uncorrected_volatile": 0, "ecc_corrected_aggregate": 0,
        "ecc_uncorrected_aggregate": 0, "remapped_rows_correctable": 0, "remapped_rows_uncorrectable": 0,
        "remapped_rows_pending": 0, "remapped_rows_failure": 0, "remap_banks_max": 640, "remap_banks_high": 0,
        "remap_banks_partial": 0, "remap_banks_low": 0, "remap_banks_none": 0, "pcie_generation": 4,
        "pcie_generation_max": 4, "pcie_generation_device_max": 4, "pcie_width": 16, "pcie_width_max": 16,
        "pcie_replay_count": 0, "display_active": 0, "processes": [],
    }  # fmt: skip


def _nvml(machine: MadeUpMachine, driver: str, changes: dict[str, dict[str, Any]], table: bool = True) -> None:
    """NVML's answers, and nvidia-smi's table of the same; `changes` by PCI address."""
    devices = []
    for index, bdf in enumerate(GPUS):
        change = changes.get(bdf, {})
        values = {} if "handle" in change else {"values": _gpu_values(index, bdf) | change.get("values", {})}
        devices.append({**change, **values})
    machine.command("worker nvml_dump", nvml_lines(driver, devices))
    if table:
        machine.command("nvidia-smi", _table(driver, [change.get("values", {}) for change in devices]))


def _table(driver: str, gpus: list[dict[str, Any]]) -> str:
    line = "+-----------------------------------------------------------------------------------------+\n"
    cells = "+-----------------------------------------+------------------------+----------------------+\n"
    rows = "".join(
        f"|   {index}  NVIDIA A100 80GB PCIe          On  |   0000{bdf.upper()} Off |                    {gpu['ecc_uncorrected_volatile']} |\n"
        f"| N/A   {gpu['temperature_c']}C    P0             44W /  300W |     448MiB /  81920MiB |      0%      Default |\n"
        f"|                                         |                        |             Disabled |\n{cells}"
        for index, (bdf, gpu) in enumerate(zip(GPUS, gpus, strict=True))
    )
    return (
        f"Sun Mar  1 04:00:00 2026       \n{line}"
        f"| NVIDIA-SMI {driver:<22}Driver Version: {driver:<15}CUDA Version: 13.0     |\n{cells}"
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
        "|                                         |                        |               MIG M. |\n"
        "|=========================================+========================+======================|\n"
        f"{rows}\n{line}"
        "| Processes:                                                                              |\n"
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n"
        "|        ID   ID                                                               Usage      |\n"
        "|=========================================================================================|\n"
        f"|  No running processes found                                                             |\n{line}"
    )


_DRIVER_STARTS = (
    (9.204, "nvidia: loading out-of-tree module taints kernel."),
    (9.611, f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Sun May 12 19:39:15 UTC 2025"),
    (9.877, "nvidia-uvm: Loaded the UVM driver, major device number 511."),
)


def _log(machine: MadeUpMachine, kernel: str, *lines: tuple[float, str]) -> None:
    start = (
        (0.0, _kernel_says(kernel)),
        (0.0, f"Command line: BOOT_IMAGE=/boot/vmlinuz-{kernel} root=UUID=5a3c ro iommu=pt"),
        (2.118, "pci 0000:17:00.0: [10de:20b5] type 00 class 0x030200"),
        (2.204, "pci 0000:ca:00.0: [10de:20b5] type 00 class 0x030200"),
        (5.731, "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none."),
    )
    text = "".join(f"[{seconds:13.6f}] {line}\n" for seconds, line in (*start, *lines))
    machine.command("dmesg", text)
    # The options of a call are the probe's business: whatever it asks dmesg for, this machine says the same.
    machine.aliases["dmesg"] = ("dmesg",)


def _container(machine: MadeUpMachine, kernel: str, driver: str) -> None:
    """A Docker container of an Ubuntu image, on a host whose driver runs."""
    _shared_kernel(machine, kernel)
    _loaded_module(machine, driver)
    name = "4f1c2ab98d07"
    machine.command(
        "uname -a", f"Linux {name} {kernel} #49~22.04.1-Ubuntu SMP PREEMPT_DYNAMIC x86_64 x86_64 x86_64 GNU/Linux\n"
    )
    machine.command("uname -r", f"{kernel}\n")
    machine.files |= {
        "/.dockerenv": "",
        "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.5 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n',
        "/proc/sys/kernel/hostname": f"{name}\n",
        "/proc/1/comm": "python3\n",
        "/proc/1/cgroup": "0::/\n",
        "/proc/self/cgroup": "0::/\n",
        "/proc/1/environ": "PATH=/usr/local/cuda/bin:/usr/bin\0HOSTNAME=4f1c2ab98d07\0NVIDIA_VISIBLE_DEVICES=all\0",
        "/proc/modules": "nvidia_uvm 1536000 2 - Live 0x0000000000000000 (POE)\nnvidia 56795136 71 nvidia_uvm, Live 0x0000000000000000 (POE)\n",
        "/proc/self/mounts": (
            "overlay / overlay rw,relatime,lowerdir=/var/lib/docker/overlay2/l/A:/var/lib/docker/overlay2/l/B 0 0\n"
            "shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0\n"
            "cgroup /sys/fs/cgroup cgroup2 ro,nosuid,nodev,noexec,relatime 0 0\n"
        ),
        "/usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}\n',
        f"{LIBRARIES}/libc.so.6": "",
    }  # fmt: skip
    machine.devices["/dev/null"] = (1, 3)
    machine.links["/proc/self/ns/pid"] = "pid:[4026533214]"
    machine.links["/proc/self/ns/cgroup"] = "cgroup:[4026533278]"
    machine.links["/proc/self/ns/user"] = "user:[4026531837]"
    machine.environ = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    machine.command(
        "worker nvml_dump",
        '{"kind": "begin", "schema": 1, "binding": "pynvml", "binding_problems": []}\n'
        '{"kind": "init", "code": 12, "name": "LIBRARY_NOT_FOUND", "text": "NVML Shared Library Not Found"}\n{"kind": "end"}\n',
    )
    machine.command("dmesg", "", 1, "dmesg: read kernel buffer failed: Operation not permitted\n")
    machine.aliases["dmesg"] = ("dmesg",)


def record(directory: Path) -> None:
    """Records every scenario into `directory`, replacing what is there."""
    from gpudoctor.probes.run import run_probes
    from gpudoctor.sources import Recorder

    for name, build in SCENARIOS.items():
        recorder = Recorder(build())
        run_probes(recorder, areas=None, deadline_seconds=60.0, on_progress=None)
        shutil.rmtree(directory / name, ignore_errors=True)
        recorder.save(directory / name)


if __name__ == "__main__":
    record(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2] / "gpudoctor" / "demo")
