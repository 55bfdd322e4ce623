"""What a job's own log tells: how long a step waits for data, how busy the GPU is over time, and why memory ran out."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Document, DocumentKind, Evidence, Training
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import LINE_LIMIT, Collected
from gpudoctor.probes.training_first import parse_first
from gpudoctor.probes.training_memory import parse_out_of_memory
from gpudoctor.probes.training_samples import parse_samples
from gpudoctor.probes.training_scaling import parse_scaling
from gpudoctor.sources.answers import Source

NAME = "training"

_MOST_CHARACTERS = 400_000  # of one text are read for what every step repeats
_MOST_OF_TIMES = 40_000  # people paste a few such lines
_LONGEST_LINE = 2000
_NUMBER = r"\s*[:=]?\s*\(?\s*(?P<value>\d+\.\d+|\d+(?=\s*m?s\b))\s*(?P<unit>ms\b|s(?:ec)?\b)?"
# Data  1.799 ( 2.055) - data_time: 0.702 - train/data_time=0.217 - data: 0.4501 - preprocess 3.91 s - reader_cost: 1.203
_DATA = Lazy(
    r"(?<![\w.])(?:data[_ ]?(?:load(?:ing|er)?[_ ]?)?(?:time)?|load(?:ing)?[_ ](?:time|batch)|preprocess(?:ing)?"
    r"|dataloader(?: took)?|fetch|reader_cost)" + _NUMBER,
    re.IGNORECASE,
    needs=("data", "load", "preprocess", "fetch", "reader_cost"),
)
# Time  2.011 ( 2.299) - time: 0.912 - iter_time=0.332 - batch_time 1.4 - step 0.31 s - batch_cost: 1.410
_STEP = Lazy(
    r"(?<![\w.])(?:(?:batch|iter(?:ation)?|step|total)[_ ]?time|batch_cost|time(?:[/ _]?(?:iter|step|batch))?|step)"
    + _NUMBER,
    re.IGNORECASE,
)
# gpu 0.42 s - forward: 0.21 - compute 80 ms
_COMPUTE = Lazy(
    r"(?<![\w.])(?:gpu|compute|forward(?:[_ +/]*backward)?|fwd(?:[_ +/]*bwd)?|model|train)(?:[_ ]?time)?" + _NUMBER,
    re.IGNORECASE,
)
# (epoch: 3, iters: 400, time: 0.212, data: 1.301): here `time` is the computing alone
_APART = Lazy(r"\biters: \d+, time: (?P<step>\d+\.\d+), data: (?P<data>\d+\.\d+)", needs=("iters:",))
_WORKERS = Lazy(
    r"(?<![\w-])(?:-{0,2}num[_-]workers|-{2}workers|dataloader_num_workers|workers_per_gpu|n(?:um)?_workers)"
    r"['\"]?\s*[:= ]\s*(\d{1,3})\b",
    needs=("workers",),
)


class StepTime(msgspec.Struct, frozen=True):
    """One line of a training log, in seconds; `line` is its 0-based number."""

    data: float
    step: float
    line: int


def probe(source: Source) -> Training | None:
    """Facts of the first text that has them; a live machine has no such text."""
    found = Collected()
    if source.kind == "live":
        return None
    for document in source.documents():
        if document.kind is DocumentKind.KERNEL_LOG:
            continue
        text = document.text[:_MOST_CHARACTERS]
        _collect_steps(document, text, found)
        _collect_samples(document, text, found)
        _collect_first(document, text[:_MOST_OF_TIMES], found)
        _collect_workers(document, text, found)
        _collect_scaling(document, text, found)
        _collect_memory(document, document.text, found)
    return found.build(Training)


def parse_steps(text: str) -> list[StepTime]:
    """Lines that say both how long a step takes and how long it waited for data."""
    found: list[StepTime] = []
    for index, line in enumerate(text.splitlines()):
        if len(line) > _LONGEST_LINE:
            continue
        data = _DATA.search(line)
        if data is None:
            continue
        waited = _seconds(data)
        apart = _APART.search(line)
        if apart is not None:
            found.append(StepTime(waited, waited + float(apart["step"]), index))
            continue
        step = _STEP.search(line)
        if step is not None:
            took = _seconds(step)
            if waited > took and step.group().lower().startswith("step"):  # a step that does not count the waiting
                took += waited
            found.append(StepTime(waited, took, index))
        elif (compute := _COMPUTE.search(line)) is not None:
            found.append(StepTime(waited, waited + _seconds(compute), index))
    return [one for one in found if one.step > 0 and one.data <= one.step * 1.05]


def _seconds(match: re.Match[str]) -> float:
    value = float(match["value"])
    return value / 1000 if match["unit"] == "ms" else value


def _collect_steps(document: Document, text: str, found: Collected) -> None:
    steps = parse_steps(text)
    if len(steps) > 2:
        steps = steps[1:]  # the first step starts the workers
    if not steps:
        return
    from statistics import median  # brings much along, and few texts have steps

    share = median(one.data / one.step for one in steps)
    typical = min(steps, key=lambda one: abs(one.data / one.step - share))
    proof = _quote(document, text, typical.line)
    found.set("step_seconds", median(one.step for one in steps), proof)
    found.set("data_seconds", median(one.data for one in steps), proof)
    found.set("data_share", min(share, 1.0), proof)


def _collect_samples(document: Document, text: str, found: Collected) -> None:
    samples = parse_samples(text)
    if samples is None:
        return
    proof = _quote(document, text, samples.line)
    found.set("utilization_mean_pct", sum(samples.values) / len(samples.values), proof)
    found.set("utilization_max_pct", max(samples.values), proof)
    found.set("utilization_samples", len(samples.values), proof)


def _collect_first(document: Document, text: str, found: Collected) -> None:
    first = parse_first(text)
    if first is not None:
        proof = _quote(document, text, first.line)
        found.set("first_seconds", first.first, proof)
        found.set("later_seconds", first.later, proof)


def _collect_scaling(document: Document, text: str, found: Collected) -> None:
    scaling = parse_scaling(text)
    if scaling is not None:
        proof = _quote(document, text, scaling.line)
        found.set("scaling_base_gpus", scaling.base, proof)
        found.set("scaling_gpus", scaling.gpus, proof)
        found.set("scaling_efficiency", scaling.efficiency, proof)


def _collect_memory(document: Document, text: str, found: Collected) -> None:
    failures = parse_out_of_memory(text)
    if failures:
        proof = _quote(document, text, failures[0].line)
        found.set(
            "out_of_memory", [failure.fact(_quote(document, text, failure.line)) for failure in failures], proof
        )


def _collect_workers(document: Document, text: str, found: Collected) -> None:
    match = max(_WORKERS.finditer(text), key=lambda one: int(one[1]), default=None)  # defaults are printed too
    if match is not None:
        found.set("dataloader_workers", int(match[1]), _quote(document, text, text.count("\n", 0, match.start())))


def _quote(document: Document, text: str, index: int) -> Evidence:
    lines = text.split("\n", index + 1)
    line = lines[index] if index < len(lines) else ""
    return Evidence(source=document.name, text=line.strip()[:LINE_LIMIT], line=document.line_number(index))
