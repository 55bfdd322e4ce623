"""What the benchmarks share: running a command with time and peak memory, medians, and results on disk."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"


class Run(NamedTuple):
    seconds: float
    peak_mib: float
    exit_code: int


def run(argv: list[str], env: dict[str, str] | None = None) -> Run:
    """One run of a command. The peak is the child's own resident memory.

    Output goes to a file: grep stops at the first match when it sees that it writes to /dev/null.
    """
    start = time.perf_counter()
    with open(os.devnull, "rb") as nothing, tempfile.TemporaryFile() as output:
        child = subprocess.Popen(argv, stdin=nothing, stdout=output, stderr=output, env=env)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return Run(time.perf_counter() - start, usage.ru_maxrss / 1024, child.returncode)


def interleaved(commands: dict[str, list[str]], runs: int) -> dict[str, list[Run]]:
    """Each command `runs` times, taking turns, so that a busy moment hits all of them. One warm-up run each goes first."""
    # Compiled modules are kept, as in an ordinary installation; the warm-up run writes them.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    for argv in commands.values():
        run(argv, env)
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, argv in commands.items():
            found[name].append(run(argv, env))
    return found


def median(runs: list[Run]) -> float:
    return statistics.median(one.seconds for one in runs)


class Budget(NamedTuple):
    """A limit from the design: `value` against `limit`; `at_least` turns the comparison round."""

    what: str
    value: float
    limit: float
    at_least: bool = False

    @property
    def kept(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def conclude(name: str, measured: dict[str, Any], budgets: list[Budget]) -> int:
    """Prints the budgets, writes results/NAME.json; 1 where a budget is broken."""
    print()
    for budget in budgets:
        sign = ">=" if budget.at_least else "<="
        print(
            f"{'ok  ' if budget.kept else 'MISS'}  {budget.what}: {budget.value:.2f} (budget {sign} {budget.limit:g})"
        )
    RESULTS.mkdir(exist_ok=True)
    result = {
        "benchmark": name,
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "measured": measured,
        "budgets": [budget._asdict() | {"kept": budget.kept} for budget in budgets],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"\nwritten to {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0 if all(budget.kept for budget in budgets) else 1


def gpudoctor() -> str:
    """The gpudoctor program beside this interpreter."""
    program = Path(sys.executable).parent / "gpudoctor"
    if not program.exists():
        sys.exit(f"no gpudoctor beside {sys.executable}: install the project first (pip install -e .)")
    return str(program)
