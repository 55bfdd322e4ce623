"""A folder laid out as a host's root, for `--root DIR`: the files that tell of kernel, driver, packages and devices."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from .pci_tree import PciTree

KERNEL = "6.1.0-21-amd64"
DRIVER = "535.183.01"
MODULES = ("nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia")
_LIBRARIES = ("libnvidia-ml.so", "libcuda.so", "libnvidia-ptxjitcompiler.so")

_OS_RELEASE = """PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"
NAME="Debian GNU/Linux"
VERSION_ID="12"
VERSION="12 (bookworm)"
VERSION_CODENAME=bookworm
ID=debian
"""
_MEMINFO = "MemTotal:       527985536 kB\nMemFree:        402011204 kB\nMemAvailable:   498022112 kB\nSwapTotal:             0 kB\n"
_DKMS_CONF = """PACKAGE_NAME="nvidia"
PACKAGE_VERSION="{version}"
BUILT_MODULE_NAME[0]="nvidia"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
"""
_PACKAGE = "Package: {name}\nStatus: {status}\nPriority: optional\nSection: non-free/utils\nArchitecture: amd64\nVersion: {version}\nDescription: made for a test\n\n"


@dataclass(frozen=True)
class RootTree:
    """Writes below `root`; paths are given as the host would name them."""

    root: Path
    kernel: str = KERNEL
    pci: PciTree = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pci", PciTree(self.root / "sys"))

    # --- writing ---

    def path(self, name: str) -> Path:
        """Where the host's `name` lies; its folder is made."""
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, text: str) -> None:
        self.path(name).write_text(text, encoding="utf-8")

    def append(self, name: str, text: str) -> None:
        with self.path(name).open("a", encoding="utf-8") as file:
            file.write(text)

    def folder(self, name: str) -> None:
        self.path(name).mkdir(parents=True, exist_ok=True)

    def link(self, name: str, target: str) -> None:
        path = self.path(name)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def node(self, name: str, major: int, minor: int, mode: int = 0o666) -> None:
        """A character device, as only root can make it; an empty file for others."""
        path = self.path(name)
        if path.exists():
            return
        if os.geteuid() != 0:
            path.touch()
            return
        os.mknod(path, stat.S_IFCHR | mode, os.makedev(major, minor))
        path.chmod(mode)

    # --- the parts of a host ---

    def add_base(self, *, cmdline: str = "ro quiet", memory: str = _MEMINFO) -> None:
        """Operating system, running kernel, memory: a host without NVIDIA anything."""
        self.write("/etc/os-release", _OS_RELEASE)
        self.write("/etc/hostname", "gpu-node\n")
        self.write("/proc/sys/kernel/hostname", "gpu-node\n")
        self.write("/proc/sys/kernel/osrelease", f"{self.kernel}\n")
        self.write(
            "/proc/version",
            f"Linux version {self.kernel} (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP PREEMPT_DYNAMIC Debian\n",
        )
        self.write("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{self.kernel} root=/dev/sda1 {cmdline}\n")
        self.write("/proc/meminfo", memory)
        self.write(
            "/proc/modules", "nvme 57344 2 - Live 0x0000000000000000\next4 983040 1 - Live 0x0000000000000000\n"
        )
        self.write("/proc/uptime", "86400.00 345600.00\n")
        self.write("/proc/stat", "cpu  100 0 100 1000 0 0 0 0 0 0\nbtime 1770000000\n")
        self.write("/proc/1/comm", "systemd\n")
        self.write("/proc/1/cgroup", "0::/init.scope\n")
        self.write("/sys/devices/system/cpu/online", "0-63\n")
        self.write("/var/lib/dpkg/status", "")
        for name in ("/proc/driver", "/sys/module", "/dev/shm", "/etc/modprobe.d", "/var/log"):
            self.folder(name)
        self.add_kernel(self.kernel, headers=True)

    def add_kernel(self, release: str, *, headers: bool) -> None:
        self.folder(f"/lib/modules/{release}/kernel")
        self.write(f"/boot/vmlinuz-{release}", "")
        self.add_package(f"linux-image-{release}", "6.1.90-1")
        if headers:
            self.write(f"/usr/src/linux-headers-{release}/Makefile", "")
            self.link(f"/lib/modules/{release}/build", f"/usr/src/linux-headers-{release}")
            self.add_package(f"linux-headers-{release}", "6.1.90-1")

    def add_package(self, name: str, version: str, status: str = "install ok installed") -> None:
        """Also leaves dpkg's list file, by which an installed package is noticed."""
        self.append("/var/lib/dpkg/status", _PACKAGE.format(name=name, version=version, status=status))
        self.write(f"/var/lib/dpkg/info/{name}.list", "/.\n")

    def add_module_on_disk(self, version: str = DRIVER, kernel: str | None = None) -> None:
        """The module as DKMS installs it. It is no real module: use dkms_module where modinfo must read it."""
        release = kernel or self.kernel
        for module in MODULES:
            self.write(f"/lib/modules/{release}/updates/dkms/{module.replace('_', '-')}.ko", "")
        self.write(f"/lib/modules/{release}/modules.dep", "updates/dkms/nvidia.ko:\n")
        self.add_dkms(version, release, "installed")

    def add_dkms(self, version: str, kernel: str, state: str) -> None:
        """DKMS's tree in state added, built, installed or failed (a build folder with a log that ends in an error)."""
        base = f"/var/lib/dkms/nvidia/{version}"
        self.write(f"/usr/src/nvidia-{version}/dkms.conf", _DKMS_CONF.format(version=version))
        self.link(f"{base}/source", f"/usr/src/nvidia-{version}")
        if state in {"built", "installed"}:
            self.write(f"{base}/{kernel}/x86_64/module/nvidia.ko", "")
            self.write(
                f"{base}/{kernel}/x86_64/log/make.log",
                f"DKMS make.log for nvidia-{version} for kernel {kernel} (x86_64)\n",
            )
        if state == "installed":
            self.write(f"/lib/modules/{kernel}/updates/dkms/nvidia.ko", "")
            self.link(f"/var/lib/dkms/nvidia/kernel-{kernel}-x86_64", f"{version}/{kernel}/x86_64")
        if state == "failed":
            error = f"{base}/build/nvidia/nv-dma.c:811:9: error: implicit declaration of function 'drm_prime_pages_to_sg'\n"
            self.write(
                f"{base}/build/make.log",
                f"DKMS make.log for nvidia-{version} for kernel {kernel} (x86_64)\n{error}make: *** [Makefile:82: modules] Error 2\n",
            )

    def add_libraries(self, version: str = DRIVER) -> None:
        """User-space half: libraries, nvidia-smi, and Debian's packages."""
        for library in _LIBRARIES:
            self.write(f"/usr/lib/x86_64-linux-gnu/{library}.{version}", "")
            self.link(f"/usr/lib/x86_64-linux-gnu/{library}.1", f"{library}.{version}")
        self.write("/usr/bin/nvidia-smi", "#!/bin/sh\n")
        self.path("/usr/bin/nvidia-smi").chmod(0o755)
        for package in ("nvidia-driver", "nvidia-smi", "libcuda1", "libnvidia-ml1", "nvidia-kernel-dkms"):
            self.add_package(package, f"{version}-1~deb12u1")

    def add_loaded_driver(self, version: str = DRIVER, *, open_module: bool = False) -> None:
        """The module as loaded: /proc, /sys and /dev."""
        flavor = "Open Kernel Module for x86_64" if open_module else "x86_64 Kernel Module"
        self.write(
            "/proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX {flavor}  {version}  Tue Apr 30 10:00:00 UTC 2024\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
        )
        self.write(
            "/proc/driver/nvidia/params",
            "NVreg_EnableGpuFirmware: 18\nModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n",
        )
        self.folder("/proc/driver/nvidia/gpus")
        self.append(
            "/proc/modules", "".join(f"{name} 1503232 2 - Live 0x0000000000000000 (POE)\n" for name in MODULES)
        )
        for name in MODULES:
            self.write(f"/sys/module/{name}/initstate", "live\n")
            self.write(f"/sys/module/{name}/version", f"{version}\n")
        for name, major, minor in (
            ("nvidiactl", 195, 255),
            ("nvidia-modeset", 195, 254),
            ("nvidia-uvm", 510, 0),
            ("nvidia-uvm-tools", 510, 1),
        ):
            self.node(f"/dev/{name}", major, minor)

    def add_gpu_of_driver(self, number: int, bdf: str, model: str, firmware: str = DRIVER) -> None:
        """What the loaded driver tells of one GPU, and its device node."""
        self.write(
            f"/proc/driver/nvidia/gpus/{bdf}/information",
            f"Model: \t\t {model}\nIRQ:   \t\t {64 + number}\nGPU UUID: \t GPU-fa4e0000-0000-4000-8000-{number:012x}\nVideo BIOS: \t 92.00.45.00.05\n"
            f"Bus Type: \t PCIe\nDMA Size: \t 47 bits\nDMA Mask: \t 0x7fffffffffff\nBus Location: \t {bdf}\nDevice Minor: \t {number}\nGPU Firmware: \t {firmware}\nGPU Excluded:\t No\n",
        )
        self.node(f"/dev/nvidia{number}", 195, number)

    def add_nouveau(self) -> None:
        """The kernel's own driver, loaded."""
        self.append("/proc/modules", "nouveau 2318336 1 - Live 0x0000000000000000\n")
        self.write("/sys/module/nouveau/initstate", "live\n")

    def set_secure_boot(self, on: bool) -> None:
        """The EFI variable: four bytes of attributes, then the value."""
        variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
        self.path(variable).write_bytes(bytes([6, 0, 0, 0, int(on)]))
