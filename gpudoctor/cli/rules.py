"""`gpudoctor rules`: list, show, lint and test rules, and write their pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpudoctor.cli import exit_codes, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpudoctor.engine.load import RuleSet
    from gpudoctor.facts import Document, Facts

app = typer.Typer(help="List, show, lint and test rules.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def start(context: typer.Context) -> None:
    """List, show, lint and test rules."""
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(exit_codes.UNUSABLE)


Which = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RULE|AREA|FILE", help="Rule ids, areas, or rule files. Default: all.", show_default=False
    ),
]


@app.command("list")
def list_rules(which: Which = None, rules: options.Rules = None, format: options.TextOrJson = "text") -> None:
    """One line a rule: severity, id, title."""
    from gpudoctor.cli.output import one_of, write
    from gpudoctor.cli.rule_page import plain_template
    from gpudoctor.render.safe import clean

    one_of("--format", format, ("text", "json"))
    ruleset, chosen = _chosen(which, rules)
    found = [ruleset.loaded[rule_id].rule for rule_id in chosen]
    if format == "json":
        import json

        listed = [
            {"id": rule.id, "severity": rule.severity, "title": rule.title, "action": rule.action} for rule in found
        ]
        write(json.dumps(listed, indent=2) + "\n", None)
        return
    width = max((len(rule.id) for rule in found), default=0)
    write(
        "".join(f"{rule.severity:<9} {rule.id:<{width}}  {clean(plain_template(rule.title))}\n" for rule in found),
        None,
    )


@app.command("show")
def show(
    rule: Annotated[str, typer.Argument(metavar="RULE", help="A rule's id.")],
    rules: options.Rules = None,
    format: options.TextOrJson = "text",
) -> None:
    """A rule's page: when it fires, its causes, clues and steps."""
    from gpudoctor.cli.output import one_of, width, write
    from gpudoctor.cli.rule_page import as_json, as_text

    one_of("--format", format, ("text", "json"))
    ruleset, chosen = _chosen([rule], rules)
    for rule_id in chosen:
        model = ruleset.loaded[rule_id].rule
        write(as_json(model) if format == "json" else as_text(model, width(True)), None)


@app.command("lint")
def lint(which: Which = None, rules: options.Rules = None) -> int:
    """Check the quality of rules; exit 2 where something is wrong."""
    from gpudoctor.engine import lint as linter

    ruleset, chosen = _chosen(which, rules)
    problems = linter.lint(ruleset, None if which is None else set(chosen))
    for problem in problems:
        typer.echo(str(problem))
    typer.echo(f"{len(chosen)} rule(s), {len(problems)} problem(s)", err=True)
    return exit_codes.UNUSABLE if problems else exit_codes.PASSED


@app.command("test")
def run_tests(which: Which = None, rules: options.Rules = None) -> int:
    """Run the examples inside rules; exit 2 where one does not come out as expected."""
    from gpudoctor.engine.examples import run_examples

    ruleset, chosen = _chosen(which, rules)
    results = [result for rule_id in chosen for result in run_examples(ruleset.loaded[rule_id], read_text, ruleset)]
    wrong = [result for result in results if result.problem]
    for result in wrong:
        typer.echo(f"{result.rule}: {result.example}: {result.problem}")
    typer.echo(f"{len(results)} example(s) of {len(chosen)} rule(s), {len(wrong)} wrong", err=True)
    return exit_codes.UNUSABLE if wrong else exit_codes.PASSED


@app.command("docs")
def docs(
    directory: Annotated[Path, typer.Argument(metavar="[DIR]", help="Where the pages go.")] = Path("docs/rules"),
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 2 where a page is out of date.")
    ] = False,
) -> int:
    """Write the rules' pages as Markdown: one page a rule, and indexes by area, symptom and Xid."""
    from gpudoctor.cli.rule_docs import pages, stale, write_pages
    from gpudoctor.engine.load import load_rules

    wanted = pages(load_rules())
    if not check:
        write_pages(directory, wanted)
        return exit_codes.PASSED
    old = stale(directory, wanted)
    for name in old:
        typer.echo(f"{directory / name}: out of date; `gpudoctor rules docs` writes it")
    return exit_codes.UNUSABLE if old else exit_codes.PASSED


def _chosen(which: list[str] | None, rules: list[Path] | None) -> tuple[RuleSet, list[str]]:
    """All rules loaded, and the ids that were asked for. A rule file that was named is loaded too, under its id."""
    from gpudoctor.engine.load import bundled_directory, load_rules
    from gpudoctor.errors import GpudoctorError

    files = [Path(name) for name in which or [] if name.endswith((".yaml", ".yml"))]
    bundled = bundled_directory().resolve()
    foreign = [file for file in files if bundled not in file.resolve().parents]
    ruleset = load_rules([*(rules or []), *foreign])
    chosen: list[str] = []
    for name in which or []:
        wanted = Path(name).resolve() if name.endswith((".yaml", ".yml")) else None
        found = [
            rule_id
            for rule_id, loaded in ruleset.loaded.items()
            if rule_id == name or rule_id.split("/")[0] == name or (wanted and Path(loaded.path).resolve() == wanted)
        ]
        if not found:
            raise GpudoctorError(f"no rule or area {name}", "`gpudoctor rules list` shows them")
        chosen += found
    return ruleset, list(dict.fromkeys(chosen)) if which else sorted(ruleset.loaded)


def read_text(text: str) -> tuple[Facts, Sequence[Document]]:
    """A pasted text as facts and documents, the way `explain` reads it."""
    from gpudoctor.probes.run import run_probes
    from gpudoctor.sources import open_text

    source = open_text(text)
    facts, _ = run_probes(source, areas=None, deadline_seconds=30.0, on_progress=None)
    return facts, source.documents()
