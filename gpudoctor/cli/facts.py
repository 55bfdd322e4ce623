"""`gpudoctor facts`: what is known, by the names that rules use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpudoctor.cli import options

if TYPE_CHECKING:
    from collections.abc import Iterator


def facts(
    areas: Annotated[
        list[str] | None,
        typer.Argument(metavar="AREA", help="Only these, such as pci, driver, gpus, kernel.", show_default=False),
    ] = None,
    paths: options.From = None,
    root: options.Root = None,
    format: options.TextOrJson = "text",
    output: options.Output = None,
    deadline: options.Deadline = 30.0,
) -> None:
    """Show the facts that rules see. JSON has every group and field; null means: not known."""
    from gpudoctor.cli.output import one_of, write
    from gpudoctor.cli.pipeline import Request, gather, open_evidence, open_machine
    from gpudoctor.engine.load import load_rules
    from gpudoctor.facts import plain

    one_of("--format", format, ("text", "json"))
    wanted = set(areas) if areas else None
    source = open_evidence(paths, load_rules()) if paths else open_machine(root, wanted)
    known, _ = gather(source, Request(areas=wanted, deadline_seconds=deadline))
    write(_json(plain(known)) if format == "json" else _text(plain(known)), output)


def _json(value: Any) -> str:
    """ASCII only: captured text cannot reach the terminal as anything but text."""
    import json

    return json.dumps(value, indent=2) + "\n"


def _text(groups: dict[str, Any]) -> str:
    from gpudoctor.render.safe import clean

    lines = [clean(line) for name, group in groups.items() for line in _lines(name, group)]
    missing = [name for name, group in groups.items() if group is None]
    lines += ["", f"not known: {', '.join(missing)}"] if missing else []
    return "\n".join(lines) + "\n"


def _lines(path: str, value: Any) -> Iterator[str]:
    """`driver.version = 535.183.01`, one fact a line; what is not known is left out."""
    if value is None:
        return
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _lines(f"{path}.{name}", item)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for index, item in enumerate(value):
            yield from _lines(f"{path}[{index}]", item)
    else:
        yield f"{path} = {_shown(value)}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return "{}" if value == {} else str(value)
