"""`nvidia-smi --query-gpu=...` and `--query-compute-apps=...` as CSV (with or without header and units), and `nvidia-smi -L`."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gpudoctor.facts import Evidence, Gpu, GpuProcess
from gpudoctor.lazy import Lazy
from gpudoctor.probes import smi_values as values
from gpudoctor.probes.smi_report import SmiReport, finish, refused_gpu
from gpudoctor.probes.throttle import reason_of_label, reasons_of_mask

SOURCE = "nvidia-smi --query-gpu"
_LIST_ROW = Lazy(r"^\s*GPU (?P<index>\d+): (?P<name>.*?)(?: \(UUID: (?P<uuid>[^)]*)\))?\s*$")
# The program prints a number's bytes where the GPU's name should be.
_LIST_REFUSED = Lazy(r"^\s*Unable to determine the .* for (?:the )?gpu(?:.*: (?P<words>[^.:]+))?", re.IGNORECASE)
_LIST_MIG = Lazy(r"^\s+MIG .*Device\s+\d+: \(UUID: ")
# "--query-gpu=a,b" or "--query-gpu a,b", in the command as it was typed.
_TYPED = Lazy(r"--query-gpu[= ]([\w.,]+)")
_TYPED_PROCESSES = Lazy(r"--query-(?:compute-)?apps[= ]([\w.,]+)")
# Fields of `nvidia-smi --help-query-compute-apps`, in the short and in the long form.
_PROCESS_NAMES = frozenset({"process_name", "name"})
_PROCESS_MEMORY = frozenset({"used_gpu_memory", "used_memory"})
_PROCESS_COLUMNS = frozenset(
    {"timestamp", "gpu_name", "gpu_bus_id", "gpu_serial", "gpu_uuid", "pid"} | _PROCESS_NAMES | _PROCESS_MEMORY
)

# Field of `nvidia-smi --help-query-gpu` -> fact. Names with a dot changed over time; all stay readable.
_COLUMNS: dict[str, tuple[str, values.Convert]] = {
    "index": ("index", values.number),
    "name": ("name", values.text),
    "gpu_name": ("name", values.text),
    "uuid": ("uuid", values.text),
    "gpu_uuid": ("uuid", values.text),
    "serial": ("serial", values.identifier),
    "gpu_serial": ("serial", values.identifier),
    "pci.bus_id": ("bdf", values.bdf),
    "gpu_bus_id": ("bdf", values.bdf),
    "pci.device_id": ("device_id", values.device_id),
    "vbios_version": ("vbios", values.identifier),
    "compute_cap": ("compute_capability", values.text),
    "memory.total": ("memory_total_mib", values.mebibytes),
    "memory.used": ("memory_used_mib", values.mebibytes),
    "memory.reserved": ("memory_reserved_mib", values.mebibytes),
    "temperature.gpu": ("temperature_c", values.number),
    "temperature.memory": ("temperature_memory_c", values.number),
    "temperature.gpu.tlimit": ("temperature_margin_c", values.number),
    "fan.speed": ("fan_pct", values.number),
    "power.draw": ("power_w", values.watts),
    "power.draw.average": ("power_w", values.watts),
    "power.draw.instant": ("power_w", values.watts),
    "enforced.power.limit": ("power_limit_w", values.watts),
    "power.limit": ("power_limit_w", values.watts),
    "power.default_limit": ("power_limit_default_w", values.watts),
    "power.min_limit": ("power_limit_min_w", values.watts),
    "power.max_limit": ("power_limit_max_w", values.watts),
    "utilization.gpu": ("utilization_gpu_pct", values.number),
    "utilization.memory": ("utilization_memory_pct", values.number),
    "clocks.sm": ("sm_clock_mhz", values.number),
    "clocks.current.sm": ("sm_clock_mhz", values.number),
    "clocks.mem": ("memory_clock_mhz", values.number),
    "clocks.current.memory": ("memory_clock_mhz", values.number),
    "clocks.max.sm": ("sm_clock_max_mhz", values.number),
    "clocks.max.mem": ("memory_clock_max_mhz", values.number),
    "clocks.max.memory": ("memory_clock_max_mhz", values.number),
    "pstate": ("performance_state", values.performance_state),
    "persistence_mode": ("persistence_mode", values.flag),
    "compute_mode": ("compute_mode", values.compute_mode),
    "mig.mode.current": ("mig_mode", values.flag),
    "mig.mode.pending": ("mig_mode_pending", values.flag),
    "ecc.mode.current": ("ecc_mode", values.flag),
    "ecc.mode.pending": ("ecc_mode_pending", values.flag),
    "ecc.errors.corrected.volatile.total": ("ecc_corrected_volatile", values.number),
    "ecc.errors.uncorrected.volatile.total": ("ecc_uncorrected_volatile", values.number),
    "ecc.errors.corrected.aggregate.total": ("ecc_corrected_aggregate", values.number),
    "ecc.errors.uncorrected.aggregate.total": ("ecc_uncorrected_aggregate", values.number),
    "ecc.errors.uncorrected.aggregate.sram": ("ecc_sram_uncorrected_aggregate", values.number),
    "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded": ("ecc_sram_threshold_exceeded", values.flag),
    "retired_pages.single_bit_ecc.count": ("retired_pages_single_bit", values.number),
    "retired_pages.sbe": ("retired_pages_single_bit", values.number),
    "retired_pages.double_bit.count": ("retired_pages_double_bit", values.number),
    "retired_pages.dbe": ("retired_pages_double_bit", values.number),
    "retired_pages.pending": ("retired_pages_pending", values.flag),
    "remapped_rows.correctable": ("remapped_rows_correctable", values.number),
    "remapped_rows.uncorrectable": ("remapped_rows_uncorrectable", values.number),
    "remapped_rows.pending": ("remapped_rows_pending", values.flag),
    "remapped_rows.failure": ("remapped_rows_failure", values.flag),
    "remapped_rows.histogram.max": ("remap_banks_max", values.number),
    "remapped_rows.histogram.high": ("remap_banks_high", values.number),
    "remapped_rows.histogram.partial": ("remap_banks_partial", values.number),
    "remapped_rows.histogram.low": ("remap_banks_low", values.number),
    "remapped_rows.histogram.none": ("remap_banks_none", values.number),
    "pcie.link.gen.current": ("pcie_generation", values.number),
    "pcie.link.gen.gpucurrent": ("pcie_generation", values.number),
    "pcie.link.gen.max": ("pcie_generation_max", values.number),
    "pcie.link.gen.gpumax": ("pcie_generation_device_max", values.number),
    "pcie.link.width.current": ("pcie_width", values.number),
    "pcie.link.width.max": ("pcie_width_max", values.number),
    "gpu_recovery_action": ("recovery_action", values.recovery_action),
    "reset_status.reset_required": ("reset_required", values.flag),
    "reset_status.drain_and_reset_recommended": ("drain_and_reset_recommended", values.flag),
    "fabric.state": ("fabric_state", values.snake),
    "fabric.status": ("fabric_status", values.nvml_status),
    "display_active": ("display_active", values.flag),
    "addressing_mode": ("addressing_mode", values.none_or_snake),
}
_OTHER = frozenset({"timestamp", "count", "driver_version", "cuda_version"})
_KEYS = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "index")
_MASKS = frozenset({"clocks_event_reasons.active", "clocks_throttle_reasons.active"})
_MASK = Lazy(r"^0x([0-9A-Fa-f]{1,16})$")
_REASON = Lazy(r"^clocks_(?:event|throttle)_reasons\.(?P<label>\w+)$")


def parse_query(text: str, command: str = "", source: str = SOURCE) -> SmiReport:
    """Rows of a query. The columns come from the header or, without one, from the command as it was typed."""
    columns, rows = _columns(_rows(text), command)
    if not columns:
        return SmiReport()
    found: list[tuple[dict[str, str], int, list[str]]] = [
        (dict(zip(columns, cells, strict=False)), number, cells)
        for number, cells in rows
        if len(cells) == len(columns)
    ]
    driver = next((row["driver_version"] for row, _, _ in found if row.get("driver_version")), None)
    if not set(columns) - _OTHER:
        found = []
    samples = _last_samples(found)
    # Rows stand in the order of the GPUs; with `-i` the indexes that are told say otherwise.
    told = [(place, values.number(row.get("index", ""))) for place, (row, _, _) in enumerate(samples)]
    in_order = len(samples) > 1 and all(index in (None, place) for place, index in told)
    gpus = [
        _gpu(row, place if in_order else None, Evidence(source=source, line=number, text=", ".join(cells)))
        for place, (row, number, cells) in enumerate(samples)
    ]
    return SmiReport(gpus=gpus or None, driver_version=values.text(driver or ""))


def parse_processes(text: str, command: str = "", source: str = "nvidia-smi --query-compute-apps") -> SmiReport:
    """Processes by the GPU that each row names. Rows that name none make one nameless GPU; without rows there is none."""
    rows = _rows(text)
    columns: list[str] = []
    typed = _TYPED_PROCESSES.search(command)
    if typed is not None:
        columns = [name.strip().lower() for name in typed[1].split(",")]
    found: dict[tuple[str | None, str | None, str | None], dict[int, GpuProcess]] = {}
    quotes: dict[tuple[str | None, str | None, str | None], Evidence] = {}
    for number, cells in rows:
        names = [_column_name(cell) for cell in cells]
        if "pid" in names and set(names) <= _PROCESS_COLUMNS:
            columns = names
            continue
        if len(cells) != len(columns) or "pid" not in columns:
            continue
        row = dict(zip(columns, cells, strict=True))
        pid = values.number(row["pid"])
        if pid is None:
            continue
        key = (
            values.bdf(row.get("gpu_bus_id", "")),
            values.text(row.get("gpu_uuid", "")),
            values.text(row.get("gpu_name", "")),
        )
        name = next((values.text(row[field]) for field in _PROCESS_NAMES if field in row), None)
        memory = next((values.mebibytes(row[field]) for field in _PROCESS_MEMORY if field in row), None)
        # a loop prints the same process again: the last counts
        found.setdefault(key, {})[pid] = GpuProcess(pid=pid, name=name, kind="C", memory_used_mib=memory)
        quotes.setdefault(key, Evidence(source=source, line=number, text=", ".join(cells)))
    gpus = [
        Gpu(
            bdf=key[0],
            uuid=key[1],
            name=key[2],
            processes=list(found[key].values()),
            evidence={"processes": quotes[key]},
        )
        for key in found
    ]
    return SmiReport(gpus=gpus or None)


def names_processes(text: str) -> bool:
    """Whether it has the header of a list of processes, which with no row below it says that there is none."""
    names = {_column_name(cell) for cell in text.strip().split("\n", 1)[0].split(",")}
    return "pid" in names and names <= _PROCESS_COLUMNS


def _rows(text: str) -> list[tuple[int, list[str]]]:
    import csv

    return [
        (number, [cell.strip() for cell in cells])
        for number, line in enumerate(text.split("\n"), 1)
        for cells in csv.reader([line.strip()], skipinitialspace=True)
        if line.strip()
    ]


def _columns(rows: list[tuple[int, list[str]]], command: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    for place, (_, cells) in enumerate(rows):
        names = [_column_name(cell) for cell in cells]
        if names and all(_is_column(name) for name in names):
            # `-l` without noheader prints the header once; a paste of two runs holds it twice
            rest = [row for row in rows[place + 1 :] if [_column_name(cell) for cell in row[1]] != names]
            return names, rest
    typed = _TYPED.search(command)
    if typed is None:
        return [], []
    return [name.strip().lower() for name in typed[1].split(",")], rows


def _column_name(cell: str) -> str:
    """memory.used of "memory.used [MiB]"."""
    return re.sub(r"\s*\[[^\]]*\]$", "", cell).strip().lower()


def _is_column(name: str) -> bool:
    return name in _COLUMNS or name in _OTHER or bool(re.fullmatch(r"[a-z_]+(?:\.[a-z_]+)+", name))


def _last_samples(
    rows: list[tuple[dict[str, str], int, list[str]]],
) -> list[tuple[dict[str, str], int, list[str]]]:
    """One row a GPU: with `-l` the last. Rows that name no GPU and have different times are one GPU's."""
    latest: dict[str, tuple[dict[str, str], int, list[str]]] = {}
    nameless: list[tuple[dict[str, str], int, list[str]]] = []
    for row in rows:
        if any(values.fault_of(row[0].get(name, "")) for name in _KEYS):
            latest[f"line {row[1]}"] = row  # a GPU that cannot even tell its name
            continue
        key = next((row[0][name] for name in _KEYS if values.is_value(row[0].get(name, ""))), None)
        if key is None:
            nameless.append(row)
        else:
            latest[key] = row
    times = [row[0].get("timestamp", "")[:19] for row in nameless]
    if len(nameless) > 1 and all(times) and len(set(times)) == len(times):
        nameless = nameless[-1:]
    return [*latest.values(), *nameless]


def _gpu(row: dict[str, str], place: int | None, quoted: Evidence) -> Gpu:
    known: dict[str, Any] = {}
    errors: dict[str, str] = {}
    reasons: list[str] | None = None
    for column, cell in row.items():
        if (match := _REASON.match(column)) and (reason := reason_of_label(match["label"])):
            state = values.plain(cell)
            if state in ("active", "not active"):
                reasons = (reasons or []) + ([reason] if state == "active" else [])
        elif column in _MASKS and (mask := _MASK.match(cell.strip())):
            reasons = (reasons or []) + [r for r in reasons_of_mask(int(mask[1], 16)) if r not in (reasons or [])]
        elif column in _COLUMNS:
            name, convert = _COLUMNS[column]
            value = convert(cell)
            if value is not None:
                known.setdefault(name, value)
            elif fault := values.fault_of(cell):
                errors[name] = fault
    if reasons is not None:
        known["throttle_reasons"] = reasons
    errors.pop("index", None)
    index = known.pop("index", place)
    evidence = dict.fromkeys(("", *known, *errors), quoted)
    return finish(index, known, errors, evidence)


def parse_list(text: str, source: str = "nvidia-smi -L") -> SmiReport:
    """`nvidia-smi -L`: index, name and UUID, and how many MIG devices each has."""
    gpus: list[Gpu] = []
    for number, line in enumerate(text.split("\n"), 1):
        quoted = Evidence(source=source, line=number, text=line.strip())
        if match := _LIST_ROW.match(line):
            gpu = Gpu(
                index=int(match["index"]),
                name=values.text(match["name"]),
                uuid=values.text(match["uuid"] or ""),
                evidence=dict.fromkeys(("", "name", "uuid"), quoted),
            )
            gpus.append(gpu)
        elif match := _LIST_REFUSED.match(line):
            # it stands where the GPU's line would
            gpus.append(refused_gpu(len(gpus), values.fault_of(match["words"] or "") or "UNKNOWN", quoted))
        elif gpus and _LIST_MIG.match(line):
            gpus[-1] = msgspec.structs.replace(gpus[-1], mig_devices=(gpus[-1].mig_devices or 0) + 1)
    return SmiReport(gpus=gpus or None)
