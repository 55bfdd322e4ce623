"""Rules from YAML: every problem with its file and line, all of them at once. Checked rules are kept in a cache."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from gpudoctor import __version__
from gpudoctor.engine.model import Compiled, Rule
from gpudoctor.errors import GpudoctorError

PREPARED = "prepared.msgpack"  # beside the rules in a wheel: they cannot change there, so they are checked once, at build time


class LoadedRule(msgspec.Struct, frozen=True):
    """A rule with what is prepared once: compiled expressions by (text), literals by message pattern, and where it is."""

    rule: Rule
    compiled: dict[str, Compiled]
    literals: dict[str, list[str] | None]
    further: dict[str, list[list[str]]]  # other sets of literals that a message's line must have, where there are any
    path: str


class RuleSet(msgspec.Struct, frozen=True):
    """All rules by id."""

    loaded: dict[str, LoadedRule]

    def literals(self) -> set[str]:
        """The literals of every message, as they were prepared: no pattern is parsed again."""
        return {
            literal
            for loaded in self.loaded.values()
            for known in loaded.literals.values()
            for literal in known or []
        }

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
    for root in [bundled_directory(), *extra]:
        loaded, found = _rules_below(root)
        problems += found
        rules |= {one.rule.id: one for one in loaded}
    if problems:
        raise GpudoctorError(
            f"{len(problems)} problem(s) in the rules",
            "mend them and try again; `gpudoctor rules lint` checks rule files",
            tuple(map(str, problems)),
        )
    return RuleSet(rules)


def _rules_below(root: Path) -> tuple[list[LoadedRule], list[Problem]]:
    """Checked rules from the wheel's prepared file or the user's cache where they are current, else from the YAML."""
    prepared = _decoded(root / PREPARED)
    if prepared is not None:
        return prepared, []
    files = rule_files(root)
    cache = _cache_file(files)
    cached = _decoded(cache) if cache else None
    if cached is not None:
        return cached, []
    loaded, problems = check_files(files)
    if cache and not problems:
        _write_cache(cache, loaded)
    return loaded, problems


def rule_files(root: Path) -> list[tuple[Path, Path]]:
    """(root, file) of each rule file below a directory, or of the one file. Raises GpudoctorError when there is none."""
    if root.is_dir():
        return [(root, file) for file in sorted(root.rglob("*.yaml"))]
    if root.is_file():
        return [(root, root)]
    raise GpudoctorError(f"no rules at {root}", "give a directory of rule files, or one .yaml file")


def check_files(files: Iterable[tuple[Path, Path]]) -> tuple[list[LoadedRule], list[Problem]]:
    """Every rule that is right, and every problem of the others."""
    from gpudoctor.engine.reading import read_rule

    loaded: list[LoadedRule] = []
    problems: list[Problem] = []
    for root, file in files:
        rule, found = read_rule(root, file)
        problems += found
        if rule is not None and not found:
            loaded.append(rule)
    return loaded, problems


def _cache_file(files: list[tuple[Path, Path]]) -> Path | None:
    import hashlib  # not needed where the rules are prepared

    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: TID251 - our own cache
    digest = hashlib.sha256(__version__.encode())
    code = Path(__file__).resolve().parent
    for file in [
        *(file for _, file in files),
        *sorted(code.glob("*.py")),
        *sorted((code.parent / "facts").glob("*.py")),
    ]:
        try:
            status = file.stat()
        except OSError:
            return None
        digest.update(f"{file}|{status.st_mtime_ns}|{status.st_size}".encode())
    return Path(home) / "gpudoctor" / f"rules-{digest.hexdigest()[:32]}.msgpack"


def _decoded(path: Path) -> list[LoadedRule] | None:
    try:
        return msgspec.msgpack.decode(path.read_bytes(), type=list[LoadedRule])
    except (OSError, msgspec.MsgspecError):
        return None


def encoded(loaded: list[LoadedRule]) -> bytes:
    """Checked rules as they are kept: in the wheel (PREPARED) and in the user's cache."""
    return msgspec.msgpack.encode(loaded)


def _write_cache(path: Path, loaded: list[LoadedRule]) -> None:
    """Best effort: a read-only home only costs time. Older caches go, so that the directory does not grow."""
    import tempfile

    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in sorted(path.parent.glob("rules-*.msgpack"), key=lambda p: p.stat().st_mtime)[:-4]:
            old.unlink(missing_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as out:
            out.write(encoded(loaded))
        os.replace(name, path)
    except OSError:
        return
