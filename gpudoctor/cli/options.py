"""Options that several commands share, and the words of those that a plain call runs without the parser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Texts = Annotated[
    list[str] | None,
    typer.Argument(metavar="TEXT|FILE|-|RULE", help="What to explain.", show_default=False),
]
Areas = Annotated[
    list[str] | None,
    typer.Argument(metavar="AREA", help="Only these, such as pci, driver, gpus, kernel.", show_default=False),
]
From = Annotated[
    list[Path] | None,
    typer.Option(
        "--from",
        metavar="PATH",
        help="A recording, or files from a ticket: nvidia-bug-report.log.gz, nvidia-smi -q output, dmesg, ... "
        "(a directory or tar of them too; may be repeated).",
        show_default=False,
    ),
]
Root = Annotated[
    str | None,
    typer.Option("--root", metavar="DIR", help="Where the host's file system is mounted.", show_default=False),
]
Rules = Annotated[
    list[Path] | None,
    typer.Option(
        "--rules", metavar="DIR", help="More rules; the same id replaces ours (may be repeated).", show_default=False
    ),
]
Format = Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help="text, json, junit or markdown.")]
TextOrJson = Annotated[str, typer.Option("--format", "-f", metavar="FORMAT", help="text or json.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write there, not to the terminal.", show_default=False),
]
FailOn = Annotated[
    str, typer.Option("--fail-on", metavar="LEVEL", help="Exit 1 from this on: critical, error, warning or info.")
]
AllowUnknown = Annotated[
    bool, typer.Option("--allow-unknown", help="Exit 0, not 3, when something essential could not be checked.")
]
Profile = Annotated[
    str, typer.Option("--profile", metavar="NAME", help="What must be checkable: host, container, training or ci.")
]
Expect = Annotated[
    Path | None,
    typer.Option("--expect", metavar="FILE", help="YAML: what this machine should have.", show_default=False),
]
Deadline = Annotated[
    float, typer.Option("--deadline", metavar="SECONDS", help="Give up what has not answered by then.")
]
OptionalDeadline = Annotated[
    float | None,
    typer.Option(
        "--deadline",
        metavar="SECONDS",
        help="Give up what has not answered by then (30; at level 2 300, at level 3 1800).",
        show_default=False,
    ),
]
Level = Annotated[
    int | None,
    typer.Option(
        "--level",
        min=1,
        max=3,
        metavar="N",
        help="1 only looks; 2 also measures each GPU for some seconds; 3 for minutes, with memory test and burn.",
        show_default=False,
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Every cause with its steps, every probe.")]
