"""NCCL_DEBUG logs of several releases and PyTorch's watchdog lines: ranks, ways, refusals; and variables against the machine."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Cuda, Facts, Gpu, Nccl, Network, RdmaPort
from gpudoctor.probes.derive_launch import nccl_settings
from gpudoctor.probes.nccl_names import parse_names
from gpudoctor.probes.nccl_torch import of_watchdog
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import CommandAnswer, Status
from tests.probes.machine import machine

LOG_2_21 = """\
gpu-a:811:811 [0] NCCL INFO Bootstrap : Using eth0:10.0.4.17<0>
NCCL version 2.21.5+cuda12.4
gpu-a:811:847 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.4.17<0>
gpu-a:811:847 [0] NCCL INFO Using network IB
gpu-a:811:847 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6d - Init START
gpu-a:811:847 [0] NCCL INFO NVLS multicast support is not available on dev 0
gpu-a:811:847 [0] NCCL INFO comm 0x55d0 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
gpu-a:811:847 [0] NCCL INFO Channel 00/04 :    0   1   2   3
gpu-a:811:847 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-a:811:847 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA
gpu-a:811:847 [0] NCCL INFO 4 coll channels, 0 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer
gpu-a:811:847 [0] NCCL INFO ncclCommInitRank comm 0x55d0 rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6d - Init COMPLETE
"""
LOG_2_8 = """\
h1:90:112 [0] NCCL INFO NET/Socket : Using [0]eth0:10.1.2.9<0> [1]docker0:172.17.0.1<0>
h1:90:112 [0] NCCL INFO Using network Socket
NCCL version 2.8.4+cuda11.1
h1:90:131 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[1c000] via direct shared memory
h1:90:131 [0] NCCL INFO Channel 00 : 1[1c000] -> 0[1b000] via SHM/direct
h1:90:131 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress this message with NCCL_IGNORE_DISABLED_P2P=1.
h1:90:131 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
"""


def nccl_of(text: str) -> Nccl:
    facts, runs = run_probes(open_text(text))
    assert [run.name for run in runs if run.state == "crashed"] == []
    assert facts.nccl is not None
    return facts.nccl


def test_a_log_names_ways_ranks_and_cards() -> None:
    nccl = nccl_of(LOG_2_21)
    assert (nccl.version, nccl.network, nccl.rank_count, nccl.node_count) == ("2.21.5+cuda12.4", "IB", 4, 2)
    assert (nccl.hcas, nccl.channels, nccl.nvls_available) == (["mlx5_0:1", "mlx5_1:1"], 4, False)
    assert [(pair.a, pair.b, pair.transport) for pair in nccl.pairs or []] == [
        (0, 1, "P2P/CUMEM/read"),
        (1, 2, "NET/IB/0/GDRDMA"),
    ]
    assert nccl.gpu_direct_rdma is True
    assert (nccl.ranks_ready, nccl.ranks_absent) == ([0], None)


def test_an_old_log() -> None:
    nccl = nccl_of(LOG_2_8)
    assert (nccl.network, nccl.p2p_refused, nccl.env) == ("Socket", ["1-0"], {"NCCL_IB_DISABLE": "1"})
    assert nccl.interfaces == ["eth0", "docker0"]
    assert [(pair.a, pair.b, pair.transport) for pair in nccl.pairs or []] == [(1, 0, "SHM/direct")]
    assert nccl.left_over == ["NCCL_IB_DISABLE=1"]


@pytest.mark.parametrize(
    ("lines", "direct"),
    [
        ("via NET/IB/1", False),
        ("via NET/IB/1/Shared", False),
        ("via NET/IB/1\nh1:9:11 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/0/GDRDMA", True),
        ("via NET/Socket/0", None),
        (
            "via NET/Socket/0\nh1:9:11 [0] NCCL INFO NET : GPU Direct RDMA (nvidia-peermem) enabled for HCA 0 'mlx5_0'",
            True,
        ),
    ],
)
def test_channels_over_ib_tell_whether_the_cards_read_gpu_memory(lines: str, direct: bool | None) -> None:
    assert nccl_of(f"h1:9:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] {lines}\n").gpu_direct_rdma is direct


def started(*ranks: int, of: int) -> str:
    return "".join(
        f"n{rank}:1:2 [0] NCCL INFO comm 0x5{rank} rank {rank} nranks {of} cudaDev 0 busId 1b000 commId 0x77 - Init START\n"
        for rank in ranks
    )


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        (started(0, 1, 3, of=4), [2]),
        (started(0, 1, 2, 3, of=4), None),
        (started(0, of=8), None),  # one rank's log
        (started(0, 1, 3, of=4).replace("START", "COMPLETE"), None),
    ],
)
def test_ranks_that_never_came(text: str, absent: list[int] | None) -> None:
    assert nccl_of(text).ranks_absent == absent


@pytest.mark.parametrize(
    "text", ["", "NCCL INFO", "NCCL INFO comm rank nranks - Init START", "\x00NCCL version 2.\x1b[0m", LOG_2_21[:400]]
)
def test_damaged_logs_crash_nothing(text: str) -> None:
    _, runs = run_probes(open_text(text))
    assert [run.name for run in runs if run.state == "crashed"] == []


def watched(text: str) -> Nccl:
    found = of_watchdog([CommandAnswer(argv=("log",), status=Status.OK, stdout=text)])
    return Nccl(**found)


TIMEOUT = (
    "[rank{0}]:[E ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, "
    "OpType=ALLREDUCE, NumelIn=64, NumelOut=64, Timeout(ms)=600000) ran for 600011 milliseconds before timing out.\n"
)
PROGRESS = (
    "[PG ID 0 PG GUID 0(default_pg) Rank {0}] timeout at work: 9, last enqueued work: {1}, last completed work: {2}\n"
)


def test_the_rank_that_enqueued_less_is_behind() -> None:
    nccl = watched(TIMEOUT.format(0, 412) + PROGRESS.format(0, 414, 411) + PROGRESS.format(3, 411, 411))
    assert nccl.ranks_behind == [3]
    assert nccl.works is not None
    assert (nccl.works[0].sequence, nccl.works[0].operation, nccl.works[0].last_enqueued) == (412, "ALLREDUCE", 414)


def test_groups_are_not_mixed() -> None:
    other = "[PG ID 4 PG GUID 4(tp_pg) Rank 3] timeout, last enqueued work: 2, last completed work: 2\n"
    named = TIMEOUT.replace("[Rank {0}]", "[PG ID 0 PG GUID 0(default_pg) Rank {0}]")
    assert watched(named.format(0, 412) + other).ranks_behind is None


def test_all_ranks_in_the_same_collective() -> None:
    nccl = watched("".join(TIMEOUT.format(rank, 88) for rank in range(4)))
    assert (nccl.ranks_behind, nccl.all_at_same_work) == (None, True)
    assert watched("".join(TIMEOUT.format(rank, 88) for rank in (0, 5))).all_at_same_work is None


@pytest.mark.parametrize(
    ("text", "behind"),
    [
        ("Not all ranks joining collective 5 at entry 4\nmissing ranks: {1}\n", [1]),
        ("Not all ranks joining collective, sequence number: 7\nmissing ranks: {2, 11}\n", [2, 11]),
        ("Missing ranks are {3}", [3]),
        ("\t - To our best knowledge, ranks [4, 6] are the lagging ranks that caused this timeout.", [4, 6]),
        ("\t     [2] finished collective #9, but didn't join collective #10 (count from 1)", [2]),
    ],
)
def test_reports_that_name_the_ranks(text: str, behind: list[int]) -> None:
    assert watched(text).ranks_behind == behind


def test_what_ranks_called_differently() -> None:
    nccl = watched(
        "error msg: Error type: COLLECTIVE_TYPE_MISMATCH, Detail finding: Expected all_reduce, found broadcast"
    )
    assert nccl.mismatches == ["collective type mismatch (Expected all_reduce, found broadcast)"]
    assert watched("Error type: COLLECTIVE_STATE_MISMATCH, Detail finding: started").mismatches is None


@pytest.mark.parametrize(
    "text", ["", "WorkNCCL(SeqNum=", TIMEOUT[:60], "[Rank 1] last enqueued work: x", "missing ranks: {}"]
)
def test_damaged_watchdog_lines_say_nothing(text: str) -> None:
    assert watched(text).works is None
    assert watched(text).ranks_behind is None


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("", ["eth0", "eth10", "ib0", "docker0"]),
        ("eth", ["eth0", "eth10"]),
        ("=eth0", ["eth0"]),
        ("=eth0,ib0", ["eth0", "ib0"]),
        ("^docker,ib", ["eth0", "eth10"]),
        ("^=eth0", ["eth10", "ib0", "docker0"]),
        ("enp", []),
        (" eth0 , ib ", ["eth0", "ib0"]),
    ],
)
def test_lists_of_names(text: str, taken: list[str]) -> None:
    names = parse_names(text)
    assert [name for name in ("eth0", "eth10", "ib0", "docker0") if names.selects(name)] == taken


def test_a_port_may_be_named() -> None:
    names = parse_names("=mlx5_0:1,mlx5_1")
    assert names.selects("mlx5_0", 1)
    assert not names.selects("mlx5_0", 2)
    assert names.selects("mlx5_1", 2)


def settled(env: dict[str, str], **groups: object) -> Nccl:
    facts = nccl_settings(Facts(cuda=Cuda(env=env, visible_devices=env.get("CUDA_VISIBLE_DEVICES")), **groups))  # type: ignore[arg-type]
    assert facts.nccl is not None
    return facts.nccl


NETWORK = Network(
    interfaces=["lo", "eth0", "ib0"],
    rdma_ports=[RdmaPort(device="mlx5_0", port=1, state="Active"), RdmaPort(device="mlx5_10", port=1, state="Down")],
)


def test_settings_are_held_against_interfaces_and_cards() -> None:
    nccl = settled({"NCCL_SOCKET_IFNAME": "=bond0", "NCCL_IB_HCA": "mlx5_1,ibs9"}, network=NETWORK)
    assert nccl.interfaces_selected == []
    assert (nccl.hcas_selected, nccl.hcas_unmatched, nccl.hcas_down) == (["mlx5_10:1"], ["ibs9"], [])
    named = settled({"NCCL_IB_HCA": "mlx5_10"}, network=NETWORK)
    assert named.hcas_down == ["mlx5_10:1"]
    unset = settled({}, network=NETWORK)
    assert (unset.interfaces_selected, unset.hcas_unmatched, unset.left_over) == (["lo", "eth0", "ib0"], [], [])


def test_switching_off_what_is_not_there_is_no_left_over() -> None:
    assert settled({"NCCL_IB_DISABLE": "1"}, network=NETWORK).left_over == ["NCCL_IB_DISABLE=1"]
    assert settled({"NCCL_IB_DISABLE": "1"}, network=Network(rdma_ports=[])).left_over == []
    assert settled({"NCCL_P2P_DISABLE": "0", "NCCL_ALGO": ""}).left_over == []


@pytest.mark.parametrize(
    ("env", "problems"),
    [
        ({}, []),
        ({"RANK": "8", "WORLD_SIZE": "8", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}, ["rank_beyond_world_size"]),
        ({"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "4"}, ["local_rank_beyond_gpus"]),
        ({"LOCAL_WORLD_SIZE": "4"}, ["more_processes_than_gpus"]),
        ({"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "3"}, []),  # one GPU a process: every rank uses device 0
        ({"LOCAL_RANK": "-1"}, []),
        ({"WORLD_SIZE": "two"}, ["world_size_not_a_number"]),
        ({"RANK": "0", "WORLD_SIZE": "2"}, ["missing_master_addr_and_master_port"]),
        (
            {"MASTER_ADDR": "127.0.0.1", "WORLD_SIZE": "16", "LOCAL_WORLD_SIZE": "8"},
            ["more_processes_than_gpus", "master_is_loopback"],
        ),
        ({"MASTER_ADDR": "localhost", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, []),
        ({"MASTER_PORT": "99999"}, ["master_port_out_of_range"]),
    ],
)
def test_launch_variables(env: dict[str, str], problems: list[str]) -> None:
    nccl = settled(env, gpus=[Gpu(index=0), Gpu(index=1)])
    assert nccl.launch is not None
    assert nccl.launch.problems == problems


def test_files_of_nccl_are_read() -> None:
    source = machine(
        {
            "/etc/nccl.conf": "# site\nNCCL_SOCKET_IFNAME=eth0\nNCCL_P2P_DISABLE=1\nnonsense\n",
            "/home/u/.nccl.conf": "NCCL_SOCKET_IFNAME=ib0\nPATH=/x\n",
        },
        environment={"HOME": "/home/u", "NCCL_P2P_DISABLE": "0"},
    )
    facts, _ = run_probes(source)
    assert facts.nccl is not None
    assert facts.nccl.config_files == {"NCCL_SOCKET_IFNAME": "ib0", "NCCL_P2P_DISABLE": "1"}
    assert facts.nccl.settings == {"NCCL_P2P_DISABLE": "0", "NCCL_SOCKET_IFNAME": "ib0"}
    assert facts.nccl.left_over == []
