"""P2P matrices, RDMA ports of sysfs, and what is derived of links, bridges and cards."""

from __future__ import annotations

import msgspec
import pytest

from gpudoctor.facts import Facts, Gpu, GpuProcess, NvLink, Pci, PciDevice, Topology, TopologyLink
from gpudoctor.probes.derive_topology import (
    acs_above_gpus,
    cpu_list,
    links_by_nvml,
    nvlink_counts,
    processes_far_from_gpus,
)
from gpudoctor.probes.nvml_pairs import topology_of
from gpudoctor.probes.run import run_probes
from gpudoctor.probes.topology import parse_p2p, parse_topology
from gpudoctor.sources import open_text
from tests.probes.machine import machine

# as nvidia-smi 470 to 550 print it
MATRIX = (
    " \t\x1b[4mGPU0\tGPU1\tGPU2\t\x1b[0m\n GPU0\tX\tGNS\tOK\t\n GPU1\tGNS\tX\tDR\t\n GPU2\tOK\tDR\tX\t\n\n"
    "Legend:\n\n  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n  GNS  = GPU not supported\n"
)
PASTED = "        GPU0  GPU1\nGPU0    X     OK\nGPU1    NS    X\n"


def kinds(links: list[TopologyLink] | None) -> dict[str, str]:
    return {f"{link.a}-{link.b}": link.kind for link in links or []}


def test_a_p2p_matrix() -> None:
    assert kinds(parse_p2p(MATRIX)) == {"GPU0-GPU1": "GNS", "GPU0-GPU2": "OK", "GPU1-GPU2": "DR"}


def test_of_two_words_for_a_pair_the_worse_counts() -> None:
    assert kinds(parse_p2p(PASTED)) == {"GPU0-GPU1": "NS"}


@pytest.mark.parametrize("text", ["", "GPU0", "GPU0 X", "GPU0\tX\tNV18\nGPU1\tNV18\tX", "\x00GPU0 X OK"])
def test_other_text_is_no_p2p_matrix(text: str) -> None:
    assert parse_p2p(text) == []


def test_a_p2p_matrix_is_no_topology() -> None:
    assert parse_topology(PASTED) is None
    facts, _ = run_probes(open_text(PASTED))
    assert facts.topology is not None
    assert facts.topology.links is None
    assert kinds(facts.topology.p2p_read) == {"GPU0-GPU1": "NS"}


def test_the_command_tells_what_was_asked_for() -> None:
    facts, _ = run_probes(open_text("$ nvidia-smi topo -p2p w\n" + MATRIX + "$ nvidia-smi topo -p2p n\n" + PASTED))
    assert facts.topology is not None
    assert kinds(facts.topology.p2p_write)["GPU1-GPU2"] == "DR"
    assert kinds(facts.topology.p2p_nvlink) == {"GPU0-GPU1": "NS"}
    assert facts.topology.p2p_read is None


def test_pairs_of_the_worker() -> None:
    entries = [
        {"a": 0, "b": 1, "ancestor": "SYS", "read": "OK", "nvlink": "OK"},
        {"a": 0, "b": 2, "read": "TNS"},
        {"a": "x"},
        None,
        7,
    ]
    topology = topology_of(entries)
    assert topology is not None
    assert kinds(topology.ancestors) == {"GPU0-GPU1": "SYS"}
    assert kinds(topology.p2p_read) == {"GPU0-GPU1": "OK", "GPU0-GPU2": "TNS"}
    assert topology_of([]) is None


def gpu(
    index: int, *ends: tuple[str, str | None], device_id: str | None = "10de:2330", bdf: str = "0000:0{}:00.0"
) -> Gpu:
    links = [NvLink(link=n, active=True, remote_kind=kind, remote=remote) for n, (kind, remote) in enumerate(ends)]
    return Gpu(index=index, device_id=device_id, bdf=bdf.format(index + 1), nvlinks=links)


def test_links_are_counted_against_the_model() -> None:
    whole = gpu(0, *[("switch", None)] * 18)
    down = [NvLink(link=link, active=False) for link in (16, 17)]
    degraded = msgspec.structs.replace(whole, nvlinks=[*(whole.nvlinks or [])[:16], *down])
    cut_short = gpu(1, *[("switch", None)] * 4)  # of a pasted list: what is not shown is not known to be down
    card, unknown = gpu(2, device_id="10de:20f1"), gpu(3, device_id=None)
    facts = nvlink_counts(Facts(gpus=[degraded, cut_short, card, unknown]))
    assert facts.gpus is not None
    counts = [(one.nvlinks_active, one.nvlinks_expected) for one in facts.gpus]
    assert counts == [(16, 18), (None, 18), (None, 0), (None, None)]


def test_the_matrix_of_nvml_stands_in_for_nvidia_smi() -> None:
    switched = [gpu(n, *[("switch", f"0000:c{k}:00.0") for k in range(4)]) for n in range(2)]
    topology = topology_of([{"a": 0, "b": 1, "ancestor": "NODE", "nvlink": "OK", "read": "OK"}])
    done = links_by_nvml(Facts(gpus=switched, topology=topology))
    assert done.topology is not None
    assert kinds(done.topology.links) == {"GPU0-GPU1": "NV4"}
    direct = [gpu(0, ("gpu", "0000:02:00.0"), ("gpu", "0000:09:00.0")), gpu(1, ("gpu", "0000:01:00.0"))]
    done = links_by_nvml(Facts(gpus=direct, topology=topology))
    assert done.topology is not None
    assert kinds(done.topology.links) == {"GPU0-GPU1": "NV1"}


def test_nvlinks_that_cannot_be_counted_leave_the_matrix_unknown() -> None:
    topology = topology_of([{"a": 0, "b": 1, "ancestor": "NODE", "nvlink": "OK"}])
    done = links_by_nvml(Facts(gpus=[gpu(0), gpu(1)], topology=topology))
    assert done.topology is not None
    assert done.topology.links is None
    known = Topology(links=[TopologyLink(a="GPU0", b="GPU1", kind="NV2")])
    assert links_by_nvml(Facts(topology=known)).topology == known


def test_acs_counts_on_switch_ports_only() -> None:
    paths = [["0000:42:04.0", "0000:41:00.0", "0000:40:01.1"], ["0000:42:08.0", "0000:41:00.0", "0000:40:01.1"]]
    devices = [PciDevice(bdf=f"0000:4{n}:00.0", upstream_bdfs=path) for n, path in enumerate(paths)]
    pci = Pci(nvidia_devices=devices, acs_enabled_bridges=["0000:42:04.0", "0000:40:01.1", "0000:80:01.1"])
    done = acs_above_gpus(Facts(pci=pci))
    assert done.pci is not None
    assert done.pci.acs_on_gpu_path == ["0000:42:04.0"]
    assert acs_above_gpus(Facts(pci=Pci(acs_enabled_bridges=[]))).pci == Pci(acs_enabled_bridges=[])


IB = "/sys/class/infiniband/mlx5_0"
PORT = f"{IB}/ports/1"
FILES = {
    f"{IB}/fw_ver": "28.39.2048\n",
    f"{IB}/hca_type": "MT4129\n",
    f"{IB}/device/uevent": "DRIVER=mlx5_core\nPCI_CLASS=20700\nPCI_SLOT_NAME=0000:1a:00.0\nMODALIAS=pci:v1\n",
    f"{IB}/device/numa_node": "1\n",
    f"{IB}/device/net/ibp26s0/operstate": "up\n",
    f"{PORT}/state": "4: ACTIVE\n",
    f"{PORT}/phys_state": "5: LinkUp\n",
    f"{PORT}/rate": "400 Gb/sec (4X NDR)\n",
    f"{PORT}/link_layer": "InfiniBand\n",
    f"{PORT}/counters/symbol_error": "48211\n",
    f"{PORT}/counters/port_rcv_errors": "0\n",
    f"{PORT}/counters/link_downed": "not a number\n",
}


def test_a_port_of_sysfs() -> None:
    facts, _ = run_probes(machine(FILES, dirs=("/dev/infiniband",)))
    assert facts.network is not None
    assert facts.network.rdma_device_nodes == []
    (port,) = facts.network.rdma_ports or []
    assert (port.state, port.physical_state, port.rate_gbps) == ("Active", "LinkUp", 400.0)
    assert (port.bdf, port.driver, port.numa_node, port.interfaces) == ("0000:1a:00.0", "mlx5_core", 1, ["ibp26s0"])
    assert port.errors == {"symbol_error": 48211, "port_rcv_errors": 0}


def test_efa_and_damaged_files() -> None:
    efa = "/sys/class/infiniband/rdmap16s27"
    files = {
        f"{efa}/device/uevent": "DRIVER=efa\ngarbage\n\x00=",
        f"{efa}/device/numa_node": "-1\n",
        f"{efa}/ports/1/state": "4: ACTIVE\n",
        f"{efa}/ports/1/link_layer": "Unspecified\n",
        f"{efa}/ports/1/rate": "\n",
    }
    facts, runs = run_probes(machine(files))
    assert [run.name for run in runs if run.state == "crashed"] == []
    assert facts.network is not None
    (port,) = facts.network.rdma_ports or []
    assert (port.driver, port.numa_node, port.rate_gbps, port.errors) == ("efa", None, None, None)


def test_no_card() -> None:
    facts, _ = run_probes(machine({"/proc/version": "Linux version 6.8"}))
    assert facts.network is not None
    assert (facts.network.rdma_ports, facts.network.rdma_device_nodes) == ([], None)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (
            "$ ip -br addr\nlo UNKNOWN 127.0.0.1/8\neth0@if12 UP 10.1.0.7/24\nbond0.100 DOWN\n",
            ["lo", "eth0", "bond0.100"],
        ),
        ("$ ip addr\n1: lo: <LOOPBACK,UP> mtu 65536\n2: ens1f0@if3: <UP> mtu 1500\n", ["lo", "ens1f0"]),
        ("$ ip -br addr | grep eth\neth0 UP 10.1.0.7/24\n", None),
    ],
)
def test_interfaces(text: str, names: list[str] | None) -> None:
    facts, _ = run_probes(open_text(text))
    assert (facts.network.interfaces if facts.network else None) == names


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        (
            "[    0.41] iommu: Default domain type: Translated\n[    0.41] iommu: DMA domain TLB invalidation policy: lazy mode",
            "translated",
        ),
        ("[    0.4] iommu: Default domain type: Passthrough (set via kernel command line)", "passthrough"),
        (
            "$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz-6.8.0-51-generic root=UUID=1 ro amd_iommu=on iommu=pt quiet",
            "passthrough",
        ),
        ("[    0.0] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 intel_iommu=off", "off"),
        ("$ cat /proc/cmdline\nBOOT_IMAGE=/vmlinuz-6.8.0 root=UUID=1 ro intel_iommu=on,sm_on", None),
        ("iommu? no idea", None),
    ],
)
def test_the_iommu_of_a_log(text: str, mode: str | None) -> None:
    facts, runs = run_probes(open_text(text))
    assert [run.name for run in runs if run.state == "crashed"] == []
    assert (facts.pci.iommu_mode if facts.pci else None) == mode


@pytest.mark.parametrize(
    ("allowed", "far"), [("0-15", True), ("0-95", False), ("64,200", False), (None, None), ("x-9", None)]
)
def test_a_process_on_the_other_socket(allowed: str | None, far: bool | None) -> None:
    process = GpuProcess(pid=7, cpus_allowed=allowed)
    pci = Pci(nvidia_devices=[PciDevice(bdf="0000:81:00.0", numa_node=1)], numa_cpus={"1": "64-127,192-255"})
    done = processes_far_from_gpus(Facts(pci=pci, gpus=[Gpu(index=0, bdf="0000:81:00.0", processes=[process])]))
    assert done.gpus is not None
    assert [p.far_from_gpu for p in done.gpus[0].processes or []] == [far]


def test_lists_of_cpus() -> None:
    assert cpu_list("0-3,8") == {0, 1, 2, 3, 8}
    assert cpu_list("") == cpu_list("a-b") == cpu_list("0-99999999999") == set()
