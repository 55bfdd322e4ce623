"""Messages in texts: found by literals first, RE2 on those lines only."""

import pytest

from gpudoctor.engine.messages import MessageMatch, Texts
from gpudoctor.engine.model import Message
from gpudoctor.engine.needles import Needles
from gpudoctor.engine.required import end_of, needs
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
        ("(?:no devices|not found) here", [" here"]),
        ("NVIDIA driver .* (?:lost|gone)", ["gone", "lost"]),  # the others are in every text
        ("nvidia.*driver", ["nvidia"]),
        ("(?:no such device|device missing)", ["device missing", "no such device"]),
        (r"\d+", None),
        ("a?b*", None),
        ("(?:nvidia)+", ["nvidia"]),
        (r"environ\[[\"']VARIABLE", ["environ["]),
    ],
)
def test_every_match_contains_one_of_the_literals(pattern: str, expected: list[str] | None) -> None:
    assert needs(pattern).words == expected


def find(documents: list[Document], message: Message) -> list[MessageMatch]:
    """As rules do it."""
    return Texts(documents, Needles.of(needs(message.pattern).words or [])).find(message, needs(message.pattern))


@pytest.mark.parametrize(
    ("pattern", "line", "has_all"),
    [
        ("cuda.*(error|failure)", "cuda: an error", True),
        ("cuda.*(error|failure)", "an error of cuda", False),  # in order
        (r"cuda (error|status)\W{0,3}(code)?\W{0,3}36\b", "cuda error 36", True),
        (r"cuda (error|status)\W{0,3}(code)?\W{0,3}36\b", "cuda error code 37", False),
        ("(foo .*bar|no .*such) end", "foo such end", False),  # each alternative needs all of its own
        ("(foo .*bar|no .*such) end", "no, no such end", True),
        ("(abc)?def.*ghijk", "def ghijk", True),
        ("same words.*same words", "same words", False),  # not the same place twice
        ("(a|long) end", "x end", True),  # one letter says nothing
        ("(ab|abcd)de", "abcde", True),  # the first way that fits may begin inside another
    ],
)
def test_what_a_line_must_have_in_order(pattern: str, line: str, has_all: bool) -> None:
    assert (end_of(needs(pattern).in_order, line.encode()) >= 0) is has_all


@pytest.mark.parametrize(
    ("pattern", "more"),
    [
        ("only this", False),
        ("(this|or that)", False),
        ("this .*and that", True),
        ("(this .*too|that)", True),
        (r"\d+", False),
    ],
)
def test_lines_are_looked_at_again_only_where_the_literals_do_not_say_all(pattern: str, more: bool) -> None:
    assert bool(needs(pattern).in_order) is more


def test_a_line_must_have_all_of_it() -> None:
    text = "an error of the disk\ncuda is here\ncuda: an ERROR 36\n"
    found = find([Document("log", DocumentKind.LOG, text)], Message(pattern="cuda.*(error|failure)"))
    assert [match.evidence.line for match in found] == [3]


def test_a_match_tells_line_text_and_groups() -> None:
    (found,) = find([LOG], Message(pattern=r"xid \(PCI:(?P<bdf>[\da-f:.]+)\): 79"))
    assert (found.evidence.source, found.evidence.line) == ("dmesg", 2)
    assert found.groups == {"bdf": "0000:3B:00"}
    assert "fallen off the bus" in found.evidence.text


def test_within_limits_the_kinds_of_text() -> None:
    assert find([LOG], Message(pattern="fallen off the bus", within=["paste"])) == []
    assert find([LOG], Message(pattern="fallen off the bus", within=["kernel_log"]))


def test_a_match_never_spans_lines() -> None:
    assert find([LOG], Message(pattern=r"usb 1-1.*\s+.*NVRM")) == []


def test_line_numbers_of_thinned_text_are_those_of_the_original() -> None:
    thinned = Document("kern.log", DocumentKind.KERNEL_LOG, "a\nOut of memory: Killed process 1\n", [100, 90210])
    (found,) = find([thinned], Message(pattern="out of memory"))
    assert found.evidence.line == 90210


def test_text_in_any_encoding_and_with_dotted_capitals_is_searched() -> None:
    text = "İİİ \udcff NVIDIA driver failed\n"
    assert find([Document("x", DocumentKind.PASTE, text)], Message(pattern="nvidia driver failed"))


def test_the_end_of_a_line_is_an_end_in_every_line() -> None:
    text = "one gpu\r\nanother gpu\nlast gpu"
    found = find([Document("log", DocumentKind.LOG, text)], Message(pattern="gpu$"))
    assert [match.evidence.line for match in found] == [1, 2, 3]


@pytest.mark.parametrize(
    "pattern",
    ["gpu [[:alpha:]]ost", r"gpu \pLost", r"gpu lost\z", r"\Qgpu lost\E", "(?<n>gpu) lost", r"gpu\x{20}lost"],
)
def test_what_only_re2_understands_is_tried_on_every_line(pattern: str) -> None:
    assert find([Document("log", DocumentKind.LOG, "ok\nthe gpu lost\n")], Message(pattern=pattern))
