"""`nvidia-smi nvlink -e` of links before and after NVLink 5, beside the states that `-s` prints."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Gpu, NvLink
from gpudoctor.probes.nvidia_smi import probe
from gpudoctor.probes.nvlink import parse_nvlink
from gpudoctor.sources import open_text
from gpudoctor.workers.nvml_compound import bit_error_rate

STATES = """\
$ nvidia-smi nvlink -s
GPU 0: NVIDIA B200 (UUID: GPU-0f6b2c1e-0000-0000-0000-000000000001)
\t Link 0: 53.125 GB/s
\t Link 1: <inactive>
"""
NVLINK5 = """\
$ nvidia-smi nvlink -e
GPU 0: NVIDIA B200 (UUID: GPU-0f6b2c1e-0000-0000-0000-000000000001)
\t Link 0: Malformed packet Errors: 0
\t Link 0: Total link recovery events: 2
\t Link 0: Effective Errors: 0
\t Link 0: Effective BER: 15e-255
\t Link 0: Symbol BER: 3e-9
\t Link 0: FEC Errors - 0: 128
\t Link 1: Effective BER: N/A
"""
NVLINK4 = """\
GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0f6b2c1e-0000-0000-0000-000000000001)
\t Link 0: Replay Errors: 3
\t Link 0: Recovery Errors: 1
\t Link 0: CRC Errors: 7
"""


def links(text: str) -> list[NvLink]:
    facts = probe(open_text(text))
    assert facts is not None
    assert facts.gpus
    return facts.gpus[0].nvlinks or []


def test_states_and_counters_of_one_paste_are_one_link() -> None:
    first, second = links(STATES + NVLINK5)
    assert (first.active, first.speed_gbps, first.recovery_errors) == (True, 53.125, 2)
    assert first.effective_ber == pytest.approx(15e-255)
    assert first.symbol_ber == pytest.approx(3e-9)
    assert (second.active, second.effective_ber) == (False, None)


def test_counters_are_known_by_their_look_alone() -> None:
    only = links(NVLINK4)
    assert [(n.link, n.replay_errors, n.recovery_errors, n.crc_errors) for n in only] == [(0, 3, 1, 7)]
    assert only[0].active is None


@pytest.mark.parametrize("text", ["", "GPU 0: NVIDIA B200", "Link 0: Effective BER: ", "\x00\x01Link"])
def test_nothing_comes_of_nothing(text: str) -> None:
    found: list[Gpu] | None = parse_nvlink(text)
    assert not any(link.effective_ber for gpu in found or [] for link in gpu.nvlinks or [])


@pytest.mark.parametrize(("raw", "rate"), [(0x0FFF, 15e-255), (0x030C, 3e-12), (0, 0.0)])
def test_the_packed_rate_of_nvml(raw: int, rate: float) -> None:
    assert bit_error_rate(raw) == pytest.approx(rate)
