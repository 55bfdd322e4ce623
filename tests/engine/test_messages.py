"""Messages in texts: found by literals first, RE2 on those lines only."""

import pytest

from gpudoctor.engine.messages import Texts, further_literals, literals
from gpudoctor.engine.model import Message
from gpudoctor.facts import Document, DocumentKind

LOG = Document(
    "dmesg",
    DocumentKind.KERNEL_LOG,
    "[ 1.0] usb 1-1: new device\n[ 2.0] NVRM: Xid (PCI:0000:3B:00): 79, GPU has fallen off the bus.\n[ 3.0] ok\n",
)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("couldn.t communicate with the NVIDIA driver", ["t communicate with the nvidia driver"]),
        ("Xid .*: (?:79|48), ", ["xid "]),
        ("(?:no devices|not found) here", [" devices", "t found"]),
        ("(?:no such device|device missing)", ["device missing", "no such device"]),
        (r"\d+", None),
        ("a?b*", None),
        ("(?:nvidia)+", ["nvidia"]),
    ],
)
def test_every_match_contains_one_of_the_literals(pattern: str, expected: list[str] | None) -> None:
    assert literals(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("cuda.*(error|failure)", [["cuda"]]),
        ("NVRM: Xid .* fallen off the bus", [["nvrm: xid "]]),
        ("(foo|bar)baz.*foobar", [["bar", "foo"], ["baz"]]),
        ("(foo|ba).*foobar", []),
        ("(abc)?def.*ghijk", [["def"]]),
        ("same words.*same words", []),
        ("only this", []),
    ],
)
def test_further_literals_stand_beside_the_first(pattern: str, expected: list[list[str]]) -> None:
    assert further_literals(pattern) == expected


def test_a_line_must_have_one_of_every_set() -> None:
    text = "an error of the disk\ncuda is here\ncuda: an ERROR 36\n"
    texts = Texts([Document("log", DocumentKind.LOG, text)])
    pattern = "cuda.*(error|failure)"
    found = texts.find(Message(pattern=pattern), literals(pattern), further_literals(pattern))
    assert [match.evidence.line for match in found] == [3]


def test_a_match_tells_line_text_and_groups() -> None:
    (found,) = Texts([LOG]).find(Message(pattern=r"xid \(PCI:(?P<bdf>[\da-f:.]+)\): 79"))
    assert (found.evidence.source, found.evidence.line) == ("dmesg", 2)
    assert found.groups == {"bdf": "0000:3B:00"}
    assert "fallen off the bus" in found.evidence.text


def test_within_limits_the_kinds_of_text() -> None:
    texts = Texts([LOG])
    assert texts.find(Message(pattern="fallen off the bus", within=["paste"])) == []
    assert texts.find(Message(pattern="fallen off the bus", within=["kernel_log"]))


def test_a_match_never_spans_lines() -> None:
    assert Texts([LOG]).find(Message(pattern=r"usb 1-1.*\s+.*NVRM")) == []


def test_line_numbers_of_thinned_text_are_those_of_the_original() -> None:
    thinned = Document("kern.log", DocumentKind.KERNEL_LOG, "a\nOut of memory: Killed process 1\n", [100, 90210])
    (found,) = Texts([thinned]).find(Message(pattern="out of memory"))
    assert found.evidence.line == 90210


def test_text_in_any_encoding_and_with_dotted_capitals_is_searched() -> None:
    text = "İİİ \udcff NVIDIA driver failed\n"
    assert Texts([Document("x", DocumentKind.PASTE, text)]).find(Message(pattern="nvidia driver failed"))
