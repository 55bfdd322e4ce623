"""Reports of other tools that people bring: collect_env, pip list, nccl-tests, NCCL logs, ibstat, dcgmi."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Facts
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_text

COLLECT_ENV = """\
PyTorch version: 2.4.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
OS: Rocky Linux 9.4 (Blue Onyx) (x86_64)
Is CUDA available: False
GPU models and configuration:
GPU 0: NVIDIA L40S
GPU 1: NVIDIA L40S
Nvidia driver version: 550.54.15
cuDNN version: Probably one of the following:
/usr/lib64/libcudnn.so.9.1.0
Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] triton==3.0.0
[conda] pytorch-cuda 12.4 0
"""
PIP_LIST = """\
$ pip list
Package                  Version
------------------------ -----------
torch                    2.6.0+cpu
tensorflow-cpu           2.16.1
jax-cuda12-plugin        0.4.30
nvidia-cudnn-cu12        9.1.0.70
nvidia-nccl-cu12         2.21.5
requests                 2.32.3
"""
NCCL_TESTS_NEW = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 8388608 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  4242 on node1 device  0 [0000:1b:00] NVIDIA A100-SXM4-80GB
#  Rank  1 Group  0 Pid  4242 on node1 device  1 [0000:43:00] NVIDIA A100-SXM4-80GB
#
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     8388608       2097152     float     sum      -1    153.2   54.77   82.16      0    152.9   54.87   82.31      0
[1,0]<stdout>:   134217728      33554432     float     sum      -1   1402.1   95.73  143.59      0   1400.2   95.86  143.78      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 112.96
"""
NCCL_LOG = """\
node1:991:1040 [0] NCCL INFO NCCL version 2.21.5+cuda12.4
node1:991:1040 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.
node1:991:1040 [0] NCCL INFO NET/Socket : Using [0]eno1:10.0.0.4<0>
node1:991:1040 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct/direct
"""
IBSTAT = """\
CA 'mlx5_0'
        CA type: MT4129
        Firmware version: 28.39.1002
        Port 1:
                State: Active
                Physical state: LinkUp
                Rate: 400
                Link layer: InfiniBand
CA 'mlx5_1'
        Firmware version: 28.39.1002
        Port 1:
                State: Down
                Physical state: Polling
                Rate: 10
                Link layer: InfiniBand
ibpanic: [77] main: stat of IB device 'mlx5_2' failed: No such file or directory
"""
DCGM = """\
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 3.3.5                                          |
| Driver Version Detected   | 550.54.15                                      |
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | Pass - GPUs: 0, 1, 3                           |
|                           | Fail - GPU: 2                                  |
| Warning                   | GPU 2 A DBE was detected and a row remapping   |
|                           |  is pending.                                   |
+---------------------------+------------------------------------------------+
"""


def facts_of(text: str) -> Facts:
    facts, runs = run_probes(open_text(text))
    assert [r.name for r in runs if r.state == "crashed"] == []
    return facts


def test_collect_env_names_build_driver_and_gpus() -> None:
    facts = facts_of(COLLECT_ENV)
    torch = (facts.frameworks or [])[0]
    assert (torch.version, torch.cuda_build, torch.cuda_available) == ("2.4.1+cu124", "12.4", False)
    assert torch.cudnn_version is None
    assert torch.evidence["cuda_available"].line == 5
    assert facts.driver is not None
    assert facts.driver.version == "550.54.15"
    assert [g.name for g in facts.gpus or []] == ["NVIDIA L40S", "NVIDIA L40S"]


def test_pip_list_tells_cpu_only_builds() -> None:
    found = {f.name: (f.version, f.cuda_build) for f in facts_of(PIP_LIST).frameworks or []}
    assert found == {
        "torch": ("2.6.0+cpu", ""),
        "tensorflow": ("2.16.1", ""),
        "jax": ("0.4.30", "12"),
        "cudnn": ("9.1.0.70", "12"),
        "nccl": ("2.21.5", "12"),
    }


def test_nccl_tests_are_read_with_ranks_and_prefixes() -> None:
    nccl = facts_of(NCCL_TESTS_NEW).nccl
    assert nccl is not None
    (test,) = nccl.tests or []
    assert (test.collective, test.ranks, test.avg_busbw_gbps, test.out_of_bounds) == ("allreduce", 2, 112.96, 0)
    assert [(r.size_bytes, r.busbw_gbps) for r in test.rows or []] == [(8388608, 82.16), (134217728, 143.59)]


def test_an_nccl_log_tells_transport_interface_and_settings() -> None:
    nccl = facts_of(NCCL_LOG).nccl
    assert nccl is not None
    assert nccl.version == "2.21.5+cuda12.4"
    assert nccl.transports == ["SHM/direct/direct", "NET/Socket"]
    assert nccl.interfaces == ["eno1"]
    assert nccl.env == {"NCCL_P2P_DISABLE": "1"}


def test_ibstat_ports_and_the_device_that_stopped_it() -> None:
    network = facts_of(IBSTAT).network
    assert network is not None
    ports = [(p.device, p.state, p.physical_state, p.rate_gbps) for p in network.rdma_ports or []]
    assert ports == [("mlx5_0", "Active", "LinkUp", 400.0), ("mlx5_1", "Down", "Polling", 10.0)]
    assert "mlx5_2" in network.evidence["rdma_ports"].text


def test_dcgm_results_with_continued_cells() -> None:
    facts = facts_of(DCGM)
    assert facts.dcgm is not None
    results = [(r.test, r.result, r.gpus) for r in facts.dcgm.results or []]
    assert ("GPU Memory", "pass", [0, 1, 3]) in results
    assert ("GPU Memory", "fail", [2]) in results
    assert results[-1] == ("Warning", "GPU 2 A DBE was detected and a row remapping is pending.", [2])
    assert facts.driver is not None
    assert facts.driver.version == "550.54.15"


@pytest.mark.parametrize("text", [COLLECT_ENV, PIP_LIST, NCCL_TESTS_NEW, NCCL_LOG, IBSTAT, DCGM])
def test_truncated_and_damaged_reports_never_crash_a_probe(text: str) -> None:
    for cut in range(0, len(text), 97):
        facts_of(text[:cut])
        facts_of(text[cut:].replace(":", "\x00", 3))
