"""How many CPUs a pasted job may use, and when the evidence was taken."""

from __future__ import annotations

import pytest

from gpudoctor.probes import host
from gpudoctor.sources import open_text


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("$ nproc\n96", 96),
        ("$ cat /sys/fs/cgroup/cpu.max\n200000 100000\n$ nproc\n96", 2),  # nproc does not know of the quota
        ("$ cat /sys/fs/cgroup/cpu.max\nmax 100000\n$ nproc\n8", 8),
        ("$ cat /sys/fs/cgroup/cpu.max\n50000 100000", 1),
    ],
)
def test_cpus_of_a_paste(text: str, cpus: int) -> None:
    found = host.probe(open_text(text))
    assert found is not None
    assert found.cpu_count == cpus


def test_the_time_is_known_where_anything_is() -> None:
    found = host.probe(open_text("$ nproc\n8"))
    assert found is not None
    assert found.time is not None
    assert found.time.endswith("Z")
    nothing = host.probe(open_text("hello"))
    assert nothing is None or nothing.cpu_count is None
