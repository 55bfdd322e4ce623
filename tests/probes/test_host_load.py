"""How busy CPUs and disks are, from pasted vmstat, iostat, mpstat and top."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.facts import Host
from gpudoctor.probes.host_load import parse_load
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_text

VMSTAT = """\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 9  9   1024 904412  20412 811044    9    9 94208    12 12044 2011 60  3 35  2  0
 1 14   1024 904412  20412 811044  100   20 94208    12 12044 2011  6  3 41 50  0
 3 12   1024 904412  20412 811044  300   20 91200     0 12044 2011  5  3 40 52  0
"""
IOSTAT = """\
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           4,10    0,00    2,00   61,90    0,00   32,00

Device            r/s     rkB/s   r_await  aqu-sz  %util
sdb            142.00   9340.00     71.20   10.90  99.80
nvme0n1          2.00     34.00      0.20    0.00   0.10
"""
TOP = """\
top - 11:02:33 up 12 days,  3:01,  2 users,  load average: 64.21, 60.11, 58.32
%Cpu(s): 92.1 us,  7.0 sy,  0.0 ni,  0.7 id,  0.2 wa,  0.0 hi,  0.0 si,  0.0 st

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
 112044 user      20   0   21.2g   3.1g  98120 R  99.7   1.2  12:03.11 python train.py
 112045 user      20   0   21.2g   3.1g  98120 S   3.0   1.2  12:03.11 sshd
"""


def host(text: str) -> Host:
    facts, _ = run_probes(open_text(text))
    return facts.host or Host()


def test_vmstat_without_its_first_row() -> None:
    found = host(VMSTAT)
    assert (found.runnable_processes, found.swap_traffic_kib) == (2, 220)
    assert found.iowait_pct == 51.0
    assert found.disks_busy is None


def test_iostat_tells_waiting_and_busy_disks() -> None:
    found = host("$ iostat -x 5 2\n" + IOSTAT)
    assert (found.iowait_pct, found.cpu_idle_pct, found.disks_busy) == (61.9, 32.0, ["sdb"])
    assert (found.evidence["disks_busy"].text or "").startswith("sdb")


def test_a_disk_that_was_busy_and_is_no_more() -> None:
    assert host(IOSTAT + IOSTAT.replace("99.80", " 1.00")).disks_busy == []


def test_top() -> None:
    found = host(TOP)
    assert (found.cpu_idle_pct, found.iowait_pct, found.full_core_processes) == (0.7, 0.2, ["python"])


def test_old_top() -> None:
    load = parse_load("Cpu(s): 12.1%us,  7.0%sy,  0.0%ni,  0.7%id, 80.2%wa,  0.0%hi,  0.0%si,  0.0%st")
    assert [value for value, _ in load.waiting] == [80.2]


def test_mpstat_of_all_cpus_only() -> None:
    text = (
        "12:00:01 PM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle\n"
        "12:00:02 PM  all   88.00    0.00   11.50    0.10    0.00    0.00    0.00    0.00    0.00    0.40\n"
        "12:00:02 PM    0    8.00    0.00   11.50    0.10    0.00    0.00    0.00    0.00    0.00   80.40\n"
    )
    assert [value for value, _ in parse_load(text).idle] == [0.4]


@pytest.mark.parametrize(
    "text",
    [
        "",
        VMSTAT.splitlines()[1],
        IOSTAT.splitlines()[3] + "\nsdb word 1\n",
        " PID %CPU COMMAND\nword 99.0 python\n",
        "CPU %usr %iowait %idle\n\n",
        "/dev/sda1 100% /\n",
    ],
)
def test_damaged_or_empty(text: str) -> None:
    load = parse_load(text)
    assert [load.idle, load.waiting, load.runnable, load.disks, load.processes] == [[], [], [], {}, {}]


@given(st.text(alphabet="rbswpdid wa%utilDevice:PIDCOMMAND09.,\n", max_size=200))
def test_any_text(text: str) -> None:
    parse_load(VMSTAT.splitlines()[1] + "\n" + text)
    parse_load(IOSTAT + text + TOP)
