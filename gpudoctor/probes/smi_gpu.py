"""One GPU's block of `nvidia-smi -q` or its XML as facts: the table of fields, and what is made of several lines."""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Evidence, Gpu, GpuProcess
from gpudoctor.probes import smi_values as values
from gpudoctor.probes.merge_gpus import normal_bdf
from gpudoctor.probes.smi_fields import FIELDS
from gpudoctor.probes.smi_report import finish
from gpudoctor.probes.smi_tree import Node, flatten
from gpudoctor.probes.throttle import reason_of_label

# Counters that drivers split ever finer: a total, else the sum of the parts that are there.
_ECC_SUMS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = tuple(
    (
        f"ecc_{kind}corrected_{life}",
        (f"{life}/{old_xml}_bit/total", f"{life}/{old} bit/total"),
        tuple(
            path
            for where in ("sram", "dram")
            for path in (
                f"{life}/{where}_{kind}correctable",
                f"{life}/{where}_{kind}correctable_parity",
                f"{life}/{where}_{kind}correctable_secded",
                f"{life}/{where} {kind}correctable",
                f"{life}/{where} {kind}correctable parity",
                f"{life}/{where} {kind}correctable sec-ded",
            )
        ),
    )
    for kind, old_xml, old in (("", "single", "single"), ("un", "double", "double"))
    for life in ("volatile", "aggregate")
)
_SRAM_AGGREGATE = tuple(
    f"aggregate/sram{blank}uncorrectable{end}"
    for blank, ends in (("_", ("", "_parity", "_secded")), (" ", ("", " parity", " sec-ded")))
    for end in ends
)
_SKIPPED = frozenset(
    {
        "mig_device",
        "mig device",
        "mig_devices",
        "mig devices",
        "processes",
        "supported_clocks",
        "supported clocks",
        "accounted_processes",
    }
)
_HEALTH = (
    ("bandwidth", "bandwidth", ("full", "n/a", "")),
    ("route_recovery_in_progress", "route recovery in progress", ("false", "no", "n/a", "")),
    ("route_unhealthy", "route unhealthy", ("false", "no", "n/a", "")),
    ("access_timeout_recovery", "access timeout recovery", ("false", "no", "n/a", "")),
    ("incorrect_configuration", "incorrect configuration", ("false", "none", "no", "n/a", "")),
)
# What `nvidia-smi -q | grep` leaves of the power readings stands below the GPU itself, without its heading.
_WITHOUT_HEADING = (
    ("power_w", ("average power draw", "power draw", "instantaneous power draw")),
    ("power_limit_w", ("current power limit", "enforced power limit", "power limit")),
    ("power_limit_default_w", ("default power limit",)),
    ("power_limit_min_w", ("min power limit",)),
    ("power_limit_max_w", ("max power limit",)),
)
_LINE_LIMIT = 400


def gpu_of(node: Node, index: int | None, source: str) -> Gpu:
    """The facts of one GPU's block; what is not in it stays unknown."""
    leaves = flatten(node, _SKIPPED)
    known: dict[str, Any] = {}
    errors: dict[str, str] = {}
    evidence: dict[str, Evidence] = {}
    if node.line:
        evidence[""] = quote(source, node)

    def note(name: str, value: Any, leaf: Node) -> None:
        if value is not None:
            known[name] = value
            evidence[name] = quote(source, leaf)

    for field in FIELDS:
        for path in field.paths:
            leaf = leaves.get(path)
            if leaf is None:
                continue
            value = field.convert(leaf.value)
            if value is not None:
                note(field.name, value, leaf)
                break
            if (fault := values.fault_of(leaf.value)) is not None:
                errors.setdefault(field.name, fault)
                evidence.setdefault(field.name, quote(source, leaf))
    for name, labels in _WITHOUT_HEADING:
        if name not in known and (bare := node.child(*labels)) is not None:
            note(name, values.watts(bare.value), bare)
    for name, totals, parts in (*_ECC_SUMS, ("ecc_sram_uncorrected_aggregate", (), _SRAM_AGGREGATE)):
        _add_sum(name, totals, parts, leaves, note)
    _add_throttle(node, note)
    _add_fabric_health(leaves, known, note)
    _add_limits(leaves, known, note)
    if (bdf := normal_bdf(node.value)) and "bdf" not in known:
        known["bdf"] = bdf
    known["processes"] = _processes(node)
    known["mig_devices"] = _mig_devices(node, known.get("mig_mode"))
    return finish(index, known, errors, evidence)


def quote(source: str, node: Node) -> Evidence:
    return Evidence(source=source, line=node.line or None, text=" ".join(node.text.split())[:_LINE_LIMIT])


def _add_sum(name: str, totals: tuple[str, ...], parts: tuple[str, ...], leaves: dict[str, Node], note: Any) -> None:
    for path in totals:
        if (leaf := leaves.get(path)) and (total := values.number(leaf.value)) is not None:
            note(name, total, leaf)
            return
    found = [
        (number, leaf)
        for path in parts
        if (leaf := leaves.get(path)) and (number := values.number(leaf.value)) is not None
    ]
    if found:
        # quote the part that counted something
        largest = max(found, key=lambda pair: pair[0])
        note(name, sum(number for number, _ in found), largest[1])


def _add_throttle(node: Node, note: Any) -> None:
    section = node.child(
        "clocks_event_reasons", "clocks_throttle_reasons", "clocks event reasons", "clocks throttle reasons"
    )
    if section is None:
        loose = [
            leaf
            for leaf in _walk(node)
            if reason_of_label(leaf.name) and values.plain(leaf.value) in ("active", "not active")
        ]
        section = Node(name="", children=loose) if loose else None
    if section is None:
        return
    active: list[str] = []
    seen: Node | None = None
    answered = False
    for leaf in _walk(section):
        label = leaf.name.removeprefix("clocks_event_reason_").removeprefix("clocks_throttle_reason_")
        state = values.plain(leaf.value)
        answered = answered or state in ("active", "not active")
        reason = reason_of_label(label)
        if state == "active" and reason and reason not in active:
            active.append(reason)
            if seen is None or reason.startswith("hw_") or reason == "sw_thermal":
                seen = leaf
    if answered:
        note("throttle_reasons", active, seen or section)


def _walk(node: Node) -> list[Node]:
    found: list[Node] = []
    for child in node.children:
        if child.name in _SKIPPED:
            continue
        found.append(child)
        found += _walk(child)
    return found


def _add_fabric_health(leaves: dict[str, Node], known: dict[str, Any], note: Any) -> None:
    """Without a summary, health is what the single lines say: the bad ones, or healthy when all that answer are good."""
    if known.get("fabric_health") is not None:
        return
    bad: list[str] = []
    quoted: Node | None = None
    for tag, label, good in _HEALTH:
        leaf = leaves.get(f"fabric/health/{tag}") or leaves.get(f"fabric/health/{label}")
        word = values.plain(leaf.value) if leaf else "n/a"
        if leaf is None or (not values.is_value(leaf.value) and word != "none"):
            continue
        quoted = quoted or leaf
        if word not in good:
            bad.append(tag if tag != "bandwidth" else "degraded_bandwidth")
            quoted = leaf
    if quoted is not None:
        note("fabric_health", ", ".join(bad) or "healthy", quoted)


# A newer driver gives thresholds as margins below the limit: limit = temperature + margin - offset.
_MARGINS = (
    (
        "temperature_shutdown_c",
        (
            "temperature/gpu_temp_max_tlimit_threshold",
            "gpu shutdown t.limit temp",
            "gpu shutdown t.limit specification temp",
            "gpu shutdown specification t.limit temp",
        ),
    ),
    (
        "temperature_slowdown_c",
        (
            "temperature/gpu_temp_slow_tlimit_threshold",
            "gpu slowdown t.limit temp",
            "gpu slowdown t.limit specification temp",
            "gpu slowdown specification t.limit temp",
        ),
    ),
    (
        "temperature_max_operating_c",
        (
            "temperature/gpu_temp_max_gpu_tlimit_threshold",
            "gpu max operating t.limit temp",
            "gpu max operating t.limit specification temp",
            "gpu max operating specification t.limit temp",
        ),
    ),
)


def _add_limits(leaves: dict[str, Node], known: dict[str, Any], note: Any) -> None:
    now, margin = known.get("temperature_c"), known.get("temperature_margin_c")
    if now is None or margin is None:
        return
    for name, paths in _MARGINS:
        leaf = next((leaves[path] for path in paths if path in leaves), None)
        if known.get(name) is None and leaf is not None and (offset := values.number(leaf.value)) is not None:
            note(name, now + margin - offset, leaf)


def _processes(node: Node) -> list[GpuProcess] | None:
    """The process list; None where there is none or it could not be read, which is not the same as an empty one."""
    section = node.child("processes")
    if section is None:
        return None
    if not section.children:
        return [] if values.plain(section.value) in ("none", "") else None
    found: list[GpuProcess] = []
    for item in section.children:
        if item.name == "process_info":
            process = _process({child.name: child.value for child in item.children}.get)
        elif item.name == "process id":
            process = _process({"pid": item.value, **{child.name: child.value for child in item.children}}.get)
        else:
            continue
        if process is not None:
            found.append(process)
    return found


def _process(get: Any) -> GpuProcess | None:
    pid = values.number(get("pid") or "")
    if pid is None:
        return None
    name = values.text(get("process_name") or get("name") or "")
    return GpuProcess(
        pid=pid,
        name=name if name and name != "[Not Found]" else None,
        kind=values.text(get("type") or ""),
        memory_used_mib=values.mebibytes(get("used_memory") or get("used gpu memory") or ""),
    )


def _mig_devices(node: Node, mig_mode: bool | None) -> int | None:
    direct = [child for child in node.children if child.name == "mig device"]
    section = node.child("mig_devices", "mig devices")
    below = [child for child in section.children if child.name in ("mig_device", "mig device")] if section else []
    if direct or below:
        return len(direct or below)
    # A whole block (it ends with the processes) that lists none has none.
    return 0 if mig_mode is False or (mig_mode and node.child("processes") is not None) else None
