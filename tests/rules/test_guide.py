"""The guide of symptoms, causes, steps and practices, line by line: which rules or checks cover it.

Keys number the guide's lines (R2.C1: row 2, cause 1; S: step; E: environment; P: practice). A line that one host's evidence cannot
show has a reason instead.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from gpudoctor.probes import PROBES
from tests.rules.reading import bundled

GUIDE = Path(os.environ.get("GPUDOCTOR_GUIDE") or Path(__file__).parents[3] / "shared" / "guide.md")

# A name with a slash is a rule, `probe:NAME` a probe that does the checking step itself.
COVERED: dict[str, list[str]] = {
    "R1.C1": [
        "driver/not-installed",
        "driver/nvidia-smi-missing",
        "driver/library-missing",
        "driver/packages-broken",
    ],
    "R1.C2": ["pci/no-gpu", "pci/off-the-bus", "pci/fewer-than-expected", "driver/no-devices-found"],
    "R1.C3": ["container/driver-library-not-mounted", "container/no-gpu-device-driver", "container/cdi-spec-stale"],
    "R1.S1": ["probe:pci", "pci/no-gpu"],
    "R1.S2": ["probe:driver", "driver/module-not-loaded"],
    "R1.S3": ["probe:runtime", "container/no-gpu-device-driver", "container/runtime-not-registered"],
    "R2.C1": ["driver/module-not-loaded", "driver/version-mismatch", "driver/kernel-headers-missing"],
    "R2.C2": [
        "driver/module-not-loaded",
        "driver/blacklisted",
        "driver/nouveau-in-use",
        "secure-boot/module-rejected",
    ],
    "R2.S1": ["driver/version-mismatch", "driver/upgrade-pending", "host/reboot-required"],
    "R2.S2": ["driver/module-not-loaded", "driver/dkms-build-failed", "driver/dkms-compiler-mismatch"],
    "R2.S3": ["driver/not-installed", "driver/packages-conflict", "driver/installer-blocked"],
    "R3.C1": ["performance/input-pipeline-slow"],
    "R3.C2": ["memory/gpu-out-of-memory", "performance/input-pipeline-slow"],
    "R3.C3": ["performance/cpu-threads-limited", "performance/input-pipeline-slow"],
    "R3.S1": ["performance/input-pipeline-slow"],
    "R3.S2": ["performance/input-pipeline-slow"],
    "R3.S3": ["performance/input-pipeline-slow", "performance/too-many-workers"],
    "R4.C1": ["performance/gpus-do-not-scale", "probe:topology"],
    "R4.C2": ["performance/gpus-do-not-scale"],
    "R4.C3": ["performance/gpus-do-not-scale"],
    "R4.S1": ["performance/gpus-do-not-scale", "probe:nccl"],
    "R4.S2": ["performance/gpus-do-not-scale"],
    "R4.S3": ["performance/gpus-do-not-scale", "memory/gpu-out-of-memory"],
    "R5.C1": [
        "container/no-gpu-device-driver",
        "container/runtime-not-registered",
        "kubernetes/no-gpu-advertised",
    ],
    "R5.C2": ["container/cuda-library-missing-in-image", "container/driver-libraries-in-image"],
    "R5.S1": ["probe:kubernetes", "kubernetes/no-gpu-advertised"],
    "R5.S2": ["container/cuda-library-missing-in-image"],
    "R6.C1": ["kubernetes/pod-unschedulable", "slurm/gres-conf-invalid", "slurm/node-drained"],
    "R6.S1": ["kubernetes/pod-unschedulable"],
    "R6.S2": ["kubernetes/pod-unschedulable", "slurm/job-pending"],
    "E1": ["probe:nvml", "probe:nvidia_smi"],
    "E2": ["probe:runtime", "container/no-gpu-device-driver"],
    "E3": ["probe:kubernetes", "kubernetes/pod-unschedulable", "kubernetes/gpu-request-invalid"],
    "E4": ["kubernetes/image-pull-failed", "container/image-needs-newer-driver"],
    "E5": ["probe:frameworks"],
    "E6": ["gpu/fewer-than-expected", "gpu/not-the-expected-model", "pci/fewer-than-expected"],
    "E7": ["probe:frameworks", "probe:cuda"],
    "E8": ["probe:network", "probe:topology", "gpu/overheating"],
    "P1": ["performance/input-pipeline-slow", "performance/gpus-do-not-scale"],
    "P2": ["performance/tensor-cores-unused"],
    "P3": ["performance/input-pipeline-slow"],
    "P4": ["slurm/job-ended-by-node"],
    "P5": ["memory/host-oom-killed", "kubernetes/pod-oom-killed", "kubernetes/gpu-request-invalid"],
    "P7": ["performance/input-pipeline-slow", "gpu/overheating"],
    "P8": ["kubernetes/privileged-refused", "host/kernel-log-denied"],
    "P10": ["slurm/job-sees-other-gpus", "slurm/docker-bypasses-cgroup"],
    "P12": ["gpu/row-remap-failed", "host/machine-check"],
}
NOT_FROM_ONE_HOST = {
    "P6": "elastic training and Spot instances are choices of the job's owner; nothing on a host shows them to be wrong",
    "P9": "scanning and renewing images is the registry's work; a container does not show its image's age or its known holes",
    "P11": "versioning is a way of working; recordings (`gpudoctor collect`) keep the versions that a run had",
}


def test_every_named_rule_and_probe_exists() -> None:
    probes = {f"probe:{probe.NAME}" for probe in PROBES}
    names = {name for covering in COVERED.values() for name in covering}
    assert sorted(names - probes - set(bundled().rules)) == []


def test_rows_are_cited_by_the_rules_that_cover_them() -> None:
    cited = {
        found for rule in bundled().rules.values() for found in re.findall(r"R\d\.[CS]\d", " ".join(rule.references))
    }
    assert sorted(line for line in COVERED if line.startswith("R") and line not in cited) == []


@pytest.mark.skipif(not GUIDE.is_file(), reason="the guide itself is not here (GPUDOCTOR_GUIDE)")
def test_no_line_of_the_guide_is_left_out() -> None:
    text = GUIDE.read_text()
    lines: set[str] = set()
    row = ""
    for line in text.splitlines():
        if match := re.match(r"\*\*(R\d)", line):
            row = match.group(1)
        lines |= {f"{row}.{found}" for found in re.findall(r"(?:^- |· )([CS]\d) ", line)}
        lines |= set(re.findall(r"(?:^- |· )([EP]\d+) ", line))
    assert len(lines) > 40
    assert sorted(lines - set(COVERED) - set(NOT_FROM_ONE_HOST)) == []
