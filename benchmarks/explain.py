"""`gpudoctor explain` on a 300-line paste, beside `gpudoctor --version`, taking turns.

    python benchmarks/explain.py [--runs 15]

The paste is what people attach: a question, several commands with their output, a kernel log, a traceback.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from measure import Budget, conclude, gpudoctor, interleaved, median

LINES = 300
MARGIN_SECONDS = 0.3  # over twice the time of --version
HEAD = """\
Since last night's `apt upgrade` training does not start any more. What I have so far:

```
$ nvidia-smi
NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.

$ uname -r
6.8.0-65-generic
$ lsmod | grep nvidia
$ dkms status
nvidia/550.163.01, 6.8.0-60-generic, x86_64: installed
nvidia/550.163.01, 6.8.0-62-generic, x86_64: installed
$ mokutil --sb-state
SecureBoot disabled
$ lspci -nnk | grep -A3 -i nvidia
17:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 80GB] [10de:20b5] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:1533]
\tKernel modules: nvidiafb, nouveau
$ docker run --rm --gpus all ubuntu nvidia-smi
docker: Error response from daemon: failed to create task for container: nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown.
$ cat /etc/os-release
PRETTY_NAME="Ubuntu 24.04.2 LTS"
VERSION_ID="24.04"
ID=ubuntu
$ python train.py
Traceback (most recent call last):
  File "train.py", line 12, in <module>
    model = Net().cuda()
  File "/opt/venv/lib/python3.12/site-packages/torch/cuda/__init__.py", line 319, in _lazy_init
    torch._C._cuda_init()
RuntimeError: No CUDA GPUs are available
$ pip list
Package            Version
------------------ -----------
numpy              2.1.3
torch              2.6.0
triton             3.2.0
$ dmesg
"""
KERNEL = (
    "[{at:12.6f}] usb 1-{n}: new high-speed USB device number {n} using xhci_hcd",
    "[{at:12.6f}] pci 0000:{n:02x}:00.0: [8086:2030] type 01 class 0x060400 PCIe Root Port",
    "[{at:12.6f}] audit: type=1400 audit(1754000000.{n:03d}:{n}): apparmor=\"STATUS\" operation=\"profile_load\" pid={n}",
    "[{at:12.6f}] EXT4-fs (sda{n}): mounted filesystem with ordered data mode. Quota mode: none.",
    "[{at:12.6f}] systemd[1]: Started unit-{n}.service - Service number {n}.",
)  # fmt: skip


def paste() -> str:
    """The paste, LINES lines long."""
    lines = HEAD.rstrip("\n").split("\n")
    lines += [KERNEL[n % len(KERNEL)].format(at=n * 0.37, n=n) for n in range(LINES - len(lines) - 1)]
    return "\n".join([*lines, "```", ""])


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--runs", type=int, default=15)
    args = ask.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpudoctor-explain-") as temporary:
        file = Path(temporary) / "paste.txt"
        file.write_text(paste(), encoding="utf-8")
        commands = {
            "gpudoctor --version": [gpudoctor(), "--version"],
            "gpudoctor explain LINE": [gpudoctor(), "explain", "RuntimeError: No CUDA GPUs are available"],
            "gpudoctor explain PASTE": [gpudoctor(), "explain", str(file)],
        }
        found = interleaved(commands, args.runs)
    seconds = {name: median(runs) for name, runs in found.items()}
    fastest = {name: min(one.seconds for one in runs) for name, runs in found.items()}
    print(f"{'command':<26} {'median':>8} {'fastest':>8} {'memory':>9} {'exit':>5}")
    for name, runs in found.items():
        peak = max(one.peak_mib for one in runs)
        print(f"{name:<26} {seconds[name]:>6.3f} s {fastest[name]:>6.3f} s {peak:>5.0f} MiB {runs[-1].exit_code:>5}")
    measured = {
        name: {"median_s": round(seconds[name], 4), "runs_s": [round(one.seconds, 4) for one in runs]}
        for name, runs in found.items()
    }
    over = seconds["gpudoctor explain PASTE"] - 2 * seconds["gpudoctor --version"]
    return conclude(
        "explain",
        measured,
        [Budget(f"explain of {LINES} lines over twice --version, in s", over, MARGIN_SECONDS)],
    )


if __name__ == "__main__":
    sys.exit(main())
