"""A lost GPU's address by elimination."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Facts, Gpu, Pci, PciDevice
from gpudoctor.probes.derive_address import lost_gpu_address


def facts(gpus: list[Gpu], *bdfs: str) -> Facts:
    return Facts(gpus=gpus, pci=Pci(nvidia_devices=[PciDevice(bdf=bdf) for bdf in bdfs]))


GOOD = Gpu(index=0, bdf="0000:17:00.0", lost=False)


def test_the_only_address_left_is_the_lost_gpus() -> None:
    found = lost_gpu_address(facts([GOOD, Gpu(index=1, lost=True)], "0000:17:00.0", "0000:ca:00.0"))
    assert [gpu.bdf for gpu in found.gpus or []] == ["0000:17:00.0", "0000:ca:00.0"]
    assert "0000:ca:00.0" in (found.gpus or [])[1].evidence["bdf"].text


@pytest.mark.parametrize(
    "unclear",
    [
        facts([Gpu(index=0, lost=True), Gpu(index=1, lost=True)], "0000:17:00.0", "0000:ca:00.0"),
        facts([GOOD, Gpu(index=1, lost=True)], "0000:17:00.0"),
        facts([GOOD, Gpu(index=1, lost=True)], "0000:17:00.0", "0000:ca:00.0", "0000:cb:00.0"),
        facts([GOOD, Gpu(index=1)], "0000:17:00.0", "0000:ca:00.0"),
        Facts(gpus=[GOOD, Gpu(index=1, lost=True)]),
        Facts(),
    ],
)
def test_nothing_is_guessed(unclear: Facts) -> None:
    assert lost_gpu_address(unclear) == unclear
