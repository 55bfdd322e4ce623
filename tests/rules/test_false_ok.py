"""Evidence that looks quiet and proves nothing: never `pass`. And the few kinds of it that do prove health: `pass`."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from gpudoctor.cli.pipeline import Request, examine, open_evidence
from gpudoctor.report import Report, Verdict
from gpudoctor.sources import open_text
from tests.rules.reading import bundled

HEAD = """\
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.183.01             Driver Version: 535.183.01   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
"""
EDGE = "+-----------------------------------------+----------------------+----------------------+\n"
NAMES = """\
GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-0f6b2c1e-7f0f-4a4e-9c1c-1d5a3f9f2f11)
GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-1f6b2c1e-7f0f-4a4e-9c1c-1d5a3f9f2f11)
"""
QUERY = """\
==============NVSMI LOG==============

Timestamp                                 : Tue Aug 19 22:31:02 2025
Driver Version                            : 550.163.01
CUDA Version                              : 12.4

Attached GPUs                             : {attached}
GPU 00000000:07:00.0
    Product Name                          : NVIDIA A100-SXM4-80GB
    Performance State                     : P0
    FB Memory Usage
        Total                             : 81920 MiB
        Used                              : 4 MiB
    Temperature
        GPU Current Temp                  : 34 C
    GPU Power Readings
        Power Draw                        : 62.11 W
"""


def row(index: int, bus: str, fan: str = "N/A", power: str = "62W / 400W", load: str = "0%") -> str:
    return (
        f"|   {index}  NVIDIA A100-SXM4-80GB          On  | 00000000:{bus}:00.0 Off |                    0 |\n"
        f"| {fan}   34C    P0              {power:>11} |      4MiB / 81920MiB |    {load:>4}      Default |\n"
        f"|                                         |                      |             Disabled |\n{EDGE}"
    )


QUIET: dict[str, str] = {
    "a GPU missing from the middle of the table": HEAD + row(0, "07") + row(1, "0f") + row(3, "4e"),
    "fields that could not be read": HEAD + row(0, "07") + row(1, "0f", "ERR!", "ERR! / 400W", "ERR!"),
    "the table's head": HEAD,
    "a row cut after its name": HEAD + row(0, "07").split("\n", 1)[0],
    "a list of names": f"$ nvidia-smi -L\n{NAMES}",
    "a list of names beside a log that was refused": (
        f"$ dmesg\ndmesg: read kernel buffer failed: Operation not permitted\n$ nvidia-smi -L\n{NAMES}"
    ),
    "a list with a lost GPU": (
        f"$ nvidia-smi -L\n{NAMES}Unable to determine the device handle for gpu 0000:4B:00.0: GPU is lost.  Reboot the"
        " system to recover this GPU\n"
    ),
    "names as CSV": "$ nvidia-smi --query-gpu=name --format=csv\nname\nNVIDIA A100-SXM4-80GB\n",
    "one section of -q": QUERY.format(attached=1).split("    Product Name")[0] + "    Performance State : P0\n",
    "-q cut after the first of four": QUERY.format(attached=4),
    "XML cut after the first of eight": (
        '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<driver_version>550.163.01</driver_version>\n'
        '<attached_gpus>8</attached_gpus>\n<gpu id="00000000:07:00.0">\n<product_name>NVIDIA A100-SXM4-80GB'
    ),
    "fewer GPUs than the bus has": (
        f"$ nvidia-smi\n{HEAD}{row(0, '07')}$ lspci | grep -i nvidia\n"
        "07:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)\n"
        "0f:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev a1)\n"
    ),
    "a bus without a GPU in a virtual machine": (
        "$ lspci\n00:00.0 Host bridge: Intel Corporation 440FX - 82441FX PMC [Natoma] (rev 02)\n"
        "00:01.0 ISA bridge: Intel Corporation 82371SB PIIX3 ISA [Natoma/Triton II]\n"
        "00:02.0 VGA compatible controller: Red Hat, Inc. Virtio 1.0 GPU (rev 01)\n"
        "00:03.0 Ethernet controller: Red Hat, Inc. Virtio network device\n"
        "00:04.0 SCSI storage controller: Red Hat, Inc. Virtio block device\n"
    ),
    "a GPU on the bus without a driver": (
        "$ lspci -nnk\n17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev a1)\n"
        "\tSubsystem: NVIDIA Corporation Device [10de:1626]\n"
    ),
    "a device that reads all ones": (
        "$ lspci | grep -i nvidia\n4b:00.0 3D controller: NVIDIA Corporation GA100 [A100 SXM4 80GB] (rev ff)\n"
    ),
    "a kernel log without a GPU": (
        "[    0.000000] Linux version 6.8.0-60-generic (buildd@lcy02) (gcc 13.2.0) #63-Ubuntu SMP\n"
        "[    1.200000] usb 1-1: new high-speed USB device number 2 using xhci_hcd\n"
    ),
    "a kernel log in which the driver only loads": (
        "[    4.900000] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.163.01  Tue Apr  8 12:41:17 UTC 2025\n"
    ),
    "a search of the log that found nothing": "$ sudo dmesg | grep -i xid\n$ \n",
    "loaded modules": "$ lsmod\nModule                  Size  Used by\nnvidia              54308864  2 nvidia_uvm\n",
    "modules without the driver": "$ lsmod\nModule                  Size  Used by\noverlay               212992  0\n",
    "device nodes": "$ ls -l /dev/nvidia*\ncrw-rw-rw- 1 root root 195,   0 Aug  1 10:00 /dev/nvidia0\n",
    "a container's environment": "$ env\nNVIDIA_VISIBLE_DEVICES=all\ncontainer=docker\nCUDA_VERSION=12.4.1\n",
    "an empty list of devices": "$ nvidia-smi\nNo devices were found\n",
    "a time-out": "$ timeout 30 nvidia-smi; echo $?\n124\n",
    "a crash of nvidia-smi": "$ nvidia-smi\nSegmentation fault (core dumped)\n",
    "nvidia-smi in another language": "$ nvidia-smi\nbash: nvidia-smi: Kommando nicht gefunden.\n",
    "another vendor's tool": "GPU  Temp   AvgPwr  SCLK\n0    38.0c  43.0W   800Mhz\n",
    "a diagnostic that skipped its tests": (
        "$ dcgmi diag -r 1\nSuccessfully ran diagnostic for group.\n"
        "+---------------------------+------------------------------------------------+\n"
        "| Diagnostic                | Result                                         |\n"
        "+===========================+================================================+\n"
        "| NVML Library              | Skip                                           |\n"
    ),
    "a ready node": "$ kubectl get nodes\nNAME   STATUS   ROLES    AGE   VERSION\ngpu1   Ready    <none>   33d   v1.29.4\n",
    "an idle partition": "$ sinfo\nPARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST\ngpu*  up  infinite  4  idle gpu[1-4]\n",
    "a framework that sees CUDA": ">>> import torch\n>>> torch.cuda.is_available()\nTrue\n",
    "a complaint": "My GPU does not work, please help. Training is stuck since yesterday.",
}  # fmt: skip
UNIFIED = HEAD + (
    "|   0  NVIDIA GB10                    On  | 0000000F:01:00.0 Off |                  N/A |\n"
    "| N/A   41C    P8              4W /  N/A  | Not Supported        |      0%      Default |\n"
    f"|                                         |                      |                  N/A |\n{EDGE}"
)


def report_of(text: str) -> Report:
    return examine(open_text(text), bundled(), Request())


@pytest.mark.parametrize("text", QUIET.values(), ids=QUIET.keys())
def test_what_proves_nothing_is_no_pass(text: str) -> None:
    report = report_of(text)
    assert report.verdict is not Verdict.PASS, [run for run in report.probes if run.essential]


@pytest.mark.parametrize("text", QUIET.values(), ids=QUIET.keys())
def test_nor_is_it_as_a_file(text: str, tmp_path: Path) -> None:
    file = tmp_path / "evidence.txt"
    file.write_text(text, encoding="utf-8")
    assert examine(open_evidence([file], bundled()), bundled(), Request()).verdict is not Verdict.PASS


@pytest.mark.parametrize(
    "text",
    [HEAD + row(0, "07") + row(1, "0f"), QUERY.format(attached=1), UNIFIED],
    ids=["a whole table", "a whole -q", "unified memory has no memory figures"],
)
def test_a_look_at_every_gpu_that_is_well_passes(text: str) -> None:
    assert report_of(text).verdict is Verdict.PASS


def test_what_is_missing_is_said() -> None:
    def why(name: str) -> list[str]:
        return [
            problem for run in report_of(QUIET[name]).probes if run.name == "nvidia_smi" for problem in run.problems
        ]

    assert why("a GPU missing from the middle of the table") == ["GPU 2 is not in it"]
    assert why("-q cut after the first of four") == ["it shows 1 of 4 GPUs"]
    assert why("a list of names") == ["it tells nothing of the state of GPU 0"]


def test_noise_is_refused_or_unknown(tmp_path: Path) -> None:
    from gpudoctor.errors import GpudoctorError

    for name, data in (("noise.bin", random.Random(7).randbytes(4000)), ("zeros", b"\0" * 4000), ("empty.txt", b"")):
        file = tmp_path / name
        file.write_bytes(data)
        with pytest.raises(GpudoctorError):
            open_evidence([file], bundled())
