"""Rule files: right ones load, wrong ones are told with file and line, all of them at once."""

import os
from pathlib import Path

import msgspec
import pytest

from gpudoctor.engine.load import PREPARED, check_files, encoded, load_rules
from gpudoctor.errors import GpudoctorError
from tests.engine.rule_text import RULE


def problems(tmp_path: Path, text: str | bytes, name: str = "driver/not-running.yaml") -> list[str]:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    _, found = check_files(tmp_path, [file])
    return [str(problem).replace(str(tmp_path) + "/", "") for problem in found]


def test_damaged_words_of_causes_are_counted_anew() -> None:
    whole = load_rules()
    kept = bytes(whole.packed_likeness or b"")
    damaged = msgspec.structs.replace(
        whole, packed_likeness=memoryview(kept[:100_000] + b"\xc1" * 50 + kept[100_050:])
    )
    assert damaged.likeness.causes == whole.likeness.causes


def test_a_right_rule_loads(tmp_path: Path) -> None:
    assert problems(tmp_path, RULE) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "severity: critical",
            "severity: awful",
            "driver/not-running.yaml:3: Invalid enum value 'awful' (at severity)",
        ),
        (
            "!driver.loaded",
            "!driver.loadd",
            "driver/not-running.yaml:5: column 40: undeclared reference to 'driver.loadd'",
        ),
        ("  - id: not-loaded", "  - id: not-loaded\n    id: again", "driver/not-running.yaml:18: `id` occurs twice"),
        ("weight: decisive", "weight: heavy", "driver/not-running.yaml:13: Invalid enum value 'heavy'"),
        ("couldn.t communicate", "couldn(t communicate", "driver/not-running.yaml:6: not an RE2 pattern: missing )"),
        ("    title: Not loaded\n", "", "driver/not-running.yaml:17: the cause `not-loaded` has no title"),
        (
            "id: driver/not-running",
            "id: driver/other",
            "driver/not-running.yaml:1: the id `driver/other` is not the file's path",
        ),
        ("effect: changes", "efect: changes", "driver/not-running.yaml:16: Object contains unknown field `efect`"),
        (
            "{driver.version // VERSION}",
            "{driver.verion}",
            "driver/not-running.yaml:16: column 7: undeclared reference",
        ),
        ("symptom:\n", "symptom:\n  each: gpus\n", "driver/not-running.yaml:5: unknown `each: gpus`; one of gpu, "),
        ("title: The", "title: 'The", "driver/not-running.yaml:"),
        (
            '["couldn.t communicate with the NVIDIA driver"]',
            '[{cuda_error: ["²"]}]',
            "driver/not-running.yaml:6: Expected `int`, got `str`",
        ),
    ],
)
def test_a_wrong_rule_is_told_with_file_and_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in RULE
    found = problems(tmp_path, RULE.replace(old, new, 1))
    assert any(one.startswith(says) for one in found), found


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe\x00binary",
        b"just a word",
        b"- a\n- list\n",
        b"a: &x [*x]",
        b"[" * 5000,
        b"x" * (1 << 20) + b"xx",
    ],
)
def test_what_is_no_rule_is_an_error_not_a_traceback(tmp_path: Path, text: bytes) -> None:
    assert len(problems(tmp_path, text)) == 1


def test_all_problems_of_all_files_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("one", "two"):
        (tmp_path / "r").mkdir(exist_ok=True)
        (tmp_path / "r" / f"{name}.yaml").write_text(
            RULE.replace("driver/not-running", name).replace("critical", "awful")
        )
    with pytest.raises(GpudoctorError) as error:
        load_rules([tmp_path / "r"])
    assert len(error.value.details) == 2
    assert "one.yaml:3" in error.value.details[0]
    assert "two.yaml:3" in error.value.details[1]


def test_extra_rules_replace_bundled_ones_and_the_cache_notices_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    extra = tmp_path / "mine" / "driver" / "not-running.yaml"
    extra.parent.mkdir(parents=True)
    extra.write_text(RULE)
    first = load_rules([tmp_path / "mine"])
    assert first.rules["driver/not-running"].causes[1].title == "Not loaded"
    extra.write_text(RULE.replace("title: Not loaded", "title: Still not loaded"))
    assert load_rules([tmp_path / "mine"]).rules["driver/not-running"].causes[1].title == "Still not loaded"
    again = load_rules([tmp_path / "mine"])  # from the cache
    assert again.rules == load_rules([tmp_path / "mine"]).rules


def test_a_damaged_cache_or_an_unwritable_home_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    load_rules()
    for file in (tmp_path / "cache" / "gpudoctor").iterdir():
        file.write_bytes(b"\x00garbage")
    assert load_rules().rules
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert load_rules().rules


def test_a_directory_of_rules_that_cannot_be_read_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def refuse(directory: str) -> object:
        if directory == str(tmp_path):
            raise PermissionError(13, "Permission denied", directory)
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(GpudoctorError, match=f"cannot read the rules in {tmp_path}: Permission denied"):
        load_rules([tmp_path])


def test_no_rules_at_a_path_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(GpudoctorError, match="no rules at"):
        load_rules([tmp_path / "missing"])


def test_damage_inside_the_cache_only_costs_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rule = tmp_path / "mine" / "driver" / "not-running.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text(RULE)
    load_rules([tmp_path / "mine"])
    for file in (tmp_path / "cache" / "gpudoctor").iterdir():
        data = file.read_bytes()
        file.write_bytes(data.replace(b"Build.", b"\xc1\xc1\xc1\xc1\xc1\xc1"))
    loaded = load_rules([tmp_path / "mine"]).loaded["driver/not-running"]
    assert loaded.rule.causes[0].steps[1].say == "Build."


def test_prepared_rules_of_a_copy_are_not_believed(tmp_path: Path) -> None:
    rule = tmp_path / "driver" / "not-running.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text(RULE)
    (one,), _ = check_files(tmp_path, [rule])
    (tmp_path / PREPARED).write_bytes(encoded([one], tmp_path))
    rule.write_text(RULE.replace("title: Not loaded", "title: Still not loaded"))
    assert load_rules([tmp_path]).rules["driver/not-running"].causes[1].title == "Still not loaded"


def test_a_cache_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    rule = tmp_path / "mine" / "driver" / "not-running.yaml"
    rule.parent.mkdir(parents=True)
    rule.write_text(RULE)
    load_rules([tmp_path / "mine"])
    before = sorted((tmp_path / "gpudoctor").iterdir())
    for file in before:  # something that cannot be replaced is in the way
        file.unlink()
        (file / "x").mkdir(parents=True)
    load_rules([tmp_path / "mine"])
    assert sorted((tmp_path / "gpudoctor").iterdir()) == before
