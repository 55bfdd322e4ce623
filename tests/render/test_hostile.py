"""Captured text is never interpreted: not by the terminal, not by Markdown or HTML, not by XML."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from gpudoctor.facts import Evidence
from gpudoctor.render import FORMATS, RenderOptions
from gpudoctor.render.safe import clean
from gpudoctor.report import (
    Finding,
    HeldClue,
    NextCheck,
    ProbeRun,
    ProbeState,
    RankedCause,
    Report,
    Severity,
    Standing,
    Step,
)

NASTY = [
    "\x1b[31mred\x1b[0m and \x1b[2J cleared",
    "\x1b]0;new title\x07 \x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "\x1b]2;never closed",
    "\x9b31m C1 \x9d0;x\x9c \x90q",
    "right \u202eot tfel\u202c \u2066isolated\u2069 \u200fmark",
    "zero\u200bwidth\ufeff \U000e0041tag",
    "[red]markup[/red] [/dev/nvidia0] [link=http://x]y[/link]",
    "<script>alert(1)</script> <img src=x onerror=y> &lt;",
    "]]> <!-- --> <![CDATA[ x",
    "``` fence\n~~~\n# heading\n- item",
    "`code` **bold** _it_ [a](http://evil.example) ![i](http://evil.example/p.png) | cell |",
    "@everyone closes #1 and !2 http://evil.example www.evil.example",
    "1. list\n2) list\n> quote\n+ plus\n=====",
    "null \x00 bell \x07 backspace \x08\x08\x08 vt \x0b ff \x0c del \x7f",
    "carriage\rreturn overwrites \x85 \u2028 \u2029 lines",
    "surrogate \ud800 noncharacter \uffff \ufffe",
    "\U0001f4a5" * 50,
    "x" * 100_000,
    "$(rm -rf /) `id` $HOME; reboot",
]


def report_with(text: str) -> Report:
    """The text everywhere where captured text can come to stand."""
    clue = HeldClue(because=text, evidence=[Evidence(text, text, 1), Evidence("dmesg", text, 2)])
    cause = RankedCause(
        id="c", title=text, standing=Standing.LIKELY, held=[clue], against=[clue], unknown=[clue],
        steps=[Step(say=text, run=f"echo {text}")],
    )  # fmt: skip
    other = RankedCause(id="d", title=text, standing=Standing.POSSIBLE, steps=[Step(say="look", run=f"cat {text}")])
    out = RankedCause(id="e", title=text, standing=Standing.RULED_OUT)
    below = Finding(rule="x/y", subject=text, severity=Severity.ERROR, title=text)
    finding = Finding(
        rule="a/b", subject=f"process {text}", severity=Severity.CRITICAL, title=text, evidence=[Evidence(text, text)],
        causes=[cause, other, out], consequences=[below],
    )  # fmt: skip
    return Report(
        host=text,
        source=text,
        findings=[finding],
        probes=[ProbeRun(name="nvml", state=ProbeState.DENIED, problems=[text])],
        next_checks=[NextCheck(say=text, run=text, why=text)],
    )


def assert_harmless(rendered: str) -> None:
    for character in rendered:
        assert character == "\n" or character.isprintable() or character == "\N{IDEOGRAPHIC SPACE}", hex(
            ord(character)
        )


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("format", list(FORMATS))
def test_no_format_lets_captured_text_act(format: str, text: str) -> None:
    rendered = FORMATS[format](report_with(text), RenderOptions(verbose=True))
    assert_harmless(rendered)
    rendered.encode("utf-8")


@pytest.mark.parametrize("text", NASTY)
def test_json_stays_json_and_junit_stays_xml(text: str) -> None:
    json.loads(FORMATS["json"](report_with(text), RenderOptions()))
    root = ElementTree.fromstring(FORMATS["junit"](report_with(text), RenderOptions()))
    assert {element.tag for element in root.iter()} <= {
        "testsuites", "testsuite", "properties", "property", "testcase", "failure", "error", "skipped", "system-out",
    }  # fmt: skip


@pytest.mark.parametrize("text", NASTY)
def test_markdown_makes_no_link_image_or_html_of_it(text: str) -> None:
    rendered = FORMATS["markdown"](report_with(text), RenderOptions())
    html = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render(rendered)
    for tag in ("<a ", "<img", "<script", "<table", "<s>", "<h1", "<blockquote", "<em>", "<hr"):
        assert tag not in html, tag
    for line in _outside_code(rendered):
        assert "@everyone" not in line
        assert "#1" not in line
        assert "http://" not in line


def _outside_code(markdown: str) -> list[str]:
    """Lines without fenced blocks and code spans: where mentions and references would act."""
    tokens = MarkdownIt("commonmark").parse(markdown)
    source = markdown.splitlines()
    kept: list[str] = []
    for token in tokens:
        children = token.children or []
        if token.type == "inline" and token.map and not any(child.type == "code_inline" for child in children):
            kept += source[token.map[0] : token.map[1]]
    return kept


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_clean_text_is_one_printable_line(text: str) -> None:
    cleaned = clean(text)
    assert "\n" not in cleaned
    assert "\x1b" not in cleaned
    assert not any(
        "\ud800" <= c <= "\udfff" or "\u202a" <= c <= "\u202e" or "\u2066" <= c <= "\u2069" for c in cleaned
    )
    assert clean(cleaned) == cleaned


def test_clean_keeps_what_is_harmless() -> None:
    for text in ("NVRM: Xid (PCI:0000:3b:00): 79, pid=1", "显卡驱动 ü é", "[drm] [/dev/nvidia0]", "a\tb"):
        assert clean(text) == text.replace("\t", " ")


def test_an_open_escape_does_not_hide_the_rest_of_the_line() -> None:
    assert "Xid" in clean("\x1b]2;NVRM: Xid 79")
    assert "Xid" in clean("\x9dNVRM: Xid 79")
