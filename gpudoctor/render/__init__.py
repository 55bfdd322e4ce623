"""Renderers: pure functions from a report to text, one module per format. Captured text is cleaned once, here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from gpudoctor.render.options import RenderOptions
from gpudoctor.render.safe import clean_values
from gpudoctor.report import Report

__all__ = ["FORMATS", "RenderOptions"]

Renderer = Callable[[Report, RenderOptions], str]


def _renderer(format: str) -> Renderer:
    """Loaded when it is used: a run writes one format."""

    def render(report: Report, options: RenderOptions) -> str:
        module = importlib.import_module(f"gpudoctor.render.as_{format}")
        return cast(str, module.render(clean_values(report), options))

    return render


FORMATS: dict[str, Renderer] = {format: _renderer(format) for format in ("text", "json", "junit", "markdown")}
