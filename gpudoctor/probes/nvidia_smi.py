"""What nvidia-smi tells: its XML, `-q`, table, `-L` and CSV give the same facts as NVML; its words tell why it failed.

Live, the plain table is asked for its error words, and the XML only where NVML did not answer or something looks wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gpudoctor.facts import Cuda, Driver, Evidence, Facts, Gpu
from gpudoctor.knowledge.nvml_codes import CODES, NAMES
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import said
from gpudoctor.probes.merge_gpus import merge_gpu_lists
from gpudoctor.probes.nvml import TIMEOUT_SECONDS as NVML_TIMEOUT_SECONDS
from gpudoctor.probes.nvml import facts_of
from gpudoctor.probes.original_lines import renumber, renumbered_gpu
from gpudoctor.probes.smi_errors import SmiFailure, parse_failure
from gpudoctor.probes.smi_report import SmiReport
from gpudoctor.probes.smi_table import parse_table
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.requests import (
    NVIDIA_SMI,
    NVIDIA_SMI_L,
    NVIDIA_SMI_NVLINK,
    NVIDIA_SMI_NVLINK_ERRORS,
    NVIDIA_SMI_Q,
    NVIDIA_SMI_QUERY_APPS,
    NVIDIA_SMI_QUERY_GPU,
    NVIDIA_SMI_XML,
    WORKER_NVML,
)

NAME = "nvidia_smi"
GROUP = "gpus"
TIMEOUT_SECONDS = 12.0
# From the richest to the poorest: of two that know a field the earlier holds.
_REQUESTS = (
    NVIDIA_SMI_XML,
    NVIDIA_SMI_Q,
    NVIDIA_SMI_QUERY_GPU,
    NVIDIA_SMI,
    NVIDIA_SMI_L,
    NVIDIA_SMI_NVLINK,
    NVIDIA_SMI_NVLINK_ERRORS,
    NVIDIA_SMI_QUERY_APPS,
)


def probe(source: Source) -> Facts | None:
    """GPUs, versions and nvidia-smi's failure."""
    answers = _ask_live(source) if source.kind == "live" else [source.run(*request) for request in _REQUESTS]
    facts = facts_of_answers(answers)
    if facts is None or not facts.gpus:
        return facts
    from gpudoctor.probes.gpu_processes import with_life

    return msgspec.structs.replace(facts, gpus=[with_life(source, gpu) for gpu in facts.gpus])


def _ask_live(source: Source) -> list[CommandAnswer]:
    plain = source.run(*NVIDIA_SMI, timeout=TIMEOUT_SECONDS)
    if plain.status not in (Status.OK, Status.FAILED):
        return [plain]
    # the nvml probe asks the same at the same time: this waits for its answer
    worker = facts_of(source.run(*WORKER_NVML, timeout=NVML_TIMEOUT_SECONDS))
    table = parse_table(plain.text).gpus
    # Without a table the XML says the same words once more; with one it says more where NVML is silent or unwell.
    if not table or (worker is not None and worker.gpus and not any(map(_is_unwell, [*worker.gpus, *table]))):
        return [plain]
    return [source.run(*NVIDIA_SMI_XML, timeout=TIMEOUT_SECONDS), plain]


def _is_unwell(gpu: Gpu) -> bool:
    return bool(gpu.errors or gpu.lost or gpu.reset_required)


def facts_of_answers(answers: Iterable[CommandAnswer]) -> Facts | None:
    """The facts of nvidia-smi's answers, the richest first; None when there is none."""
    gpus: list[Gpu] | None = None
    reports: list[SmiReport] = []
    driver: dict[str, Any] = {}
    evidence: dict[str, Evidence] = {}
    for answer in answers:
        _add_outcome(answer, driver, evidence)
        if not said(answer) and answer.status is not Status.TIMEOUT:
            continue
        numbers = answer.line_numbers
        report = _renumbered(parse_answer(answer), numbers)
        failure = parse_failure(answer.text, answer.request)
        failure = msgspec.structs.replace(failure, gpus=[renumbered_gpu(gpu, numbers) for gpu in failure.gpus])
        _add_failure(answer, failure, driver, evidence)
        reports.append(report)
        if answer.argv == NVIDIA_SMI_QUERY_APPS:
            gpus = _with_processes(gpus, report.gpus or [], none=not report.gpus and _lists_none(answer))
            continue
        for found in (report.gpus, failure.gpus):
            if found:
                gpus = merge_gpu_lists(gpus or [], found)
        if failure.no_devices and gpus is None:
            gpus = []
    for report in reports:
        for field, name in (
            ("version", "driver_version"),
            ("library_version", "library_version"),
            ("attached_gpus", "attached_gpus"),
        ):
            if (value := getattr(report, name)) and field not in driver:
                driver[field] = value
                if name in report.evidence:
                    evidence[field] = report.evidence[name]
    cuda = next((_cuda(report) for report in reports if report.cuda_version), None)
    if gpus is None and not driver and cuda is None:
        return None
    return Facts(gpus=gpus, driver=Driver(**driver, evidence=evidence) if driver else None, cuda=cuda)


# Of these a GPU that somebody looked at has at least _LEAST; a list of names has none.
_HEALTH = (
    "temperature_c",
    "performance_state",
    "power_w",
    "utilization_gpu_pct",
    "memory_used_mib",
    "ecc_uncorrected_volatile",
    "throttle_reasons",
    "recovery_action",
    "pcie_width",
    "remapped_rows_failure",
)
_LEAST = 3


def lacks(facts: Facts) -> str | None:
    """Why these facts do not answer for all GPUs: some are not shown, or nothing of their state is; None when they do."""
    gpus = facts.gpus or []
    attached = facts.driver.attached_gpus if facts.driver is not None else None
    if gpus and attached is not None and attached > len(gpus):
        return f"it shows {len(gpus)} of {attached} GPUs"
    numbers = sorted(gpu.index for gpu in gpus if gpu.index is not None)
    missing = sorted(set(range(numbers[0], numbers[-1])) - set(numbers)) if numbers else []
    if missing:
        return f"GPU {', '.join(map(str, missing))} is not in it"
    for gpu in gpus:
        known = sum(getattr(gpu, name) is not None for name in _HEALTH)
        if known < _LEAST and not gpu.errors and not gpu.lost:
            name = f"GPU {gpu.index}" if gpu.index is not None else gpu.bdf or "a GPU"
            return f"it tells {'little' if known else 'nothing'} of the state of {name}"
    return None


def _with_processes(gpus: list[Gpu] | None, named: list[Gpu], *, none: bool) -> list[Gpu] | None:
    """`gpus` with the processes of a list that names a process's GPU or leaves that open."""
    if none and gpus:
        return [msgspec.structs.replace(gpu, processes=[]) if gpu.processes is None else gpu for gpu in gpus]
    # Several processes without a GPU's name may be on one GPU or on several.
    certain = [
        gpu
        for gpu in named
        if gpu.bdf or gpu.uuid or len(gpus or []) == 1 or (not gpus and len(gpu.processes or []) == 1)
    ]
    return merge_gpu_lists(gpus or [], certain) if certain else gpus


def _lists_none(answer: CommandAnswer) -> bool:
    from gpudoctor.probes.smi_csv import names_processes

    return not answer.truncated and names_processes(answer.text)


def parse_answer(answer: CommandAnswer) -> SmiReport:
    """The facts of one answer by what was asked; content decides where a paste was asked for something else.

    Each form's reader is loaded when there is a text of that form: start-up is a third of a short run.
    """
    request, text = answer.argv, answer.text
    if "<nvidia_smi_log" in text or "<gpu id=" in text:
        from gpudoctor.probes.smi_blocks import parse_xml_report

        return parse_xml_report(text, answer.request)
    if request == NVIDIA_SMI_L:
        from gpudoctor.probes.smi_csv import parse_list

        return parse_list(text, answer.request)
    if request[: len(NVIDIA_SMI_NVLINK) - 1] == NVIDIA_SMI_NVLINK[:-1]:
        from gpudoctor.probes.nvlink import parse_nvlink

        return SmiReport(gpus=parse_nvlink(text, answer.request))
    if request[:1] == NVIDIA_SMI[:1] and len(request) > 1 and request[1].startswith(NVIDIA_SMI_QUERY_GPU[1]):
        from gpudoctor.probes.smi_csv import parse_query

        return parse_query(text, _typed(answer), answer.request)
    if request == NVIDIA_SMI_QUERY_APPS:
        from gpudoctor.probes.smi_csv import parse_processes

        return parse_processes(text, source=answer.request)
    table = parse_table(text, answer.request)
    if request == NVIDIA_SMI or table.gpus:
        return table
    from gpudoctor.probes.smi_blocks import parse_q_report

    return parse_q_report(text, answer.request)


def _renumbered(report: SmiReport, numbers: list[int] | None) -> SmiReport:
    gpus = None if report.gpus is None else [renumbered_gpu(gpu, numbers) for gpu in report.gpus]
    return msgspec.structs.replace(report, gpus=gpus, evidence=renumber(report.evidence, numbers))


def _typed(answer: CommandAnswer) -> str:
    """The command as it was typed, which names the columns: a source may put it into the first line."""
    first = answer.stdout.split("\n", 1)[0]
    return f"{answer.request} {first if '--query-gpu' in first else ''}"


def _add_outcome(answer: CommandAnswer, driver: dict[str, Any], evidence: dict[str, Evidence]) -> None:
    if answer.status is Status.TIMEOUT:
        driver["nvml_timed_out"] = True
        driver.setdefault("nvidia_smi_present", True)
        text = f"{answer.request} gave no answer in {answer.seconds:.0f} s"
        evidence.setdefault("nvml_timed_out", Evidence(source=answer.request, text=text))
    elif answer.status is Status.NOT_FOUND:
        driver.setdefault("nvidia_smi_present", False)
        evidence.setdefault("nvidia_smi_present", Evidence(source=answer.request, text="nvidia-smi: not found"))


def _add_failure(
    answer: CommandAnswer, failure: SmiFailure, driver: dict[str, Any], evidence: dict[str, Evidence]
) -> None:
    if failure.missing:
        quoted = _quoted(answer, failure.line, failure.error or "")
        driver.setdefault("nvidia_smi_present", False)
        evidence.setdefault("nvidia_smi_present", quoted)
        driver.setdefault("nvidia_smi_error", failure.error)
        evidence.setdefault("nvidia_smi_error", quoted)
        return
    driver["nvidia_smi_present"] = True
    if answer.exit_code is not None:
        driver.setdefault("nvidia_smi_exit_code", answer.exit_code)
    words = failure.error
    if words is None and answer.exit_code not in (None, 0):
        words = _other_words(answer)
    if words is None:
        return
    quoted = _quoted(answer, failure.line, words)
    for name, value in (
        ("nvidia_smi_error", words),
        ("nvml_error", failure.nvml_error),
        ("nvml_error_code", CODES.get(failure.nvml_error or "")),
        ("library_version", failure.library_version),
    ):
        if value is not None and name not in driver:
            driver[name] = value
            evidence[name] = quoted


_DATE = Lazy(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ \d\d:\d\d:\d\d \d{4}$")
_REPORT_LINE = Lazy(r"^\s*[|+<=]|\s:(?:\s|$)")


def _other_words(answer: CommandAnswer) -> str:
    """What an unknown failure said last; a report's own lines are not words of a failure."""
    said_lines = [line.strip() for line in answer.text.splitlines() if line.strip() and not _REPORT_LINE.search(line)]
    code = answer.exit_code or 0
    name = f" ({NAMES[code]})" if code in NAMES else ""
    last = said_lines[-1] if said_lines else ""
    return (last if last and not _DATE.match(last) else f"exit code {code}{name}")[:400]


def _quoted(answer: CommandAnswer, line: int | None, text: str) -> Evidence:
    plain = {"": Evidence(source=answer.request, line=line, text=text)}
    return renumber(plain, answer.line_numbers)[""]


def _cuda(report: SmiReport) -> Cuda:
    quoted = report.evidence.get("cuda_version")
    return Cuda(driver_cuda_version=report.cuda_version, evidence={"driver_cuda_version": quoted} if quoted else {})
