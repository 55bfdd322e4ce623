"""What follows for the links: how many NVLinks a model has, links by NVML where `topo -m` is missing, ACS above the GPUs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gpudoctor.facts import Facts, Gpu, GpuProcess, TopologyLink
from gpudoctor.knowledge import gpus
from gpudoctor.probes.merge_gpus import normal_bdf

# Superchips are wired by the machine's builder: their number of links tells nothing.
_WIRED_FREELY = ("gh200", "gb200", "gb300")


def nvlink_counts(facts: Facts) -> Facts:
    """Active links of each GPU, and how many its model has on its board."""
    if not facts.gpus:
        return facts
    return msgspec.structs.replace(facts, gpus=[_counted(gpu) for gpu in facts.gpus])


def _counted(gpu: Gpu) -> Gpu:
    expected = gpu.nvlinks_expected if gpu.nvlinks_expected is not None else _links_on_board(gpu)
    states = [link.active for link in gpu.nvlinks or [] if link.active is not None]
    # pasted output may be cut short: links that are not listed are not known to be down
    whole = bool(states) and len(states) >= (expected or 0)
    return msgspec.structs.replace(
        gpu, nvlinks_active=states.count(True) if whole else None, nvlinks_expected=expected
    )


def _links_on_board(gpu: Gpu) -> int | None:
    """NVLinks that every GPU of this model has on its board: 0 for cards, which have them with a bridge at most."""
    from gpudoctor.knowledge import nccl_expectations

    slug = None if gpu.device_id else nccl_expectations.slug_of_name(gpu.name or "")
    model = gpus.by_pci_id(gpu.device_id) or next((model for model in gpus.models() if model.slug == slug), None)
    if model is None or model.slug.startswith(_WIRED_FREELY):
        return None
    return (model.nvlink_links or 0) if model.nvlink_attach == "board" else 0


def links_by_nvml(facts: Facts) -> Facts:
    """The matrix of `nvidia-smi topo -m` between GPUs, where that program did not tell it."""
    topology = facts.topology
    if topology is None or topology.links is not None or not topology.ancestors:
        return facts
    over_nvlink = {(link.a, link.b) for link in topology.p2p_nvlink or [] if link.kind == "OK"}
    by_index = {f"GPU{gpu.index}": gpu for gpu in facts.gpus or []}
    links = []
    for link in topology.ancestors:
        count = _links_between(by_index.get(link.a), by_index.get(link.b)) if (link.a, link.b) in over_nvlink else 0
        links.append(TopologyLink(a=link.a, b=link.b, kind=f"NV{count}" if count else link.kind))
        if (link.a, link.b) in over_nvlink and not count:
            return facts  # joined, by how many links is not known
    evidence = dict(topology.evidence)
    if "ancestors" in evidence:
        evidence[""] = evidence["links"] = evidence["ancestors"]
    names = sorted({name for link in links for name in (link.a, link.b)}, key=lambda name: int(name[3:] or 0))
    topology = msgspec.structs.replace(topology, gpus=topology.gpus or names, links=links, evidence=evidence)
    return msgspec.structs.replace(facts, topology=topology)


def _links_between(one: Gpu | None, other: Gpu | None) -> int:
    """Active links from one GPU that end at the other, or at a switch that the other reaches too."""
    if one is None or other is None:
        return 0
    ends = [(link.remote_kind, link.remote) for link in one.nvlinks or [] if link.active]
    direct = sum(1 for kind, remote in ends if remote is not None and remote == other.bdf)
    if direct:
        return direct
    there = sum(1 for link in other.nvlinks or [] if link.active and link.remote_kind == "switch")
    return min(sum(1 for kind, _ in ends if kind == "switch"), there)


def acs_above_gpus(facts: Facts) -> Facts:
    """Ports of PCIe switches with ACS on above a GPU. A root port with ACS redirects nothing that would not pass it anyway."""
    pci = facts.pci
    if pci is None or pci.acs_enabled_bridges is None:
        return facts
    paths = [device.upstream_bdfs for device in pci.nvidia_devices or [] if device.upstream_bdfs is not None]
    if not paths:
        return facts
    below_root = {bridge for path in paths for bridge in path[:-1]}
    found = [bridge for bridge in pci.acs_enabled_bridges if bridge in below_root]
    evidence = dict(pci.evidence)
    if "acs_enabled_bridges" in evidence:
        evidence["acs_on_gpu_path"] = evidence["acs_enabled_bridges"]
    return msgspec.structs.replace(facts, pci=msgspec.structs.replace(pci, acs_on_gpu_path=found, evidence=evidence))


def processes_far_from_gpus(facts: Facts) -> Facts:
    """Processes that may only run on CPUs of other NUMA nodes than their GPU's."""
    near = dict(_cpus_near(facts))
    if not near or not facts.gpus:
        return facts
    done = []
    for gpu in facts.gpus:
        cpus = near.get(normal_bdf(gpu.bdf) or "")
        if cpus and gpu.processes:
            gpu = msgspec.structs.replace(gpu, processes=[_placed(process, cpus) for process in gpu.processes])
        done.append(gpu)
    return msgspec.structs.replace(facts, gpus=done)


def _cpus_near(facts: Facts) -> Iterator[tuple[str, set[int]]]:
    pci = facts.pci
    for device in (pci.nvidia_devices if pci else None) or []:
        text = (pci.numa_cpus or {}).get(str(device.numa_node)) if pci else None
        if text:
            yield device.bdf, cpu_list(text)


def _placed(process: GpuProcess, near: set[int]) -> GpuProcess:
    allowed = cpu_list(process.cpus_allowed or "")
    return msgspec.structs.replace(process, far_from_gpu=not (allowed & near)) if allowed else process


_MOST_CPUS = 65536


def cpu_list(text: str) -> set[int]:
    """`0-3,8` -> {0, 1, 2, 3, 8}; damaged parts are left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdecimal() and (last or first).isdecimal() and int(last or first) < _MOST_CPUS:
            found.update(range(int(first), int(last or first) + 1))
    return found
