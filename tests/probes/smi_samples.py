"""Outputs of nvidia-smi in the layouts of several driver generations, made up for the tests."""

from __future__ import annotations

Q_346 = """
==============NVSMI LOG==============

Timestamp                           : Tue Mar  3 10:00:00 2015
Driver Version                      : 346.72

Attached GPUs                       : 1
GPU 0000:04:00.0
    Product Name                    : Tesla K80
    Persistence Mode                : Disabled
    Serial Number                   : 0324614000001
    GPU UUID                        : GPU-11111111-2222-3333-4444-555555555555
    Minor Number                    : 0
    PCI
        Device Id                   : 0x102D10DE
        Bus Id                      : 0000:04:00.0
        GPU Link Info
            PCIe Generation
                Max                 : 3
                Current             : 3
            Link Width
                Max                 : 16x
                Current             : 8x
        Replays since reset         : 2
    Fan Speed                       : N/A
    Performance State               : P8
    Clocks Throttle Reasons
        Idle                        : Not Active
        Applications Clocks Setting : Active
        SW Power Cap                : Not Active
        HW Slowdown                 : Active
        Unknown                     : Not Active
    FB Memory Usage
        Total                       : 11519 MiB
        Used                        : 55 MiB
        Free                        : 11464 MiB
    Compute Mode                    : Exclusive_Process
    Ecc Mode
        Current                     : Enabled
        Pending                     : Disabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 5
                Total               : 5
            Double Bit
                Device Memory       : 1
                Total               : 1
        Aggregate
            Single Bit
                Total               : 40
            Double Bit
                Total               : 2
    Retired Pages
        Single Bit ECC              : 3
        Double Bit ECC              : 1
        Pending                     : Yes
    Temperature
        GPU Current Temp            : 35 C
        GPU Shutdown Temp           : 93 C
        GPU Slowdown Temp           : 88 C
    Power Readings
        Power Management            : Supported
        Power Draw                  : 31.02 W
        Power Limit                 : 149.00 W
        Default Power Limit         : 149.00 W
        Enforced Power Limit        : 120.00 W
    Clocks
        Graphics                    : 324 MHz
        SM                          : 324 MHz
        Memory                      : 324 MHz
    Max Clocks
        Graphics                    : 875 MHz
        SM                          : 875 MHz
        Memory                      : 2505 MHz
    Processes                       : None
"""

Q_570 = """
==============NVSMI LOG==============

Timestamp                                 : Mon Jun  2 09:00:00 2025
Driver Version                            : 570.133.20
CUDA Version                              : 12.8

Attached GPUs                             : 2
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Architecture                  : Hopper
    Persistence Mode                      : Enabled
    Addressing Mode                       : None
    MIG Mode
        Current                           : Disabled
        Pending                           : Enabled
    GPU UUID                              : GPU-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee
    GPU Virtualization Mode
        Virtualization Mode               : Pass-Through
        Host VGPU Mode                    : N/A
    GPU Recovery Action                   : Drain and Reset
    GSP Firmware Version                  : 570.133.20
    PCI
        Device Id                         : 0x233010DE
        Bus Id                            : 00000000:3B:00.0
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 1
                Device Current            : 1
                Device Max                : 5
                Host Max                  : 5
            Link Width
                Max                       : 16x
                Current                   : 16x
        Replays Since Reset               : 0
    Fan Speed                             : N/A
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Active
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Active
        Display Clock Setting             : Not Active
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 551 MiB
        Used                              : 1000 MiB
        Free                              : 80008 MiB
    Compute Mode                          : Default
    Utilization
        GPU                               : 98 %
        Memory                            : 40 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 1
            SRAM Uncorrectable SEC-DED    : 2
            DRAM Correctable              : 7
            DRAM Uncorrectable            : 4
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 10
            SRAM Uncorrectable SEC-DED    : 20
            DRAM Correctable              : 7
            DRAM Uncorrectable            : 4
            SRAM Threshold Exceeded       : Yes
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 2
        Uncorrectable Error               : 4
        Pending                           : Yes
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 2558 bank(s)
            High                          : 1 bank(s)
            Partial                       : 0 bank(s)
            Low                           : 0 bank(s)
            None                          : 1 bank(s)
    Temperature
        GPU Current Temp                  : 60 C
        GPU T.Limit Temp                  : 27 C
        GPU Shutdown T.Limit Temp         : -8 C
        GPU Slowdown T.Limit Temp         : -2 C
        GPU Max Operating T.Limit Temp    : 0 C
        Memory Current Temp               : 70 C
    GPU Power Readings
        Average Power Draw                : 301.20 W
        Instantaneous Power Draw          : 310.00 W
        Current Power Limit               : 500.00 W
        Requested Power Limit             : 500.00 W
        Default Power Limit               : 700.00 W
        Min Power Limit                   : 200.00 W
        Max Power Limit                   : 700.00 W
    Module Power Readings
        Average Power Draw                : 999.00 W
        Current Power Limit               : 999.00 W
        Default Power Limit               : 999.00 W
    Fabric
        State                             : In Progress
        Status                            : N/A
        Health
            Bandwidth                     : Degraded
            Route Recovery in progress    : False
            Route Unhealthy               : True
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 4242
            Type                          : C
            Name                          : python3 train.py
            Used GPU Memory               : 990 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 77
            Type                          : M+C
            Name                          : nvidia-cuda-mps-server
            Used GPU Memory               : N/A

GPU 00000000:5D:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU Recovery Action                   : Reboot
    Fan Speed                             : Unknown Error
    Performance State                     : [N/A]
    FB Memory Usage
        Total                             : GPU is lost
        Used                              : GPU is lost
    Temperature
        GPU Current Temp                  : GPU requires reset
    GPU Power Readings
        Average Power Draw                : Requested functionality has been deprecated
        Current Power Limit               : Insufficient Permissions
"""

XML_590 = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
\t<timestamp>Mon Jun  2 09:00:00 2025</timestamp>
\t<driver_version>590.44.01</driver_version>
\t<cuda_version>13.1</cuda_version>
\t<attached_gpus>1</attached_gpus>
\t<gpu id="00000001:1A:00.0">
\t\t<product_name>NVIDIA B200 &amp; friends</product_name>
\t\t<product_architecture>Blackwell</product_architecture>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<mig_mode>
\t\t\t<current_mig>Enabled</current_mig>
\t\t\t<pending_mig>Enabled</pending_mig>
\t\t</mig_mode>
\t\t<mig_devices>
\t\t\t<mig_device>
\t\t\t\t<index>0</index>
\t\t\t\t<fb_memory_usage><total>1 MiB</total><used>1 MiB</used></fb_memory_usage>
\t\t\t\t<ecc_error_count><volatile_count><sram_uncorrectable>99</sram_uncorrectable></volatile_count></ecc_error_count>
\t\t\t</mig_device>
\t\t\t<mig_device><index>1</index></mig_device>
\t\t</mig_devices>
\t\t<uuid>GPU-0</uuid>
\t\t<gpu_recovery_action>None</gpu_recovery_action>
\t\t<pci>
\t\t\t<pci_device_id>290110DE</pci_device_id>
\t\t\t<pci_bus_id>00000001:1A:00.0</pci_bus_id>
\t\t\t<replay_counter>3</replay_counter>
\t\t</pci>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
\t\t\t<clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
\t\t\t<clocks_event_reason_display_clocks_setting>Not Active</clocks_event_reason_display_clocks_setting>
\t\t</clocks_event_reasons>
\t\t<fb_memory_usage>
\t\t\t<total>183359 MiB</total>
\t\t\t<reserved>700 MiB</reserved>
\t\t\t<used>2 MiB</used>
\t\t</fb_memory_usage>
\t\t<utilization><gpu_util>N/A</gpu_util></utilization>
\t\t<remapped_rows>N/A</remapped_rows>
\t\t<temperature>
\t\t\t<gpu_temp>40 C</gpu_temp>
\t\t\t<gpu_temp_tlimit>45 C</gpu_temp_tlimit>
\t\t\t<gpu_temp_slow_tlimit_threshold>-2 C</gpu_temp_slow_tlimit_threshold>
\t\t</temperature>
\t\t<gpu_power_readings>
\t\t\t<power_state>Requested functionality has been deprecated</power_state>
\t\t\t<average_power_draw>181.00 W</average_power_draw>
\t\t\t<instant_power_draw>190.00 W</instant_power_draw>
\t\t\t<current_power_limit>1000.00 W</current_power_limit>
\t\t\t<default_power_limit>1000.00 W</default_power_limit>
\t\t</gpu_power_readings>
\t\t<fabric>
\t\t\t<state>Completed</state>
\t\t\t<status>Success</status>
\t\t\t<health><summary>Limited Capacity</summary><bandwidth>Full</bandwidth></health>
\t\t</fabric>
\t\t<processes>
\t\t\t<process_info>
\t\t\t\t<pid>5</pid>
\t\t\t\t<type>C</type>
\t\t\t\t<process_name>[Not Found]</process_name>
\t\t\t\t<used_memory>[Insufficient Permissions]</used_memory>
\t\t\t</process_info>
\t\t</processes>
\t</gpu>
</nvidia_smi_log>
"""

TABLE_304 = """\
+------------------------------------------------------+
| NVIDIA-SMI 4.304.88   Driver Version: 304.88         |
|-------------------------------+----------------------+----------------------+
| GPU  Name                     | Bus-Id        Disp.  | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap| Memory-Usage         | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla K20c               | 0000:02:00.0     Off |                    3 |
| 30%   36C    P8    16W / 225W |   0%   13MB / 4799MB |      0%    E. Thread |
+-------------------------------+----------------------+----------------------+
| Compute processes:                                               GPU Memory |
|  GPU       PID  Process name                                     Usage      |
|=============================================================================|
|    0     12345  ./simulate --long                                   100MB   |
+-----------------------------------------------------------------------------+
"""

TABLE_470 = """\
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|                               |                      |               MIG M. |
|===============================+======================+======================|
|   0  NVIDIA A40          On   | 00000000:01:00.0 Off |                  Off |
|  0%   30C    P8    14W / 300W |      3MiB / 46068MiB |      0%      Default |
|                               |                      |                  N/A |
+-------------------------------+----------------------+----------------------+
|   1  ERR!                On   | 00000000:25:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!    ERR! / ERR! |      0MiB / 46068MiB |    ERR!      Default |
|                               |                      |                 ERR! |
+-------------------------------+----------------------+----------------------+
|   2  NVIDIA A100-SXM...  On   | 00000000:41:00.0 Off |                   On |
| N/A   34C    P0    60W / 400W |     12MiB / 40536MiB |     N/A   Prohibited |
|                               |                      |              Enabled |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| MIG devices:                                                                |
+------------------+----------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |         Memory-Usage |        Vol|         Shared        |
|      ID  ID  Dev |           BAR1-Usage | SM     Unc| CE  ENC  DEC  OFA  JPG|
|                  |                      |        ECC|                       |
|==================+======================+===========+=======================|
|  2    1   0   0  |     11MiB / 20096MiB | 42      0 |  3   0    2    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+
|  2    2   0   1  |      7MiB / 20096MiB | 42      0 |  3   0    2    0    0 |
|                  |      0MiB / 32767MiB |           |                       |
+------------------+----------------------+-----------+-----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                                  |
|  GPU   GI   CI        PID   Type   Process name                  GPU Memory |
|        ID   ID                                                   Usage      |
|=============================================================================|
|    0   N/A  N/A      2109      G   /usr/lib/xorg/Xorg                  3MiB |
|    2    1    0       5555      C   python train.py                    11MiB |
+-----------------------------------------------------------------------------+
"""

TABLE_610 = """\
Fri Aug 28 00:33:07 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GB10                    Off |   0000000F:01:00.0 Off |                  N/A |
| N/A   36C    P8              4W /  N/A  | Not Supported          |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
