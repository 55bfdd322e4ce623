"""One golden file per format, all from one rich report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from gpudoctor.render import FORMATS, RenderOptions
from gpudoctor.render.as_json import report_schema
from gpudoctor.report import ProbeRun, ProbeState, Report, Severity, Verdict

GOLDEN = Path(__file__).parent / "golden"
SCHEMA = Path(__file__).parents[2] / "docs" / "report.schema.json"
Golden = Callable[[Path, str], None]


@pytest.mark.parametrize(
    ("format", "file"),
    [("text", "report.txt"), ("json", "report.json"), ("junit", "report.xml"), ("markdown", "report.md")],
)
def test_golden(report: Report, golden: Golden, format: str, file: str) -> None:
    golden(GOLDEN / file, FORMATS[format](report, RenderOptions()))


def test_golden_verbose_text(report: Report, golden: Golden) -> None:
    golden(GOLDEN / "report-verbose.txt", FORMATS["text"](report, RenderOptions(verbose=True)))


def test_every_format_has_a_golden_file() -> None:
    assert set(FORMATS) == {"text", "json", "junit", "markdown"}


def test_published_schema_is_what_the_types_say(golden: Golden) -> None:
    golden(SCHEMA, json.dumps(report_schema(), indent=2) + "\n")


@pytest.mark.parametrize("what", ["rich", "empty"])
def test_json_fits_the_published_schema(report: Report, what: str) -> None:
    text = FORMATS["json"](report if what == "rich" else Report(), RenderOptions())
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(text), schema)


def test_the_schema_refuses_what_is_no_report(report: Report) -> None:
    data = json.loads(FORMATS["json"](report, RenderOptions()))
    for broken in (
        {**data, "schema": 2},
        {**data, "verdict": "fine"},
        {k: v for k, v in data.items() if k != "probes"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, report_schema())


def test_json_round_trips(report: Report) -> None:
    import msgspec

    assert msgspec.json.decode(FORMATS["json"](report, RenderOptions()), type=Report) == report


def test_junit_counts_follow_the_bar(report: Report) -> None:
    def suite(**options: object) -> dict[str, str]:
        root = ElementTree.fromstring(FORMATS["junit"](report, RenderOptions(**options)))  # type: ignore[arg-type]
        return dict(root.find("testsuite").attrib)  # type: ignore[union-attr]

    strict, usual = suite(fail_on=Severity.WARNING), suite()
    assert (usual["failures"], strict["failures"]) == ("1", "3")
    assert usual["errors"] == "1"
    assert suite(allow_unknown=True)["errors"] == "0"
    assert suite(allow_unknown=True)["skipped"] == "3"


def test_junit_says_what_was_not_checked_even_without_findings() -> None:
    report = Report(
        verdict=Verdict.UNKNOWN,
        probes=[ProbeRun(name="gpus", state=ProbeState.NO_EVIDENCE, essential=True)],
    )
    root = ElementTree.fromstring(FORMATS["junit"](report, RenderOptions()))
    assert root.find(".//testcase/error") is not None
