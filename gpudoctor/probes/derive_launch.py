"""Variables that steer NCCL and torch.distributed, held against this machine: names that match nothing, ranks that do not fit."""

from __future__ import annotations

import msgspec

from gpudoctor.facts import Evidence, Facts, Launch, Nccl, RdmaPort
from gpudoctor.probes.nccl_names import NameList, parse_names

# Variables with which somebody once looked for a fault; each slows or breaks later jobs. None: any value.
_SWITCHES: tuple[tuple[str, tuple[str, ...] | None], ...] = (
    ("NCCL_P2P_DISABLE", ("1",)),
    ("NCCL_P2P_LEVEL", ("LOC", "0")),
    ("NCCL_SHM_DISABLE", ("1",)),
    ("NCCL_IB_DISABLE", ("1",)),
    ("NCCL_NVLS_ENABLE", ("0",)),
    ("NCCL_NET_GDR_LEVEL", ("LOC", "0")),
    ("NCCL_ALGO", None),
    ("NCCL_PROTO", None),
    ("NCCL_LAUNCH_MODE", None),
    ("CUDA_LAUNCH_BLOCKING", ("1",)),
    ("TORCH_DISTRIBUTED_DEBUG", ("DETAIL",)),
)
# Tuning that holds for the machine and the release it was measured on.
_TUNING = (
    "NCCL_NTHREADS",
    "NCCL_BUFFSIZE",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MIN_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_CUMEM_ENABLE",
    "NCCL_CROSS_NIC",
    "NCCL_TOPO_FILE",
    "NCCL_GRAPH_FILE",
    "NCCL_TUNER_CONFIG_PATH",
    "TORCH_NCCL_BLOCKING_WAIT",
    "NCCL_BLOCKING_WAIT",
)
_LOOPBACK = ("localhost", "::1", "0.0.0.0")
_COUNTS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "GROUP_RANK", "MASTER_PORT")


def nccl_settings(facts: Facts) -> Facts:
    """One view of every variable: the log of the job first, then its environment, this process's, and NCCL's files."""
    layers = [
        (facts.nccl.env if facts.nccl else None, "log"),
        (facts.training.env if facts.training else None, "environment"),
        (facts.cuda.env if facts.cuda else None, "environment"),
        (facts.nccl.config_files if facts.nccl else None, "file"),
    ]
    if all(values is None for values, _ in layers):
        return facts
    settings: dict[str, str] = {}
    for values, _ in layers:
        for name, value in (values or {}).items():
            settings.setdefault(name, value)
    nccl = facts.nccl or Nccl()
    pins = [f"{name}={settings[name]}" for name, values in _SWITCHES if _pinned(settings.get(name), values)]
    if facts.network is not None and facts.network.rdma_ports == []:
        pins = [pin for pin in pins if not pin.startswith("NCCL_IB_DISABLE")]  # there is nothing to switch off
    evidence = dict(nccl.evidence)
    if pins and "left_over" not in evidence:
        evidence["left_over"] = Evidence(source=_where(facts, pins[0].partition("=")[0]), text=pins[0])
    wanted = settings.get("NCCL_SOCKET_IFNAME")
    if wanted:
        evidence.setdefault(
            "interfaces_selected",
            Evidence(source=_where(facts, "NCCL_SOCKET_IFNAME"), text=f"NCCL_SOCKET_IFNAME={wanted}"),
        )
    cards = settings.get("NCCL_IB_HCA")
    if cards:
        evidence.setdefault(
            "hcas_selected", Evidence(source=_where(facts, "NCCL_IB_HCA"), text=f"NCCL_IB_HCA={cards}")
        )
    nccl = msgspec.structs.replace(
        nccl,
        settings={name: value for name, value in settings.items() if name.startswith("NCCL_")},
        left_over=pins,
        tuned=[f"{name}={settings[name]}" for name in _TUNING if settings.get(name)],
        interfaces_selected=_interfaces(facts, wanted),
        **_cards(facts, cards),
        launch=launch_of(facts, settings),
        evidence=evidence,
    )
    return msgspec.structs.replace(facts, nccl=nccl)


def _pinned(value: str | None, values: tuple[str, ...] | None) -> bool:
    if not value:
        return False
    return values is None or value.upper() in values


def _where(facts: Facts, name: str) -> str:
    """Where a variable comes from, for the evidence."""
    if facts.nccl and name in (facts.nccl.env or {}):
        return "NCCL log"
    in_environment = any(
        name in (env or {})
        for env in (facts.training.env if facts.training else None, facts.cuda.env if facts.cuda else None)
    )
    if in_environment or facts.nccl is None:
        return "env"
    quoted = facts.nccl.evidence.get("config_files")
    return quoted.source if quoted else "nccl.conf"


def _interfaces(facts: Facts, wanted: str | None) -> list[str] | None:
    """The interfaces that NCCL_SOCKET_IFNAME leaves (all when it is not set); None where they are not known."""
    names = facts.network.interfaces if facts.network else None
    if names is None:
        return None
    rule = parse_names(wanted or "")
    return [name for name in names if rule.selects(name)]


def _cards(facts: Facts, wanted: str | None) -> dict[str, list[str] | None]:
    """The RDMA ports that NCCL_IB_HCA leaves, those of them that are not active, and items that match no device."""
    ports = facts.network.rdma_ports if facts.network else None
    if ports is None:
        return {}
    rule = parse_names(wanted or "")
    chosen = [port for port in ports if rule.selects(port.device, port.port)]
    unmatched = [
        name if number is None else f"{name}:{number}"
        for name, number in rule.items
        if not any(rule.matches((name, number), port.device, port.port) for port in ports)
    ]
    return {
        "hcas_selected": [f"{port.device}:{port.port or 1}" for port in chosen],
        "hcas_down": [
            f"{port.device}:{port.port or 1}"
            for port in chosen
            # NCCL leaves inactive ports of a prefix out by itself; one that is named was meant
            if not rule.exclude and port.state not in (None, "Active") and _is_named(rule, port)
        ],
        "hcas_unmatched": [] if rule.exclude else unmatched,
    }


def _is_named(rule: NameList, port: RdmaPort) -> bool:
    return any(name == port.device and number in (None, port.port) for name, number in rule.items)


def launch_of(facts: Facts, settings: dict[str, str]) -> Launch | None:
    """What torch.distributed's variables say, and what of it cannot be."""
    given = {name: settings[name] for name in (*_COUNTS, "MASTER_ADDR") if settings.get(name)}
    if not given:
        known = facts.cuda is not None and facts.cuda.env is not None
        return Launch(problems=[]) if known else None
    numbers = {name: int(given[name]) for name in _COUNTS if given.get(name, "").isdecimal()}
    address = given.get("MASTER_ADDR")
    visible = _visible_gpus(facts)
    loopback = None if address is None else address.lower() in _LOOPBACK or address.startswith("127.")
    world, rank = numbers.get("WORLD_SIZE"), numbers.get("RANK")
    local, local_world = numbers.get("LOCAL_RANK"), numbers.get("LOCAL_WORLD_SIZE")
    problems = [
        name for name in _COUNTS if name in given and name not in numbers and not _is_negative_unset(given[name])
    ]
    found = [f"{name.lower()}_not_a_number" for name in problems]
    if world is not None and rank is not None and rank >= world:
        found.append("rank_beyond_world_size")
    if world is not None and local_world is not None and local_world > world:
        found.append("local_world_size_beyond_world_size")
    if local is not None and local_world is not None and local >= local_world:
        found.append("local_rank_beyond_local_world_size")
    if visible and local is not None and local >= visible and visible > 1:
        found.append("local_rank_beyond_gpus")
    if visible and local_world is not None and local_world > visible and "local_rank_beyond_gpus" not in found:
        found.append("more_processes_than_gpus")
    if loopback and world is not None and _beyond_this_node(world, local_world, visible):
        found.append("master_is_loopback")
    if numbers.get("MASTER_PORT", 1) > 65535 or numbers.get("MASTER_PORT", 1) == 0:
        found.append("master_port_out_of_range")
    missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE") if name not in given]
    if missing and (rank is not None or (world is not None and local is not None)):
        found.append("missing_" + "_and_".join(name.lower() for name in missing))
    return Launch(
        rank=rank,
        world_size=world,
        local_rank=local,
        local_world_size=local_world,
        master_addr=address,
        master_port=numbers.get("MASTER_PORT"),
        master_is_loopback=loopback,
        gpus_visible=visible,
        problems=found,
        evidence={
            "": Evidence(source="env", text=" ".join(f"{name}={value}" for name, value in given.items())[:400])
        },
    )


def _is_negative_unset(text: str) -> bool:
    """LOCAL_RANK=-1 is how programs say "not distributed"."""
    return text.strip() == "-1"


def _visible_gpus(facts: Facts) -> int | None:
    """GPUs that a process of this environment sees; None where that cannot be said."""
    count = len(facts.gpus) if facts.gpus else None
    chosen = facts.cuda.visible_devices if facts.cuda else None
    if not chosen:
        return count
    parts = [part for part in chosen.split(",") if part.strip()]
    if any(part.strip() in ("all", "void", "none", "NoDevFiles") for part in parts):
        return count
    return len(parts) if count is None else min(len(parts), count)


def _beyond_this_node(world: int, local_world: int | None, visible: int | None) -> bool:
    """More processes in all than this node runs; with the count of GPUs only, more than one process a GPU would be odd too."""
    if local_world is not None:
        return world > local_world
    return visible is not None and visible > 0 and world > visible
