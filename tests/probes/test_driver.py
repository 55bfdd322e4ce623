"""The driver: version files of several generations, DKMS, packages and their history, libraries, nodes, services, logs."""

from __future__ import annotations

import pytest
from msgspec.structs import astuple

from gpudoctor.facts import DeviceNode, Driver, Facts, Gpu, Host
from gpudoctor.probes import derive, driver
from gpudoctor.probes.driver_config import parse_cmdline_blacklist, parse_modprobe_conf, parse_params
from gpudoctor.probes.driver_disk import flavor_of_license, is_built_for, is_nvidia_module_file, parse_modinfo
from gpudoctor.probes.driver_log import parse_mismatch
from gpudoctor.probes.driver_modules import PROC_VERSION, parse_banner, parse_module_compiler, parse_modules
from gpudoctor.probes.driver_userspace import mode_of, parse_ls_nodes
from gpudoctor.probes.kernel_state import taint_letters
from gpudoctor.probes.run import run_probes
from gpudoctor.probes.services import parse_is_active, parse_systemctl_status
from gpudoctor.report import ProbeState
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import FileAnswer, Status
from tests.probes.machine import machine, node

KERNEL = "6.8.0-51-generic"
UNAME = {("uname", "-a"): f"Linux node1 {KERNEL} #52-Ubuntu SMP x86_64 GNU/Linux\n"}
PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
LIB = "/usr/lib/x86_64-linux-gnu"


def paste(text):
    """All facts of a paste, derivations included."""
    return run_probes(open_text(text))[0]


@pytest.mark.parametrize(
    ("text", "version", "flavor", "compiler"),
    [
        (PROPRIETARY, "535.183.01", "proprietary", "gcc 12.3.0"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  555.42.06  Release Build  (dvs-builder@U16-T01)\nGCC version:  gcc version 14.1.1 20240522 (GCC) \n",
            "555.42.06",
            "open",
            "gcc 14.1.1",
        ),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.82.07  Release Build\nGCC version:  gcc version 13.3.0\n",
            "580.82.07",
            "open",
            "gcc 13.3.0",
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  340.108  Wed Dec 11 11:06:58 PST 2019\nGCC version:  gcc version 9.3.0 (Ubuntu 9.3.0-17ubuntu1~20.04)\n",
            "340.108",
            "proprietary",
            "gcc 9.3.0",
        ),
        (
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  396.24  Thu Apr 26 00:10:09 PDT 2018\nGCC version:  gcc version 8.1.0 (GCC) \n",
            "396.24",
            "proprietary",
            "gcc 8.1.0",
        ),
        (
            "[    5.1] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  575.64  Release Build\n",
            "575.64",
            "open",
            None,
        ),
        (
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  525.60.13\n...\nNVRM: loading NVIDIA UNIX x86_64 Kernel Module  525.147.05\n",
            "525.147.05",
            "proprietary",
            None,
        ),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module", None, None, None),
        ("", None, None, None),
        ("\x00\xff", None, None, None),
    ],
)
def test_banner_and_compiler_of_each_generation(text, version, flavor, compiler):
    banner = parse_banner(text)
    assert (banner.version if banner else None, banner.flavor if banner else None) == (version, flavor)
    assert parse_module_compiler(text) == compiler


def test_modinfo():
    text = "filename:       /lib/modules/6.8.0/updates/dkms/nvidia.ko\nalias:          char-major-195-*\nversion:        550.90.07\nlicense:        Dual MIT/GPL\nvermagic:       6.8.0-49-generic SMP preempt mod_unload\n"
    values = parse_modinfo(text)
    assert (values["version"], flavor_of_license(values["license"])) == ("550.90.07", "open")
    assert flavor_of_license("NVIDIA") == "proprietary"
    assert flavor_of_license("") is None
    assert "version" not in parse_modinfo("modinfo: ERROR: Module nvidia not found.")


@pytest.mark.parametrize(
    ("vermagic", "kernel", "fits"),
    [
        ("6.8.0-49-generic", "6.8.0-49-generic", True),
        ("6.8.0-49-generic", "6.8.0-51-generic", False),
        ("5.14.0-427.el9.x86_64", "5.14.0-503.el9.x86_64", None),
        ("6.8.0-49-generic", None, None),
    ],
)
def test_vermagic_and_weak_modules(vermagic, kernel, fits):
    assert is_built_for(vermagic, kernel) is fits


def test_module_file_names():
    for name in ("nvidia.ko", "nvidia.ko.xz", "nvidia-current.ko", "nvidia.ko.zst", "nvidia-current-open.ko"):
        assert is_nvidia_module_file(name)
    for name in ("nvidia-uvm.ko", "nvidiafb.ko", "nvidia-drm.ko.xz", "nvidia-current-uvm.ko", "nvidia_cs.ko"):
        assert not is_nvidia_module_file(name)


def test_lists_of_modules():
    lsmod = "Module                  Size  Used by\nnvidia_uvm           1540096  0\nnvidia              56717312  2 nvidia_uvm,nvidia_modeset\n"
    assert parse_modules(lsmod) == ["nvidia_uvm", "nvidia"]
    assert parse_modules("nvidia 56717312 1 nvidia_uvm, Live 0x0000000000000000 (POE)\n") == ["nvidia"]
    assert parse_modules("lsmod: command not found") == []


@pytest.mark.parametrize(
    ("text", "nvidia", "nouveau"),
    [
        ("blacklist nouveau\noptions nouveau modeset=0\n", None, 0),
        ("# blacklist nvidia\nblacklist nvidia-drm\n", None, None),
        ("install nvidia /bin/false\n", 0, None),
        ("install nvidia modprobe -i nvidia-current $CMDLINE_OPTS\n", None, None),
        ("alias nouveau off\nalias nvidia off\n", 1, 0),
        ("options nouveau modeset=1\n", None, None),
        ("blacklist\n\x00\n", None, None),
    ],
)
def test_blacklists(text, nvidia, nouveau):
    assert astuple(parse_modprobe_conf(text)) == (nvidia, nouveau)


def test_blacklists_on_the_command_line():
    assert parse_cmdline_blacklist("quiet modprobe.blacklist=nouveau,nvidia-drm rd.driver.blacklist=nova_core") == {
        "nouveau",
        "nvidia_drm",
        "nova_core",
    }
    assert parse_cmdline_blacklist("nouveau.modeset=0") == {"nouveau"}
    assert parse_cmdline_blacklist("") == set()


def test_options_as_loaded():
    assert parse_params('EnableGpuFirmware: 18\nRegistryDwords: ""\n') == {
        "NVreg_EnableGpuFirmware": "18",
        "NVreg_RegistryDwords": "",
    }


@pytest.mark.parametrize(
    ("letters", "value"),
    [("", "0"), ("POE", "12289"), (None, "x"), (None, "")],
)
def test_taint(letters, value):
    assert taint_letters(value) == letters


# --- a machine whose kernel moved on ----------------------------------------------------------------------------------


def upgraded_kernel(**more):
    files = {
        "/var/lib/dkms/nvidia/535.183.01/6.8.0-49-generic/x86_64/module/nvidia.ko": "",
        "/var/lib/dkms/nvidia/535.183.01/build/make.log": "DKMS make.log\nmake: entering\n/build/nv.c:1:2: error: implicit declaration of function 'x'\n",
        "/lib/modules/6.8.0-49-generic/updates/dkms/nvidia.ko": "",
        f"/lib/modules/{KERNEL}/kernel/drivers/video/nvidiafb.ko": "",
        "/sys/module/nouveau/parameters/modeset": "-1\n",
        "/proc/modules": "ext4 1024 1 - Live 0x0\n",
        "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\n",
        "/proc/2/comm": "kthreadd\n",
        f"{LIB}/libnvidia-ml.so.535.183.01": "x",
        f"{LIB}/libcuda.so.535.183.01": "x",
        "/usr/bin/nvidia-smi": "x",
        "/etc/modprobe.d/nvidia.conf": "blacklist nouveau\n",
        **more.pop("files", {}),
    }
    links = {
        "/var/lib/dkms/nvidia/535.183.01/source": "/usr/src/nvidia-535.183.01",
        "/var/lib/dkms/nvidia/kernel-6.8.0-49-generic-x86_64": "535.183.01/6.8.0-49-generic/x86_64",
        f"{LIB}/libnvidia-ml.so.1": "libnvidia-ml.so.535.183.01",
        "/proc/self/ns/pid": "pid:[4026531836]",
        **more.pop("links", {}),
    }
    return machine(files, links=links, commands=UNAME, dirs=("/dev",), **more)


def test_a_module_for_the_old_kernel_only():
    facts = run_probes(upgraded_kernel())[0].driver
    assert [(d.module, d.version, d.kernel, d.state) for d in facts.dkms] == [
        ("nvidia", "535.183.01", "6.8.0-49-generic", "installed")
    ]
    assert facts.evidence["dkms"].text == "nvidia/535.183.01, 6.8.0-49-generic, x86_64: installed"
    assert facts.dkms_autoinstall_error == "/build/nv.c:1:2: error: implicit declaration of function 'x'"
    assert (facts.module_for_running_kernel, facts.module_on_disk_kernels) == (False, ["6.8.0-49-generic"])
    assert (facts.loaded, facts.nouveau_loaded, facts.installed) == (False, False, True)
    assert (facts.version, facts.branch, facts.library_version) == ("535.183.01", 535, "535.183.01")
    assert (facts.nvidia_smi_present, facts.device_nodes, facts.nouveau_blacklisted) == (True, [], True)


@pytest.mark.parametrize(
    ("files", "links", "broken", "state", "kernel"),
    [
        ({}, {"/var/lib/dkms/nvidia/550.1/source": "/usr/src/nvidia-550.1"}, {}, "added", None),
        ({}, {}, {"/var/lib/dkms/nvidia/550.1/source": "/usr/src/nvidia-550.1"}, "broken", None),
        (
            {"/var/lib/dkms/nvidia/550.1/6.8.0/x86_64/log/make.log": ""},
            {"/var/lib/dkms/nvidia/550.1/source": "/x"},
            {},
            "built",
            "6.8.0",
        ),
        (
            {"/var/lib/dkms/nvidia-current/550.1/6.8.0/x86_64/log/make.log": ""},
            {
                "/var/lib/dkms/nvidia-current/550.1/source": "/x",
                "/var/lib/dkms/nvidia-current/kernel-6.8.0-x86_64": "550.1/6.8.0/x86_64",
            },
            {},
            "installed",
            "6.8.0",
        ),
    ],
)
def test_states_in_the_dkms_tree(files, links, broken, state, kernel):
    facts = driver.probe(machine(files, links=links, broken_links=broken))
    assert [(entry.state, entry.kernel) for entry in facts.dkms] == [(state, kernel)]


def test_dkms_without_the_driver_and_without_dkms():
    facts = driver.probe(machine({"/var/lib/dkms/zfs/2.2.0/6.8.0/x86_64/log/make.log": ""}))
    assert facts.dkms == []
    assert driver.probe(machine()).dkms == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "nvidia, 535.183.01, 6.8.0-49-generic, x86_64: installed",
            [("nvidia", "535.183.01", "6.8.0-49-generic", "installed")],
        ),
        (
            "nvidia/535.183.01, 6.8.0-49-generic, x86_64: installed (WARNING! Diff between built and installed module!)",
            [("nvidia", "535.183.01", "6.8.0-49-generic", "installed")],
        ),
        ("nvidia-current/535.216.01: added", [("nvidia-current", "535.216.01", None, "added")]),
        (
            "nvidia-srv/535.161.08, 5.15.0-1058-azure, x86_64: built\nzfs/2.1.5, 5.15.0, x86_64: installed",
            [("nvidia-srv", "535.161.08", "5.15.0-1058-azure", "built")],
        ),
        ("nvidia/550.54: broken", [("nvidia", "550.54", None, "broken")]),
        ("nvidia-fs/2.19.7, 6.8.0, x86_64: installed", []),
    ],
)
def test_dkms_status_of_both_generations(text, expected):
    facts = paste(f"$ dkms status\n{text}\n").driver
    entries = facts.dkms if facts else []
    assert [(e.module, e.version, e.kernel, e.state) for e in entries or []] == expected
    if expected:
        assert facts.evidence["dkms"].line == 2


# --- packages ---------------------------------------------------------------------------------------------------------

STATUS = """\
Package: bash
Status: install ok installed
Version: 5.1-6ubuntu1

Package: nvidia-driver-535
Status: install ok installed
Architecture: amd64
Version: 535.216.01-0ubuntu0.22.04.1

Package: libnvidia-compute-535
Status: hold ok installed
Version: 535.216.01-0ubuntu0.22.04.1

Package: nvidia-dkms-535
Status: install ok half-configured
Version: 535.216.01-0ubuntu0.22.04.1

Package: nvidia-driver-470
Status: deinstall ok config-files
Version: 470.256.02-0ubuntu0.22.04.1

Package: nvidia-container-toolkit
Status: install ok installed
Version: 1.14.6-1

Package: broken
"""
HISTORY = """\

Start-Date: 2024-11-20  06:12:01
Commandline: /usr/bin/unattended-upgrade
Upgrade: libc6:amd64 (2.35-0, 2.35-1), libnvidia-compute-535:amd64 (535.183.01-0ubuntu0.22.04.1, 535.216.01-0ubuntu0.22.04.1), nvidia-driver-535:amd64 (535.183.01-0ubuntu0.22.04.1, 535.216.01-0ubuntu0.22.04.1)
Install: linux-image-6.8.0-51-generic:amd64 (6.8.0-51.52, automatic)
End-Date: 2024-11-20  06:13:10
"""


def test_an_upgrade_that_the_loaded_module_does_not_have_yet():
    files = {
        **{
            f"/var/lib/dpkg/info/{name}.list": ""
            for name in (
                "bash",
                "libnvidia-compute-535:amd64",
                "nvidia-container-toolkit",
                "nvidia-dkms-535",
                "nvidia-driver-470",
                "nvidia-driver-535",
            )
        },
        "/var/lib/dpkg/status": STATUS,
        "/var/log/apt/history.log": HISTORY,
        "/proc/driver/nvidia/version": PROPRIETARY,
        f"{LIB}/libnvidia-ml.so.535.216.01": "x",
    }
    links = {f"{LIB}/libnvidia-ml.so.1": "libnvidia-ml.so.535.216.01", "/proc/self/ns/pid": "pid:[4026531836]"}
    facts = run_probes(machine({**files, "/proc/2/comm": "kthreadd\n"}, links=links, commands=UNAME))[0].driver
    states = {package.name: package.state for package in facts.packages}
    assert states == {
        "nvidia-driver-535": "installed",
        "libnvidia-compute-535": "held",
        "nvidia-dkms-535": "half-configured",
        "nvidia-driver-470": "config-files",
        "nvidia-container-toolkit": "installed",
    }
    assert {p.driver_version for p in facts.packages if p.name == "nvidia-container-toolkit"} == {None}
    assert (facts.kernel_module_version, facts.library_version, facts.version) == (
        "535.183.01",
        "535.216.01",
        "535.183.01",
    )
    events = [(e.action, e.package, e.old_version, e.new_version) for e in facts.package_history]
    assert (
        "upgrade",
        "libnvidia-compute-535",
        "535.183.01-0ubuntu0.22.04.1",
        "535.216.01-0ubuntu0.22.04.1",
    ) in events
    assert ("install", "linux-image-6.8.0-51-generic", None, "6.8.0-51.52") in events
    assert not any(package == "libc6" for _, package, _, _ in events)
    assert facts.package_history[0].time == "2024-11-20T06:12:01"
    assert facts.package_history[0].evidence[""].line == 4
    assert facts.install_method == "package"


def test_a_machine_without_nvidia_packages_is_known_to_have_none():
    facts = driver.probe(machine({"/var/lib/dpkg/info/bash.list": "", "/var/lib/dpkg/status": STATUS}))
    assert facts.packages == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "$ dpkg -l | grep nvidia\nii  nvidia-driver-535       535.183.01-0ubuntu0.22.04.1   amd64   driver\nrc  nvidia-driver-470   470.256.02-0ubuntu1   amd64   old\niF  nvidia-dkms-535   535.183.01-0ubuntu0.22.04.1 amd64 dkms\n",
            [
                ("nvidia-driver-535", "installed", "535.183.01"),
                ("nvidia-driver-470", "config-files", "470.256.02"),
                ("nvidia-dkms-535", "half-configured", "535.183.01"),
            ],
        ),
        (
            "$ rpm -qa | grep -i nvidia\nkmod-nvidia-latest-dkms-550.54.15-1.el9.x86_64\nnvidia-driver-cuda-libs-550.54.15-1.el9.x86_64\nnvidia-container-toolkit-1.15.0-1.x86_64\n",
            [
                ("kmod-nvidia-latest-dkms", "installed", "550.54.15"),
                ("nvidia-driver-cuda-libs", "installed", "550.54.15"),
                ("nvidia-container-toolkit", "installed", None),
            ],
        ),
        (
            "$ pacman -Q | grep nvidia\nnvidia-open-dkms 580.105.08-3\nnvidia-utils 580.105.08-5\n",
            [("nvidia-open-dkms", "installed", "580.105.08"), ("nvidia-utils", "installed", "580.105.08")],
        ),
        ("$ dpkg -l | grep nvidia\n$ uname -r\n6.8.0-49-generic\n", []),
        ("$ dpkg -l | grep nvidia\nun  nvidia-driver <none> <none> (no description available)\n", []),
        (
            "$ dpkg -l | grep nvidia | awk '{print $1,$2,$3}'\nii nvidia-driver-570 570.172.08-0ubuntu1\nhi nvidia-dkms-570 570.172.08-0ubuntu1\n",
            [("nvidia-driver-570", "installed", "570.172.08"), ("nvidia-dkms-570", "held", "570.172.08")],
        ),
        (
            "$ rpm -qa --queryformat '%{name} %{version} %{vendor}\\n' | grep nvidia\nakmod-nvidia 575.64.05 RPM Fusion\nnvidia-driver 575.57.08 Example\n",
            [("akmod-nvidia", "installed", "575.64.05"), ("nvidia-driver", "installed", "575.57.08")],
        ),
        (
            "$ dnf list installed '*nvidia*'\nInstalled Packages\nakmod-nvidia.x86_64   3:575.64.05-1.fc42   @rpmfusion-nonfree-updates\nnvidia-driver-libs.x86_64   3:575.57.08-1.fc42   @cuda\n",
            [("akmod-nvidia", "installed", "575.64.05"), ("nvidia-driver-libs", "installed", "575.57.08")],
        ),
    ],
)
def test_package_lists_of_each_manager(text, expected):
    facts = paste(text).driver
    assert [(p.name, p.state, p.driver_version) for p in facts.packages] == expected


def test_a_listing_in_an_unknown_form_does_not_say_that_there_are_no_packages():
    facts = paste("$ rpm -qa --qf '%{vendor}/%{name}\\n' | grep nvidia\nExample/nvidia-driver\n")
    assert facts.driver is None or facts.driver.packages is None


def test_packages_asked_for_by_name_say_nothing_of_the_driver():
    facts = paste("$ rpm -q nvidia-container-toolkit\npackage nvidia-container-toolkit is not installed\n")
    assert facts.driver is None or facts.driver.packages is None
    assert facts.runtime.toolkit_installed is False


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "/var/log/dpkg.log",
            "2024-11-20 06:12:05 upgrade libnvidia-compute-535:amd64 535.183.01-0 535.216.01-0\n2024-11-20 06:12:05 status installed x:amd64 1\n",
            ("upgrade", "libnvidia-compute-535", "535.183.01-0", "535.216.01-0"),
        ),
        (
            "/var/log/dpkg.log",
            "2024-11-20 06:12:05 install nvidia-driver-550:amd64 <none> 550.1-1\n",
            ("install", "nvidia-driver-550", None, "550.1-1"),
        ),
        (
            "/var/log/dnf.rpm.log",
            "2024-11-20T06:12:05+0000 SUBDEBUG Upgrade: nvidia-driver-3:550.54.15-1.el9.x86_64\n2024-11-20T06:12:06+0000 SUBDEBUG Upgraded: nvidia-driver-3:550.54.14-1.el9.x86_64\n",
            ("upgrade", "nvidia-driver", None, "550.54.15-1.el9"),
        ),
        (
            "/var/log/yum.log",
            "Nov 20 06:12:05 Updated: kmod-nvidia-latest-dkms-3:470.82.01-1.el7.x86_64\n",
            ("upgrade", "kmod-nvidia-latest-dkms", None, "470.82.01-1.el7"),
        ),
        (
            "/var/log/pacman.log",
            "[2024-11-20T06:12:05+0000] [ALPM] upgraded nvidia (550.54.14-1 -> 550.67-1)\n",
            ("upgrade", "nvidia", "550.54.14-1", "550.67-1"),
        ),
        (
            "/var/log/zypp/history",
            "# comment\n2024-11-20 06:12:05|install|nvidia-driver-G06-kmp-default|550.54-1|x86_64||cuda|abc|\n",
            ("install", "nvidia-driver-G06-kmp-default", None, "550.54-1"),
        ),
    ],
)
def test_histories_of_each_manager(path, text, expected):
    facts = driver.probe(
        machine({path: text, "/var/lib/dpkg/info/nvidia-driver-535.list": "", "/var/lib/dpkg/status": STATUS})
    )
    assert [(e.action, e.package, e.old_version, e.new_version) for e in facts.package_history] == [expected]


# --- pasted pieces ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("$ lsmod | grep nvidia\n$ uname -r\n6.8.0-49-generic\n", "loaded", False),
        ("$ lsmod | grep nvidia_uvm\n$ uname -r\n6.8.0-49-generic\n", "loaded", None),
        ("$ lsmod | grep nvidia_uvm\n$ uname -r\n6.8.0-49-generic\n", "uvm_loaded", False),
        ("$ lsmod | grep nouveau\nnouveau              1716224  1\n", "nouveau_loaded", True),
        ("$ lsmod | grep nouveau\nnouveau              1716224  1\n", "loaded", None),
        ("$ cat /sys/module/nvidia/version\n460.32.03\n", "kernel_module_version", "460.32.03"),
        ("$ modinfo -F version nvidia\n595.58.03\n", "module_on_disk_version", "595.58.03"),
        ("$ modinfo nvidia\nmodinfo: ERROR: Module nvidia not found.\n", "module_for_running_kernel", False),
        ("$ modinfo -F license nvidia\nDual MIT/GPL\n", "module_flavor", "open"),
        ("$ nvidia-smi\nbash: nvidia-smi: command not found\n", "nvidia_smi_present", False),
        ("$ ldconfig -p | grep libnvidia-ml\n$ uname -r\n6.8.0-49-generic\n", "library_paths", []),
        ("$ ls -l /dev/nvidia*\nls: cannot access '/dev/nvidia*': No such file or directory\n", "device_nodes", []),
        ("$ systemctl is-active nvidia-persistenced\ninactive\n", "persistenced_running", False),
        ("$ systemctl is-failed nvidia-fabricmanager\nfailed\n", "fabric_manager_failed", True),
        ("$ systemctl is-failed nvidia-fabricmanager\ninactive\n", "fabric_manager_failed", False),
        ("$ systemctl status nvidia-fabricmanager\n     Active: inactive (dead)\n", "fabric_manager_failed", False),
        (
            "$ systemctl status nvidia-fabricmanager\nUnit nvidia-fabricmanager.service could not be found.\n",
            "fabric_manager_installed",
            False,
        ),
    ],
)
def test_single_pasted_commands(text, field, value):
    facts = paste(text).driver
    assert (getattr(facts, field) if facts else None) == value


def test_versions_of_an_api_mismatch():
    text = "gpu-0 kernel: NVRM: API mismatch: the client has the version 535.54.03, but\ngpu-0 kernel: NVRM: this kernel module has the version 530.30.02.  Please\ngpu-0 kernel: NVRM: make sure that this kernel module and all NVIDIA driver\n"
    assert astuple(parse_mismatch(text))[::2] == ("535.54.03", "530.30.02")
    facts = paste(text).driver
    assert (facts.library_version, facts.kernel_module_version, facts.version) == (
        "535.54.03",
        "530.30.02",
        "530.30.02",
    )
    assert facts.loaded is None
    assert parse_mismatch("NVRM: API mismatch: nonsense") is None


@pytest.mark.parametrize("start", ["[   12.5] NVRM: ", "NVRM: ", "               "])
def test_a_driver_that_refuses_a_gpu_names_its_release(start):
    text = (
        f"[   12.5] NVRM: installed in this system is not supported by the\n{start}NVIDIA 570.86.15 driver release.\n"
    )
    assert paste(text).driver.kernel_module_version == "570.86.15"


def test_a_kernel_log_shows_that_nouveau_has_the_gpu():
    log = "[    5.4] nouveau 0000:02:00.0: NVIDIA TU116 (168000a1)\n[    5.9] nouveau 0000:02:00.0: DRM: VRAM: 6144 MiB\n"
    assert paste(log).driver.nouveau_loaded is True
    later = paste(log + "[   90.1] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.86.10  Release Build\n").driver
    assert later.nouveau_loaded is None


@pytest.mark.parametrize("indent", ["[   12.5] NVRM: ", "                 NVRM: "])
def test_an_api_mismatch_may_name_its_client(indent):
    text = (
        "[   12.5] NVRM: API mismatch: the client 'nvidia-smi' (pid 4711)\n"
        f"{indent}has the version 570.86.10, but this kernel module has\n"
        f"{indent}the version 565.77.  Please make sure that this\n"
        f"{indent}kernel module and all NVIDIA driver components\n"
    )
    assert astuple(parse_mismatch(text)) == ("570.86.10", 0, "565.77", 2)


def test_a_glob_that_shows_the_module_of_another_kernel_only():
    text = "$ uname -r\n5.15.0-1030-gcp\n$ ls /lib/modules/*/kernel/drivers/video/nvidia.ko\n/lib/modules/5.15.0-1027-gcp/kernel/drivers/video/nvidia.ko\n"
    facts = paste(text).driver
    assert (facts.module_on_disk_kernels, facts.module_for_running_kernel) == (["5.15.0-1027-gcp"], False)


def test_nodes_of_a_listing():
    text = "$ ls -l /dev/nvidia*\ncrw-rw---- 1 root video 195,   0 Nov 20 06:12 /dev/nvidia0\ncrw-rw-rw- 1 root root  195, 255 Nov 20 06:12 /dev/nvidiactl\n"
    assert [(n.path, n.mode, n.group, n.major, n.minor) for n, _ in parse_ls_nodes(text)] == [
        ("/dev/nvidia0", "0660", "video", 195, 0),
        ("/dev/nvidiactl", "0666", "root", 195, 255),
    ]
    assert parse_ls_nodes("total 0\ngarbage") == []
    assert mode_of("rwxr-xr-x") == "0755"


def test_nodes_that_this_user_may_not_open():
    source = upgraded_kernel(
        stats=(node("/dev/nvidia0", mode="0600", openable=False), node("/dev/nvidiactl", minor=255))
    )
    facts = driver.probe(source)
    assert facts.nodes_denied == ["/dev/nvidia0"]
    assert "0600" in facts.evidence["nodes_denied"].text


@pytest.mark.parametrize(
    ("nodes", "inside", "uvm", "missing"),
    [
        ([], False, False, ["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"]),
        (["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"], False, False, []),
        (["/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia1"], False, True, ["/dev/nvidia-uvm"]),
        # A container may be given one of several GPUs.
        (["/dev/nvidiactl", "/dev/nvidia1", "/dev/nvidia-uvm"], True, None, []),
        (["/dev/nvidiactl", "/dev/nvidia1"], True, None, ["/dev/nvidia-uvm"]),
    ],
)
def test_nodes_that_should_be_there(nodes, inside, uvm, missing):
    facts = Facts(
        host=Host(in_container=inside),
        driver=Driver(loaded=True, uvm_loaded=uvm, device_nodes=[DeviceNode(path=path) for path in nodes]),
        gpus=[Gpu(index=0, minor=0), Gpu(index=1, minor=1)],
    )
    assert derive.nodes_missing(facts).driver.nodes_missing == missing


# --- services ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "installed", "running", "failed"),
    [
        (
            "● x.service - X\n     Loaded: loaded (/usr/lib/systemd/system/x.service; enabled)\n     Active: active (running) since Thu\n   Main PID: 31082 (x)\n",
            True,
            True,
            False,
        ),
        ("○ x.service - X\n     Loaded: loaded (/usr/lib/...)\n     Active: inactive (dead)\n", True, False, False),
        ("× x.service - X\n     Active: failed (Result: exit-code) since Thu\n", True, False, True),
        ("     Active: active (exited) since Thu\n", True, False, False),
        ("Unit x.service could not be found.\n", False, False, None),
        ("", None, None, None),
    ],
)
def test_systemctl_status(text, installed, running, failed):
    found = parse_systemctl_status(text)
    assert (found.installed, found.running, found.failed) == (installed, running, failed)


def test_is_active():
    assert parse_is_active("active\n").running is True
    assert (parse_is_active("failed").running, parse_is_active("failed").failed) == (False, True)
    assert parse_is_active("Failed to connect to bus").running is None


def test_services_by_their_cgroup():
    files = {
        "/usr/lib/systemd/system/nvidia-fabricmanager.service": "",
        "/usr/lib/systemd/system/nvidia-persistenced.service": "",
        "/sys/fs/cgroup/system.slice/nvidia-persistenced.service/cgroup.procs": "812\n",
        "/sys/fs/cgroup/system.slice/nvidia-fabricmanager.service/cgroup.procs": "",
    }
    facts = driver.probe(machine(files))
    assert (facts.persistenced_running, facts.fabric_manager_installed, facts.fabric_manager_running) == (
        True,
        True,
        False,
    )
    assert "812" in facts.evidence["persistenced_running"].text


def test_installed_by_the_vendors_installer():
    files = {
        "/usr/bin/nvidia-uninstall": "",
        "/var/log/nvidia-installer.log": "-> ok\nERROR: Unable to load the kernel module 'nvidia.ko'.\n",
    }
    facts = driver.probe(machine(files))
    assert facts.install_method == "runfile"
    assert facts.evidence["runfile_log"].line == 2


def test_no_trace_anywhere_means_not_installed():
    files = {
        "/proc/2/comm": "kthreadd\n",
        "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\n",
        "/proc/modules": "ext4 1 1 - Live 0x0\n",
        f"/lib/modules/{KERNEL}/modules.dep": "",
        f"{LIB}/libc.so.6": "x",
    }
    facts = run_probes(machine(files, commands=UNAME, links={"/proc/self/ns/pid": "pid:[4026531836]"}))[0]
    assert (facts.driver.installed, facts.driver.loaded) == (False, False)
    # In a container the same view says nothing of the host.
    facts = run_probes(machine({**files, "/run/.containerenv": ""}, commands=UNAME))[0]
    assert facts.driver.installed is None


def test_a_wedged_read_is_not_an_absence():
    source = machine()
    source.answers.files[PROC_VERSION] = FileAnswer(path=PROC_VERSION, status=Status.TIMEOUT)
    facts, runs = run_probes(source, areas={"driver"})
    assert facts.driver.loaded is None
    run = next(run for run in runs if run.name == "driver")
    assert run.state is ProbeState.PARTIAL
    assert run.problems == [f"{PROC_VERSION}: no answer in time"]
