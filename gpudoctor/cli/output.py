"""Where the report goes, and what is known about that place."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from gpudoctor.errors import GpudoctorError
from gpudoctor.render.options import RenderOptions
from gpudoctor.report import SEVERITIES, Severity

_WIDEST = 100  # longer lines are hard to read


def write(text: str, output: Path | None) -> None:
    """To a file, or to standard output, which carries nothing else."""
    if output is None or str(output) == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    try:
        output.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise GpudoctorError(f"cannot write {output}: {error.strerror or error}") from error


def render_options(output: Path | None, *, verbose: bool, fail_on: Severity, allow_unknown: bool) -> RenderOptions:
    """Colour and width for a terminal; plain 80 columns for a pipe, a log or a file."""
    terminal = output is None and sys.stdout.isatty()
    return RenderOptions(
        width=width(terminal),
        colour=terminal and wants_colour(),
        verbose=verbose,
        fail_on=fail_on,
        allow_unknown=allow_unknown,
    )


def width(terminal: bool) -> int:
    """Columns to fill."""
    return min(_WIDEST, shutil.get_terminal_size((80, 24)).columns) if terminal else 80


def wants_colour() -> bool:
    """Not where NO_COLOR is set (https://no-color.org) or the terminal is dumb."""
    environment = os.environ  # noqa: TID251 - about our own output, not the machine
    return not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def severity(level: str) -> Severity:
    """The value of --fail-on."""
    if level not in SEVERITIES:
        raise GpudoctorError(f"--fail-on {level}: no such level", f"one of {', '.join(SEVERITIES)}")
    return Severity(level)


def one_of(option: str, value: str, known: tuple[str, ...]) -> str:
    """`value` if it is one of `known`, else an error that names them."""
    if value not in known:
        raise GpudoctorError(f"{option} {value}: not known", f"one of {', '.join(known)}")
    return value
