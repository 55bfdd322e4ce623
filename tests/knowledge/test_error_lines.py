"""Lines that tell of an error, among lines that only have the words."""

import time

import pytest

from gpudoctor.knowledge.error_lines import Tells, tells


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: unspecified launch failure",
        "    torch.distributed.DistBackendError: NCCL error in: ...",
        "[rank0]: ValueError: bad shape",
        "FATAL: Module nvidia not found in directory /lib/modules/6.8.0",
        "Segmentation fault (core dumped)",
        "Killed",
    ],
)
def test_certain(line: str) -> None:
    assert tells(line) is Tells.CERTAIN


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: something went wrong",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        "bash: nvidia-smi: command not found",
        'level=error msg="could not attach the volume"',
        "No devices were found",
        "E0101 12:00:00 1 main.go:1] failed to sync",
    ],
)
def test_likely(line: str) -> None:
    assert tells(line) is Tells.LIKELY


@pytest.mark.parametrize(
    "line",
    [
        "            Correctable Error           : 0",
        "            Uncorrectable Error         : 0",
        "        Remapping Failure Occurred      : No",
        "Invalid Combination : 0",
        "Failed requests:   0",
        "Error count = 0",
        "INFO 0 failed, 12 passed",
        "RX errors 0  dropped 0  overruns 0",
        "| N/A   30C    P0    52W / 400W | ... Volatile Uncorr. ECC |",
        "gcc -Wall -Werror -o x x.c",
        "Why can't I use the second GPU?",
        "epoch 3: loss 0.2, error_rate: 0.01",
        "    except RuntimeError as error:",
        "step 100 loss 2.31",
        "",
    ],
)
def test_nothing(line: str) -> None:
    assert tells(line) is Tells.NOTHING


def test_a_long_line_is_quick() -> None:
    started = time.perf_counter()
    tells("error " + "-" * 1_000_000 + "x")
    assert time.perf_counter() - started < 1
