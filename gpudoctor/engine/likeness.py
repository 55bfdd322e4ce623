"""Which causes' own words a text is most like, by BM25 (Robertson and Zaragoza 2009): for texts that no rule knows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from gpudoctor.engine.model import Cause, Message, Rule
from gpudoctor.lazy import Lazy

_K1, _B = 1.2, 0.5  # how soon a word said again adds nothing; how much a long description counts for less
_WORD = Lazy(r"[^\W\d_][\w+\-.]*|(?<!\d)\d{1,4}\.\d{1,6}")
_SYNTAX = Lazy(r"\\.|\(\?P<\w+>|\(\?<?[=!]|\(\?[a-z-]*[:)]|\[[^\]]*\]|\{[\d,]+\}")  # of patterns
_LONGEST = 30
_ENDINGS = ("ing", "ed", "es", "s")
_STOPPED = {
    "the", "a", "an", "and", "or", "of", "to", "in", "on", "is", "it", "i", "my", "we", "with", "for", "that", "this", "at", "by", "be", "are",
    "was", "has", "have", "as", "not", "no", "but", "if", "so", "from", "can", "do", "you",
}  # fmt: skip
_SHOWN = 6


class Near(msgspec.Struct, frozen=True):
    """A cause whose words a text is like. `share`: of what the text says, rare words counting more; between 0 and 1."""

    rule: str
    cause: str
    share: float
    words: list[str]  # that tell most, the best first


class Likeness(msgspec.Struct, frozen=True, array_like=True):
    """The words of every cause. `places`: by word, MessagePack of [cause's number, times, cause's number, times, ...]."""

    causes: list[tuple[str, str]]
    lengths: list[int]
    places: dict[str, msgspec.Raw]

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> Likeness:
        causes: list[tuple[str, str]] = []
        lengths: list[int] = []
        places: dict[str, list[int]] = {}
        for rule in rules:
            for cause in rule.causes:
                if cause.id is None:
                    continue
                counted = Counter(words(" ".join(_said(rule, cause))))
                for word, times in counted.items():
                    places.setdefault(word, []).extend((len(causes), times))
                causes.append((rule.id, cause.id))
                lengths.append(counted.total())
        return cls(causes, lengths, {word: msgspec.Raw(msgspec.msgpack.encode(at)) for word, at in places.items()})

    def nearest(self, text: str, most: int) -> list[Near]:
        """The causes that a text is most like, the best first."""
        asked = Counter(words(text))
        mean = sum(self.lengths) / max(len(self.lengths), 1)
        everything = 0.0
        known = 0.0
        told: dict[int, dict[str, float]] = {}
        for word, times in asked.items():
            at = msgspec.msgpack.decode(self.places[word], type=list[int]) if word in self.places else []
            weight = (1 + math.log(times)) * self._rarity(len(at) // 2)
            everything += weight
            known += weight if at else 0.0
            for number, said in zip(at[::2], at[1::2], strict=True):
                longer = 1 - _B + _B * self.lengths[number] / mean
                told.setdefault(number, {})[word] = weight * said * (_K1 + 1) / (said + _K1 * longer)
        scores = {number: sum(by_word.values()) for number, by_word in told.items()}
        return [
            Near(
                *self.causes[number],
                share=scores[number] / (_K1 + 1) / everything * (known / everything),
                words=sorted(told[number], key=told[number].__getitem__, reverse=True)[:_SHOWN],
            )
            for number in sorted(scores, key=lambda number: (-scores[number], number))[:most]
        ]

    def _rarity(self, causes: int) -> float:
        """Inverse document frequency, never negative."""
        return math.log(1 + (len(self.causes) - causes + 0.5) / (causes + 0.5))


def words(text: str) -> list[str]:
    """Words in small letters without their commonest endings; numbers only where they look like versions."""
    return [_stem(word.lower()) for word in _spelled(text)]


def stems(text: str) -> dict[str, str]:
    """Each word of `words`, with how the text spells it."""
    return {_stem(word.lower()): word for word in _spelled(text)}


def _spelled(text: str) -> Iterator[str]:
    for found in _WORD.findall(text):
        word = found.strip(".-_")
        if word and len(word) < _LONGEST and word.lower() not in _STOPPED:
            yield word


def _stem(word: str) -> str:
    if len(word) > 4:
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                return word[: -len(ending)]
    return word


def _said(rule: Rule, cause: Cause) -> Iterator[str]:
    """All that a rule says of a cause: titles, clues, steps, patterns, and the examples that come out as this cause."""
    yield from (rule.title, cause.title or "", rule.explain or "")
    yield from _patterns(rule.symptom.messages)
    for clue in cause.supports:
        yield clue.because
        yield from _patterns(clue.message)
    for step in cause.steps:
        yield step.say
        yield from [step.run] if isinstance(step.run, str) else (step.run or {}).values()
    for example in rule.examples:
        if example.text and example.expect.fires == "yes" and example.expect.top == cause.id:
            yield example.text


def _patterns(messages: Iterable[Message] | None) -> Iterator[str]:
    for message in messages or ():
        yield _SYNTAX.sub(" ", message.pattern)
