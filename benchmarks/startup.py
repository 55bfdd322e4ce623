"""`gpudoctor check` beside its peers on this machine, taking turns: medians, ratios, budgets.

    python benchmarks/startup.py [--venv DIR] [--runs 11]

The peers are installed from PyPI into an environment of their own: DIR when it has them, else a temporary one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from measure import Budget, conclude, gpudoctor, interleaved, median

PEERS = ["cuda-doctor", "gpumedic", "nvsonar", "gpustat"]


def peers_in(directory: Path) -> Path:
    """The bin directory of an environment that has all peers; installs what is missing."""
    programs = directory / "bin"
    if not (programs / "python").exists():
        print(f"making an environment in {directory}")
        venv.create(directory, with_pip=True)
    missing = [peer for peer in PEERS if not (programs / peer).exists()]
    if missing:
        print(f"installing {', '.join(missing)}")
        subprocess.run([programs / "python", "-m", "pip", "install", "-q", *missing], check=True)
    return programs


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--venv", type=Path, help="environment with the peers (made when missing)")
    ask.add_argument("--runs", type=int, default=11)
    args = ask.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpudoctor-peers-") as temporary:
        peers = peers_in(args.venv or Path(temporary))
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "gpudoctor --version": [gpudoctor(), "--version"],
            "gpudoctor --help": [gpudoctor(), "--help"],
            "gpudoctor check": [gpudoctor(), "check"],
            "cuda-doctor diagnose": [str(peers / "cuda-doctor"), "diagnose"],
            "gpumedic scan": [str(peers / "gpumedic"), "scan"],
            "nvsonar report": [str(peers / "nvsonar"), "report"],
            "gpustat --version": [str(peers / "gpustat"), "--version"],
        }
        found = interleaved(commands, args.runs)
    seconds = {name: median(runs) for name, runs in found.items()}
    ours = seconds["gpudoctor check"]
    print(f"\n{'command':<22} {'median':>8} {'fastest':>8} {'memory':>9} {'exit':>5}   check takes")
    for name, runs in found.items():
        peak = max(one.peak_mib for one in runs)
        fastest = min(one.seconds for one in runs)
        print(
            f"{name:<22} {seconds[name]:>6.3f} s {fastest:>6.3f} s {peak:>5.0f} MiB {runs[-1].exit_code:>5}"
            f"   {ours / seconds[name]:>6.2f} x"
        )
    measured = {
        name: {"median_s": round(seconds[name], 4), "runs_s": [round(one.seconds, 4) for one in runs]}
        for name, runs in found.items()
    }
    budgets = [
        Budget("check / cuda-doctor diagnose", ours / seconds["cuda-doctor diagnose"], 1.0),
        Budget("check / gpustat --version", ours / seconds["gpustat --version"], 2.0),
        Budget("--version / python -c pass", seconds["gpudoctor --version"] / seconds["python -c pass"], 3.0),
    ]
    return conclude("startup", measured, budgets)


if __name__ == "__main__":
    sys.exit(main())
