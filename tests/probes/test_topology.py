"""`nvidia-smi topo -m` and `nvidia-smi nvlink` in the layouts of several drivers."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Topology
from gpudoctor.probes import topology
from gpudoctor.probes.nvlink import parse_nvlink
from gpudoctor.probes.topology import parse_topology
from gpudoctor.sources.answers import CommandAnswer, StatAnswer, Status
from gpudoctor.sources.requests import NVIDIA_SMI_TOPO
from gpudoctor.sources.stored import StoredSource, filled

LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks
"""
NEW = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPXB\tSYS\t0-47,96-143\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tPIX\t48-95\t1\t\tN/A\n"
    "NIC0\tPXB\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tPIX\tSYS\t X \t\t\t\t\n" + LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_bond_0\n"
)
OLD = (
    "\tGPU0\tGPU1\tmlx5_0\tCPU Affinity\n"
    "GPU0\t X \tPHB\tPIX\t0-9,20-29\n"
    "GPU1\tPHB\t X \tSOC\t0-9,20-29\n"
    "mlx5_0\tPIX\tSOC\t X \t\n" + LEGEND
)
PASTED = """\
        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      SYS     0,2,4,6         0               N/A
GPU1    SYS      X      1,3,5,7         1               N/A
"""


def links(found: Topology | None) -> list[tuple[str, str, str]]:
    assert found is not None
    return [(link.a, link.b, link.kind) for link in found.links or []]


def test_today() -> None:
    found = parse_topology(NEW)
    assert found is not None
    assert (found.gpus, found.nics) == (["GPU0", "GPU1"], ["NIC0", "NIC1"])
    assert found.nic_names == {"NIC0": "mlx5_0", "NIC1": "mlx5_bond_0"}
    assert links(found) == [
        ("GPU0", "GPU1", "NV18"),
        ("GPU0", "NIC0", "PXB"),
        ("GPU0", "NIC1", "SYS"),
        ("GPU1", "NIC0", "SYS"),
        ("GPU1", "NIC1", "PIX"),
        ("NIC0", "NIC1", "SYS"),
    ]
    assert found.cpu_affinity == {"GPU0": "0-47,96-143", "GPU1": "48-95"}
    assert found.numa_affinity == {"GPU0": "0", "GPU1": "1"}
    assert found.evidence["GPU1"].line == 3


def test_nics_under_their_own_names() -> None:
    found = parse_topology(OLD)
    assert found is not None
    assert (found.gpus, found.nics, found.nic_names) == (["GPU0", "GPU1"], ["mlx5_0"], None)
    assert links(found) == [("GPU0", "GPU1", "PHB"), ("GPU0", "mlx5_0", "PIX"), ("GPU1", "mlx5_0", "SOC")]


def test_copied_from_a_terminal() -> None:
    found = parse_topology("$ nvidia-smi topo -m\n" + PASTED)
    assert links(found) == [("GPU0", "GPU1", "SYS")]
    assert found is not None
    assert found.cpu_affinity == {"GPU0": "0,2,4,6", "GPU1": "1,3,5,7"}


def test_rows_without_their_head() -> None:
    found = parse_topology("GPU0     X      NODE    0-63            0\nGPU1    NODE     X      0-63            0\n")
    assert links(found) == [("GPU0", "GPU1", "NODE")]


def test_an_empty_column_in_a_terminal_copy_is_not_guessed() -> None:
    found = parse_topology(PASTED.replace("1,3,5,7         1 ", "                1 "))
    assert found is not None
    assert found.cpu_affinity == {"GPU0": "0,2,4,6"}
    assert found.numa_affinity == {"GPU0": "0"}


def test_a_missing_row_leaves_what_the_others_tell() -> None:
    found = parse_topology(NEW.split("NIC0\tPXB")[0])
    assert ("GPU0", "NIC0", "PXB") in links(found)
    assert ("NIC0", "NIC1", "SYS") not in links(found)


@pytest.mark.parametrize("text", ["", "GPU0", "\tGPU0\tGPU1\n", LEGEND, "GPU0: NVIDIA L4\n", "\x00\x1b[4m"])
def test_no_matrix(text: str) -> None:
    assert parse_topology(text) is None


def test_cut_anywhere() -> None:
    whole = links(parse_topology(NEW))
    for end in range(0, len(NEW), 5):
        part = parse_topology(NEW[:end])
        assert part is None or len(set(links(part)) - set(whole)) <= 1


def test_live_without_driver_nothing_is_asked() -> None:
    told = CommandAnswer(argv=NVIDIA_SMI_TOPO, status=Status.OK, stdout=NEW)
    absent = StatAnswer(path="/proc/driver/nvidia/version", status=Status.NOT_FOUND)
    assert topology.probe(StoredSource("live", "test", filled([told, absent]), now=0.0)) is None
    found = topology.probe(StoredSource("recording", "test", filled([told, absent]), now=0.0))
    assert found is not None


# --- links -----------------------------------------------------------------------------------------------------------

LINKS = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-aaaa)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-bbbb)
\t Link 0: 26.562 GB/s
"""


def test_link_states() -> None:
    gpus = parse_nvlink(LINKS) or []
    assert [(gpu.index, gpu.uuid) for gpu in gpus] == [(0, "GPU-aaaa"), (1, "GPU-bbbb")]
    first = gpus[0].nvlinks or []
    assert [(link.link, link.active, link.speed_gbps) for link in first] == [(0, True, 25.0), (1, False, None)]
    assert first[1].evidence[""].line == 3


def test_link_errors() -> None:
    text = """GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)
         Link 0: Replay Errors: 4
         Link 0: Recovery Errors: 0
         Link 0: CRC Errors: 17
"""
    link = ((parse_nvlink(text) or [])[0].nvlinks or [])[0]
    assert (link.replay_errors, link.recovery_errors, link.crc_errors, link.active) == (4, 0, 17, None)


@pytest.mark.parametrize("text", ["", "GPU 0: NVIDIA L4 (UUID: GPU-a)\n", "Link\n", "\x00"])
def test_no_links(text: str) -> None:
    assert parse_nvlink(text) is None
