"""A thousand rules on one machine's facts, after loading: with rules just loaded and nothing compiled yet, and once more.

    python benchmarks/rules.py [--rules 1000] [--runs 11]

The bundled rules, and generated ones up to the number: each with its own expressions and messages, so that nothing is
evaluated once for all.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from pathlib import Path

import re2
from measure import Budget, conclude

from gpudoctor.__main__ import GC_THRESHOLD
from gpudoctor.demo import path_of
from gpudoctor.engine.diagnose import diagnose
from gpudoctor.engine.expressions import runtime
from gpudoctor.engine.load import load_rules
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_paths

RULE = """\
id: bench/rule-{n}
title: Generated rule {n} on {{host.kernel_release // this kernel}}
severity: error
symptom:
  when: size(pci.nvidia_devices) > {few} && driver.loaded && host.cpu_count_total > {n}
  messages:
    - "generated message {n} of (?P<what>[a-z]+) failed"
causes:
  - id: first
    title: First cause of {n}
    supports:
      - {{when: "driver.dkms.exists(d, d.module == 'm{n}' && d.kernel == host.kernel_release)", because: DKMS}}
      - {{message: "first clue {n} was (seen|heard)", because: a text says so}}
    against:
      - {{when: "gpus.exists(g, g.temperature_c > {n})", weight: decisive, because: heat}}
    steps: [{{say: Look., run: "nvidia-smi -i {n}"}}]
  - id: second
    title: Second cause of {n}
    supports:
      - {{when: "host.memory_total_mib > {n}000000", because: memory}}
references: ["https://example.org/{n}"]
examples:
  - {{name: yes, text: "generated message {n} of disk failed", expect: {{fires: yes}}}}
"""


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--rules", type=int, default=1000)
    ask.add_argument("--runs", type=int, default=11)
    args = ask.parse_args()
    gc.set_threshold(*GC_THRESHOLD)  # as in the program
    with tempfile.TemporaryDirectory(prefix="gpudoctor-rules-") as temporary:
        (Path(temporary) / "bench").mkdir()
        for n in range(args.rules - len(load_rules().loaded)):
            (Path(temporary) / "bench" / f"rule-{n}.yaml").write_text(RULE.format(n=n, few=n % 3), encoding="utf-8")
        start = time.perf_counter()
        load_rules([Path(temporary)])
        measured = {"load_first_ms": (time.perf_counter() - start) * 1000}
        start = time.perf_counter()
        load_rules([Path(temporary)])
        measured["load_cached_ms"] = (time.perf_counter() - start) * 1000
        for scenario in ("healthy", "kernel-updated"):
            source = open_paths([path_of(scenario)])
            facts, _ = run_probes(source, areas=None, deadline_seconds=30.0, on_progress=None)
            documents = source.documents()
            fresh, again = [], []
            for _ in range(args.runs):
                rules = load_rules([Path(temporary)])
                re2.purge()
                runtime.cache_clear()
                for times in (fresh, again):
                    start = time.perf_counter()
                    diagnose(rules, facts, documents)
                    times.append((time.perf_counter() - start) * 1000)
            measured[f"{scenario}_fresh_ms"] = statistics.median(fresh)
            measured[f"{scenario}_again_ms"] = statistics.median(again)
    print(f"{len(rules.loaded)} rules")
    for name, value in measured.items():
        print(f"{name:<26} {value:>8.1f}")
    slowest = max(value for name, value in measured.items() if name.endswith("_fresh_ms"))
    return conclude(
        "rules", {name: round(value, 1) for name, value in measured.items()} | {"rules": len(rules.loaded)},
        [Budget("1,000 rules on one machine's facts, just loaded, in ms", slowest, 150)],
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
