"""A five-line kernel module under the name of NVIDIA's, so that the genuine dkms reaches each of its states in seconds."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import namespace, real_parts, uname_shim

NAME = "nvidia"

_CONF = """PACKAGE_NAME="{name}"
PACKAGE_VERSION="{version}"
BUILT_MODULE_NAME[0]="{name}"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
"""
_SOURCE = """#include <linux/module.h>
static int __init start(void) {{ return -ENODEV; }}
static void __exit stop(void) {{ }}
module_init(start);
module_exit(stop);
MODULE_LICENSE("NVIDIA");
MODULE_VERSION("{version}");
{fault}
"""


@dataclass(frozen=True)
class DkmsHost:
    """A host root below `root` with /var/lib/dkms, /usr/src and /lib/modules of its own; nothing outside is changed.

    `kernel` is a release whose headers are really installed.
    """

    root: Path
    kernel: str

    def run(
        self, *argv: str, release: str | None = None, binds: Mapping[str | Path, str | Path] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Runs a program that sees this host's folders, and those of `binds`, on kernel `release` (default: `kernel`)."""
        running = uname_shim.environment(release or self.kernel)
        return namespace.run(argv, {**self._binds(), **(binds or {})}, env=running, timeout=120)

    def _binds(self) -> dict[str | Path, str | Path]:
        """The real headers first, into the folder that then becomes /usr/src."""
        binds: dict[str | Path, str | Path] = {}
        for header in sorted(Path("/usr/src").glob("linux-headers-*")):
            target = self.root / "usr/src" / header.name
            target.mkdir(parents=True, exist_ok=True)
            binds[header] = target
        for name in ("usr/src", "var/lib/dkms", "lib/modules"):
            binds[self.root / name] = f"/{name}"
        return binds

    def write_source(self, version: str, *, broken: bool = False) -> None:
        """Puts the module's source in /usr/src; `broken` is source that the compiler refuses."""
        folder = self.root / f"usr/src/{NAME}-{version}"
        folder.mkdir(parents=True, exist_ok=True)
        fault = "static int start(void) { return struct_gone; }" if broken else ""
        (folder / "dkms.conf").write_text(_CONF.format(name=NAME, version=version))
        (folder / f"{NAME}.c").write_text(_SOURCE.format(version=version, fault=fault))
        (folder / "Makefile").write_text(f"obj-m += {NAME}.o\n")

    def add(self, version: str, *, broken: bool = False) -> subprocess.CompletedProcess[str]:
        """State `added`."""
        self.write_source(version, broken=broken)
        return self.run("dkms", "add", "-m", NAME, "-v", version)

    def build(self, version: str, kernel: str | None = None) -> subprocess.CompletedProcess[str]:
        """State `built`; for a kernel without headers, or broken source, dkms says why and exits with its own status."""
        return self.run("dkms", "build", "-m", NAME, "-v", version, "-k", kernel or self.kernel)

    def install(self, version: str) -> subprocess.CompletedProcess[str]:
        """State `installed`: the module lies in /lib/modules/KERNEL/updates/dkms, and depmod has run."""
        return self.run("dkms", "install", "-m", NAME, "-v", version, "-k", self.kernel)

    def add_kernel(self, release: str) -> None:
        """A kernel that is installed without headers."""
        (self.root / "lib/modules" / release).mkdir(parents=True, exist_ok=True)


def host(root: Path) -> DkmsHost:
    """A host without modules. Needs root, dkms and kernel headers (`real("dkms", "kernel-headers", "root")`)."""
    kernel = real_parts.kernel_with_headers()
    if kernel is None:
        raise FileNotFoundError("no kernel headers are installed; run .ci/install-real-parts")
    for name in ("usr/src", "var/lib/dkms", f"lib/modules/{kernel}"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for index in ("modules.dep", "modules.order", "modules.builtin"):  # dkms takes a kernel without them for removed
        (root / f"lib/modules/{kernel}" / index).touch()
    for link in ("build", "source"):
        target = Path(f"/lib/modules/{kernel}") / link
        if target.is_symlink() and not (root / f"lib/modules/{kernel}/{link}").is_symlink():
            (root / f"lib/modules/{kernel}/{link}").symlink_to(target.readlink())
    return DkmsHost(root, kernel)
