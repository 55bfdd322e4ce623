"""Sample evidence made by us: recordings of machines that do not exist, one directory a scenario."""

from __future__ import annotations

from pathlib import Path

SCENARIOS = {
    "kernel-updated": "a kernel update left the driver behind",
    "secure-boot": "Secure Boot rejects the driver's module",
    "driver-library-mismatch": "an unattended upgrade replaced the driver under a running system",
    "off-the-bus": "a GPU has fallen off the PCIe bus",
    "ecc-row-remap": "a GPU has used up its spare memory rows",
    "container-without-gpu": "a container that was started without its GPUs",
    "healthy": "a machine with nothing wrong",
}


def path_of(scenario: str) -> Path:
    """The recording of a scenario."""
    return Path(__file__).parent / scenario
