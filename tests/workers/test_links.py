"""What the workers of links decide without a GPU: ranks, sizes, order, factors, NUMA nodes, and what is wrong with data."""

from __future__ import annotations

import ctypes
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.workers import bench_pcie, host_memory, link_patterns, nccl_library, nccl_plan, nccl_programs, numa
from gpudoctor.workers.cuda_errors import WorkerError
from gpudoctor.workers.peer_links import pair_order
from gpudoctor.workers.ranks import RankError, Ranks, first_host, ranks_of, tasks_on_node
from gpudoctor.workers.team import Leader, Line, gather, join
from tests.testbed import cuda_on_cpu

MIB = 1 << 20
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none", "RANK": "9", "WORLD_SIZE": "16", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "8",
    "MASTER_ADDR": "node1", "MASTER_PORT": "29500", "TORCHELASTIC_USE_AGENT_STORE": "True",
}  # fmt: skip
SRUN = {
    "SLURM_JOB_ID": "123456", "SLURM_STEP_ID": "0", "SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_STEP_TASKS_PER_NODE": "4(x2)", "SLURM_STEP_NODELIST": "gpu[03-04]",
}  # fmt: skip
MPIRUN = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "3",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}  # fmt: skip

# --- ranks ---


def test_torchrun_gives_the_rank_and_keeps_its_own_port() -> None:
    ranks = ranks_of(TORCHRUN)
    assert ranks == Ranks(
        launcher="torchrun", rank=9, world=16, local_rank=1, local_world=8, master="node1", port=29501
    )
    older = {name: value for name, value in TORCHRUN.items() if name != "TORCHELASTIC_USE_AGENT_STORE"}
    found = ranks_of(older)
    assert found is not None
    assert found.port == 29500


def test_srun_gives_the_rank_and_the_first_host() -> None:
    ranks = ranks_of(SRUN)
    assert ranks is not None
    assert (ranks.launcher, ranks.rank, ranks.world, ranks.local_rank, ranks.local_world) == ("srun", 5, 8, 1, 4)
    assert ranks.master == "gpu03"
    assert 21000 <= ranks.port < 29000
    other_job = ranks_of({**SRUN, "SLURM_JOB_ID": "123457"})
    assert other_job is not None
    assert other_job.port != ranks.port


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "elsewhere"},  # an operator's, or a shell's
        {"SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"},  # a batch script
        {**SRUN, "SLURM_STEP_ID": "4294967290"},  # an interactive shell of salloc
        {**SRUN, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"},
    ],
)
def test_nobody_else_is_waited_for(environment: dict[str, str]) -> None:
    assert ranks_of(environment) is None


def test_plain_variables_count_when_asked_for() -> None:
    ranks = ranks_of({"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "a"}, plain=True)
    assert ranks is not None
    assert (ranks.rank, ranks.world, ranks.port) == (1, 2, 29500)


def test_mpirun_on_one_host_needs_no_address() -> None:
    ranks = ranks_of(MPIRUN)
    assert ranks is not None
    assert (ranks.launcher, ranks.rank, ranks.local_rank, ranks.master) == ("mpirun", 3, 3, "127.0.0.1")
    with pytest.raises(RankError, match="MASTER_ADDR"):
        ranks_of({**MPIRUN, "OMPI_COMM_WORLD_LOCAL_SIZE": "2"})
    hydra = ranks_of({"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALNRANKS": "1", "MASTER_ADDR": "a"})
    assert hydra is not None
    assert (hydra.launcher, hydra.local_world) == ("mpirun", 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [({"RANK": "16"}, "contradict"), ({"RANK": "x"}, "RANK is 'x'"), ({"MASTER_PORT": "99999"}, "not a TCP port")],
)
def test_wrong_variables_are_named(change: dict[str, str], words: str) -> None:
    with pytest.raises(RankError, match=words):
        ranks_of({**TORCHRUN, **change})


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("gpu[03-07,11],login1", "gpu03"),
        ("node1", "node1"),
        ("a,b[1-2]", "a"),
        ("r[1-2]n[05,7]-ib", "r1n05-ib"),
        ("", ""),
        ("x[", "x"),
    ],
)
def test_first_host(text: str, host: str) -> None:
    assert first_host(text) == host


def test_tasks_on_node() -> None:
    assert [tasks_on_node("8(x2),4", node) for node in range(4)] == [8, 8, 4, None]
    assert tasks_on_node("many", 0) is None


# --- what is measured, and in which order ---


@pytest.mark.parametrize("count", range(9))
def test_every_pair_comes_once_and_nobody_waits_long(count: int) -> None:
    pairs = pair_order(count)
    assert sorted(pairs) == [(a, b) for a in range(count) for b in range(a + 1, count)]
    first_round = pairs[: count // 2]
    assert len({gpu for pair in first_round for gpu in pair}) == count // 2 * 2


def test_bus_factors_are_those_of_nccl_tests() -> None:
    factors = {name: nccl_plan.bus_factor(name, 8) for name in nccl_plan.COLLECTIVES}
    assert factors == {
        "all_reduce": 1.75,
        "all_gather": 0.875,
        "reduce_scatter": 0.875,
        "broadcast": 1,
        "sendrecv": 1,
    }
    step = nccl_plan.step_for("all_gather", 1024 * MIB, 8)
    assert (step.count, step.size) == (32 * MIB, 1024 * MIB)
    assert nccl_plan.bus_bandwidth(step, 8, 0.001) == pytest.approx(0.875 * 1073.741824)
    with pytest.raises(ValueError, match="alltoall"):
        nccl_plan.bus_factor("alltoall", 8)


@pytest.mark.parametrize("ranks", [2, 3, 7, 8, 24])
def test_parts_of_ranks_are_whole_and_fit(ranks: int) -> None:
    for step in nccl_plan.plan(100 * MIB, ranks, quick=False):
        whole = step.count * (ranks if step.collective in ("all_gather", "reduce_scatter") else 1)
        assert whole * nccl_plan.ELEMENT == step.size <= 100 * MIB
        assert step.count % 4 == 0


def test_the_largest_sizes_come_first() -> None:
    plan = nccl_plan.plan(8192 * MIB, 8, quick=False)
    assert [step.collective for step in plan[:5]] == list(nccl_plan.COLLECTIVES)
    assert [step.size // MIB for step in plan[::5]] == [4096, 1024, 256, 64, 16, 4, 1]
    assert [step.size // MIB for step in nccl_plan.plan(300 * MIB, 8, quick=True)[::5]] == [300, 16]


def test_iterations_and_repeats() -> None:
    assert nccl_plan.iterations(0.01, 0.5) == 50
    assert nccl_plan.iterations(10, 0.5) == 1
    assert nccl_plan.iterations(0, 0.5) == 200
    assert nccl_plan.combined([[1.0, 2.0, 3.0], [3.0, 2.0, 5.0]]) == (2.0, 1.0)


def test_buffers_leave_room() -> None:
    assert 2 * nccl_plan.buffer_bytes(80 << 30) < 79 << 30
    assert nccl_plan.buffer_bytes(0) == MIB


# --- NUMA nodes and host memory ---


def machine(folder: Path, cpus: dict[int, str], distances: dict[int, str]) -> Path:
    for number, text in cpus.items():
        node = folder / f"node{number}"
        node.mkdir()
        (node / "cpulist").write_text(text + "\n")
        (node / "distance").write_text(distances[number] + "\n")
    return folder


def test_nodes_with_cpus_of_ours(tmp_path: Path) -> None:
    distances = {0: "10 21 32", 1: "21 10 32", 2: "32 32 10"}
    folder = machine(tmp_path, {0: "0-3,8", 1: "4-7", 2: ""}, distances)
    nodes = numa.nodes(folder, frozenset(range(8)))
    assert [(node.number, sorted(node.cpus)) for node in nodes] == [(0, [0, 1, 2, 3]), (1, [4, 5, 6, 7])]
    for near, far in ((0, 1), (1, 0), (2, 0)):
        found = numa.farthest(near, nodes)
        assert found is not None
        assert found.number == far
    nearest = numa.nearest(2, nodes)  # which has memory only
    assert nearest is not None
    assert nearest.number == 0
    assert numa.nodes(tmp_path / "nothing", frozenset({0})) == []
    one = numa.nodes(folder, frozenset({1}))
    assert [(node.number, sorted(node.cpus)) for node in one] == [(0, [1]), (1, [])]
    assert numa.farthest(0, one) is None


def test_a_thread_runs_on_a_node_for_a_while() -> None:
    before = os.sched_getaffinity(0)
    one = frozenset({min(before)})
    with numa.running_on(numa.Node(0, one, {})):
        assert os.sched_getaffinity(0) == one
    with numa.running_on(None):
        assert os.sched_getaffinity(0) == before


def test_places_to_copy_from() -> None:
    one, two = (
        numa.Node(number, frozenset({number}), {0: 10 + 11 * number, 1: 21 - 11 * number}) for number in (0, 1)
    )
    near, far = bench_pcie.Place(two), bench_pcie.Place(one, "_far")
    assert bench_pcie.places("b", [one], 0) == ([bench_pcie.Place(None)], None)
    assert bench_pcie.places("b", [one, two], 1) == ([near, far], None)
    bound = numa.Node(1, frozenset(), two.distances)  # to the other socket: no near figure can be had
    plan, why = bench_pcie.places("b", [one, bound], 1)
    assert plan == [far]
    assert why is not None
    assert "may not run on NUMA node 1" in why
    assert bench_pcie.places("b", [one, bound], 0) == ([bench_pcie.Place(one)], None)
    plan, why = bench_pcie.places("b", [one, two], None)
    assert plan == [bench_pcie.Place(None)]
    assert why is not None
    assert "does not say" in why


def test_sizes_fit_into_memory() -> None:
    sizes = bench_pcie.SIZES
    assert bench_pcie.sizes_for(sizes, 64 << 30, 16 << 30) == list(sizes)
    assert bench_pcie.sizes_for(sizes, 8 << 30, 16 << 30) == [64 * MIB, 256 * MIB]
    assert bench_pcie.sizes_for(sizes, 100 * MIB, 16 << 30) == [16 * MIB]
    assert bench_pcie.sizes_for(sizes, None, None) == list(sizes)


def test_memory_of_the_container_counts() -> None:
    assert host_memory.available_bytes("MemTotal: 9 kB\nMemAvailable:    1000 kB\n") == 1024000
    assert host_memory.available_bytes("MemAvailable: 1000 kB\n", "600000\n", "100000\n") == 500000
    assert host_memory.available_bytes("MemAvailable: 1000 kB\n", "max\n", "5\n") == 1024000
    assert host_memory.available_bytes("") is None


def test_differences_are_described() -> None:
    size = 64 << 10
    one, two = (ctypes.create_string_buffer(size) for _ in range(2))
    origin, target = ctypes.addressof(one), ctypes.addressof(two)
    host_memory.write_pattern(origin, size, 1)
    assert len(set(host_memory.words_at(origin, size).tolist())) == size // 4
    host_memory.poison(target, size)
    found = host_memory.difference(origin, target, size)
    assert found is not None
    assert found.describe() == "nothing arrived in 16384 of 16384 words, first at offset 0x0"
    ctypes.memmove(target, origin, size)
    assert host_memory.difference(origin, target, size) is None
    two[4098] = bytes([two.raw[4098] ^ 0x08])
    found = host_memory.difference(origin, target, size)
    assert found is not None
    assert (found.words, found.offset, found.bits) == (1, 0x1000, [19])
    ctypes.memset(target, 0, 8)
    ctypes.memmove(target + 4096, origin + 4096, 4)
    found = host_memory.difference(origin, target, size)
    assert found is not None
    assert found.describe().startswith("zeros arrived in 2 of 16384 words")


# --- patterns: Python, NumPy and the kernels agree ---


@pytest.mark.parametrize("start", [0, 12345, 2**32 - 5])
def test_numpy_writes_the_same_pattern(start: int) -> None:
    pytest.importorskip("numpy")
    assert link_patterns.words(start, 10, 7).tolist() == [link_patterns.mixed(start + i, 7) for i in range(10)]
    assert link_patterns.values(start, 10, 3).tolist() == [link_patterns.value(start + i, 3) for i in range(10)]


def test_kernels_write_and_check_the_same_pattern() -> None:
    numpy: Any = pytest.importorskip("numpy")
    kernels = cuda_on_cpu.kernels("links.cu")
    count, ranks, start = 5000, 6, 777
    words = numpy.zeros(count, numpy.uint32)
    kernels.launch("fill_words", 3, 32, words, count, 42)
    assert (words == link_patterns.words(0, count, 42)).all()
    values = numpy.zeros(count, numpy.float32)
    kernels.launch("fill_values", 3, 32, values, count, 5)
    assert (values == link_patterns.values(0, count, 5)).all()
    sums = sum(link_patterns.values(start, count, rank) for rank in range(ranks))
    part = link_patterns.values(start, count, 5)

    def check(name: str, content: Any, *arguments: int) -> list[int]:
        result = numpy.array([0, 2**64 - 1, 0], numpy.uint64)
        kernels.launch(name, 3, 32, content, count, *arguments, result)
        return [int(number) for number in result]

    checks = [("check_words", words, (42,)), ("check_values", part, (5, start)), ("check_sums", sums, (ranks, start))]
    for name, content, arguments in checks:
        assert check(name, content, *arguments) == [0, 2**64 - 1, 0]
        content[4000] += 1
        content[1234] = 0
        assert check(name, content, *arguments) == [2, 1234, 1]


# --- NCCL's words and nccl-tests' rows ---


def test_nccl_versions() -> None:
    assert nccl_library.version_text(23203) == "2.32.3"
    assert nccl_library.version_text(2708) == "2.7.8"
    assert nccl_library.comparable(2604) < nccl_library.OLDEST <= nccl_library.comparable(2708)


def test_last_words_of_nccl() -> None:
    log = (
        "n1:1:1 [0] NCCL INFO Bootstrap : Using eth0\n"
        "[2025-01-01 00:00:00] n1:1:1 [0] init.cc:1 NCCL WARN Cuda failure 'out of memory'\n"
        "n1:1:2 [1] misc/socket.cc:2 NCCL WARN connect failed\nn1:1:1 [0] x.cc:9 NCCL WARN Cuda failure 'out of memory'\n"
    )
    assert nccl_library.last_words(log) == ["connect failed", "Cuda failure 'out of memory'"]
    assert nccl_library.last_words("\0\xff") == []


def test_loopback_in_a_unique_id() -> None:
    loopback = bytes(8) + b"\x02\x00\xb1[" + socket.inet_aton("127.0.0.1") + bytes(112)
    assert nccl_library.loopback_in(loopback) == "127.0.0.1"
    assert nccl_library.loopback_in(loopback[:12] + socket.inet_aton("10.1.2.3") + bytes(112)) is None
    six = bytes(8) + b"\x0a\x00\xb1[\0\0\0\0" + socket.inet_pton(socket.AF_INET6, "::1") + bytes(96)
    assert nccl_library.loopback_in(six) == "::1"


@pytest.mark.parametrize(
    ("row", "busbw", "wrong"),
    [
        ("  1073741824     268435456     float     sum      -1   4137.5  259.51  454.15      0   4132.9  259.80  454.66      0", 454.15, 0),
        ("  1073741824     268435456     float     sum   4137.5  259.51  454.15  1e-06   4132.9  259.80  454.66  1e-06", 454.15, 0),
        ("     1048576         65536     float    none       1    53.90   19.45   17.02    N/A    53.91   19.45   17.02    N/A", 17.02, None),
        ("     1048576        262144     float               0    53.90   19.45   19.45      3    53.91   19.45   19.45      0", 19.45, 3),
    ],
)  # fmt: skip
def test_rows_of_nccl_tests(row: str, busbw: float, wrong: int | None) -> None:
    found = nccl_programs.parse_row(row)
    assert found is not None
    assert (found.busbw, found.wrong) == (busbw, wrong)


@pytest.mark.parametrize(
    "line", ["#  Rank  0 Group  0 Pid 1", "", "# Avg bus bandwidth    : 412.9", "1 2 3", "n1: Test NCCL failure"]
)
def test_other_lines_of_nccl_tests(line: str) -> None:
    assert nccl_programs.parse_row(line) is None


# --- processes that find each other ---


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def of_two(rank: int, port: int, world: int = 2) -> Ranks:
    return Ranks(launcher="test", rank=rank, world=world, local_rank=rank, master="127.0.0.1", port=port)


def test_processes_meet_and_go_together() -> None:
    port = free_port()
    seen: list[dict[str, Any]] = []

    def member() -> None:
        other = join(of_two(1, port), {"host": "n2"}, 10)
        while (order := other.next(10)).get("do") != "end":
            seen.append(order)
            other.answer(
                {"rank": 1} if order["do"] == "work" else {"error": "out of memory", "api": "cuda", "code": 2}
            )
        other.close()

    thread = threading.Thread(target=member)
    thread.start()
    leader = gather(of_two(0, port), 10)
    assert leader.others[0]["host"] == "n2"
    assert leader.all({"do": "work"}, lambda order: {"rank": 0}, 10) == [{"rank": 0}, {"rank": 1}]
    with pytest.raises(WorkerError, match="rank 1 on n2: out of memory") as caught:
        leader.all({"do": "fail"}, lambda order: {}, 10)
    assert (caught.value.line.api, caught.value.line.code) == ("cuda", 2)
    leader.end()
    thread.join(10)
    assert [order["do"] for order in seen] == ["work", "fail"]


def test_ranks_that_do_not_come_are_named_and_strangers_do_not_count() -> None:
    port = free_port()

    def stranger() -> None:
        for text in (b"GET / HTTP/1.1\r\n\r\n", b'{"hello": "gpudoctor-nccl-1", "rank": 77}\n'):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(text)

    thread = threading.Timer(0.2, stranger)
    thread.start()
    with pytest.raises(
        WorkerError, match=r"ranks 1, 2 of 3 did not come to port \d+ within 1 s; 1 came: only this one"
    ):
        gather(of_two(0, port, world=3), 0.7)
    thread.join()


def test_the_port_may_be_taken() -> None:
    with socket.create_server(("", 0)) as server:
        port = int(server.getsockname()[1])
        with pytest.raises(WorkerError, match="cannot listen on port") as caught:
            gather(of_two(0, port), 1)
    assert caught.value.line.name == "EADDRINUSE"


def test_a_process_that_ends_is_named() -> None:
    ours, theirs = socket.socketpair()
    leader = Leader([Line(ours)], [{"rank": 3, "host": "n4"}])
    theirs.close()
    with pytest.raises(WorkerError, match="rank 3 on n4 is gone"):
        leader.all({"do": "work"}, lambda order: {}, 1)
    leader.end()
    ours, theirs = socket.socketpair()
    leader = Leader([Line(ours)], [{"rank": 3, "host": "n4"}])
    with pytest.raises(WorkerError, match="rank 3 on n4 did not answer within 0 s"):
        leader.all({"do": "work"}, lambda order: {}, 0.2)
    leader.end()
    theirs.close()
