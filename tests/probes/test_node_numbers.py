"""Device numbers of /dev/nvidia* against the driver's in /proc/devices; the NVLink domain that nvidia-smi -q tells."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Driver
from gpudoctor.probes import driver, nvidia_smi
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import StatAnswer, Status
from tests.probes.machine import machine

DEVICES = (
    "Character devices:\n  1 mem\n195 nvidia-frontend\n511 nvidia-uvm\n509 nvidia-caps\n\nBlock devices:\n  7 loop\n"
)


def node(path: str, major: int, minor: int) -> StatAnswer:
    return StatAnswer(path=path, status=Status.OK, kind="char", mode="0666", major=major, minor=minor, openable=True)


def found(devices: str | None, uvm_major: int) -> list[str] | None:
    stats = (node("/dev/nvidia0", 195, 0), node("/dev/nvidiactl", 195, 255), node("/dev/nvidia-uvm", uvm_major, 0))
    facts = driver.probe(machine({} if devices is None else {"/proc/devices": devices}, stats=stats))
    assert isinstance(facts, Driver)
    return facts.nodes_wrong


@pytest.mark.parametrize(
    ("devices", "major", "wrong"),
    [
        (DEVICES, 511, []),
        (DEVICES, 508, ["/dev/nvidia-uvm 508, not 511"]),
        ("195 nvidia\n195 nvidiactl\n511 nvidia-uvm\n", 508, ["/dev/nvidia-uvm 508, not 511"]),
        ("Character devices:\n  1 mem\n", 508, None),  # no driver is loaded: nothing to compare with
        (None, 508, None),
        ("\x00 nvidia-uvm nvidia", 508, None),
    ],
)
def test_numbers_that_the_driver_no_longer_has(devices: str | None, major: int, wrong: list[str] | None) -> None:
    assert found(devices, major) == wrong


QUERY = """\
==============NVSMI LOG==============

Timestamp                                 : Tue Aug 19 22:31:02 2025
Driver Version                            : 570.172.08
CUDA Version                              : 12.8

Attached GPUs                             : 1
GPU 00000008:01:00.0
    Product Name                          : NVIDIA GB200
    Fabric
        State                             : Completed
        Status                            : Success
        CliqueId                          : 32766
        ClusterUUID                       : 5a1d9c0b-2c0f-4d31-8c1d-22a3f0b1c9d7
"""


def test_the_nvlink_domain() -> None:
    facts = nvidia_smi.probe(open_text(QUERY))
    assert facts is not None
    (gpu,) = facts.gpus or []
    assert (gpu.fabric_cluster_uuid, gpu.fabric_clique) == ("5a1d9c0b-2c0f-4d31-8c1d-22a3f0b1c9d7", 32766)
