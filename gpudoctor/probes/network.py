"""RDMA ports (InfiniBand, RoCE, EFA), network interfaces and connected networks that overlap.

Live from /sys/class/infiniband, /sys/class/net and /proc/net/route; from `ibstat`, `ip addr` and `ip route` when pasted.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import combinations
from typing import Any

from gpudoctor.facts import Evidence, Network, RdmaPort
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import is_machine, said
from gpudoctor.probes.collect import quote
from gpudoctor.probes.network_sysfs import device_nodes, ports_of_sysfs
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.requests import IBSTAT, IP_ADDR, IP_ROUTE

NAME = "network"

_CA = Lazy(r"^\s*CA '([^']+)'")
_PORT = Lazy(r"^\s*Port (\d+):\s*$")
_FIELDS = {
    "State": "state",
    "Physical state": "physical_state",
    "Rate": "rate_gbps",
    "Link layer": "link_layer",
}
# `ip addr` numbers its interfaces, `ip -br addr` shows their state beside the name
_INTERFACE = Lazy(
    r"^(?:\d+:\s+(?P<name>[^:@\s]+)[:@]|(?P<brief>[\w.-]+)(?:@\S+)?\s+(?:UP|DOWN|UNKNOWN|LOWERLAYERDOWN|DORMANT)\b)"
)


def probe(source: Source) -> Network | None:
    """Ports and interfaces; None when neither is known."""
    ports: list[RdmaPort] | None = ports_of_sysfs(source) if is_machine(source) else None
    evidence: dict[str, Evidence] = {}
    if ports is None:
        answer = source.run(*IBSTAT) if source.kind != "live" else None
        if answer is not None and said(answer):
            ports = parse_ibstat(answer)
            evidence = _panic(answer)
    interfaces = _interfaces(source)
    routes, quoted = _routes(source)
    if ports is None and interfaces is None and routes is None:
        return None
    return Network(
        rdma_ports=ports,
        rdma_device_nodes=device_nodes(source) if is_machine(source) and ports else None,
        interfaces=interfaces,
        routes_overlapping=routes,
        evidence=evidence | quoted,
    )


def parse_ibstat(answer: CommandAnswer) -> list[RdmaPort]:
    """`ibstat`: one entry per port, in its order. Rate is in Gb/s."""
    ports: list[RdmaPort] = []
    device, firmware, kind, current, line_of_device = None, None, None, None, 0

    def finish() -> None:
        nonlocal current
        if current is not None and device is not None:
            quoted = {"": quote(answer, line_of_device)} | {
                name: quote(answer, index) for name, index in current.pop("lines").items()
            }
            ports.append(RdmaPort(device=device, ca_type=kind, firmware=firmware, evidence=quoted, **current))
        current = None

    for index, line in enumerate(answer.stdout.splitlines()):
        if match := _CA.match(line):
            finish()
            device, firmware, kind, line_of_device = match.group(1), None, None, index
        elif match := _PORT.match(line):
            finish()
            current = {"port": int(match.group(1)), "lines": {}}
        else:
            key, _, value = line.strip().partition(":")
            if key == "Firmware version":
                firmware = value.strip()
            elif key == "CA type":
                kind = value.strip()
            elif key in _FIELDS and current is not None:
                _add(current, _FIELDS[key], value.strip(), index)
    finish()
    return ports


def _add(current: dict[str, Any], name: str, value: str, index: int) -> None:
    if name == "rate_gbps":
        number = re.match(r"[\d.]+", value)
        if number is None:
            return
        current[name] = float(number.group())
    else:
        current[name] = value
    current["lines"][name] = index


def _panic(answer: CommandAnswer) -> dict[str, Evidence]:
    """ibstat stops at a device that it cannot open: `ibpanic: ... stat of IB device 'mlx5_8' failed`."""
    for index, line in enumerate(answer.text.splitlines()):
        if "ibpanic:" in line:
            return {"rdma_ports": quote(answer, index)}
    return {}


def _interfaces(source: Source) -> list[str] | None:
    if is_machine(source):
        listed = source.list("/sys/class/net")
        return listed.names if listed.status is Status.OK else None
    answer = source.run(*IP_ADDR)
    if not said(answer):
        return None
    if answer.filtered_by is not None:
        return None  # a part of them
    lines = (line.strip() for line in answer.stdout.splitlines())
    return [match["name"] or match["brief"] for line in lines if (match := _INTERFACE.match(line))] or None


_CONNECTED = Lazy(r"^\s*(\d+\.\d+\.\d+\.\d+/\d+) dev (\S+) .*\bscope link\b")
_VIRTUAL = Lazy(r"^(?:docker|br-|virbr|veth|cni|flannel|cali|lxc|lxd|podman)")


def _routes(source: Source) -> tuple[list[str] | None, dict[str, Evidence]]:
    if is_machine(source):
        table = source.read("/proc/net/route")
        return (overlapping(_connected_of_kernel(table.text)), {}) if table.status is Status.OK else (None, {})
    answer = source.run(*IP_ROUTE)
    found = parse_routes(answer.stdout) if said(answer) else []
    if not found:
        return None, {}
    shared = overlapping(found)
    lines = [n for n, line in enumerate(answer.stdout.splitlines()) if any(f"{net} " in line for net in shared)]
    return shared, {"routes_overlapping": quote(answer, lines[0])} if lines else {}


def parse_routes(text: str) -> list[tuple[str, str]]:
    """`ip route`: each directly connected network with its interface; bridges of containers left out."""
    matches = [_CONNECTED.match(line) for line in text.splitlines()]
    return [(m.group(1), m.group(2)) for m in matches if m and not _VIRTUAL.match(m.group(2))]


def overlapping(connected: list[tuple[str, str]]) -> list[str]:
    """Networks that lie inside one another but belong to different interfaces: the kernel sends by one of them only."""
    known = []
    for text, device in connected:
        try:
            known.append((ipaddress.ip_network(text, strict=False), device))
        except ValueError:
            continue
    shared = [
        str(max(a, b, key=lambda net: net.prefixlen))
        for (a, one), (b, other) in combinations(known, 2)
        if one != other and a.overlaps(b)
    ]
    return list(dict.fromkeys(shared))


def _connected_of_kernel(text: str) -> list[tuple[str, str]]:
    """/proc/net/route: interface, then destination, gateway and mask in little-endian hexadecimal."""
    found = []
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 8 or words[2] != "00000000" or words[1] == "00000000" or _VIRTUAL.match(words[0]):
            continue
        try:
            address = ipaddress.ip_address(bytes.fromhex(words[1])[::-1])
            found.append((f"{address}/{int(words[7], 16).bit_count()}", words[0]))
        except ValueError:
            continue
    return found
