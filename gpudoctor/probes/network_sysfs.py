"""RDMA ports as /sys/class/infiniband shows them: InfiniBand, RoCE and EFA; and the nodes by which programs open them."""

from __future__ import annotations

import re

from gpudoctor.facts import Evidence, RdmaPort
from gpudoctor.probes.ask import is_absent, read_text
from gpudoctor.sources.answers import Source, Status

_SYS = "/sys/class/infiniband"
_NODES = "/dev/infiniband"
# Counters that tell of a bad cable, transceiver or port; what the names mean: the InfiniBand specification's PortCounters,
# and the mlx5 driver's hw_counters.
_COUNTERS = (
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "counters/port_xmit_discards",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/local_ack_timeout_err",
)


def ports_of_sysfs(source: Source) -> list[RdmaPort] | None:
    """Every port; empty where the kernel has no RDMA device, None where that cannot be seen."""
    listed = source.list(_SYS)
    if listed.status is Status.NOT_FOUND:
        return []
    if listed.status is not Status.OK:
        return None
    return [port for device in listed.names for port in _ports_of(source, device)]


def device_nodes(source: Source) -> list[str] | None:
    """The names under /dev/infiniband; empty where the folder is not there."""
    listed = source.list(_NODES)
    if is_absent(listed):
        return []
    return [name for name in listed.names if name != "by-path"] if listed.status is Status.OK else None


def _ports_of(source: Source, device: str) -> list[RdmaPort]:
    folder = f"{_SYS}/{device}"
    uevent = dict(
        line.split("=", 1)
        for line in (read_text(source, f"{folder}/device/uevent") or "").splitlines()
        if "=" in line
    )
    numa = read_text(source, f"{folder}/device/numa_node")
    firmware = read_text(source, f"{folder}/fw_ver")
    kind = read_text(source, f"{folder}/hca_type")
    interfaces = source.list(f"{folder}/device/net")
    ports = []
    for number in source.list(f"{folder}/ports").names:
        place = f"{folder}/ports/{number}"
        rate = re.match(r"[\d.]+", read_text(source, f"{place}/rate") or "")
        state = read_text(source, f"{place}/state")
        errors = _errors(source, place)
        evidence = {"": Evidence(f"{place}/state", state)} if state else {}
        if errors:
            words = ", ".join(f"{name} {count}" for name, count in errors.items() if count)
            evidence["errors"] = Evidence(f"{place}/counters", words or "all zero")
        ports.append(
            RdmaPort(
                device=device,
                ca_type=kind,
                port=int(number) if number.isdecimal() else None,
                state=words_of(state),
                physical_state=words_of(read_text(source, f"{place}/phys_state")),
                rate_gbps=float(rate.group()) if rate else None,
                link_layer=read_text(source, f"{place}/link_layer"),
                firmware=firmware,
                bdf=uevent.get("PCI_SLOT_NAME"),
                driver=uevent.get("DRIVER"),
                numa_node=int(numa) if numa is not None and re.fullmatch(r"\d+", numa) else None,
                interfaces=interfaces.names if interfaces.status is Status.OK else None,
                errors=errors or None,
                evidence=evidence,
            )
        )
    return ports


def _errors(source: Source, place: str) -> dict[str, int]:
    found = {}
    for name in _COUNTERS:
        text = read_text(source, f"{place}/{name}")
        if text is not None and text.isdecimal():
            found[name.rpartition("/")[2]] = int(text)
    return found


def words_of(text: str | None) -> str | None:
    """`4: ACTIVE` -> Active, `5: LinkUp` -> LinkUp: the words that ibstat uses."""
    if text is None:
        return None
    word = text.partition(":")[2].strip() or text
    return word.capitalize() if word.isupper() else word
