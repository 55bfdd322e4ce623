"""Patterns that are compiled when first used, and the words without which they are not even tried."""

from __future__ import annotations

import importlib
import pkgutil
import re
import re._constants as sre
import re._parser as sre_parser
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import gpudoctor
from gpudoctor.lazy import Lazy


def patterns_in(value: Any) -> Iterator[Lazy]:
    """Of a module's constant: a pattern, or patterns in tuples and tables."""
    if isinstance(value, Lazy):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in(tuple(value.values()))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from patterns_in(item)


def every_pattern() -> Iterator[tuple[str, Lazy]]:
    for found in pkgutil.walk_packages(gpudoctor.__path__, "gpudoctor."):
        if ".workers" in found.name or found.name.endswith("__main__"):
            continue
        module = importlib.import_module(found.name)
        for name, value in vars(module).items():
            for pattern in patterns_in(value):
                yield f"{found.name}.{name}", pattern


def proves(parsed: Iterable[Any], words: tuple[str, ...], row: str = "") -> bool:
    """Whether every match of a pattern has one of the words (small letters) in a row of its letters; `row` went before."""
    for op, value in parsed:
        if op is sre.LITERAL:
            row += chr(value).lower()
            if any(word in row for word in words):
                return True
            continue
        if op is sre.IN and all(kind is sre.LITERAL and chr(letter) in words for kind, letter in value):
            return True
        if op is sre.SUBPATTERN and proves(value[3], words, row):
            return True
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT) and value[0] > 0 and proves(value[2], words, row):
            return True
        if op is sre.BRANCH and all(proves(branch, words, row) for branch in value[1]):
            return True
        row = ""
    return False


def test_no_match_is_lost_for_want_of_a_word() -> None:
    with_needs = {id(pattern): (name, pattern) for name, pattern in every_pattern() if pattern.needs}
    assert len(with_needs) > 50
    unproven = [
        f"{name}: {pattern.needs}"
        for name, pattern in with_needs.values()
        if not proves(sre_parser.parse(pattern.pattern, pattern.flags), tuple(map(str.lower, pattern.needs)))
    ]
    assert not unproven, "\n".join(unproven)


@pytest.mark.parametrize("needs", [(), ("no-such-word",)])
def test_all_ways_of_looking_agree(needs: tuple[str, ...]) -> None:
    lazy, plain = Lazy(r"b(\d)", needs=needs), re.compile(r"b(\d)")
    text = "a b1 b2"
    if needs:
        assert (lazy.search(text), lazy.match(text), lazy.fullmatch(text)) == (None, None, None)
        assert (list(lazy.finditer(text)), lazy.findall(text), lazy.sub("x", text), lazy.split(text)) == (
            [],
            [],
            text,
            [text],
        )
        return
    assert lazy.search(text)[1] == plain.search(text)[1]  # type: ignore[index]
    assert lazy.match(text, 2)[1] == "1"  # type: ignore[index]
    assert [m[1] for m in lazy.finditer(text)] == lazy.findall(text) == ["1", "2"]
    assert (lazy.sub("x", text), lazy.split(text)) == (plain.sub("x", text), plain.split(text))
