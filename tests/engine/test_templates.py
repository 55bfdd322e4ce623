"""Texts with facts in them."""

import pytest

from gpudoctor.engine.templates import fill

VALUES = {
    "host.kernel_release": "6.8.0-51-generic",
    "gpu.power_w": 71.0,
    "m.name": "x; rm -rf /",
    "names": ["a", "b"],
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("kernel {host.kernel_release}", "kernel 6.8.0-51-generic"),
        ("kernel {host.arch}", "kernel <host.arch>"),
        ("headers-{host.arch // $(uname -m)}", "headers-$(uname -m)"),
        ("on {m.kernel // host.kernel_release // this kernel}", "on 6.8.0-51-generic"),
        ("on {m.kernel // host.arch // this kernel}", "on this kernel"),
        ("{gpu.power_w} W", "71 W"),
        ("{names}", "a, b"),
        ("awk '{{print $1}}'", "awk '{print $1}'"),
    ],
)
def test_values_fallbacks_and_braces(template: str, text: str) -> None:
    assert fill(template, VALUES.get) == text


def test_captured_values_cannot_become_commands() -> None:
    assert fill("kill {m.name}", VALUES.get, shell=True) == "kill 'x; rm -rf /'"


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert fill("{x}", {"x": "a\x1b[2Jb\r\nc"}.get) == "a [2Jb  c"
