"""A small right rule as YAML, for tests to bend, and rules loaded from such texts."""

from pathlib import Path

from gpudoctor.engine.load import RuleSet, check_files

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


def rule_set(directory: Path, *texts: str) -> RuleSet:
    """Right rules, each loaded from a file below `directory` that its id names."""
    for text in texts:
        file = directory / f"{text.split(maxsplit=2)[1]}.yaml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    loaded, problems = check_files(directory, sorted(directory.rglob("*.yaml")))
    assert problems == []
    return RuleSet({one.rule.id: one for one in loaded})
