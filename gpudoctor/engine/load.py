"""Rules from YAML: every problem with its file and line, all of them at once. Checked rules are kept in a cache."""

from __future__ import annotations

import functools
import mmap
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from gpudoctor import __version__
from gpudoctor.engine.model import Compiled, Rule, Symptom
from gpudoctor.engine.needles import Needles
from gpudoctor.engine.required import Needs
from gpudoctor.errors import GpudoctorError

if TYPE_CHECKING:
    from gpudoctor.engine.likeness import Likeness

Kept = TypeVar("Kept")
ANY_TEXT = ""
BELOW_BUNDLED = "bundled:"
# Beside the bundled rules in a wheel: they cannot change there, so they are checked once.
PREPARED = "prepared.msgpack"
_CHECKSUM_BYTES = 4


class Prepared(msgspec.Struct, frozen=True, array_like=True):
    """What is prepared once: compiled expressions by text, and what a line needs, by message pattern."""

    compiled: dict[str, Compiled]
    needs: dict[str, Needs]


class SymptomPart(msgspec.Struct, frozen=True, array_like=True):
    """What tells whether a rule fires."""

    symptom: Symptom
    prepared: Prepared


class Whole(msgspec.Struct, frozen=True, array_like=True):
    """A rule with all its parts, and what is prepared of its causes and texts."""

    rule: Rule
    prepared: Prepared


class LoadedRule(msgspec.Struct, frozen=True, array_like=True, dict=True):
    """A checked rule. Its parts are decoded when they are asked for: of a thousand rules few have a word in a text, and fewer fire."""

    id: str
    kept_path: str  # as it was given; of the bundled rules in a wheel below their directory, after BELOW_BUNDLED
    each: str | None  # the list whose items it is about
    names: list[str] | None  # facts that its `when` is about; None where it has none
    words: list[str]  # that the symptom's messages need; ANY_TEXT where one needs none
    clue_words: msgspec.Raw  # that the other messages need, as MessagePack: only words for searching are made of them
    packed_symptom: memoryview  # SymptomPart, as MessagePack
    packed_whole: memoryview  # Whole

    @property
    def path(self) -> str:
        """The rule's own file."""
        if self.kept_path.startswith(BELOW_BUNDLED):
            return str(bundled_directory() / self.kept_path.removeprefix(BELOW_BUNDLED))
        return self.kept_path

    @functools.cached_property
    def _symptom_part(self) -> SymptomPart:
        return self._unpacked("packed_symptom", SymptomPart)

    @functools.cached_property
    def _whole(self) -> Whole:
        return self._unpacked("packed_whole", Whole)

    def _unpacked(self, packed: str, kind: type[Kept]) -> Kept:
        try:
            return msgspec.msgpack.decode(getattr(self, packed), type=kind)
        except msgspec.MsgspecError:  # what was kept is damaged here: the rule's own file is read again
            from gpudoctor.engine.reading import read_rule

            again, _ = read_rule(Path(self.path), Path(self.path))
            if again is None:
                raise GpudoctorError(f"the rule {self.id} cannot be read", f"see {self.path}") from None
            return msgspec.msgpack.decode(getattr(again, packed), type=kind)

    @property
    def rule(self) -> Rule:
        return self._whole.rule

    @property
    def symptom(self) -> Symptom:
        return self._symptom_part.symptom

    def compiled(self, expression: str) -> Compiled | None:
        """An expression of any part of the rule, prepared; None where it is none of the rule's."""
        of_symptom = self._symptom_part.prepared
        return of_symptom.compiled.get(expression) or self._whole.prepared.compiled.get(expression)

    def needs(self, pattern: str) -> Needs:
        """What a line needs for one of the rule's message patterns."""
        return self._symptom_part.prepared.needs.get(pattern) or self._whole.prepared.needs[pattern]


class RuleSet(msgspec.Struct, frozen=True, dict=True):
    """All rules by id. `prepared` are the words of their messages, where they were kept with them, and `packed_likeness` too."""

    loaded: dict[str, LoadedRule]
    prepared: Needles | None = None
    packed_likeness: memoryview | None = None

    @functools.cached_property
    def needles(self) -> Needles:
        """The words that any message needs."""
        return self.prepared or _needles(self.loaded.values())

    @functools.cached_property
    def likeness(self) -> Likeness:
        """The words of every cause; of rules that came from several places they are counted anew, which takes a second."""
        from gpudoctor.engine.likeness import Likeness

        kept = self.packed_likeness
        if kept is not None and zlib.crc32(kept[:-_CHECKSUM_BYTES]) == int.from_bytes(kept[-_CHECKSUM_BYTES:]):
            return msgspec.msgpack.decode(kept[:-_CHECKSUM_BYTES], type=Likeness)
        return Likeness.of(loaded.rule for loaded in self.loaded.values())

    @property
    def rules(self) -> dict[str, Rule]:
        return {rule_id: loaded.rule for rule_id, loaded in self.loaded.items()}


class Problem(msgspec.Struct, frozen=True):
    """`where` is file:line."""

    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


def bundled_directory() -> Path:
    """`rules/` beside the package in a checkout, else the copy inside the wheel."""
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "rules"
    return checkout if checkout.is_dir() and (package.parent / "pyproject.toml").is_file() else package / "_rules"


def load_rules(extra: Iterable[Path] = ()) -> RuleSet:
    """The bundled rules, then those of each extra directory or file; a later one replaces an earlier one of the same id.

    Raises GpudoctorError with every problem as a detail "file:line: what is wrong".
    """
    rules: dict[str, LoadedRule] = {}
    problems: list[Problem] = []
    needles = Needles([], b"")
    likeness: list[memoryview | None] = []
    for root in [bundled_directory(), *extra]:
        kept, found = _rules_below(root)
        problems += found
        rules |= {one.id: one for one in kept.loaded}
        needles += kept.needles
        likeness.append(kept.likeness)
    if problems:
        raise GpudoctorError(
            f"{len(problems)} problem(s) in the rules",
            "mend them and try again; `gpudoctor rules lint` checks rule files",
            tuple(map(str, problems)),
        )
    return RuleSet(rules, needles, likeness[0] if len(likeness) == 1 else None)


class _Checked(msgspec.Struct, frozen=True, array_like=True):
    """Checked rules as they are kept."""

    loaded: list[LoadedRule]
    needles: Needles  # the words of their messages
    likeness: memoryview | None  # Likeness as MessagePack with its checksum; of the bundled rules only
    stamp: str = ""  # of what they were made from

    @classmethod
    def bundled(cls, loaded: list[LoadedRule], stamp: str = "") -> _Checked:
        from gpudoctor.engine.likeness import Likeness

        packed = msgspec.msgpack.encode(Likeness.of(one.rule for one in loaded))
        checksum = zlib.crc32(packed).to_bytes(_CHECKSUM_BYTES)
        return cls(loaded, _needles(loaded), memoryview(packed + checksum), stamp)


def _needles(loaded: Iterable[LoadedRule]) -> Needles:
    words = {ANY_TEXT}
    for one in loaded:
        words.update(one.words, msgspec.msgpack.decode(one.clue_words, type=list[str]))
    return Needles.of(words - {ANY_TEXT})


def _rules_below(root: Path) -> tuple[_Checked, list[Problem]]:
    """Checked rules from the wheel's prepared file or the user's cache where they are current, else from the YAML."""
    if root == bundled_directory():
        prepared = _decoded(root / PREPARED, _Checked)
        if prepared is not None:
            return prepared, []
    files = rule_files(root)
    cache, stamp = _cache_file(root), _stamp(files)
    cached = _decoded(cache, _Checked) if stamp else None
    if cached is not None and cached.stamp == stamp:
        return cached, []
    loaded, problems = check_files(root, map(Path, files))
    if root == bundled_directory():
        checked = _Checked.bundled(loaded, stamp or "")
    else:
        checked = _Checked(loaded, _needles(loaded), None, stamp or "")
    if stamp and not problems:
        _write_cache(cache, checked)
    return checked, problems


def rule_files(root: Path) -> list[str]:
    """Each rule file below a directory, or the one file. Raises GpudoctorError when there is none."""
    if root.is_dir():
        try:
            return sorted(_files_below(str(root), ".yaml"))
        except OSError as error:
            raise GpudoctorError(f"cannot read the rules in {error.filename}: {error.strerror}") from None
    if root.is_file():
        return [str(root)]
    raise GpudoctorError(f"no rules at {root}", "give a directory of rule files, or one .yaml file")


def _files_below(directory: str, ending: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files_below(entry.path, ending)
            elif entry.name.endswith(ending):
                yield entry.path


def check_files(root: Path, files: Iterable[Path]) -> tuple[list[LoadedRule], list[Problem]]:
    """Every rule below `root` that is right, and every problem of the others."""
    from gpudoctor.engine.reading import read_rule

    loaded: list[LoadedRule] = []
    problems: list[Problem] = []
    for file in files:
        rule, found = read_rule(root, file)
        problems += found
        if rule is not None and not found:
            loaded.append(rule)
    return loaded, problems


def _cache_file(root: Path) -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: TID251 - our own cache
    return Path(home, "gpudoctor", f"rules-{zlib.crc32(os.fsencode(root.absolute())):08x}.msgpack")


def _stamp(files: list[str]) -> str | None:
    """Name, time and size of every file that checked rules depend on; None when one cannot be looked at."""
    code = Path(__file__).parent
    ours = [*_files_below(str(code), ".py"), *_files_below(str(code.parent / "facts"), ".py")]
    try:
        about = [(name, os.stat(name)) for name in [*files, *sorted(ours)]]
    except OSError:
        return None
    return "\n".join([__version__, *(f"{name} {one.st_mtime_ns} {one.st_size}" for name, one in about)])


def _decoded(path: Path, kind: type[Kept]) -> Kept | None:
    """None where there is no such file, or it is damaged or of another version. Mapped, not read: most of it is not looked at.

    All pages at once: on a network file system a file that another machine replaces cannot be read page by page later.
    """
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE | mmap.MAP_POPULATE, mmap.PROT_READ)
        return msgspec.msgpack.decode(data, type=kind)
    except (OSError, ValueError):  # msgspec's errors are ValueErrors, and so is that of an empty file
        return None


def encoded(loaded: list[LoadedRule], root: Path) -> bytes:
    """Checked rules as the wheel keeps them (PREPARED), their paths below `root`."""
    kept = [msgspec.structs.replace(one, kept_path=BELOW_BUNDLED + os.path.relpath(one.path, root)) for one in loaded]
    return msgspec.msgpack.encode(_Checked.bundled(kept))


def _write_cache(path: Path, cached: _Checked) -> None:
    """Best effort: a read-only home only costs time. Older caches go, so that the directory does not grow."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in sorted(path.parent.glob("rules-*"), key=lambda p: p.stat().st_mtime)[:-4]:
            old.unlink(missing_ok=True)
        handle, name = tempfile.mkstemp(prefix="rules-", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(msgspec.msgpack.encode(cached))
            os.replace(name, path)
        except OSError:
            os.unlink(name)
    except OSError:
        return
