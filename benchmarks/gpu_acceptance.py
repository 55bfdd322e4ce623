"""Proves the active tests on a real GPU: every worker runs, and `bench memory` is held against other ways to measure the same.

Prints one JSON. Start it with scripts/gpu-acceptance.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUDGET_S = 225.0
NO_GPU = 3
# What a check of this project promises (figures of `bench memory`).
OF_FRAMEWORK, OF_PEAK, OF_NVBANDWIDTH = 0.97, 0.88, 0.97
PEER_TESTS = ("p2p", "nccl")
SECONDS = {"memory": 18, "gemm": 20, "pcie": 14, "p2p": 15, "nccl": 30, "memtest": 25, "burn": 20}
FEWEST_FIGURES = {"memory": 6, "gemm": 3, "pcie": 5, "p2p": 2, "nccl": 5, "memtest": 0, "burn": 1}
Json = dict[str, Any]


class Checks:
    """What was found so far, and how much time is left."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.found: list[Json] = []

    def left(self) -> float:
        return BUDGET_S - (time.monotonic() - self.begun)

    def add(self, name: str, ok: bool | None, **more: object) -> None:
        """`ok` None: could not be checked."""
        self.found.append({"name": name, "ok": ok, **more})
        word = {True: "ok", False: "FAILED", None: "not checked"}[ok]
        told = ", ".join(f"{key} {value}" for key, value in more.items() if not isinstance(value, dict | list))
        print(f"{name}: {word}{f' ({told})' if told else ''}"[:300], file=sys.stderr)

    def at_least(self, name: str, value: float | None, limit: float) -> None:
        self.add(name, None if value is None else value >= limit, value=value, limit=limit)


def gpudoctor(*arguments: str, timeout: float) -> tuple[int, Json | None, str]:
    """Exit code, the JSON that it printed, and stderr."""
    command = [sys.executable, "-m", "gpudoctor", *arguments, "--format", "json"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=ROOT)
    except subprocess.TimeoutExpired:
        return -1, None, f"gave no answer within {timeout:.0f} s"
    try:
        return run.returncode, json.loads(run.stdout), run.stderr.strip()
    except ValueError:
        return run.returncode, None, (run.stderr or run.stdout).strip()[-500:]


def worker(name: str, *arguments: str, timeout: float) -> list[Json]:
    """The lines of a worker; what it could not say is left out."""
    command = [sys.executable, "-P", "-m", f"gpudoctor.workers.{name}", *arguments]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return []
    lines: list[Json] = []
    for text in run.stdout.splitlines():
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def best(report: Json | None, test: str, metric: str) -> float | None:
    """The highest figure of this name."""
    figures = ((report or {}).get("bench") or {}).get("figures") or []
    values = [f["value"] for f in figures if f["test"] == test and f["metric"] == metric]
    return max(values) if values else None


def check_test(checks: Checks, test: str, gpu: str) -> Json | None:
    """One test through the command, as a user runs it."""
    seconds = SECONDS[test]
    if checks.left() < seconds + 15:
        checks.add(f"{test} runs", None, why="no time left")
        return None
    which = () if test in PEER_TESTS else ("--gpu", gpu)
    begun = time.monotonic()
    code, report, said = gpudoctor("bench", test, *which, "--seconds", str(seconds), timeout=seconds + 60)
    took = round(time.monotonic() - begun, 1)
    if report is None:
        checks.add(f"{test} runs", False, exit_code=code, said=said)
        return None
    runs = report["bench"]["runs"]
    figures = report["bench"]["figures"]
    ran = bool(runs) and all(run["state"] in ("done", "partial") for run in runs)
    enough = len({f["metric"] for f in figures}) >= min(FEWEST_FIGURES[test], 6)
    errors = [run["error_message"] for run in runs if run["error_message"]]
    checks.add(
        f"{test} runs", ran and enough and code in (0, 1, 3), exit_code=code, seconds=took,
        figures=len(figures), errors="; ".join(errors)[:200] or None,
    )  # fmt: skip
    checks.add(
        f"{test} finds no wrong data", not report["bench"]["faults"], faults=report["bench"]["faults"][:3] or None
    )
    low = [f"{f['metric']} {f['value']} {f['unit']}" for f in figures if f["verdict"] == "low"]
    checks.add(f"{test} calls nothing low", not low, low="; ".join(low)[:200] or None)
    return report


def measure_reference(checks: Checks, ordinal: int) -> Json:
    """CuPy's own copy and nvbandwidth's methods: see gpu_reference.py."""
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu_reference.py"), str(ordinal)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=max(20.0, min(60.0, checks.left())))
        found: Json = json.loads(run.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        said = run.stderr.strip()[-300:] if isinstance(error, ValueError) else str(error)
        checks.add("the other methods measure", False, said=said)
        return {}
    right = [name for name in found if name.endswith("_right")]
    checks.add(
        "the other methods measure",
        bool(right),
        errors="; ".join(v for k, v in found.items() if k.endswith("_error")) or None,
    )
    checks.add("the other methods' copies are right", all(found[name] for name in right))
    return found


def compare(checks: Checks, report: Json | None, other: Json, peak: float | None) -> Json:
    """The ratios that this project promises."""
    ours = best(report, "memory", "copy")
    every = [best(report, "memory", metric) for metric in ("read", "write", "copy", "scale", "triad")]
    highest = max((value for value in every if value is not None), default=None)

    def ratio(value: float | None, base: float | None) -> float | None:
        return round(value / base, 4) if value and base else None

    ratios = {
        "copy_to_framework_copy": ratio(ours, other.get("framework_copy")),
        "copy_to_nvbandwidth_ce": ratio(ours, other.get("nvbandwidth_ce")),
        "copy_to_nvbandwidth_sm": ratio(ours, other.get("nvbandwidth_sm")),
        "copy_to_peak": ratio(ours, peak),
        "best_to_peak": ratio(highest, peak),
    }
    checks.at_least("copy reaches the framework's own", ratios["copy_to_framework_copy"], OF_FRAMEWORK)
    checks.at_least("copy reaches nvbandwidth's copy engine", ratios["copy_to_nvbandwidth_ce"], OF_NVBANDWIDTH)
    checks.at_least(
        "copy reaches nvbandwidth's multiprocessor copy", ratios["copy_to_nvbandwidth_sm"], OF_NVBANDWIDTH
    )
    checks.at_least("the best kernel reaches the datasheet's peak", ratios["best_to_peak"], OF_PEAK)
    return ratios


def check_level_2(checks: Checks) -> Json | None:
    """The whole way: check with active tests of seconds."""
    if checks.left() < 45:
        checks.add("check --level 2 runs", None, why="no time left")
        return None
    deadline = min(60.0, checks.left() - 20)
    begun = time.monotonic()
    code, report, said = gpudoctor("check", "--level", "2", "--deadline", f"{deadline:.0f}", timeout=deadline + 25)
    took = time.monotonic() - begun
    if report is None:
        checks.add("check --level 2 runs", False, exit_code=code, said=said)
        return None
    tests: Json = next(
        (run for run in report["probes"] if run["name"] == "active tests"), {"state": None, "problems": []}
    )
    checks.add(
        "check --level 2 runs", tests["state"] in ("ok", "partial"), exit_code=code, state=tests["state"],
        verdict=report["verdict"], problems="; ".join(tests["problems"])[:200] or None,
    )  # fmt: skip
    checks.add("check --level 2 keeps its deadline", took <= deadline + 3, seconds=round(took, 1), limit=deadline)
    return report


def memory_used_mib(index: str) -> int | None:
    for line in worker("nvml_dump", timeout=20):
        if line.get("kind") == "device" and str(line.get("index")) == index:
            value = line.get("values", {}).get("memory_used_mib")
            return value if isinstance(value, int) else None
    return None


def check_interrupt(checks: Checks, gpu: str) -> None:
    """Ctrl-C in the middle of a burn: ends at once, shows what was measured, leaves the GPU free."""
    if checks.left() < 30:
        checks.add("Ctrl-C leaves the GPU free", None, why="no time left")
        return
    before = memory_used_mib(gpu)
    command = [
        sys.executable,
        "-m",
        "gpudoctor",
        "bench",
        "burn",
        "--gpu",
        gpu,
        "--seconds",
        "120",
        "--format",
        "json",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    time.sleep(10)
    process.send_signal(signal.SIGINT)
    begun = time.monotonic()
    try:
        stdout, _ = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        checks.add("Ctrl-C ends the tests", False, why="it did not end within 30 s")
        return
    took = round(time.monotonic() - begun, 1)
    checks.add(
        "Ctrl-C ends the tests", process.returncode == 130 and took < 10, exit_code=process.returncode, seconds=took
    )
    checks.add("Ctrl-C still gives a report", stdout.lstrip().startswith("{"))
    time.sleep(1)
    after = memory_used_mib(gpu)
    if before is None or after is None:
        checks.add("Ctrl-C leaves the GPU free", None)
    else:
        checks.add("Ctrl-C leaves the GPU free", after <= before + 64, before_mib=before, after_mib=after)


def devices_or_exit() -> list[Json]:
    """The devices that CUDA shows; without any, the end, with the reason."""
    lines = worker("bench_devices", "--seconds", "60", timeout=90)
    devices: list[Json] = next((line["devices"] for line in lines if line.get("event") == "start"), [])
    if not devices:
        error: Json = next((line for line in lines if line.get("event") == "error"), {})
        named = " ".join(str(error[key]) for key in ("name", "message") if error.get(key)) or "no answer of CUDA"
        print(f"gpu-acceptance: there is no GPU to test here: {named}", file=sys.stderr)
        if error.get("api") == "cupy":
            print("hint: pip install 'gpudoctor[cuda12]' or 'gpudoctor[cuda13]'", file=sys.stderr)
        raise SystemExit(NO_GPU)
    return devices


def peak_of(facts_gpus: list[Json], index: str) -> float | None:
    from gpudoctor.knowledge import gpus

    for gpu in facts_gpus:
        if str(gpu.get("index")) == index:
            model = gpus.by_pci_id(gpu.get("device_id"))
            return model.memory_bandwidth_gbps if model else None
    return None


def run(gpu: str) -> Json:
    """All checks on one GPU (p2p and nccl on all)."""
    checks = Checks()
    devices = devices_or_exit()
    _, facts, _ = gpudoctor("facts", "gpus", timeout=40)
    known = (facts or {}).get("gpus") or []
    own: Json = next((entry for entry in known if str(entry.get("index")) == gpu), {})
    ordinal = next((d["ordinal"] for d in devices if str(d.get("bdf", "")).lower() == own.get("bdf")), int(gpu))
    reports: dict[str, Json | None] = {}
    reports["memory"] = check_test(checks, "memory", gpu)
    other = measure_reference(checks, ordinal)
    ratios = compare(checks, reports["memory"], other, peak_of(known, gpu))
    tests = ["gemm", "pcie", *(PEER_TESTS if len(devices) > 1 else ()), "memtest", "burn"]
    for test in tests:
        reports[test] = check_test(checks, test, gpu)
    level_2 = check_level_2(checks)
    check_interrupt(checks, gpu)
    figures = [
        {key: figure[key] for key in ("test", "metric", "value", "unit", "size_bytes", "gpu_index", "peer_index", "ratio", "verdict")}
        for report in reports.values()
        for figure in ((report or {}).get("bench") or {}).get("figures", [])
    ]  # fmt: skip
    return {
        "passed": all(check["ok"] is not False for check in checks.found),
        "not_checked": sum(check["ok"] is None for check in checks.found),
        "seconds": round(time.monotonic() - checks.begun, 1),
        "gpu": {
            key: own.get(key) for key in ("name", "device_id", "bdf", "memory_total_mib", "ecc_mode", "power_limit_w")
        },
        "devices": len(devices),
        "ratios": ratios,
        "reference": other,
        "checks": checks.found,
        "figures": figures,
        "findings_of_level_2": [finding["rule"] for finding in (level_2 or {}).get("findings", [])],
        "gpudoctor": subprocess.run(
            [sys.executable, "-m", "gpudoctor", "--version"], capture_output=True, text=True, cwd=ROOT
        ).stdout.strip(),
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu-acceptance", description="Proves the active tests on a real GPU.")
    parser.add_argument(
        "--output", type=Path, help="also write the JSON there (benchmarks/results/gpu_acceptance.json)"
    )
    parser.add_argument("--gpu", default="0", help="index of nvidia-smi")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    result = run(arguments.gpu)
    text = json.dumps(result, indent=1) + "\n"
    print(text, end="")
    if arguments.output is not None:
        arguments.output.write_text(text, encoding="utf-8")
    return 0 if result["passed"] else 1


if __name__ == "__main__":
    sys.exit(main())
