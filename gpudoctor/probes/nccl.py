"""NCCL: results of nccl-tests, what NCCL_DEBUG=INFO and PyTorch's watchdog say, and variables set by files."""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Evidence, Nccl
from gpudoctor.probes.ask import said
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.requests import NCCL_DEBUG_LOG, NCCL_TESTS, TORCH_DISTRIBUTED_LOG

NAME = "nccl"


def probe(source: Source) -> Nccl | None:
    """Tests and logs that were brought, and NCCL's files on this machine; None when there are none."""
    files, quoted = config_files(source)
    found: dict[str, Any] = {"config_files": files}
    evidence: dict[str, Evidence] = dict(quoted)
    answers = [] if source.kind == "live" else _brought(source)
    if answers:
        from gpudoctor.probes.nccl_log import of_logs
        from gpudoctor.probes.nccl_tests import parse_tests
        from gpudoctor.probes.nccl_torch import of_watchdog

        found |= of_logs(answers)
        evidence |= found.pop("evidence")
        watched = of_watchdog(answers)
        evidence |= watched.pop("evidence", {})
        found |= watched
        tests = source.run(*NCCL_TESTS)
        found["tests"] = (parse_tests(tests) or None) if said(tests) else None
    known = {name: value for name, value in found.items() if value is not None}
    return Nccl(**known, evidence=evidence) if known else None


def _brought(source: Source) -> list[CommandAnswer]:
    """The logs and outputs, each text once although it may answer several requests."""
    seen: dict[str, CommandAnswer] = {}
    for request in (NCCL_DEBUG_LOG, NCCL_TESTS, TORCH_DISTRIBUTED_LOG):
        answer = source.run(*request)
        if said(answer):
            seen.setdefault(answer.stdout, answer)
    return list(seen.values())


def config_files(source: Source) -> tuple[dict[str, str] | None, dict[str, Evidence]]:
    """Variables of NCCL's files, which the environment overrides; None where none was read.

    $NCCL_CONF_FILE or else ~/.nccl.conf comes first, /etc/nccl.conf adds what is not set yet (NCCL's src/misc/param.cc).
    One `NAME=value` a line; lines that begin with `#` are skipped.
    """
    home = source.env("HOME")
    own = source.env("NCCL_CONF_FILE") or (f"{home.rstrip('/')}/.nccl.conf" if home else None)
    found: dict[str, str] | None = None
    evidence: dict[str, Evidence] = {}
    for path in (*([own] if own else []), "/etc/nccl.conf"):
        answer = source.read(path)
        if answer.status is not Status.OK:
            continue
        found = found or {}
        for number, line in enumerate(answer.text.splitlines(), 1):
            name, equals, value = line.strip().partition("=")
            if not equals or not name.startswith("NCCL_"):
                continue
            if found.setdefault(name.strip(), value.strip()) == value.strip():
                evidence.setdefault("config_files", Evidence(source=path, line=number, text=line.strip()[:400]))
    return found, evidence
