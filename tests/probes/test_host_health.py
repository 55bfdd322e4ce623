"""The host's hardware and clock: EDAC counters, the management controller's events, stuck processes, AER counters, PCIe sizes."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Host, Pci
from gpudoctor.probes import host, pci
from gpudoctor.probes.host_health import CLOCKSOURCE, parse_blocked, parse_bmc_events
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import CommandAnswer, Status
from tests.probes.machine import machine

SEL = """\
   1 | 07/21/2025 | 10:02:13 | Event Logging Disabled SEL | Log area reset/cleared | Asserted
   2 | 07/22/2025 | 03:12:44 | Power Supply PSU2 Status | Power Supply AC lost | Asserted
   3 | 07/22/2025 | 03:20:01 | Temperature Inlet | Upper Critical going high | Asserted
   4 | 07/22/2025 | 03:31:40 | Temperature Inlet | Upper Critical going high | Deasserted
  1a | 07/23/2025 | 11:00:00 UTC | Memory #0x87 | Uncorrectable ECC | Asserted
"""


def events(text: str) -> list[tuple[str, str]]:
    answer = CommandAnswer(argv=("ipmitool", "sel", "elist"), status=Status.OK, stdout=text)
    return [(event.sensor, event.event) for event in parse_bmc_events(answer)]


def test_events_that_are_over_are_left_out() -> None:
    assert events(SEL)[1:] == [
        ("Power Supply PSU2 Status", "Power Supply AC lost"),
        ("Memory #0x87", "Uncorrectable ECC"),
    ]


@pytest.mark.parametrize(
    "text", ["", "SEL has no entries", "Could not open device at /dev/ipmi0", "| | | |", "\0" * 50]
)
def test_no_event_comes_of_other_words(text: str) -> None:
    assert events(text) == []


def pasted(text: str) -> Host:
    found = host.probe(open_text(text))
    assert found is not None
    return found


def test_a_pasted_event_log() -> None:
    found = pasted("$ sudo ipmitool sel elist\n" + SEL)
    assert found.bmc_events is not None
    assert [event.event for event in found.bmc_events][-1] == "Uncorrectable ECC"


@pytest.mark.parametrize(
    ("text", "synchronized"),
    [
        ("$ timedatectl\n  Time zone: UTC\nSystem clock synchronized: no\n  NTP service: inactive\n", False),
        ("$ timedatectl\nSystem clock synchronized: yes\n", True),
        ("$ timedatectl\n     NTP enabled: yes\nNTP synchronized: no\n", False),
        ("$ chronyc tracking\nReference ID    : 00000000 ()\nLeap status     : Not synchronised\n", False),
        ("$ chronyc tracking\nReference ID    : A9FEA97B (169.254.169.123)\nLeap status     : Normal\n", True),
    ],
)
def test_whether_the_clock_is_kept_right(text: str, synchronized: bool) -> None:
    assert pasted(text).clock_synchronized is synchronized


PS = """\
USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND
root           1  0.0  0.0 168140 11520 ?        Ss   Jul20   0:09 /sbin/init
ida        91822 99.0  1.2 9912345 812345 ?      Dl   03:12  61:00 python train.py --epochs 3
root       91990  0.0  0.0      0     0 ?        D    03:13   0:00 [nvidia-smi]
ida        92001  0.0  0.0   9000   900 pts/0    R+   03:20   0:00 ps aux
"""


def test_processes_that_nothing_can_end() -> None:
    assert [(one.pid, one.name) for one in parse_blocked(PS)] == [
        (91822, "python train.py --epochs 3"),
        (91990, "[nvidia-smi]"),
    ]
    assert pasted("$ ps aux\n" + PS).blocked_processes == ["91822 python train.py --epochs 3", "91990 [nvidia-smi]"]
    assert parse_blocked("") == parse_blocked("D D D D D D D D D D D") == []


def test_what_the_memory_controllers_counted() -> None:
    edac = "/sys/devices/system/edac/mc"
    files = {f"{edac}/mc0/ce_count": "40\n", f"{edac}/mc1/ce_count": "2\n", f"{edac}/mc0/ue_count": "1\n"}
    found = host.probe(machine({**files, CLOCKSOURCE: "hpet\n"}))
    assert found is not None
    assert (found.memory_errors_corrected, found.memory_errors_uncorrected, found.clocksource) == (42, 1, "hpet")
    without = host.probe(machine({"/proc/uptime": "10.0 5.0"}))
    assert without is not None
    assert (without.memory_errors_corrected, without.bmc_events, without.clock_synchronized) == (None, None, None)


LSPCI = """\
$ sudo lspci -vvv
17:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 80GB] (rev a1)
\t\tDevCap:\tMaxPayload 256 bytes, PhantFunc 0, Latency L0s unlimited, L1 <64us
\t\tDevCtl:\tCorrErr+ NonFatalErr+ FatalErr+ UnsupReq-
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr- NoSnoop+ FLReset-
\t\t\tMaxPayload 256 bytes, MaxReadReq 512 bytes
31:00.0 Infiniband controller: Mellanox Technologies MT28908 Family [ConnectX-6]
\t\t\tMaxPayload 512 bytes, MaxReadReq 128 bytes
"""


def test_packet_and_request_sizes_of_lspci() -> None:
    found = pci.probe(open_text(LSPCI))
    assert isinstance(found, Pci)
    (gpu,) = found.nvidia_devices or []
    assert (gpu.max_payload_bytes, gpu.max_read_request_bytes) == (256, 512)
    assert found.nic_read_request_min_bytes == 128
