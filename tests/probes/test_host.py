"""The host: parsers over several distributions' real forms, and the probe over recordings, texts and a live tree."""

from __future__ import annotations

import pytest
from msgspec.structs import astuple

from gpudoctor.probes import host, host_hints, host_limits, host_machine, host_os
from gpudoctor.sources import open_live, open_text
from tests.probes.machine import machine

UBUNTU = 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nNAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'
ROCKY = 'NAME="Rocky Linux"\nVERSION="9.4 (Blue Onyx)"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'
CENTOS7 = 'NAME="CentOS Linux"\nID="centos"\nID_LIKE="rhel fedora"\nVERSION_ID="7"\n'


@pytest.mark.parametrize(
    ("text", "os_id", "version", "manager"),
    [
        (UBUNTU, "ubuntu", "22.04", "apt"),
        (ROCKY, "rocky", "9.4", "dnf"),
        (CENTOS7, "centos", "7", "yum"),
        ('ID=amzn\nVERSION_ID="2"\n', "amzn", "2", "yum"),
        ('ID=amzn\nVERSION_ID="2023"\n', "amzn", "2023", "dnf"),
        ('ID="sles"\nVERSION_ID="15.5"\n', "sles", "15.5", "zypper"),
        ('ID="opensuse-leap"\nVERSION_ID="15.6"\n', "opensuse-leap", "15.6", "zypper"),
        ("ID=nobara\nVERSION_ID=40\n", "nobara", "40", "dnf"),
        ('ID=unheard\nID_LIKE="arch"\n', "unheard", None, "pacman"),
        ("DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE=18.04\n", "ubuntu", "18.04", "apt"),
        ("ID=alpine\nVERSION_ID=3.19.1\n", "alpine", "3.19.1", "apk"),
        ("ID=nixos\n", "nixos", None, None),
        ("", None, None, None),
        ("\x00\xff garbage =\n=\n", None, None, None),
    ],
)
def test_distribution_and_its_package_manager(text, os_id, version, manager):
    release = host_os.parse_os_release(text)
    assert (release.id, release.version) == (os_id, version)
    assert host_os.package_manager_of(release.id, release.version, release.like) == manager


@pytest.mark.parametrize(
    ("release", "os_id", "version", "manager", "cloud"),
    [
        ("6.8.0-49-generic", "ubuntu", None, "apt", None),
        ("5.15.0-1030-gcp", "ubuntu", None, "apt", "gcp"),
        ("6.5.0-1021-azure", "ubuntu", None, "apt", "azure"),
        ("6.8.0-1015-nvidia-64k", "ubuntu", None, "apt", None),
        ("5.14.0-503.14.1.el9_5.x86_64", None, "9.5", "dnf", None),
        ("4.18.0-553.el8_10.x86_64", None, "8.10", "dnf", None),
        ("3.10.0-1160.119.1.el7.x86_64", None, "7", "yum", None),
        ("5.15.0-206.153.7.el9uek.x86_64", None, "9", "dnf", None),
        ("6.8.9-300.fc40.x86_64", "fedora", "40", "dnf", None),
        ("6.1.94-99.176.amzn2023.x86_64", "amzn", "2023", "dnf", "aws"),
        ("5.10.219-208.866.amzn2.x86_64", "amzn", "2", "yum", "aws"),
        ("6.1.0-22-amd64", "debian", None, "apt", None),
        ("6.5.0-0.deb12.4-amd64", "debian", None, "apt", None),
        ("6.10.11+bpo-amd64", "debian", None, "apt", None),
        ("6.9.7-arch1-1", "arch", None, "pacman", None),
        ("4.16.10-1-ARCH", "arch", None, "pacman", None),
        ("6.6.40-1-lts", "arch", None, "pacman", None),
        ("5.14.21-150500.55.68-default", None, None, "zypper", None),
        ("5.14.21-150400.14.75-azure", None, None, "zypper", None),
        ("6.8.8-2-pve", "debian", None, "apt", None),
        ("6.18.44-fc-v782", None, None, None, None),
        ("", None, None, None, None),
        (None, None, None, None, None),
    ],
)
def test_a_kernels_name_tells_its_distribution(release, os_id, version, manager, cloud):
    origin = host_os.origin_of_kernel(release)
    assert (origin.os_id, origin.os_version, origin.package_manager, origin.cloud) == (os_id, version, manager, cloud)


def test_wsl_by_its_kernel():
    assert host_os.origin_of_kernel("5.15.153.1-microsoft-standard-WSL2").is_wsl is True


@pytest.mark.parametrize(
    ("text", "compiler"),
    [
        (
            "Linux version 6.8.0-49-generic (b@h) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0, GNU ld 2.42) #49",
            "gcc 13.2.0",
        ),
        ("Linux version 5.4.0-131-generic (b@h) (gcc version 7.5.0 (Ubuntu 7.5.0-3ubuntu1~18.04)) #147", "gcc 7.5.0"),
        (
            "Linux version 5.14.0-427.el9.x86_64 (b@h) (gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3), GNU ld) #1",
            "gcc 11.4.1",
        ),
        ("Linux version 6.5.0-amd64 (b@h) (gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld) #1", "gcc 12.2.0"),
        ("Linux version 6.9.3-cachyos (b@h) (clang version 18.1.6, LLD 18.1.6) #1", "clang 18.1.6"),
        ("Linux version 4.14.0 (root@localhost) #1 SMP", None),
        ("", None),
    ],
)
def test_compiler_of_the_kernel(text, compiler):
    assert host_os.compiler_in_version_string(text) == compiler


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\nCopyright (C) 2021\n", "11.4.0"),
        ("gcc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-22)\n", "8.5.0"),
        ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0\n", "12.2.0"),
        ("Using built-in specs.\ngcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n", "13.3.0"),
        ("gcc: command not found", None),
        ("", None),
    ],
)
def test_compiler_of_the_host(text, version):
    assert host_os.parse_gcc_version(text) == version


def test_newer_kernels_sort_by_number():
    names = ["6.8.0-49-generic", "6.8.0-9-generic", "6.11.0-1-generic", "5.15.0-130-generic"]
    assert max(names, key=host_os.kernel_sort_key) == "6.11.0-1-generic"
    assert sorted(names, key=host_os.kernel_sort_key)[1] == "6.8.0-9-generic"


def test_shared_memory_of_a_container_and_of_a_host():
    assert host_limits.parse_mounts_shm("shm /dev/shm tmpfs rw,nosuid,size=65536k,inode64 0 0\n", 32000)[0] == 64
    assert host_limits.parse_mounts_shm("tmpfs /dev/shm tmpfs rw,nosuid,nodev,inode64 0 0\n", 32000)[0] == 16000
    assert host_limits.parse_mounts_shm("tmpfs /run tmpfs rw 0 0\n", 32000) == (None, None)


@pytest.mark.parametrize(
    ("text", "mib"),
    [
        ("Filesystem      Size  Used Avail Use% Mounted on\nshm              64M     0   64M   0% /dev/shm\n", 64),
        ("tmpfs            63G   12M   63G   1% /dev/shm", 64512),
        (
            "Filesystem     1K-blocks  Used Available Use% Mounted on\ntmpfs           16384000     0  16384000   0% /dev/shm",
            16000,
        ),
        ("tmpfs  1.9G  0 1.9G 0% /run\n", None),
        ("", None),
    ],
)
def test_df_in_its_units(text, mib):
    assert host_limits.parse_df_shm(text)[0] == mib


def test_free_and_meminfo():
    free = "               total        used        free      shared  buff/cache   available\nMem:           31911        8123       20100\nSwap:           2047           0        2047\n"
    assert astuple(host_limits.parse_free(free, "m")) == (31911, None, 2047)
    human = "              total        used        free      shared  buff/cache   available\nMem:           15Gi       7.1Gi       1.2Gi       300Mi       7.0Gi       7.9Gi\nSwap:            0B          0B          0B\n"
    assert astuple(host_limits.parse_free(human)) == (15360, 8090, 0)
    meminfo = "MemTotal:       16384000 kB\nMemAvailable:    8192000 kB\nSwapTotal: 0 kB\n"
    assert astuple(host_limits.parse_meminfo(meminfo)) == (16000, 8000, 0)
    assert astuple(host_limits.parse_meminfo("garbage")) == (None, None, None)


def test_limits_of_proc_and_of_the_shell():
    proc = "Limit                     Soft Limit           Hard Limit           Units\nMax locked memory         67108864             67108864             bytes\nMax open files            1024                 1048576              files\n"
    limits = host_limits.parse_proc_limits(proc)
    assert (limits.memlock_kib, limits.nofile) == (65536, 1024)
    shell = "max locked memory           (kbytes, -l) unlimited\nopen files                          (-n) 1024\n"
    limits = host_limits.parse_ulimit(shell)
    assert (limits.memlock_kib, limits.nofile, limits.address_kib) == (-1, 1024, None)


def test_the_limit_of_address_space():
    proc = "Max address space         34359738368          unlimited            bytes\n"
    assert host_limits.parse_proc_limits(proc).address_kib == 33554432
    shell = "max memory size             (kbytes, -m) unlimited\nvirtual memory              (kbytes, -v) 33554432\n"
    assert host_limits.parse_ulimit(shell).address_kib == 33554432
    assert host_limits.parse_ulimit("virtual memory (kbytes, -v) unlimited\n").address_kib == -1
    pasted = host.probe(open_text("$ ulimit -v\n16777216\n"))
    assert pasted is not None
    assert pasted.address_space_limit_kib == 16777216


def test_identity():
    ann = host_limits.parse_id("uid=1000(ann) gid=1000(ann) groups=1000(ann),44(video),998(docker)")
    assert (ann.is_root, ann.groups) == (False, ["ann", "video", "docker"])
    assert host_limits.parse_id("uid=0(root) gid=0(root) groups=0(root)").is_root is True
    assert host_limits.parse_id("").is_root is None
    status = "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t4 44 1000\n"
    groups = "adm:x:4:syslog\nvideo:x:44:\nann:x:1000:\n"
    assert astuple(host_limits.parse_proc_status(status, groups)) == (False, ["ann", "adm", "video"])


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (" 10:15:32 up 12 days,  3:04,  2 users,  load average: 0.1, 0.2, 0.3", 12 * 86400 + 3 * 3600 + 240),
        (" 10:15:32 up 5 min,  1 user,  load average: 0.1", 300),
        ("up 2 weeks, 1 day, 3 minutes", 15 * 86400 + 180),
        ("nonsense", None),
        ("", None),
    ],
)
def test_uptime(text, seconds):
    assert host_limits.parse_uptime(text) == seconds


@pytest.mark.parametrize(
    ("dmi", "virtualization", "cloud"),
    [
        (("Amazon EC2", "p4d.24xlarge", "Amazon EC2", "Amazon EC2", "i-0"), "amazon", "aws"),
        (("Amazon EC2", "p4d.metal", "Amazon EC2", "Amazon EC2", ""), "none", "aws"),
        (("Google", "Google Compute Engine", "Google", "Google", ""), "google", "gcp"),
        (
            (
                "Microsoft Corporation",
                "Virtual Machine",
                "Microsoft Corporation",
                "",
                "7783-7084-3265-9085-8269-3286-77",
            ),
            "microsoft",
            "azure",
        ),
        (("QEMU", "Standard PC (Q35 + ICH9, 2009)", "", "SeaBIOS", "OracleCloud.com"), "kvm", "oci"),
        (("QEMU", "Standard PC (Q35 + ICH9, 2009)", "", "SeaBIOS", ""), "kvm", None),
        (("VMware, Inc.", "VMware7,1", "Intel Corporation", "VMware, Inc.", ""), "vmware", None),
        (("Dell Inc.", "PowerEdge XE9680", "Dell Inc.", "Dell Inc.", ""), "none", None),
        (("NVIDIA", "DGXA100 920-23687-2530-000", "NVIDIA", "", ""), "none", None),
        (("", "", "", "", ""), None, None),
        (("Unheard Of Machines", "X", "", "", ""), None, None),
    ],
)
def test_what_machine_dmi_tells(dmi, virtualization, cloud):
    assert host_machine.machine_of(host_machine.Dmi(*dmi)) == (virtualization, cloud)


@pytest.mark.parametrize(
    ("flags", "virtualization"),
    [("fpu vme hypervisor lahf_lm", "vm-other"), ("fpu vme hypervisors_are_not_one", None), ("", None)],
)
def test_a_virtual_machine_without_dmi_is_told_by_its_processor(flags, virtualization):
    facts = host.probe(machine({"/proc/version": "Linux version 6.8.0\n", "/proc/cpuinfo": f"flags\t\t: {flags}\n"}))
    assert facts is not None
    assert facts.virtualization == virtualization


def test_compilers_that_a_build_compared():
    text = "warning: the compiler differs from the one used to build the kernel\n  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0\n  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\n"
    assert astuple(host_hints.parse_compilers(text))[::2] == ("12.3.0", "11.4.0")
    old = (
        "The compiler used to compile the kernel (gcc\n8.3) does not exactly match the current compiler\n(gcc 9.1).\n"
    )
    assert astuple(host_hints.parse_compilers(old))[::2] == ("8.3", "9.1")
    assert astuple(host_hints.parse_compilers("nothing of the kind"))[::2] == (None, None)


def test_a_whole_host():
    source = machine(
        {
            "/etc/os-release": UBUNTU,
            "/proc/version": "Linux version 6.8.0-51-generic (b@h) (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1) 12.3.0, GNU ld) #52\n",
            "/proc/uptime": "7200.50 100.0\n",
            "/proc/meminfo": "MemTotal:       16384000 kB\n",
            "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\n",
            "/proc/self/status": "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t0\nCpus_allowed_list:\t0-7\n",
            "/proc/2/comm": "kthreadd\n",
            "/sys/devices/system/cpu/online": "0-15\n",
            "/sys/fs/cgroup/cpu.max": "max 100000\n",
            "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": "\x06\x00\x00\x00\x01",
            "/sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
            "/sys/class/dmi/id/sys_vendor": "Supermicro\n",
            "/run/reboot-required": "*** System restart required ***\n",
            "/lib/modules/6.8.0-49-generic/modules.dep": "",
            "/lib/modules/6.8.0-51-generic/modules.dep": "",
        },
        broken_links={"/lib/modules/6.8.0-51-generic/build": "/usr/src/linux-headers-6.8.0-51-generic"},
        commands={("uname", "-a"): "Linux node1 6.8.0-51-generic #52-Ubuntu SMP x86_64 x86_64 x86_64 GNU/Linux\n"},
    )
    facts = host.probe(source)
    assert facts is not None
    assert (facts.hostname, facts.arch, facts.kernel_release) == ("node1", "x86_64", "6.8.0-51-generic")
    assert (facts.os_id, facts.package_manager, facts.kernel_compiler) == ("ubuntu", "apt", "gcc 12.3.0")
    assert (facts.in_container, facts.virtualization, facts.is_wsl) == (False, "none", False)
    assert (facts.secure_boot, facts.lockdown) == (True, "integrity")
    assert (facts.memory_total_mib, facts.shm_total_mib) == (16000, 8000)
    assert (facts.cpu_count, facts.cpu_count_total, facts.is_root) == (8, 16, True)
    assert facts.boot_time == "2023-11-14T20:13:20Z"
    assert facts.reboot_required is True
    assert facts.newest_kernel_installed == "6.8.0-51-generic"
    assert facts.kernel_headers_installed is False
    assert "missing" in facts.evidence["kernel_headers_installed"].text
    assert facts.evidence["kernel_release"].source == "uname -a"


def test_a_cgroup_quota_limits_the_cpus():
    files = {"/proc/self/status": "Cpus_allowed_list:\t0-15\n", "/sys/fs/cgroup/cpu.max": "400000 100000\n"}
    facts = host.probe(machine(files))
    assert facts is not None
    assert facts.cpu_count == 4


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("SecureBoot enabled\n", True),
        ("SecureBoot disabled\nPlatform is in Setup Mode\n", False),
        ("EFI variables are not supported on this system\n", False),
        ("mokutil: something else\n", None),
    ],
)
def test_secure_boot_in_pasted_text(text, on):
    facts = host.probe(open_text(f"$ mokutil --sb-state\n{text}"))
    assert (facts.secure_boot if facts else None) is on


def test_a_paste_tells_kernel_distribution_and_limits_with_evidence():
    text = "$ uname -r\n5.14.0-503.el9.x86_64\n$ df -h /dev/shm\nFilesystem      Size  Used Avail Use% Mounted on\nshm              64M     0   64M   0% /dev/shm\n$ ulimit -l\n64\n"
    facts = host.probe(open_text(text))
    assert facts is not None
    assert (facts.kernel_release, facts.package_manager) == ("5.14.0-503.el9.x86_64", "dnf")
    assert (facts.shm_total_mib, facts.memlock_limit_kib) == (64, 64)
    assert facts.evidence["shm_total_mib"].line == 5
    assert "64M" in facts.evidence["shm_total_mib"].text
    assert facts.in_container is None


def test_nothing_known_is_nothing_claimed():
    assert host.probe(open_text("hello")) is None


def test_below_a_root_the_files_of_the_host_are_read(tmp_path):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(ROCKY)
    (tmp_path / "etc/hostname").write_text("node17\n")
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/hostname").write_text("the-pods-own-name\n")
    facts = host.probe(open_live(str(tmp_path)))
    assert facts is not None
    assert (facts.os_id, facts.os_version, facts.package_manager) == ("rocky", "9.4", "dnf")
    assert facts.hostname == "node17"


@pytest.mark.parametrize(
    ("files", "release", "tegra"),
    [
        ({"/etc/nv_tegra_release": "# R36 (release), REVISION: 3.0\n"}, "5.15.136-tegra", True),
        ({"/proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0"}, "6.8.0-1-generic", True),
        ({}, "6.8.0-49-generic", False),
        ({}, "", None),
    ],
)
def test_tegra(files, release, tegra):
    commands = {("uname", "-r"): f"{release}\n"} if release else {}
    facts = host.probe(machine(files, commands=commands))
    assert (facts.is_tegra if facts else None) is tegra


def test_modprobe_names_the_running_kernel():
    text = "$ sudo modprobe nvidia\nmodprobe: FATAL: Module nvidia not found in directory /lib/modules/6.11.4-arch1-1\n$ ls /lib/modules\n6.11.6-arch1-1\n"
    facts = host.probe(open_text(text))
    assert (facts.kernel_release, facts.kernels_installed) == ("6.11.4-arch1-1", ["6.11.6-arch1-1"])
