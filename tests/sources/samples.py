"""Small outputs in the format of the real tools, of several versions."""

from __future__ import annotations

TABLE_535 = """\
Mon Jan 20 10:18:26 2025
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.183.01             Driver Version: 535.183.01   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  Tesla T4                       Off | 00000000:00:1E.0 Off |                    0 |
| N/A   34C    P8               9W /  70W |      2MiB / 15360MiB |      0%      Default |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|=======================================================================================|
|  No running processes found                                                           |
+---------------------------------------------------------------------------------------+
"""
TABLE_361 = """\
+------------------------------------------------------+
| NVIDIA-SMI 361.42     Driver Version: 361.42         |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla K80           On   | 0000:05:00.0     Off |                  Off |
| N/A   40C    P0    60W / 149W |     22MiB / 12287MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+
"""
XML = """\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
    <driver_version>535.183.01</driver_version>
    <attached_gpus>1</attached_gpus>
    <gpu id="00000000:00:1E.0"><product_name>Tesla T4</product_name></gpu>
</nvidia_smi_log>
"""
QUERY = """\

==============NVSMI LOG==============

Timestamp                                 : Mon Jan 20 10:18:26 2025
Driver Version                            : 535.183.01
CUDA Version                              : 12.2

Attached GPUs                             : 1
GPU 00000000:00:1E.0
    Product Name                          : Tesla T4
    ECC Mode
        Current                           : Enabled
"""
LISTING = "GPU 0: Tesla T4 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
TOPOLOGY = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV12\tPXB\t0-31\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t32-63\t1\t\tN/A
NIC0\tPXB\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)

NIC Legend:

  NIC0: mlx5_0
"""
NVLINK = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)
\t Link 0: 25 GB/s
\t Link 1: <inactive>
"""
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=4242, name=python3, GPU has fallen off the bus."
LOGS = {
    "dmesg": f"[    0.000000] Linux version 6.8.0-49-generic\n[  812.118000] {XID}\n",
    "dmesg-human": f"[Mon Jan 20 10:18:26 2025] usb 1-1: new device\n[Mon Jan 20 10:18:27 2025] {XID}\n",
    "dmesg-decoded": f"kern  :info  : [    1.0] usb 1-1: new device\nkern  :err   : [  812.118000] {XID}\n",
    "dmesg-thread": f"[    0.000000][    T0] Linux version 6.8.0\n[  812.118000][ T1234] {XID}\n",
    "pstore": f"<6>[    1.000000] usb 1-1: new device\n<4>[  812.118000] {XID}\n",
    "journal-short": f"Jan 20 10:18:26 node7 kernel: usb 1-1: new device\nJan 20 10:18:27 node7 kernel: {XID}\n",
    "journal-iso": f"2025-01-20T10:18:26+0000 node7 kernel: usb\n2025-01-20T10:18:27+0000 node7 kernel: {XID}\n",
    "journal-german": f"Mär 20 10:18:26 node7 kernel: usb\nOkt 20 10:18:27 node7 kernel: {XID}\n",
    "journal-chinese": f"11月 16 11:33:45 node7 kernel: usb\n11月 16 11:33:46 node7 kernel: {XID}\n",
    "syslog": f"Jan 20 10:18:26 node7 systemd[1]: Started.\nJan 20 10:18:27 node7 kernel: [  812.118] {XID}\n",
    "syslog-iso": f"2025-01-20T10:18:26.123456+01:00 node7 cron[7]: x\n2025-01-20T10:18:27.1+01:00 node7 kernel: {XID}\n",
    "bare": f"{XID}\nNVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n",
}
LSPCI = """\
00:00.0 Host bridge [0600]: Intel Corporation 440FX - 82441FX PMC [Natoma] [8086:1237]
00:1e.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4] [10de:1eb8] (rev a1)
\tSubsystem: NVIDIA Corporation TU104GL [Tesla T4] [10de:12a2]
\tKernel driver in use: nvidia
"""
LSPCI_VVV = """\
0000:3b:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 PCIe 40GB] [10de:20f1] (rev ff) (prog-if ff)
\t!!! Unknown header type 7f
\tKernel driver in use: nvidia
00: ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff
"""
_RULE = "____________________________________________"
BUG_REPORT = f"""\
{_RULE}

Start of NVIDIA bug report log file.  Please include this file, along
with a detailed description of your problem, when reporting a graphics
driver bug via the NVIDIA Linux forum (see forums.developer.nvidia.com)
or by sending email to 'linux-bugs@nvidia.com'.

nvidia-bug-report.sh Version: 33290498

Date: lun. janv. 20 10:18:26 CET 2025
uname: Linux node7 6.8.0-49-generic #49-Ubuntu SMP x86_64 x86_64 x86_64 GNU/Linux
command line flags:

{_RULE}

*** /etc/os-release
*** ls: lrwxrwxrwx 1 root root 21 2025-01-01 01:23:01.000000000 +0100 /etc/os-release -> ../usr/lib/os-release
ID=ubuntu
VERSION_ID="24.04"

{_RULE}

*** /proc/pci does not exist

{_RULE}

/usr/bin/systemctl status nvidia-suspend.service nvidia-powerd.service
○ nvidia-suspend.service - NVIDIA system suspend actions
     Loaded: loaded (/lib/systemd/system/nvidia-suspend.service; enabled)
     Active: inactive (dead)

○ nvidia-powerd.service - nvidia-powerd service
     Loaded: loaded (/lib/systemd/system/nvidia-powerd.service; disabled)
     Active: inactive (dead)

{_RULE}

/usr/bin/lspci -nn

{LSPCI}
{_RULE}

/usr/bin/lspci -nnDvvvxxxx

{LSPCI_VVV}
{_RULE}

/sbin/modinfo nvidia | grep vermagic

vermagic:       6.8.0-49-generic SMP preempt mod_unload modversions

/sbin/modinfo nvidia_uvm | grep vermagic

vermagic:       6.8.0-49-generic SMP preempt mod_unload modversions

{_RULE}

/sys/module/nvidia_drm/parameters/modeset:Y
/sys/module/nvidia_drm/parameters/fbdev:N

{_RULE}

Scanning kernel log files for NVIDIA kernel messages:

  /var/log/kern.log:
Jan 13 10:18:27 node7 kernel: NVRM: API mismatch: the client has the version 535.1, but

  journalctl -b -0:
Jan 20 10:18:27 node7 kernel: {XID}

  journalctl -b -1:
Jan 19 10:18:27 node7 kernel: NVRM: Xid (PCI:0000:3b:00): 31, pid=1

{_RULE}

dmesg:

[    0.000000] Linux version 6.8.0-49-generic
[  812.118000] {XID}
{_RULE}

*** /proc/driver/nvidia/./version
*** ls: -r--r--r-- 1 root root 0 2025-01-20 10:18:20.102814145 +0100 /proc/driver/nvidia/./version
NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024
GCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)

{_RULE}

/usr/bin/nvidia-debugdump -D

UEsDBBQAAAAIAAAAAADZTdUIVQEAAFABAAAOAAEAc3lzdGVtX2luZm8ucGIBAVABr/4VKJUdRxwn
mLmGlvR/FXee8VS87OSNcvsX0M40YJHJqy3wXxUyDyywe4YA1gLUE+7BH6aNp//0nnq1MzjikYW9

{_RULE}

/usr/bin/nvidia-smi --query

{QUERY}
/usr/bin/nvidia-smi --query --unit

Unable to determine number of available units: Unknown Error

{_RULE}

/usr/bin/systemctl status nvidia-fabricmanager.service

{_RULE}

Skipping acpidump output (acpidump not found)
"""
