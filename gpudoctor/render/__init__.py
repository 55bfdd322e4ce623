"""Renderers: pure functions from a report to text, one module per format. Captured text is cleaned once, here."""

from __future__ import annotations

from collections.abc import Callable

from gpudoctor.render import as_json, as_junit, as_markdown, as_text
from gpudoctor.render.options import RenderOptions
from gpudoctor.render.safe import clean_values
from gpudoctor.report import Report

__all__ = ["FORMATS", "RenderOptions"]

Renderer = Callable[[Report, RenderOptions], str]


def _cleaned(renderer: Renderer) -> Renderer:
    return lambda report, options: renderer(clean_values(report), options)


FORMATS: dict[str, Renderer] = {
    "text": _cleaned(as_text.render),
    "json": _cleaned(as_json.render),
    "junit": _cleaned(as_junit.render),
    "markdown": _cleaned(as_markdown.render),
}
