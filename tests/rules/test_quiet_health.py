"""Ordinary texts of healthy machines and jobs: nothing at warning or above may be said of them."""

from __future__ import annotations

import pytest

from gpudoctor.engine.verdict import walk
from gpudoctor.report import Severity
from tests.rules.reading import explain

IDLE_TABLE = """$ nvidia-smi
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4080        Off |   00000000:01:00.0  On |                  N/A |
|  0%   38C    P8             11W /  320W |     903MiB /  16376MiB |      2%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            2104      G   /usr/lib/xorg/Xorg                      412MiB |
|    0   N/A  N/A            2331      G   /usr/bin/gnome-shell                    120MiB |
+-----------------------------------------------------------------------------------------+
"""

IDLE_SERVER_TABLE = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 525.147.05   Driver Version: 525.147.05   CUDA Version: 12.0     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  Tesla T4            On   | 00000000:00:1E.0 Off |                    0 |
| N/A   29C    P8     9W /  70W |      2MiB / 15360MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  Tesla T4            On   | 00000000:00:1F.0 Off |                    0 |
| N/A   30C    P8     9W /  70W |      2MiB / 15360MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|  No running processes found                                                 |
+-----------------------------------------------------------------------------+
"""

INFERENCE_SERVER = """$ nvidia-smi --query-gpu=index,name,utilization.gpu,memory.used,memory.total,power.draw,temperature.gpu --format=csv
index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W], temperature.gpu
0, NVIDIA H100 80GB HBM3, 0 %, 73122 MiB, 81559 MiB, 116.20 W, 34
1, NVIDIA H100 80GB HBM3, 0 %, 73122 MiB, 81559 MiB, 117.02 W, 33
INFO 05-12 10:12:11 [gpu_worker.py:227] Available KV cache memory: 51.41 GiB
INFO 05-12 10:12:11 [kv_cache_utils.py:634] GPU KV cache size: 421,104 tokens
INFO 05-12 10:12:11 [kv_cache_utils.py:637] Maximum concurrency for 32,768 tokens per request: 12.85x
INFO:     Application startup complete.
"""

IMAGENET_LOG = """=> creating model 'resnet50'
Epoch: [0][   1/2503]\tTime 11.812 (11.812)\tData 10.402 (10.402)\tLoss 7.0123 (7.0123)
Epoch: [0][  11/2503]\tTime  0.298 ( 1.340)\tData  0.001 ( 0.946)\tLoss 7.0411 (7.0811)
Epoch: [0][  21/2503]\tTime  0.301 ( 0.846)\tData  0.001 ( 0.496)\tLoss 6.9911 (7.0511)
Epoch: [0][  31/2503]\tTime  0.297 ( 0.669)\tData  0.002 ( 0.336)\tLoss 6.9711 (7.0301)
"""

MM_LOG = """2025/03/14 09:12:44 - mmengine - INFO - Epoch(train)  [1][  50/7330]  lr: 1.9820e-03  eta: 15:41:02  time: 0.4401  data_time: 0.0102  memory: 5401  loss: 1.9011  loss_rpn_cls: 0.4123
2025/03/14 09:13:05 - mmengine - INFO - Epoch(train)  [1][ 100/7330]  lr: 3.9840e-03  eta: 14:59:13  time: 0.4212  data_time: 0.0061  memory: 5401  loss: 1.5310  loss_rpn_cls: 0.3001
2025/03/14 09:13:26 - mmengine - INFO - Epoch(train)  [1][ 150/7330]  lr: 5.9860e-03  eta: 14:42:40  time: 0.4188  data_time: 0.0063  memory: 5401  loss: 1.3377  loss_rpn_cls: 0.2502
"""

DETECTRON_LOG = """[03/02 11:20:41 d2.data.common]: Serializing 117266 elements to byte tensors and concatenating them all ...
[03/02 11:20:44 d2.engine.train_loop]: Starting training from iteration 0
[03/02 11:20:58 d2.utils.events]:  eta: 14:11:20  iter: 19  total_loss: 5.912  loss_cls: 4.381  time: 0.5702  last_time: 0.5710  data_time: 0.0311  last_data_time: 0.0121   lr: 0.00039962  max_mem: 8712M
"""

HF_LOG = """{'loss': 1.2345, 'grad_norm': 0.812, 'learning_rate': 1.9e-05, 'epoch': 0.12}
 12%|#1        | 500/4170 [08:20<1:01:10,  1.00s/it]
{'eval_loss': 1.1021, 'eval_runtime': 41.2031, 'eval_samples_per_second': 48.54, 'epoch': 0.12}
Saving model checkpoint to out/checkpoint-500
num_workers=4, batch_size=8, gradient_accumulation_steps=4, dataloader_pin_memory=True
"""

KERAS_LOG = """2025-02-02 10:00:01.123456: I tensorflow/core/common_runtime/gpu/gpu_device.cc:2019] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 22300 MB memory:  -> device: 0, name: NVIDIA A10G, pci bus id: 0000:00:1e.0, compute capability: 8.6
Epoch 1/10
1875/1875 [==============================] - 9s 4ms/step - loss: 0.2951 - accuracy: 0.9144
Epoch 2/10
1875/1875 [==============================] - 7s 4ms/step - loss: 0.1421 - accuracy: 0.9572
"""

DMESG = """[    0.000000] Linux version 6.8.0-51-generic (buildd@lcy02-amd64-062) (x86_64-linux-gnu-gcc-13 (Ubuntu 13.2.0-23ubuntu4) 13.2.0, GNU ld (GNU Binutils for Ubuntu) 2.42) #52-Ubuntu SMP PREEMPT_DYNAMIC
[    0.031200] rcu: Hierarchical RCU implementation.
[    0.450123] mce: CPU0: Thermal monitoring enabled (TM1)
[    0.801230] pci 0000:17:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint
[    1.201230] ACPI: AC Adapter [AC] (on-line)
[    1.600123] EDAC MC0: Giving out device to module skx_edac controller Skylake Socket#0 IMC#0: DEV 0000:3a:0a.0 (INTERRUPT)
[    2.100123] nvme nvme0: 64/0/0 default/read/poll queues
[    2.200123] EXT4-fs (nvme0n1p2): mounted filesystem 6f3d with ordered data mode. Quota mode: none.
[    9.112233] nvidia: loading out-of-tree module taints kernel.
[    9.112300] nvidia: module verification failed: signature and/or required key missing - tainting kernel
[    9.300001] nvidia-nvlink: Nvlink Core is being initialized, major device number 511
[    9.700221] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.20  Release Build
[   10.000001] nvidia-modeset: Loading NVIDIA UNIX Open Kernel Mode Setting Driver for x86_64  570.133.20  Release Build
[   10.100001] [drm] [nvidia-drm] [GPU ID 0x00001700] Loading driver
[   10.200001] [drm] Initialized nvidia-drm 0.0.0 for 0000:17:00.0 on minor 1
[   12.300001] nvidia_uvm: module uses symbols nvUvmInterfaceDisableAccessCntr from proprietary module nvidia, inheriting taint.
[  812.400001] nfs: server filer01 OK
[ 4012.000001] mce: CPU14: Core temperature/speed normal
"""

LSPCI_IDLE = """# lspci -vv -s 17:00.0 | grep -E 'LnkCap:|LnkSta:'
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16
"""

GEN1_IDLE = """$ nvidia-smi --query-gpu=index,pstate,utilization.gpu,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max --format=csv
index, pstate, utilization.gpu [%], pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max
0, P8, 0 %, 1, 4, 16, 16
1, P8, 0 %, 1, 4, 16, 16
"""

FABRIC_MANAGER_NOT_NEEDED = """$ systemctl status nvidia-fabricmanager
○ nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/usr/lib/systemd/system/nvidia-fabricmanager.service; disabled; vendor preset: enabled)
     Active: inactive (dead)
$ nvidia-smi -L
GPU 0: NVIDIA L40S (UUID: GPU-11111111-2222-3333-4444-555555555555)
GPU 1: NVIDIA L40S (UUID: GPU-11111111-2222-3333-4444-666666666666)
"""

ECC_FEW = """$ nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT
==============NVSMI LOG==============
Driver Version                            : 570.133.20
CUDA Version                              : 12.8
Attached GPUs                             : 1
GPU 00000000:17:00.0
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 3
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 9
            DRAM Uncorrectable            : 0
            SRAM Threshold Exceeded       : No
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 1
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 639 bank(s)
            High                          : 1 bank(s)
            Partial                       : 0 bank(s)
            Low                           : 0 bank(s)
            None                          : 0 bank(s)
"""

BUSY_AND_WELL = """$ nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,UTILIZATION
==============NVSMI LOG==============
Driver Version                            : 570.133.20
CUDA Version                              : 12.8
Attached GPUs                             : 1
GPU 00000000:17:00.0
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Display Clock Setting             : Not Active
    Utilization
        GPU                               : 100 %
        Memory                            : 62 %
    Temperature
        GPU Current Temp                  : 67 C
        GPU T.Limit Temp                  : 20 C
        GPU Shutdown T.Limit Temp         : -8 C
        GPU Slowdown T.Limit Temp         : -2 C
        Memory Current Temp               : 78 C
    GPU Power Readings
        Average Power Draw                : 698.12 W
        Instantaneous Power Draw          : 701.40 W
        Current Power Limit               : 700.00 W
        Requested Power Limit             : 700.00 W
        Default Power Limit               : 700.00 W
        Min Power Limit                   : 200.00 W
        Max Power Limit                   : 700.00 W
"""

DISKS = """$ df -h
Filesystem      Size  Used Avail Use% Mounted on
tmpfs            51G  3.1M   51G   1% /run
/dev/nvme0n1p2  1.8T  911G  812G  53% /
tmpfs           252G     0  252G   0% /dev/shm
/dev/loop3       64M   64M     0 100% /snap/core20/2318
/dev/loop4       92M   92M     0 100% /snap/lxd/29619
$ free -h
               total        used        free      shared  buff/cache   available
Mem:           503Gi        41Gi        12Gi       1.2Gi       450Gi       457Gi
Swap:          8.0Gi       1.1Gi       6.9Gi
$ ulimit -l
unlimited
"""

DCGM = """Successfully ran diagnostic for group.
+---------------------------+------------------------------------------------+
| Diagnostic                | Result                                         |
+===========================+================================================+
|-----  Metadata  ----------+------------------------------------------------|
| DCGM Version              | 3.3.9                                          |
| Driver Version Detected   | 550.127.05                                     |
|-----  Deployment  --------+------------------------------------------------|
| Denylist                  | Pass                                           |
| NVML Library              | Pass                                           |
| CUDA Main Library         | Pass                                           |
| Permissions and OS Blocks | Pass                                           |
| Persistence Mode          | Pass                                           |
| Page Retirement/Row Remap | Pass                                           |
+-----  Hardware  ----------+------------------------------------------------+
| GPU Memory                | Pass - All                                     |
| PCIe                      | Pass - All                                     |
+---------------------------+------------------------------------------------+
"""

DMON_BUSY = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
    0    688     64     71     99     58      0      0      0      0   2619   1755
    0    691     64     71     98     57      0      0      0      0   2619   1740
    0    690     65     72     99     59      0      0      0      0   2619   1740
"""

DMON_IDLE = """# gpu     sm    mem    enc    dec
# Idx      %      %      %      %
    0      0      0      0      0
    0      0      0      0      0
    0      1      0      0      0
    0      0      0      0      0
"""

MEMORY_SUMMARY = """|===========================================================================|
|                  PyTorch CUDA memory summary, device ID 0                 |
|---------------------------------------------------------------------------|
|            CUDA OOMs: 0            |        cudaMalloc retries: 0         |
|===========================================================================|
|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |
|---------------------------------------------------------------------------|
| Allocated memory      |   12311 MiB |  18110 MiB |  811310 MiB |  799001 MiB |
| GPU reserved memory   |   19010 MiB |  19010 MiB |   19010 MiB |       0 B  |
"""

NOTES = """To use less memory choose a smaller batch size or gradient checkpointing. num_workers defaults to 0 in PyTorch; on machines
with many cores 8 per GPU is a good start. Persistence mode is a setting of the driver. An idle GPU draws about 10 W.
The model runs on one GPU with 24 GB. Evaluation takes 2 minutes per epoch. GPU Util 97 %, memory 20 GB.
"""

QUIET = {
    "idle desktop": IDLE_TABLE,
    "idle server": IDLE_SERVER_TABLE,
    "inference server without requests": INFERENCE_SERVER,
    "ImageNet log with a slow first step": IMAGENET_LOG,
    "mmengine log": MM_LOG,
    "detectron2 log": DETECTRON_LOG,
    "Hugging Face log": HF_LOG,
    "Keras log": KERAS_LOG,
    "kernel log": DMESG,
    "lspci of an idle link": LSPCI_IDLE,
    "idle links": GEN1_IDLE,
    "Fabric Manager on a board without NVSwitch": FABRIC_MANAGER_NOT_NEEDED,
    "a few corrected errors": ECC_FEW,
    "full load at the power limit": BUSY_AND_WELL,
    "disks and memory": DISKS,
    "DCGM passes": DCGM,
    "busy dmon": DMON_BUSY,
    "idle dmon": DMON_IDLE,
    "memory summary": MEMORY_SUMMARY,
    "notes": NOTES,
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in QUIET.items()])
def test_nothing_is_wrong(text: str) -> None:
    loud = [
        f"{finding.rule}: {finding.title} ({finding.evidence[0].text if finding.evidence else ''})"
        for finding in walk(explain(text, guessing=True).findings)
        if finding.severity is not Severity.INFO or finding.guess
    ]
    assert loud == []


def test_idle_links_are_said_to_be_normal() -> None:
    found = {finding.rule for finding in walk(explain(GEN1_IDLE).findings)}
    assert "pci/link-idle" in found


def test_a_single_low_figure_is_only_worth_knowing() -> None:
    severities = {finding.severity for finding in walk(explain(INFERENCE_SERVER).findings)}
    assert severities <= {Severity.INFO}
