"""nccl-tests of several vintages, and the verdict against what such GPUs give."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Facts, NcclTest
from gpudoctor.probes.nccl_tests import parse_row, parse_tests, version_of
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import CommandAnswer, Status

HEAD = "# nThread 1 nGpus {ranks} minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 20 validation: 1\n"
DEVICE = "#  Rank {rank:2} Group  0 Pid   7{rank} on {host} device {rank:2} [0000:{bus:02x}:00] {name}\n"


def run_of(
    name: str, busbw: float, *, ranks: int = 8, size: int = 8 << 30, hosts: int = 1, operator: str = "sum"
) -> str:
    """The output of one run whose only row has this bus bandwidth."""
    devices = [
        DEVICE.format(rank=rank, host=f"n{rank * hosts // ranks}", bus=rank + 1, name=name) for rank in range(ranks)
    ]
    row = f"  {size}  {size // 4}  float  {operator}  -1  31411  {busbw / 1.75:.2f}  {busbw:.2f}  0  31402  273.55  {busbw:.2f}  0\n"
    name_line = "# Collective test starting: all_reduce_perf\n"
    return name_line + HEAD.format(ranks=ranks) + "".join(devices) + row + f"# Avg bus bandwidth    : {busbw}\n"


def facts_of(text: str) -> Facts:
    facts, runs = run_probes(open_text(text))
    assert [run.name for run in runs if run.state == "crashed"] == []
    return facts


def only_test(text: str) -> NcclTest:
    nccl = facts_of(text).nccl
    assert nccl is not None
    assert nccl.tests is not None
    assert len(nccl.tests) == 1
    return nccl.tests[0]


def parse(text: str) -> list[NcclTest]:
    return parse_tests(CommandAnswer(argv=("nccl-tests",), status=Status.OK, stdout=text))


@pytest.mark.parametrize(
    ("name", "busbw", "verdict", "low"),
    [
        ("NVIDIA H100 80GB HBM3", 478.6, "normal", 465),
        ("NVIDIA H100 80GB HBM3", 365.0, "ring", 360),
        ("NVIDIA H100 80GB HBM3", 41.0, "low", 360),
        ("NVIDIA A100-SXM4-40GB", 233.0, "normal", 230),
        ("A100-SXM4-80GB", 139.0, "low", 230),
        ("NVIDIA H200", 471.0, "normal", 470),
        ("NVIDIA B200", 836.0, "normal", 830),
        ("NVIDIA B200", 120.0, "low", 678),
        ("Tesla V100-SXM2-32GB", 128.0, "normal", 120),
        ("NVIDIA H20", 360.0, "ring", 360),
    ],
)
def test_eight_gpus_are_held_against_their_model(name: str, busbw: float, verdict: str, low: float) -> None:
    test = only_test(run_of(name, busbw))
    assert (test.verdict, test.expected_low_gbps) == (verdict, low)
    assert test.expectation_source
    assert test.best_busbw_gbps == busbw


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (run_of("NVIDIA H100 80GB HBM3", 3.0, size=1 << 20), "too small"),
        (run_of("NVIDIA L4", 9.0), "nothing is published"),
        (run_of("NVIDIA Graphics Device", 9.0), "nothing is published on the GPUs' model"),
        (run_of("NVIDIA A100 80GB PCIe", 24.0, ranks=2), "nothing is published"),
        (run_of("NVIDIA H100 80GB HBM3", 12.0, ranks=16, hosts=2), "network ports are not known"),
    ],
)
def test_what_is_not_known_is_not_judged(text: str, why: str) -> None:
    test = only_test(text)
    assert test.verdict is None
    assert why in (test.why_unjudged or "")


def test_messages_below_the_full_size_may_read_a_fifth_low() -> None:
    assert only_test(run_of("NVIDIA H100 80GB HBM3", 290.0, size=512 << 20)).verdict == "ring"
    assert only_test(run_of("NVIDIA H100 80GB HBM3", 250.0, size=512 << 20)).verdict == "low"


def test_a_log_that_says_nvls_makes_the_ring_too_little() -> None:
    log = "n0:1:1 [0] NCCL INFO Connected NVLS tree\n"
    assert only_test(log + run_of("NVIDIA H100 80GB HBM3", 365.0)).verdict == "low"
    off = "n0:1:1 [0] NCCL INFO NCCL_NVLS_ENABLE set by environment to 0.\n"
    assert only_test(off + run_of("NVIDIA H100 80GB HBM3", 365.0)).verdict == "normal"


def test_cards_are_judged_by_the_links_that_the_topology_shows() -> None:
    bridge = "$ nvidia-smi topo -m\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-15\nGPU1\tNV12\t X \t0-15\n$ ./all_reduce_perf\n"
    assert only_test(bridge + run_of("NVIDIA A100 80GB PCIe", 24.0, ranks=2)).verdict == "low"
    assert only_test(bridge + run_of("NVIDIA A100 80GB PCIe", 208.0, ranks=2)).verdict == "normal"


@pytest.mark.parametrize(("busbw", "verdict"), [(342.0, "normal"), (45.0, "low")])
def test_several_nodes_are_held_against_their_network_ports(busbw: float, verdict: str) -> None:
    ports = "".join(
        f"n0:1:1 [0] NCCL INFO NET/IB: [{n}] mlx5_{n}:uverbs{n}:1/IB provider=Mlx5 speed=400000 context=0x1\n"
        for n in range(8)
    )
    test = only_test(ports + run_of("NVIDIA H100 80GB HBM3", busbw, ranks=16, hosts=2))
    assert test.verdict == verdict
    assert test.expected_for == "2 nodes with 8 x 400 Gb/s each"


def test_the_collective_is_told_by_its_factor_where_nothing_names_it() -> None:
    rows = "   8589934592  2147483648  float  sum  64000  134.2  234.9  N/A  63900  134.4  235.2  N/A\n"
    scatter = "   8589934592  268435456  float  sum  32600  263.5  230.6  4e-07  32700  262.7  229.9  4e-07\n"
    gather = "   8589934592  268435456  float  32600  263.5  230.6  0e+00  32700  262.7  229.9  0e+00\n"
    devices = "".join(f"#   Rank {n} Pid 4 on n1 device {n} [0x0{n}] A100-SXM4-40GB\n" for n in range(8))
    assert parse(HEAD.format(ranks=8) + devices + rows)[0].collective == "allreduce"
    assert parse(HEAD.format(ranks=8) + devices + scatter)[0].collective == "reducescatter"
    assert parse(HEAD.format(ranks=8) + devices + gather)[0].collective is None
    alone = parse(HEAD.format(ranks=1) + rows)[0]
    assert (alone.collective, alone.ranks) == ("allreduce", 8)


def test_two_runs_in_one_text_stay_apart() -> None:
    first, second = parse(
        run_of("NVIDIA H200", 470.0) + run_of("NVIDIA H200", 12.0).replace("all_reduce_perf", "all_gather_perf")
    )
    assert (first.collective, first.avg_busbw_gbps) == ("allreduce", 470.0)
    assert (second.collective, second.avg_busbw_gbps) == ("allgather", 12.0)
    assert second.ranks == 8


def test_processes_that_know_nothing_of_each_other_are_told() -> None:
    text = (
        HEAD.format(ranks=1)
        + DEVICE.format(rank=0, host="n1", bus=1, name="NVIDIA H200") * 4
        + run_of("NVIDIA H200", 0.0)[80:]
    )
    assert parse(text)[-1].separate_runs is not None


@pytest.mark.parametrize(
    "line",
    [
        "",
        "  1048576  262144  float  sum",
        "  1048576  262144  float  sum  -1  105.9  9.90  17.33  0  105.7  9.92",
        "  abc  262144  float  sum  -1  105.9  9.90  17.33  0  105.7  9.92  17.37  0",
        "  1048576  262144  float  sum  -1  105.9  nan  17.33  0  105.7  9.92  17.37  0",
        "\x00\x1b[31m 1 2 3 4 5 6 7 8 9 10 11 12",
    ],
)
def test_damaged_rows_are_no_rows(line: str) -> None:
    assert parse_row(line) is None


@pytest.mark.parametrize("prefix", ["", "[1,0]<stdout>:", "[1,0]<stdout>: ", "0: ", "[0]: "])
def test_launchers_put_their_prefix_before_a_row(prefix: str) -> None:
    row = parse_row(prefix + "  1048576  262144  float  sum  -1  105.9  9.90  17.33  0  105.7  9.92  17.37  0")
    assert row is not None
    assert (row.size_bytes, row.busbw_gbps, row.errors) == (1048576, 17.33, 0)


def test_texts_without_a_test_give_none() -> None:
    for text in ("", "# nThread", "Avg bus bandwidth", "\x00" * 500, HEAD.format(ranks=8)):
        assert parse(text) == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NCCL version 2.21.5+cuda12.4", "2.21.5+cuda12.4"),
        ("# nccl-tests version 2.17.6 nccl-headers=22807 nccl-library=22807", "2.28.7"),
        ("nothing", None),
    ],
)
def test_versions(text: str, version: str | None) -> None:
    assert version_of(text) == version
