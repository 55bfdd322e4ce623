"""Thins a huge log to the lines that matter, chunk by chunk: a gigabyte is never in memory."""

from __future__ import annotations

import itertools
import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import msgspec

# Lines that facts are read from, whatever the rules look for and however many there are.
NEEDED = (
    "NVRM", "Xid", "NVSwitch", "AER:", "PCIe Bus Error", "mce: ", "Machine check", "Hardware Error", "Out of memory", "oom-kill", "invoked oom-killer",
    "Killed process", "Kernel panic", "Linux version ", "Command line: ",
)  # fmt: skip
# These too, unless they are so common that they say nothing.
USEFUL = (
    "nvidia", "nouveau", "EDAC ", "oom_reaper", "blocked for more than", "I/O error", "DMAR: ", "AMD-Vi: ", "BUG: ", "soft lockup", "vfio-pci",
    "pciehp", "module verification failed", "Loading of ", "segfault at", "PM: suspend",
)  # fmt: skip
ALWAYS = NEEDED + USEFUL
# With rules' own words: what stands for many of them, and so keeps the pattern small.
_BESIDE_RULES = (
    "nvrm",
    "xid",
    "nvidia",
    "nvlink",
    "nvswitch",
    "out of memory",
    "oom-kill",
    "aer:",
    "mce:",
    "i/o error",
)
FIRST_LINES = 30_000
LAST_LINES = 1_000
PER_SHAPE = 2_000  # lines that differ in numbers only: of a storm the beginning is enough
SHORT_WORDS_LINES = 2_000  # lines with "404" or "hdd" only: most are times, addresses and sizes
_SHORT = 4
_SHORT_NEEDED = frozenset(word.strip().lower().encode() for word in NEEDED if len(word) <= _SHORT + 1)
_WINDOW_BYTES = 4 << 20
_THREADS = 2  # RE2 searches without the GIL; a third would wait for the one that counts lines
_SPANS_AHEAD = 64  # of one window
_WINDOWS_AHEAD = 8  # the same on every machine: what is kept depends on it
_LONGEST_LINE = 16_384
_SAMPLE_BYTES = 1 << 18
_EXAMPLES = 5
_TOO_COMMON = 0.02  # of the sample's lines: such a word does not thin, it keeps everything
_NUMBERS = re.compile(rb"[0-9a-f]*[0-9][0-9a-f]*|\s+")
_Span = tuple[int, int]
_Window = tuple[bytes, int, int]  # a buffer with the bounds of whole lines in it


class Thinned(msgspec.Struct, frozen=True):
    """The lines that matter with their 1-based numbers. `dropped`: how many more there were than are kept; `common`: words
    that are in so many lines that they were not looked for.
    """

    text: str
    numbers: list[int]
    dropped: int
    common: list[str]


def thin(chunks: Iterable[bytes], interesting: Collection[bytes] | None = None) -> Thinned:
    """The lines with one of the words in `interesting` (case does not matter); lines of ALWAYS are kept with or without it."""
    chunks = iter(chunks)
    first_chunk = next(chunks, b"")
    sample = first_chunk[: first_chunk.rfind(b"\n", 0, _SAMPLE_BYTES) + 1]
    literals = _literals(interesting)
    common = _common(literals, sample)
    wanted = literals - common
    long_ones = {
        word for word in wanted if len(_plain(word)) > _SHORT or _plain(word).strip().lower() in _SHORT_NEEDED
    }
    compiled = _compiled(tuple(sorted(wanted))), _compiled(tuple(sorted(long_ones)))
    first = _examples(common, sample)
    last: deque[tuple[int, bytes]] = deque(maxlen=LAST_LINES)
    dropped = 0
    shapes: Counter[bytes] = Counter()
    for number, line in matching(itertools.chain([first_chunk], chunks), *compiled):
        shape = _NUMBERS.sub(b"", line[:120])
        shapes[shape] += 1
        if shapes[shape] <= PER_SHAPE and len(first) < FIRST_LINES:
            first[number] = line
        else:
            dropped += len(last) == LAST_LINES
            last.append((number, line))
    kept = sorted([*first.items(), *last])
    text = b"\n".join(line for _, line in kept).decode("utf-8", "replace")
    numbers = [number for number, _ in kept]
    return Thinned(text, numbers, dropped, sorted(_plain(word).decode("utf-8", "replace") for word in common))


def _examples(common: set[bytes], sample: bytes) -> dict[int, bytes]:
    """The first lines with each common word: a message that fills the log is still seen."""
    found: dict[int, bytes] = {}
    for word in common:
        for number, line in itertools.islice(matching([sample], _compiled((word,))), _EXAMPLES):
            found[number] = line
    return found


def _literals(interesting: Collection[bytes] | None) -> set[bytes]:
    """The words to look for, escaped. Of two of which one contains the other, the shorter finds both."""
    import re2

    wanted = {*interesting, *map(str.encode, _BESIDE_RULES)} if interesting is not None else set()
    by_start: dict[bytes, list[bytes]] = {}
    for word in wanted:
        by_start.setdefault(word[:3], []).append(word)
    shortest = (word for word in wanted if not _has_another(word, by_start))
    return {re2.escape(word) for word in (*map(str.encode, ALWAYS), *shortest)}


def _has_another(word: bytes, by_start: dict[bytes, list[bytes]]) -> bool:
    """Whether a shorter one is in a word; `by_start` has them by their first three letters."""
    for at in range(len(word) - 2):
        for other in by_start.get(word[at : at + 3], ()):
            if other != word and word.startswith(other, at):
                return True
    return False


def _common(literals: set[bytes], sample: bytes) -> set[bytes]:
    """Those that are in more of the sample's lines than a filter's word may be; never one that facts need."""
    needed = {literal.lower().encode() for literal in NEEDED}
    limit = sample.count(b"\n") * _TOO_COMMON
    by_plain = {_plain(word).lower(): word for word in literals}
    common: set[bytes] = set()
    while limit > 10:  # until none of the rest is: one that is found may hide another, which begins within it
        pattern = _compiled(tuple(sorted(literals - common)))
        found = Counter(match.group().lower() for match in pattern.finditer(sample))
        # RE2 also takes \xc3 for \xe3: such a match is none of the words
        more = {by_plain[word] for word in found if found[word] > limit and word not in needed and word in by_plain}
        if not more:
            break
        common |= more
    return common


def _plain(escaped: bytes) -> bytes:
    return re.sub(rb"\\(.)", rb"\1", escaped)


@lru_cache(maxsize=128)
def _compiled(literals: tuple[bytes, ...]) -> Any:
    import re2

    options = re2.Options()
    options.case_sensitive = False
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 << 20
    return re2.compile(b"|".join(literals), options)


def matching(chunks: Iterable[bytes], compiled: Any, without_short: Any = None) -> Iterator[tuple[int, bytes]]:
    """(line number, line) of each line in which `compiled` occurs; of lines with short words only, the first ones.

    `without_short` looks for the other words, once there were enough of those.
    """
    number = 1
    short = 0

    def current() -> Any:
        return compiled if short <= SHORT_WORDS_LINES or without_short is None else without_short

    for (window, begin, limit), spans in _searched(_windows(chunks), current):
        counted = end = begin
        for at, after in spans:
            if at < end:
                continue  # another match in the same line
            if after - at <= _SHORT and window[at:after].strip().lower() not in _SHORT_NEEDED:
                short += 1
                if short > SHORT_WORDS_LINES and without_short is not None:
                    continue
            start = window.rfind(b"\n", begin, at) + 1 or begin
            end = window.find(b"\n", at, limit)
            if end < 0:
                end = limit
            number += window.count(b"\n", counted, start)
            counted = start
            line = window[start : min(end, start + _LONGEST_LINE)]
            yield number, line.rstrip(b"\r")
        number += window.count(b"\n", counted, limit)


def _searched(windows: Iterable[_Window], compiled: Callable[[], Any]) -> Iterator[tuple[_Window, Iterable[_Span]]]:
    """Each window with its matches' bounds, in order; the next ones are searched meanwhile. `compiled` is asked for each anew."""
    with ThreadPoolExecutor(_THREADS) as pool:
        waiting: deque[tuple[_Window, Any, Future[list[_Span]]]] = deque()
        for window in windows:
            pattern = compiled()
            waiting.append((window, pattern, pool.submit(_first_spans, pattern, *window)))
            if len(waiting) > _WINDOWS_AHEAD:
                yield _all_spans(*waiting.popleft())
        while waiting:
            yield _all_spans(*waiting.popleft())


def _first_spans(compiled: Any, window: bytes, begin: int, limit: int) -> list[_Span]:
    return [match.span() for match in itertools.islice(compiled.finditer(window, begin, limit), _SPANS_AHEAD)]


def _all_spans(window: _Window, compiled: Any, first: Future[list[_Span]]) -> tuple[_Window, Iterable[_Span]]:
    """The first ones, found already, and the others one by one: a storm has millions."""
    spans = first.result()
    if len(spans) < _SPANS_AHEAD:
        return window, spans
    buffer, _, limit = window
    others = (match.span() for match in compiled.finditer(buffer, spans[-1][1], limit))
    return window, itertools.chain(spans, others)


def _windows(chunks: Iterable[bytes]) -> Iterator[_Window]:
    """Pieces of whole lines, as a buffer with its bounds: copying would cost as much as searching.

    A line that two chunks share is a piece of its own; one that is longer than a window is cut.
    """
    rest: list[bytes] = []
    size = 0
    for chunk in chunks:
        begin = 0
        if rest:
            begin = chunk.find(b"\n") + 1
            if begin == 0 and size + len(chunk) < _WINDOW_BYTES:
                rest.append(chunk)
                size += len(chunk)
                continue
            shared = b"".join([*rest, chunk[:begin] if begin else chunk])
            yield shared, 0, len(shared)
            rest, size = [], 0
            if begin == 0:
                continue
        end = chunk.rfind(b"\n") + 1
        if end > begin:
            yield chunk, begin, end
        if max(begin, end) < len(chunk):
            rest = [chunk[max(begin, end) :]]
            size = len(rest[0])
    if rest:
        shared = b"".join(rest)
        yield shared, 0, size
