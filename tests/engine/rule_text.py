"""A small right rule as YAML, for tests to bend."""

RULE = """\
id: driver/not-running
title: The driver is not running on {host.kernel_release // this kernel}
severity: critical
symptom:
  when: size(pci.nvidia_devices) > 0 && !driver.loaded
  messages: ["couldn.t communicate with the NVIDIA driver"]
causes:
  - id: not-built
    title: Not built for this kernel
    supports:
      - {when: "driver.dkms.exists(d, d.kernel != host.kernel_release)", because: DKMS built it for another kernel, check: dkms status}
    against:
      - {when: driver.module_for_running_kernel, weight: decisive, because: a module for this kernel is on disk}
    steps:
      - {say: Look., run: dkms status}
      - {say: Build., run: "sudo dkms install nvidia/{driver.version // VERSION}", effect: changes}
  - id: not-loaded
    title: Not loaded
    supports:
      - {message: "modprobe: FATAL", weight: weak, because: modprobe failed}
    steps:
      - {say: Look., run: lsmod}
references: ["https://docs.nvidia.com/"]
examples: []
"""
