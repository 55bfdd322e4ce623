"""GPUs as NVML tells them: the worker `nvml_dump` asks in a child process and prints JSON lines.

    {"kind": "init", "code": 18, "name": "LIB_RM_VERSION_MISMATCH", "nvml_version": "12.535.309.01"}
    {"kind": "device", "index": 0, "handle": 0, "values": {"temperature_c": 34}, "errors": {"fan_pct": 3}}

An empty answer says nothing. A worker that was given up leaves the lines it had written: these are facts all the same.
"""

from __future__ import annotations

import msgspec

from gpudoctor.facts import Facts
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.requests import WORKER_NVML

NAME = "nvml"
GROUP = "gpus"
TIMEOUT_SECONDS = 12.0


def probe(source: Source) -> Facts | None:
    """GPUs, the driver's versions and NVML's error, if any."""
    answer = source.run(*WORKER_NVML, timeout=TIMEOUT_SECONDS)
    facts = facts_of(answer)
    if facts is None or not facts.gpus:
        return facts
    from gpudoctor.probes.gpu_processes import with_life

    return msgspec.structs.replace(facts, gpus=[with_life(source, gpu) for gpu in facts.gpus])


def facts_of(answer: CommandAnswer) -> Facts | None:
    """The facts of a worker's answer; None when it holds none."""
    if answer.status not in (Status.OK, Status.FAILED, Status.TIMEOUT):
        return None
    from gpudoctor.probes.nvml_answer import cuda_of, driver_of, parse_dump

    dump = parse_dump(answer.stdout)
    timed_out = answer.status is Status.TIMEOUT and dump.init is None
    if dump.init is None and not timed_out:
        return None
    driver, cuda = driver_of(dump, timed_out), cuda_of(dump)
    if dump.init is None or dump.init.get("code") != 0:
        return Facts(driver=driver, cuda=cuda)
    from gpudoctor.probes.nvml_gpus import gpus_of
    from gpudoctor.probes.nvml_pairs import topology_of

    gpus = gpus_of(dump, _cut_short(answer))
    return Facts(gpus=gpus, driver=driver, cuda=cuda, topology=topology_of(dump.pairs) if gpus else None)


def _cut_short(answer: CommandAnswer) -> tuple[str, str]:
    """Why GPUs may be missing in an unfinished dump: the error's name, and words."""
    if answer.status is Status.TIMEOUT:
        return "TIMEOUT", f"NVML gave no answer in {answer.seconds:.0f} s"
    signal = f" by signal {-answer.exit_code}" if answer.exit_code is not None and answer.exit_code < 0 else ""
    return "CRASHED", f"asking NVML was ended{signal}"
