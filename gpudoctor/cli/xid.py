"""`gpudoctor xid CODE`: what an Xid means on this GPU and driver, who is to blame, what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpudoctor.cli import options

if TYPE_CHECKING:
    from gpudoctor.knowledge.xids import XidEntry


def xid(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", help="The number, such as 79.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--list", help="All Xids, one a line.")] = False,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            metavar="MODEL",
            help="Model, PCI id or architecture: A100, 10de:20b2, hopper.",
            show_default=False,
        ),
    ] = None,
    driver: Annotated[
        str | None,
        typer.Option(
            "--driver", metavar="BRANCH", help="Driver branch or version: 535, 550.54.15.", show_default=False
        ),
    ] = None,
    format: options.TextOrJson = "text",
) -> None:
    """Explain an Xid, the driver's error number in the kernel log."""
    from gpudoctor.cli.output import one_of, write
    from gpudoctor.errors import GpudoctorError

    one_of("--format", format, ("text", "json"))
    architecture, branch = _architecture(gpu), _branch(driver)
    if every:
        entries = _all(architecture, branch)
        write(_json(entries) if format == "json" else _list(entries), None)
        return
    if code is None:
        raise GpudoctorError("which Xid?", "gpudoctor xid 79, or gpudoctor xid --list")
    entry = _entry(code, architecture, branch)
    write(_json(entry) if format == "json" else _page(entry, gpu, driver), None)


def _architecture(gpu: str | None) -> str | None:
    """The architecture of what the user named: itself, a PCI id, a chip, or words of a model's name."""
    if gpu is None:
        return None
    import re

    from gpudoctor.errors import GpudoctorError
    from gpudoctor.knowledge import gpus

    if gpu.lower() in gpus.ARCHITECTURES:
        return gpu.lower()
    found = gpus.architecture_of(gpu, gpu)
    if found:
        return found
    words = set(re.findall(r"[a-z0-9]+", gpu.lower())) - {"nvidia", "geforce"}
    meant = {
        model.architecture
        for model in gpus.models()
        for name in (*model.names, model.slug)
        if words and words <= set(re.findall(r"[a-z0-9]+", name.lower()))
    }
    if len(meant) != 1:
        known = ", ".join(gpus.ARCHITECTURES)
        raise GpudoctorError(
            f"--gpu {gpu}: {'several models' if meant else 'no model'} of that name",
            f"give a PCI id (10de:20b2) or one of {known}",
        )
    return meant.pop()


def _branch(driver: str | None) -> int | None:
    from gpudoctor.errors import GpudoctorError
    from gpudoctor.knowledge.xids import branch_number

    branch = branch_number(driver)
    if driver is not None and branch is None:
        raise GpudoctorError(f"--driver {driver}: not a driver version", "such as 535 or 550.54.15")
    return branch


def _all(architecture: str | None, branch: int | None) -> list[XidEntry]:
    from gpudoctor.knowledge.xids import all_codes, lookup

    return [entry for code in all_codes() if (entry := lookup(code, architecture, branch))]


def _entry(code: str, architecture: str | None, branch: int | None) -> XidEntry:
    from gpudoctor.errors import GpudoctorError
    from gpudoctor.knowledge.xids import lookup

    number = code.lower().removeprefix("xid").strip(" :")
    if not number.isascii() or not number.isdecimal():
        raise GpudoctorError(f"{code}: not an Xid number", "such as: gpudoctor xid 79")
    entry = lookup(int(number), architecture, branch)
    if entry is None:
        raise GpudoctorError(f"Xid {number} is not in the catalogue", "gpudoctor xid --list shows all that are")
    return entry


def _json(value: Any) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n"


def _list(entries: list[XidEntry]) -> str:
    from gpudoctor.render.safe import cut

    return "".join(
        f"{cut(f'{entry.code:>4}  {entry.severity:<8}  {entry.blame:<13}  {entry.name}', 100)}\n" for entry in entries
    )


def _page(entry: XidEntry, gpu: str | None, driver: str | None) -> str:
    from gpudoctor.cli.rule_page import ACTIONS
    from gpudoctor.knowledge.xids import vendor_words
    from gpudoctor.render.wrap import wrap

    lines = wrap(f"Xid {entry.code}  {entry.name}", 80, "", "        ")
    lines += ["", *wrap(entry.meaning, 80), ""]
    rows = [
        ("what to do", entry.advice),
        ("for the node", ACTIONS.get(entry.action, entry.action)),
        ("look first at", entry.blame.replace("_", " ")),
        ("severity", entry.severity),
        ("NVIDIA says", vendor_words(entry.vendor_action) or "nothing in its catalogue"),
        ("we differ", entry.differs),
        ("comes with", ", ".join(f"Xid {code}" for code in entry.companions)),
        ("driver's name", entry.mnemonic),
        ("status", entry.status if entry.status != "active" else None),
    ]
    for label, text in rows:
        lines += wrap(text, 80, f"{label + ':':<15}", " " * 15) if text else []
    if entry.variants and not (gpu and driver):
        lines += ["", "It means something else on some GPUs or drivers: add --gpu and --driver."]
    return "\n".join(lines) + "\n"
