"""The report as JSON, `schema` 1: every field, always in the same order. docs/report.schema.json describes it."""

from __future__ import annotations

from typing import Any

import msgspec

from gpudoctor.render.options import RenderOptions
from gpudoctor.report import Report

SCHEMA_ID = "https://gpudoctor.dev/schema/report-1.json"


def render(report: Report, options: RenderOptions) -> str:
    """Indented JSON with a line end."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def report_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `render` writes, from the types. New fields may be added within `schema` 1."""
    schema = msgspec.json.schema(Report)
    for definition in schema["$defs"].values():
        if definition.get("type") == "object":
            definition["required"] = list(definition["properties"])
    schema["$defs"]["Report"]["properties"]["schema"] = {"const": 1}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": SCHEMA_ID,
        "title": "gpudoctor report",
        **schema,
    }
