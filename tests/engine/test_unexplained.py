"""Error lines that no rule knows: which are told, and where they are."""

from gpudoctor.engine.unexplained import unexplained
from gpudoctor.facts import Document, DocumentKind
from gpudoctor.sources import open_text


def paste(text: str) -> list[Document]:
    return [Document("pasted text", DocumentKind.PASTE, text)]


def test_the_programs_last_word_comes_first_then_later_lines() -> None:
    found = unexplained(paste("x: error: first\nFooError: the end\ny: error: second\nz: error: third\nok\n"))
    assert [one.text for one in found] == ["FooError: the end", "z: error: third", "y: error: second"]
    assert [one.line for one in found] == [2, 4, 3]


def test_of_a_long_text_the_end_with_its_line_numbers() -> None:
    (found,) = unexplained(paste("AnError: early\n" + "ok\n" * 30_000 + "FooError: late"))
    assert (found.text, found.line) == ("FooError: late", 30_002)


def test_kernel_logs_are_left_out_also_in_a_paste() -> None:
    text = "[    1.234567] ACPI Error: Aborting method (20240827/psparse-529)\n[    2.345678] usb 1-1: device not accepting address 3, error -71\n"
    assert unexplained(open_text(text * 3).documents()) == []
