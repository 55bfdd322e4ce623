"""Pretends another running kernel: uname, Python, modinfo, dkms and modprobe follow it."""

from __future__ import annotations

from pathlib import Path

from .. import native


def environment(release: str, machine: str | None = None) -> dict[str, str]:
    """What a program needs to believe that it runs on kernel `release`."""
    folder = native.build_shared("uname_shim.so", [Path(__file__).with_name("uname_shim.c")])
    variables = {"LD_PRELOAD": str(folder / "uname_shim.so"), "FAKE_UNAME_RELEASE": release}
    return variables if machine is None else {**variables, "FAKE_UNAME_MACHINE": machine}
