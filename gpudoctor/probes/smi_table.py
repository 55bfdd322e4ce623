"""The table that `nvidia-smi` prints without options, from driver 304 to today's, also a few pasted rows of it.

| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |
|   0  NVIDIA H100 80GB HBM3          On  |   00000000:19:00.0 Off |                    0 |
| N/A   27C    P0             72W /  700W |       1MiB /  81559MiB |      0%      Default |
|                                         |                        |             Disabled |
"""

from __future__ import annotations

import re
from typing import Any

from gpudoctor.facts import Evidence, Gpu, GpuProcess
from gpudoctor.lazy import Lazy
from gpudoctor.probes import smi_values as values
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.probes.smi_report import SmiReport, finish

SOURCE = "nvidia-smi"
_BANNER = Lazy(
    r"NVIDIA-SMI\s+(?P<smi>[\d.]+)\s+(?:(?:Driver|KMD) Version:\s*(?P<driver>[\d.]+|N/A|ERR!))?",
    needs=("NVIDIA-SMI",),
)
_CUDA = Lazy(r"CUDA (?:UMD )?Version:\s*(?P<cuda>\d+\.\d+)")
_KERNEL = Lazy(r"(?:Driver|KMD) Version:\s*(?P<version>\d[\d.]*)")
_BDF = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_MODE = r"On|Off|N/A|ERR!|TCC|WDDM|MCDM|Unknown Error|GPU is lost"
# The columns of a GPU's first row. Before driver 319 there was no persistence mode.
_FIRST = Lazy(rf"^(?P<index>\d+|ERR!)\s+(?P<name>\S.*?)(?:\s+(?P<mode>{_MODE}))?$")
_BUS = Lazy(rf"^(?P<bdf>{_BDF}|N/A|ERR!)\s*(?P<display>\S.*)?$")
_USAGE = Lazy(r"^(?P<fan>N/A|ERR!|\d+\s*%|\[[^\]]*\])?\s*(?P<rest>.*)$")
_POWER = Lazy(r"(?P<draw>N/A|ERR!|\d+(?:\.\d+)?\s*W)\s*/\s*(?P<cap>N/A|ERR!|\d+(?:\.\d+)?\s*W)\s*$")
_MEMORY = Lazy(r"(?P<used>\d+\s*Mi?B)\s*/\s*(?P<total>\d+\s*Mi?B)$")
_LOAD = Lazy(r"^(?P<util>N/A|ERR!|\d+\s*%|Unknown Error|GPU is lost)\s+(?P<mode>\S.*)$")
_PROCESS = Lazy(
    r"^(?P<gpu>\d+)\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?(?P<pid>\d+)\s+(?:(?P<kind>C\+G|M\+C|[CGM])\s+)?"
    r"(?P<name>\S.*?)\s+(?P<memory>\d+\s*Mi?B|N/A|ERR!)$"
)
_PROCESS_HEAD = Lazy(r"^(?:Compute )?[Pp]rocesses:")
_MIG_ROW = Lazy(r"^(?P<gpu>\d+)\s+(?:\d+|N/A)\s+(?:\d+|N/A)\s+\d+$")


def parse_table(text: str, source: str = SOURCE) -> SmiReport:
    """The facts of the table. Damaged rows give what can still be read."""
    reader = _Reader(source)
    for number, line in enumerate(text.split("\n"), 1):
        reader.read(number, line)
    return reader.report()


class _Reader:
    """Goes through the lines with the GPU whose rows are being read."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.gpus: list[dict[str, Any]] = []
        self.current: dict[str, Any] | None = None
        self.rows = 0
        self.versions: dict[str, Any] = {}
        self.evidence: dict[str, Evidence] = {}
        self.processes: dict[int, list[GpuProcess]] | None = None
        self.in_processes = False
        self.in_mig = False
        self.mig: dict[int, int] = {}
        self.no_mig = False

    def read(self, number: int, line: str) -> None:
        body = line.strip()
        # A row of a paste may have lost its last border.
        if "NVIDIA-SMI" in body:
            self._banner(number, body)
            return
        if not body.startswith("|"):
            if body.startswith("+"):
                self.current = None
            return
        cells = [cell.strip() for cell in body.strip("|").split("|")]
        if _PROCESS_HEAD.match(cells[0]):
            self.in_processes, self.in_mig, self.current = True, False, None
        elif cells[0].startswith("MIG devices"):
            self.in_mig, self.in_processes = True, False
        elif self.in_processes and len(cells) == 1:
            self._process(cells[0])
        elif self.in_mig and cells[0].startswith("No MIG devices found"):
            self.no_mig = True
        elif self.in_mig and (match := _MIG_ROW.match(cells[0])):
            self.mig[int(match["gpu"])] = self.mig.get(int(match["gpu"]), 0) + 1
        elif len(cells) == 3:
            self._cells(cells, Evidence(source=self.source, line=number, text=" ".join(body.split())))

    def _banner(self, number: int, body: str) -> None:
        match = _BANNER.search(body)
        if match is None:
            return
        quoted = Evidence(source=self.source, line=number, text=" ".join(body.strip("| ").split()))
        self.versions["library_version"] = match["smi"]
        self.evidence["library_version"] = quoted
        if kernel := _KERNEL.search(body):
            self.versions["driver_version"] = kernel["version"]
            self.evidence["driver_version"] = quoted
        if cuda := _CUDA.search(body):
            self.versions["cuda_version"] = cuda["cuda"]
            self.evidence["cuda_version"] = quoted

    def _cells(self, cells: list[str], quoted: Evidence) -> None:
        first, second, third = cells
        bus = _BUS.match(second)
        head = _FIRST.match(first) if bus else None
        if head and bus:
            self._first_row(head, bus, third, quoted)
        elif "/" in second or "GPU is lost" in second or second in ("Not Supported", "Unknown Error", "ERR!", "N/A"):
            self._second_row(first, second, third, quoted)
        elif not first and not second and self.current is not None and self.rows == 2:
            self._set("mig_mode", values.flag(third.rstrip("*")), third, quoted)
            self.rows = 3

    def _first_row(self, head: re.Match[str], bus: re.Match[str], ecc: str, quoted: Evidence) -> None:
        # a lost GPU does not even tell its index: the rows stand in order
        index = int(head["index"]) if head["index"].isdecimal() else len(self.gpus)
        self.current = {"index": index, "known": {}, "errors": {}, "evidence": {"": quoted}}
        self.gpus.append(self.current)
        self.rows = 1
        self._set("name", values.text(head["name"]), head["name"], quoted)
        self._set("bdf", normal_bdf(bus["bdf"]), bus["bdf"], quoted)
        self._set("persistence_mode", values.flag(head["mode"] or ""), head["mode"] or "", quoted)
        self._set("display_active", values.flag(bus["display"] or ""), bus["display"] or "", quoted)
        count = values.number(ecc)
        self._set("ecc_uncorrected_volatile", count, ecc, quoted)
        # a count is shown only while ECC is on
        self._set("ecc_mode", True if count is not None else values.flag(ecc), "", quoted)

    def _second_row(self, first: str, memory: str, load: str, quoted: Evidence) -> None:
        if self.current is None or self.rows != 1:
            if not (_MEMORY.search(memory) and _LOAD.match(load)):
                return
            # a row alone, as people quote it: the GPU is not named
            self.current = {"index": None, "known": {}, "errors": {}, "evidence": {"": quoted}}
            self.gpus.append(self.current)
        self.rows = 2
        self.current["evidence"].setdefault("usage", quoted)
        power = _POWER.search(first)
        usage = _USAGE.match(first[: power.start()] if power else first)
        fan, rest = (usage["fan"] or "", usage["rest"].split()) if usage else ("", [])
        self._set("fan_pct", values.number(fan), fan, quoted)
        temperature = next((word for word in rest if word.endswith("C") or word in ("ERR!", "N/A")), "")
        self._set("temperature_c", values.number(temperature), temperature, quoted)
        state = next((word for word in rest if re.fullmatch(r"P\d+", word)), rest[1] if len(rest) > 1 else "")
        self._set("performance_state", values.performance_state(state), state, quoted)
        if power:
            self._set("power_w", values.decimal(power["draw"]), power["draw"], quoted)
            self._set("power_limit_w", values.decimal(power["cap"]), power["cap"], quoted)
        sizes = _MEMORY.search(memory)
        if sizes is None and not self.current["known"].get("name") and values.fault_of(memory):
            self._set("handle", None, memory, quoted)
        self._set("memory_used_mib", values.mebibytes(sizes["used"]) if sizes else None, memory, quoted)
        self._set("memory_total_mib", values.mebibytes(sizes["total"]) if sizes else None, memory, quoted)
        busy = _LOAD.match(load)
        if busy:
            self._set("utilization_gpu_pct", values.number(busy["util"]), busy["util"], quoted)
            self._set("compute_mode", values.compute_mode(busy["mode"]), busy["mode"], quoted)

    def _set(self, name: str, value: Any, words: str, quoted: Evidence) -> None:
        assert self.current is not None
        if value is not None:
            self.current["known"][name] = value
            self.current["evidence"][name] = quoted
        elif fault := values.fault_of(words):
            self.current["errors"][name] = fault
            self.current["evidence"][name] = quoted

    def _process(self, cell: str) -> None:
        if cell.startswith("No running processes found"):
            self.processes = self.processes or {}
        elif match := _PROCESS.match(cell):
            self.processes = self.processes or {}
            process = GpuProcess(
                pid=int(match["pid"]),
                name=match["name"],
                kind=match["kind"],
                memory_used_mib=values.mebibytes(match["memory"]),
            )
            self.processes.setdefault(int(match["gpu"]), []).append(process)

    def report(self) -> SmiReport:
        return SmiReport(
            gpus=[self._gpu(item) for item in self.gpus] or None, evidence=self.evidence, **self.versions
        )

    def _gpu(self, item: dict[str, Any]) -> Gpu:
        index = item["index"]
        answers = bool({"memory_used_mib", "temperature_c", "performance_state"} & item["known"].keys())
        if self.processes is not None and index is not None and answers:
            item["known"]["processes"] = self.processes.get(index, [])
        mig_mode = item["known"].get("mig_mode")
        if index in self.mig:
            item["known"]["mig_devices"] = self.mig[index]
        elif mig_mode is False or (mig_mode and (self.mig or self.no_mig)):
            item["known"]["mig_devices"] = 0
        item["evidence"].pop("usage", None)
        return finish(index, item["known"], item["errors"], item["evidence"])
