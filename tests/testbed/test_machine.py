"""The parts that stand for a machine: PCI trees, kernels, DKMS, journals, host roots - read by the genuine programs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed import dkms_module, hosts, journal, namespace, real_parts, uname_shim
from tests.testbed.hosts import CARDS
from tests.testbed.pci_config import Bar, Link
from tests.testbed.pci_tree import Device, PciTree


def lspci(tree: PciTree, *arguments: str) -> str:
    command = [real_parts.require("lspci"), *tree.lspci_arguments, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout


@pytest.mark.real("lspci")
def test_lspci_names_the_card_its_driver_and_its_slower_link(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    tree.add(
        Device(
            "0000:3b:00.0",
            0x20B2,
            ports=(("0000:3a:00.0", 0x8086, 0x347A),),
            link=Link(("16.0 GT/s", 8), ("16.0 GT/s", 16)),
        )
    )
    text = lspci(tree, "-nnvvv", "-s", "3b:00.0")
    assert "3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)" in text
    assert "LnkCap:\tPort #0, Speed 16GT/s, Width x16" in text
    assert "LnkSta:\tSpeed 16GT/s, Width x8 (downgraded)" in text
    assert "Region 1: Memory at 2000000000 (64-bit, prefetchable) [size=128G]" in text
    assert "Kernel driver in use: nvidia" in text


@pytest.mark.real("lspci")
def test_lspci_draws_the_bridges_above_a_card(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    switch = (("0000:5a:00.0", 0x8086, 0x347A), ("0000:5b:00.0", 0x1000, 0xC030), ("0000:5c:01.0", 0x1000, 0xC030))
    tree.add(Device("0000:5e:00.0", 0x2330, ports=switch))
    assert "[0000:5a]---00.0-[5b-5e]----00.0-[5c-5e]----01.0-[5e]----00.0" in lspci(tree, "-t")
    assert "Express (v2) Root Port" in lspci(tree, "-vv", "-s", "5a:00.0")
    assert "Express (v2) Upstream Port" in lspci(tree, "-vv", "-s", "5b:00.0")
    assert "Express (v2) Downstream Port" in lspci(tree, "-vv", "-s", "5c:01.0")


@pytest.mark.real("lspci")
def test_lspci_on_a_card_off_the_bus_and_on_one_without_address_space(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    tree.add(Device("0000:3b:00.0", 0x20B2, answers=False))
    tree.add(Device("0000:af:00.0", 0x20B2, driver=None, bars=(Bar(0, 1 << 24), Bar(0, 1 << 37, True))))
    assert "!!! Unknown header type 7f" in lspci(tree, "-vv", "-s", "3b:00.0")
    unassigned = lspci(tree, "-vv", "-s", "af:00.0")
    assert "Region 0: Memory at <unassigned>" in unassigned
    assert "Kernel driver in use" not in unassigned


@pytest.mark.real("lspci", "root", "unshare")
def test_a_pci_tree_can_stand_for_the_machines_own(tmp_path: Path) -> None:
    tree = PciTree(tmp_path)
    tree.add(Device("0000:3b:00.0", 0x20B2))
    done = namespace.run(["lspci", "-nn"], {tmp_path: "/sys"})
    assert "[10de:20b2]" in done.stdout


def test_the_kernel_release_can_be_another() -> None:
    environment = {**os.environ, **uname_shim.environment("6.8.0-51-generic")}
    done = subprocess.run(["uname", "-r"], env=environment, capture_output=True, text=True, timeout=10, check=True)
    assert done.stdout == "6.8.0-51-generic\n"
    program = [sys.executable, "-c", "import platform; print(platform.release(), platform.machine())"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=10, check=True)
    assert done.stdout.split() == ["6.8.0-51-generic", platform.machine()]


@pytest.mark.slow
@pytest.mark.real("dkms", "kernel-headers", "gcc", "make", "root", "unshare")
def test_dkms_in_each_of_its_states(tmp_path: Path) -> None:
    host = dkms_module.host(tmp_path)
    host.add("535.183.01")
    assert host.run("dkms", "status").stdout == "nvidia/535.183.01: added\n"
    assert host.build("535.183.01").returncode == 0
    assert host.run("dkms", "status").stdout.strip().endswith(f"{host.kernel}, x86_64: built")
    assert host.install("535.183.01").returncode == 0
    assert host.run("dkms", "status").stdout.strip().endswith(": installed")
    assert "version:        535.183.01" in host.run("modinfo", "nvidia").stdout
    assert "Module nvidia not found" in host.run("modinfo", "nvidia", release="6.8.0-51-generic").stderr
    assert not (Path("/var/lib/dkms") / dkms_module.NAME / "535.183.01").exists()


@pytest.mark.slow
@pytest.mark.real("dkms", "kernel-headers", "gcc", "make", "root", "unshare")
def test_dkms_tells_why_it_cannot_build(tmp_path: Path) -> None:
    host = dkms_module.host(tmp_path)
    host.add("550.54.15", broken=True)
    failed = host.build("550.54.15")
    assert failed.returncode == 10
    assert "Bad return status for module build on kernel" in failed.stdout + failed.stderr
    log = (tmp_path / "var/lib/dkms/nvidia/550.54.15/build/make.log").read_text(errors="replace")
    assert "error:" in log
    no_headers = host.build("550.54.15", "6.8.0-51-generic")
    assert "Your kernel headers for kernel 6.8.0-51-generic cannot be found" in no_headers.stdout + no_headers.stderr


@pytest.mark.real("systemd-journal-remote", "journalctl")
def test_journalctl_reads_kernel_lines_of_several_boots(tmp_path: Path) -> None:
    xid = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=python, GPU has fallen off the bus."
    entries = journal.kernel_lines(["from the boot before"], 1_760_000_000, journal.BOOT_BEFORE)
    entries += journal.kernel_lines([xid, "two\nlines"], 1_770_000_000)
    entries.append(journal.Entry("no kernel line", 1_770_000_100, 100, transport="syslog", identifier="sshd"))
    file = journal.install(tmp_path, entries)

    def read(*arguments: str) -> str:
        command = [real_parts.require("journalctl"), "--no-pager", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout

    now = read(f"--file={file}", "-k", "-o", "short-iso")
    assert xid in now
    assert "from the boot before" not in now
    assert "no kernel line" not in now
    assert "from the boot before" in read(f"--root={tmp_path}", "-k", "-b", "-1")
    record = json.loads(read(f"--file={file}", "-k", "-o", "json").splitlines()[0])
    assert (record["MESSAGE"], record["PRIORITY"], record["_TRANSPORT"]) == (xid, "3", "kernel")


@pytest.mark.parametrize("make", hosts.ALL, ids=lambda make: make.__name__)
def test_every_host_root_has_its_kernel_and_its_cards(tmp_path: Path, make: hosts.Maker) -> None:
    tree = make(tmp_path)
    assert (tmp_path / "proc/sys/kernel/osrelease").read_text().strip() == tree.kernel
    assert (tmp_path / f"lib/modules/{tree.kernel}").is_dir()
    found = {entry.name for entry in tree.pci.devices.iterdir()}
    expected = set() if make is hosts.no_card else {card.bdf for card in CARDS}
    assert expected <= found
    assert all(link.exists() for link in tree.pci.devices.iterdir())


@pytest.mark.real("dkms", "root", "unshare")
def test_genuine_dkms_agrees_with_the_written_trees(tmp_path: Path) -> None:
    states = {"added": "added", "built": "built", "installed": "installed", "failed": "added"}
    for state, shown in states.items():
        tree = hosts.card_no_driver(tmp_path / state)
        tree.add_dkms("535.183.01", tree.kernel, state)
        binds: dict[str | Path, str | Path] = {
            tmp_path / state / name: f"/{name}" for name in ("var/lib/dkms", "usr/src", "lib/modules")
        }
        done = namespace.run(["dkms", "status"], binds, env=uname_shim.environment(tree.kernel))
        assert done.stdout.strip().endswith(f": {shown}"), (state, done.stdout, done.stderr)
