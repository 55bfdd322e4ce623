"""`gpudoctor demo`: the report on bundled sample evidence, for people without a broken GPU at hand."""

from __future__ import annotations

from typing import Annotated

import typer

from gpudoctor.cli import exit_codes, options


def demo(
    scenario: Annotated[
        str | None, typer.Argument(metavar="SCENARIO", help="Which one. Default: list them.", show_default=False)
    ] = None,
    format: options.Format = "text",
    output: options.Output = None,
    verbose: options.Verbose = False,
) -> int:
    """Show what the report looks like, on made-up sample evidence of well-known troubles."""
    from gpudoctor.demo import SCENARIOS, path_of
    from gpudoctor.errors import GpudoctorError

    if scenario is None:
        width = max(map(len, SCENARIOS))
        for name, about in SCENARIOS.items():
            print(f"{name:<{width}}  {about}")
        print("\ntry: gpudoctor demo kernel-updated")
        return exit_codes.PASSED
    if scenario not in SCENARIOS:
        raise GpudoctorError(f"no scenario {scenario}", f"one of {', '.join(SCENARIOS)}")

    from gpudoctor.cli.pipeline import Request, open_evidence
    from gpudoctor.cli.reporting import report_on, reporting
    from gpudoctor.engine.load import load_rules

    wanted = reporting(format, output, verbose=verbose)
    ruleset = load_rules()
    return report_on(open_evidence([path_of(scenario)], ruleset), ruleset, Request(), wanted)
