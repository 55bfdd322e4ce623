"""Which words are in a text: the quick way must say what a plain search says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.engine import needles
from gpudoctor.engine.needles import Haystack, Needles

WORDS = ["xid", "nvrm", "nvidia", "fallen off", "404", "cuda error", "é!x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvrm: xid 79, gpu has fallen off the bus", {"xid", "nvrm", "fallen off"}),
        ("", set()),
        ("xi", set()),
        ("xid", {"xid"}),
        ("...nvidi", set()),
        ("fallen  off, all off", set()),
        ("é!x", {"é!x"}),
    ],
)
def test_words_of_a_text(text: str, expected: set[str]) -> None:
    assert Haystack(text.encode()).which(Needles.of(WORDS)) == expected


@given(
    st.text(alphabet="abx \n", max_size=40), st.sets(st.text(alphabet="abx ", min_size=3, max_size=8), max_size=10)
)
def test_it_says_what_a_plain_search_says(text: str, words: set[str]) -> None:
    assert Haystack(text.encode()).which(Needles.of(words)) == {word for word in words if word in text}


@pytest.mark.parametrize("size", [1, 5, 20])
def test_a_long_text_is_searched_in_pieces_of_whole_lines(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(needles, "_PIECE_BYTES", size)
    text = b"a cuda error\n\nnvrm: xid 79, gpu has fallen off the bus\n404\nxi\nd"
    assert Haystack(text).which(Needles.of(WORDS)) == {"cuda error", "nvrm", "xid", "fallen off", "404"}


@given(st.text(alphabet="abx \n", max_size=40), st.text(alphabet="abx ", min_size=1, max_size=8))
def test_one_word_asked_for_is_found_where_a_plain_search_finds_it(text: str, word: str) -> None:
    haystack = Haystack(text.encode())
    assert [haystack.has(word.encode()) for _ in range(2)] == [word in text] * 2
