"""gpudoctor's own verdict on each whole host: the files of the host, and live answers that fit them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import hosts
from tests.testbed.nvml import FakeNvml

# Host -> the rule that must be among the root causes, or None: nothing at or above the bar.
EXPECTED: list[tuple[hosts.Maker, str | None]] = [
    (hosts.healthy_host, None),
    (hosts.no_card, "pci/no-gpu"),
    (hosts.card_no_driver, "driver/module-not-loaded"),
    (hosts.nouveau_bound, "driver/nouveau-in-use"),
    (hosts.built_for_another_kernel, "driver/kernel-headers-missing"),
    (hosts.build_failed, "driver/kernel-too-new"),
    (hosts.library_mismatch, "driver/version-mismatch"),
    (hosts.module_rejected, "secure-boot/module-rejected"),
    (hosts.off_the_bus, "pci/off-the-bus"),
    (hosts.slow_link, "pci/link-narrow"),
    (hosts.no_address_space, "pci/bar-unassigned"),
    (hosts.vfio_bound, "pci/vfio-bound"),
]


def report(make: hosts.Maker, root: Path, fake: FakeNvml) -> dict[str, Any]:
    tree = make(root)
    command = [sys.executable, "-m", "gpudoctor", "check", "--root", str(root), "--format", "json"]
    environment = {**os.environ, **hosts.environment(make, tree, fake)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(("make", "rule"), EXPECTED, ids=lambda value: getattr(value, "__name__", ""))
def test_root_cause_of_each_host(tmp_path: Path, fake_nvml: FakeNvml, make: hosts.Maker, rule: str | None) -> None:
    found = report(make, tmp_path, fake_nvml)
    roots = [finding["rule"] for finding in found["findings"]]
    if rule is None:
        serious = [f["rule"] for f in found["findings"] if f["severity"] in {"critical", "error"}]
        assert (serious, found["verdict"] in {"pass", "warn"}) == ([], True)
    else:
        assert rule in roots
