"""`gpudoctor collect`: records the evidence, so that somebody else can check it elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpudoctor.cli import options


def collect(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="NAME.tar.gz, or a directory to be made. Default: gpudoctor-HOST-TIME.tar.gz here.",
            show_default=False,
        ),
    ] = None,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Also replace user and host names, addresses and serial numbers by stand-ins."),
    ] = False,
    root: options.Root = None,
    level: options.Level = None,
    deadline: options.OptionalDeadline = None,
) -> None:
    """Record what check reads, to be checked elsewhere with --from. Tokens, keys and passwords are left out."""
    from datetime import UTC, datetime

    from gpudoctor.cli.levels import DEADLINES, active_of
    from gpudoctor.cli.pipeline import Request, gather_actively
    from gpudoctor.errors import GpudoctorError
    from gpudoctor.sources import Recorder, open_live

    recorder = Recorder(open_live(root))
    request = Request(
        deadline_seconds=deadline if deadline is not None else DEADLINES[level or 1], active=active_of(level, root)
    )
    facts, runs, _ = gather_actively(recorder, request)
    host = (facts.host.hostname if facts.host and not redact else None) or "host"
    time = datetime.fromtimestamp(recorder.now(), UTC).strftime("%Y%m%dT%H%M%SZ")
    path = output or Path(f"gpudoctor-{''.join(c for c in host if c.isalnum() or c in '-_')}-{time}.tar.gz")
    if path.exists():
        raise GpudoctorError(f"{path} exists already", "choose another name with -o")
    recorder.save(path, redact=redact)
    typer.echo(path)
    for run in runs:
        for problem in run.problems:
            typer.echo(f"{run.name.replace('_', ' ')}: {problem}", err=True)
    typer.echo(f"read it with: gpudoctor check --from {path}", err=True)
