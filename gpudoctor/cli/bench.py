"""`gpudoctor bench`: measures what the GPUs give, against what they should give."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpudoctor.cli import options

if TYPE_CHECKING:
    from gpudoctor.bench.site import Site
    from gpudoctor.cli.active import Tested
    from gpudoctor.report import Finding, Report

_MOST_ONE_BY_ONE = 8  # GPUs of a socket, whose host copies are measured one after the other
_DEFAULT_TESTS = ("memory", "gemm", "pcie", "p2p", "nccl")
# Findings of checks beside the tests that are shown too: without them nothing can be measured.
_GROUNDS = (
    "driver/",
    "cuda/",
    "fabric/",
    "pci/no-gpu",
    "pci/off-the-bus",
    "xid/",
    "gpu/lost",
    "container/",
    "framework/",
)


def bench(
    tests: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEST",
            help="memory, gemm, pcie, p2p, nccl (these by default), memtest, burn.",
            show_default=False,
        ),
    ] = None,
    gpus: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu",
            metavar="GPU",
            help="Only this one: index, address or UUID (may be repeated).",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="N", help="How long each test may take.", show_default=False),
    ] = None,
    expected: Annotated[
        Path | None,
        typer.Option("--expected", metavar="FILE", help="YAML: what this site expects.", show_default=False),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="FILE", help="Compare with a good node's figures.", show_default=False),
    ] = None,
    save_baseline: Annotated[
        Path | None,
        typer.Option("--save-baseline", metavar="FILE", help="Write this node's figures there.", show_default=False),
    ] = None,
    nccl_tests: Annotated[
        bool, typer.Option("--nccl-tests", help="Let all_reduce_perf and its like measure, where they are installed.")
    ] = False,
    rules: options.Rules = None,
    format: options.Format = "text",
    output: options.Output = None,
    fail_on: options.FailOn = "error",
    allow_unknown: options.AllowUnknown = False,
    deadline: Annotated[
        float | None,
        typer.Option("--deadline", metavar="SECONDS", help="When everything must be over.", show_default=False),
    ] = None,
    verbose: options.Verbose = False,
) -> int:
    """Measure what the GPUs give, against what such hardware should give.

    Puts load on the GPUs; data are checked. Ctrl-C ends the tests and shows what was measured. Needs CuPy (pip install
    'gpudoctor[cuda12]' or 'gpudoctor[cuda13]').
    """
    from gpudoctor.bench.model import TESTS
    from gpudoctor.cli.active import Active
    from gpudoctor.cli.levels import DEADLINES
    from gpudoctor.cli.output import one_of
    from gpudoctor.cli.pipeline import Request, examine_actively, open_machine
    from gpudoctor.cli.reporting import reporting, show
    from gpudoctor.engine.load import load_rules
    from gpudoctor.errors import GpudoctorError

    wanted = tuple(dict.fromkeys(one_of("TEST", test, TESTS) for test in tests or _DEFAULT_TESTS))
    if seconds is not None and not 1 <= seconds <= 86_400:
        raise GpudoctorError(f"--seconds {seconds:g}: out of range", "from 1 to a day")
    site = _site(expected, baseline)
    if save_baseline is not None and save_baseline.exists():
        raise GpudoctorError(f"{save_baseline} exists already", "choose another name")
    how = reporting(format, output, fail_on=fail_on, allow_unknown=allow_unknown, verbose=verbose)
    machine = open_machine(None)
    ruleset = load_rules(rules or [])
    active = Active(
        level=3,
        tests=wanted,
        gpus=tuple(gpus) if gpus else None,
        seconds=seconds,
        site=site,
        with_launcher=True,
        nccl_tests=nccl_tests,
    )
    enough = max(DEADLINES[3], (seconds or 0.0) * (len(wanted) + _MOST_ONE_BY_ONE) + 600.0)
    request = Request(deadline_seconds=deadline if deadline is not None else min(enough, 86_400.0), active=active)
    report, tested = examine_actively(machine, ruleset, request)
    if save_baseline is not None and tested is not None:
        _save(save_baseline, report, tested)
    return show(only_tests(report), how, interrupted=tested is not None and tested.interrupted, tables_first=True)


def _site(expected: Path | None, baseline: Path | None) -> Site:
    from gpudoctor.bench.site import Site, read_baseline, read_own

    return Site(
        own=read_own(expected) if expected else {},
        own_file=expected.name if expected else None,
        baseline=read_baseline(baseline) if baseline else None,
        baseline_file=baseline.name if baseline else None,
    )


def only_tests(report: Report) -> Report:
    """The report without what has nothing to do with the tests: `check` is for that."""
    import msgspec

    from gpudoctor.engine.verdict import verdict

    probes = [run for run in report.probes if run.name == "active tests"]
    measured = bool(report.bench and report.bench.figures)
    findings = [finding for finding in report.findings if _belongs(finding, measured)]
    return msgspec.structs.replace(
        report,
        findings=findings,
        probes=probes,
        verdict=verdict(findings, probes),
        next_checks=report.next_checks[:3],
    )


def _belongs(finding: Finding, measured: bool) -> bool:
    from gpudoctor.engine.verdict import at_or_above, walk
    from gpudoctor.report import Severity

    if any(below.rule.startswith("bench/") for below in walk([finding])):
        return True
    return not measured and at_or_above([finding], Severity.ERROR) and finding.rule.startswith(_GROUNDS)


def _save(path: Path, report: Report, tested: Tested) -> None:
    """Writes the baseline, unless this node is none to compare others with."""
    import sys

    import msgspec

    from gpudoctor import __version__
    from gpudoctor.bench.site import baseline_of, unfit_for_a_baseline
    from gpudoctor.cli.output import write

    bench = tested.facts.bench
    if bench is None or not bench.figures:
        print(f"gpudoctor: {path} not written: nothing was measured", file=sys.stderr)
        return
    unfit = unfit_for_a_baseline(bench)
    if unfit:
        print(
            f"gpudoctor: {path} not written, this node is none to compare with: {'; '.join(unfit[:4])}",
            file=sys.stderr,
        )
        return
    models = {target.bdf: target.device_id for target in tested.targets if target.bdf}
    baseline = baseline_of(bench, models, host=report.host, taken=report.generated, tool=f"gpudoctor {__version__}")
    write(msgspec.json.format(msgspec.json.encode(baseline), indent=1).decode() + "\n", path)
    print(f"compare another node with: gpudoctor bench --baseline {path}", file=sys.stderr)
