"""Searching a big kernel log with the messages of all rules, beside GNU grep -E with the same literals.

    python benchmarks/log_search.py [--mib 1024] [--runs 3] [--keep FILE]

Ours is the whole command, `gpudoctor check --from LOG`: rules loaded, log recognised and searched, report written.
Words that are in more than a fiftieth of this log's lines ("port", "state") are left out by both: our filter notices them by
itself and does not look for them, and grep would do little but count nearly every line.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

from measure import Budget, conclude, gpudoctor, interleaved, median

from gpudoctor.engine.load import load_rules
from gpudoctor.sources.thin import thin

# What fills a real kernel log: nothing that a rule looks for.
ORDINARY = [
    "systemd[1]: Started Session {n} of User root.",
    'audit: type=1400 audit({n}.123:{n}): apparmor="STATUS" operation="profile_load" name="snap.lxd" pid={n}',
    "docker0: port {n}(veth{n:x}) entered forwarding state",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth{n:x}: link becomes ready",
    "usb 1-{n}: new high-speed USB device number {n} using xhci_hcd",
    "EXT4-fs (nvme0n1p2): mounted filesystem {n:08x} with ordered data mode. Quota mode: none.",
    "TCP: request_sock_TCP: Possible SYN flooding on port {n}. Sending cookies.",
    "mlx5_core 0000:5e:00.0: Port module event: module {n}, Cable plugged",
    "perf: interrupt took too long ({n} > {n}), lowering kernel.perf_event_max_sample_rate to {n}",
    "workqueue: {n} hogged CPU for >10000us {n} times, consider switching to WQ_UNBOUND",
    "cgroup: fork rejected by pids controller in /user.slice/user-{n}.slice",
    "nfs: server storage{n} not responding, still trying",
]
RARE = [
    "NVRM: Xid (PCI:0000:3b:00): 31, pid={n}, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    "NVRM: Xid (PCI:0000:af:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping",
]


def write_log(path: Path, mib: int) -> None:
    """A dmesg of that size; one line in 50,000 is the driver's."""
    chance = random.Random(1)
    block: list[str] = []
    for line in range(50_000):
        text = RARE[line % 2] if line % 50_000 == 777 else chance.choice(ORDINARY)
        block.append(f"[{line * 7.31:14.6f}] {text.format(n=chance.randrange(1, 60_000))}\n")
    data = "".join(block).encode()
    size = mib * 1024 * 1024
    with path.open("wb") as file:
        written = 0
        while written < size:
            written += file.write(data[: size - written])


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--mib", type=int, default=1024)
    ask.add_argument("--runs", type=int, default=3)
    ask.add_argument("--keep", type=Path, help="use this log, made when missing, and leave it there")
    args = ask.parse_args()
    if not (grep := shutil.which("grep")):
        sys.exit("needs GNU grep")
    words = load_rules().needles.words  # one or more for each message of each rule
    with tempfile.TemporaryDirectory(prefix="gpudoctor-log-") as temporary:
        log = args.keep or Path(temporary) / "kernel.log"
        if not log.exists():
            write_log(log, args.mib)
        with log.open("rb") as file:
            common = set(thin([file.read(1 << 22)], words).common)
        wanted = [literal for literal in sorted({word.decode() for word in words}) if literal not in common]
        expression = "|".join(
            "".join("\\" + c if c in r".[]{}()*+?^$|\/" else c for c in literal) for literal in wanted
        )
        patterns = Path(temporary) / "patterns"
        patterns.write_text(expression + "\n", encoding="utf-8")
        os.environ["LC_ALL"] = "C"
        found = interleaved(
            {
                "grep -E": [grep, "-E", "-c", "-f", str(patterns), str(log)],
                "grep -E -i": [grep, "-E", "-i", "-c", "-f", str(patterns), str(log)],
                "gpudoctor": [gpudoctor(), "check", "--from", str(log), "--format", "json"],
            },
            args.runs,
        )
        size = log.stat().st_size
    print(f"{size / 2**20:.0f} MiB, {len(wanted)} literals; too common: {', '.join(sorted(common))}\n")
    for name, runs in found.items():
        peak = max(one.peak_mib for one in runs)
        print(
            f"{name:<12} {median(runs):>7.2f} s {size / 1e6 / median(runs):>7.0f} MB/s {peak:>6.0f} MiB  exit {runs[-1].exit_code}"
        )
    peak = max(one.peak_mib for one in found["gpudoctor"])
    measured = {
        "log_bytes": size,
        "literals": len(wanted),
        **{name: {"median_s": round(median(runs), 3), "peak_mib": round(max(one.peak_mib for one in runs), 1)} for name, runs in found.items()},
    }  # fmt: skip
    budgets = [
        Budget(
            "speed beside grep -E -i", median(found["grep -E -i"]) / median(found["gpudoctor"]), 0.7, at_least=True
        ),
        Budget("speed beside grep -E", median(found["grep -E"]) / median(found["gpudoctor"]), 0.7, at_least=True),
        Budget("peak memory in MB", peak * 1.048576, 150),
    ]
    return conclude("log_search", measured, budgets)


if __name__ == "__main__":
    sys.exit(main())
