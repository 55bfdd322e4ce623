"""Nodes and pods from what kubectl prints for people: `describe` (also through grep), `get` tables, label lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.facts import Evidence, KubernetesNode, KubernetesPod
from gpudoctor.lazy import Lazy

GPU_RESOURCE = "nvidia.com/gpu"
_RESOURCE = Lazy(r"^\s+(nvidia\.com/[\w.\-]+):\s+(\d+)\s*$")
_ALLOCATED = Lazy(r"^\s+(nvidia\.com/[\w.\-]+)\s+(\d+)(?:\s+\(\S+\))?(?:\s+(\d+)(?:\s+\(\S+\))?)?\s*$")
_LABEL = Lazy(r"^(?:Labels:)?\s*([\w.\-]+/[\w.\-]+)=(\S*)\s*$")
_FIELD = Lazy(r"^([A-Z][\w \-]*):(?:\s+(.*?))?\s*$")
_SYSTEM = {
    "Kernel Version": "kernel_version",
    "OS Image": "os_image",
    "Container Runtime Version": "runtime_version",
    "Kubelet Version": "kubelet_version",
}
_POD_ROW = Lazy(
    r"^(?:(?P<namespace>[a-z0-9][a-z0-9\-]*)\s+)?(?P<name>[a-z0-9][a-z0-9.\-]*)\s+(?P<ready>\d+)/(?P<all>\d+)\s+(?P<status>[A-Z][\w:/]*)\s+"
    r"(?P<restarts>\d+)(?:\s+\([^)]*\))?\s+\d+[smhdy]\S*"
)
_NODE_ROW = Lazy(
    r"^(?P<name>[a-z0-9][a-z0-9.\-]*)\s+(?P<status>(?:Not)?Ready)(?P<cordon>,SchedulingDisabled)?\s+\S+\s+\S+\s+(?P<version>v\d\S*)"
)
_POD_ON_NODE = Lazy(r"^\s+\S+\s+(\S*nvidia\S*device-plugin\S*)\s+\S+ \(\d+%\)")
_EVENT = Lazy(r"^\s*Warning\s+(?P<reason>[A-Z]\w+)\s+(?P<rest>.*)$")


def split_describe(text: str) -> Iterator[tuple[int, list[str]]]:
    """The blocks of a `describe` of several objects, each with its first line's number; one block where no `Name:` stands."""
    block: list[str] = []
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("Name:") and block:
            yield start, block
            block, start = [], number
        block.append(line)
    if block:
        yield start, block


def is_pod(block: list[str]) -> bool:
    """Whether a described object is a pod."""
    heads = {line.split(":", 1)[0] for line in block}
    return bool(heads & {"Containers", "Node-Selectors", "QoS Class", "Service Account"}) and not heads & {
        "Capacity",
        "Roles",
    }


def parse_described_node(block: list[str], source: str, start: int = 1) -> KubernetesNode | None:
    """A node from `kubectl describe node`, or from lines of it that grep let through. None when nothing tells of a node."""
    capacity: dict[str, int] = {}
    allocatable: dict[str, int] = {}
    allocated: dict[str, int] = {}
    labels: dict[str, str] = {}
    taints: list[str] | None = None
    plugins: list[str] = []
    problems: list[str] = []
    info: dict[str, str] = {}
    evidence: dict[str, Evidence] = {}
    seen: set[str] = set()
    name: str | None = None
    ready: bool | None = None
    unschedulable: bool | None = None
    section = ""
    filled: dict[str, int] = {}
    asked = False
    for number, line in enumerate(block, start):
        head = _FIELD.match(line)
        if head:
            section = head[1]
            seen.add(section)
            value = (head[2] or "").strip()
            if section == "Name":
                name = value
            elif section == "Taints":
                taints = [] if value in ("", "<none>") else [value]
                evidence["taints"] = Evidence(source=source, line=number, text=line)
            elif section == "Unschedulable":
                unschedulable = value == "true"
        elif section == "Taints" and taints and re.match(r"^\s{8,}\S+:(NoSchedule|NoExecute|PreferNoSchedule)", line):
            taints.append(line.strip())
        if section in ("Capacity", "Allocatable") and line[:1] in (" ", "\t") and ":" in line:
            filled[section] = filled.get(section, 0) + 1
        label = _LABEL.match(line)
        if label and section not in ("Annotations", "Taints"):
            labels[label[1]] = label[2]
            continue
        asked = line.strip().lower() in ("limits:", "requests:") or (asked and not head)
        resource = None if asked else _RESOURCE.match(line)  # a pod's limits are no node's capacity
        if resource:
            into = _which(section, resource[1], capacity, allocatable)
            into[resource[1]] = int(resource[2])
            evidence["capacity_gpu" if into is capacity else "allocatable_gpu"] = Evidence(
                source=source, line=number, text=line
            )
            continue
        used = _ALLOCATED.match(line)
        if used:
            allocated[used[1]] = int(used[2])
            evidence["allocated_gpu"] = Evidence(source=source, line=number, text=line)
            continue
        plugin = _POD_ON_NODE.match(line)
        if plugin:
            plugins.append(plugin[1])
            evidence["device_plugin_pods"] = Evidence(source=source, line=number, text=line)
        if section == "System Info":
            key, _, value = line.strip().partition(":")
            if key in _SYSTEM:
                info[_SYSTEM[key]] = value.strip()
        if section == "Conditions":
            words = line.split()
            if len(words) > 2 and words[0] == "Ready":
                ready = words[1] == "True"
                if not ready:
                    problems.append("Ready is " + " ".join(words[1:2] + words[-6:]))
                evidence["ready"] = Evidence(source=source, line=number, text=line)
            elif len(words) > 2 and words[1] == "True" and words[0].endswith(("Pressure", "Unavailable", "Problem")):
                problems.append(f"{words[0]}: {' '.join(words[-6:])}")
    gpu_labels = any(key.startswith("nvidia.com/") for key in labels)
    if not (gpu_labels or capacity or allocatable or seen & {"Capacity", "Allocatable", "Roles"} or taints):
        return None
    return KubernetesNode(
        name=name or labels.get("kubernetes.io/hostname") or "unnamed",
        capacity_gpu=_count(capacity, filled.get("Capacity", 0)),
        allocatable_gpu=_count(allocatable, filled.get("Allocatable", 0)),
        allocated_gpu=allocated.get(GPU_RESOURCE),
        capacity_resources=capacity if capacity or filled.get("Capacity", 0) > 1 else None,
        allocatable_resources=allocatable if allocatable or filled.get("Allocatable", 0) > 1 else None,
        allocated_resources=allocated or None,
        ready=ready,
        problems=problems if "Conditions" in seen else None,
        unschedulable=unschedulable,
        taints=taints,
        labels=labels or None,
        device_plugin_pods=plugins if plugins or "Non-terminated Pods" in seen else None,
        runtime_version=info.get("runtime_version"),
        kubelet_version=info.get("kubelet_version"),
        kernel_version=info.get("kernel_version"),
        os_image=info.get("os_image"),
        evidence=evidence,
    )


def _which(section: str, resource: str, capacity: dict[str, int], allocatable: dict[str, int]) -> dict[str, int]:
    """Capacity stands before allocatable; without headings (grep) the first count of a resource is its capacity."""
    if section == "Capacity":
        return capacity
    if section == "Allocatable":
        return allocatable
    return allocatable if resource in capacity else capacity


def _count(resources: dict[str, int], lines: int) -> int | None:
    """GPUs of a section; 0 only where the section has other lines, so that the absence is known."""
    if GPU_RESOURCE in resources:
        return resources[GPU_RESOURCE]
    return 0 if lines > 1 else None


def parse_described_pod(block: list[str], source: str, start: int = 1) -> KubernetesPod | None:
    """A pod from `kubectl describe pod`. None when the block does not name one."""
    fields: dict[str, str] = {}
    limits: dict[str, int] = {}
    reason = message = container_reason = None
    exit_code: int | None = None
    restarts: int | None = None
    evidence: dict[str, Evidence] = {}
    section = part = ""
    for number, line in enumerate(block, start):
        head = _FIELD.match(line)
        if head:
            section = head[1]
            fields.setdefault(section, (head[2] or "").strip())
        key, _, value = line.strip().partition(":")
        value = value.strip()
        if key in ("Limits", "Requests", "State", "Last State", "Environment", "Mounts"):
            part = key
        resource = _RESOURCE.match(line)
        if resource and part == "Limits":
            limits[resource[1]] = limits.get(resource[1], 0) + int(resource[2])
        if section in ("Containers", "Init Containers"):
            if key == "Reason" and (container_reason is None or part == "Last State") and value != "Completed":
                container_reason = value
                evidence["container_reason"] = Evidence(source=source, line=number, text=line)
            elif key == "Exit Code" and value.isdecimal() and value != "0":
                exit_code = int(value)
            elif key == "Restart Count" and value.isdecimal():
                restarts = (restarts or 0) + int(value)
        event = _EVENT.match(line)
        if event and section == "Events":
            reason, message = event["reason"], re.sub(r"^.*?\s{2,}(?=\S[^ ]* [^ ])", "", event["rest"])
            evidence["message"] = Evidence(source=source, line=number, text=line)
    if not fields.get("Name"):
        return None
    status = fields.get("Status")
    return KubernetesPod(
        name=fields["Name"],
        namespace=fields.get("Namespace"),
        node=(fields.get("Node") or "").split("/")[0].replace("<none>", "") or None,
        phase=status,
        requested_gpu=limits.get(GPU_RESOURCE, 0) if "Containers" in fields else None,
        requested_resources=limits if "Containers" in fields else None,
        reason=fields.get("Reason") or reason,
        message=fields.get("Message") or message,
        runtime_class=fields.get("Runtime Class Name", "" if "Containers" in fields else None),
        restarts=restarts,
        exit_code=exit_code,
        container_reason=container_reason,
        evidence=evidence,
    )


def parse_table(text: str, source: str) -> tuple[list[KubernetesNode], list[KubernetesPod]]:
    """Rows of `kubectl get nodes` and `kubectl get pods`, with or without their heading."""
    nodes: list[KubernetesNode] = []
    pods: list[KubernetesPod] = []
    gpu_column: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        evidence = {"": Evidence(source=source, line=number, text=line)}
        words = line.split()
        if words[:1] in (["NAME"], ["NODE"]) and any(word in ("GPU", "GPUS", "GPUs") for word in words):
            gpu_column = next(i for i, word in enumerate(words) if word in ("GPU", "GPUS", "GPUs"))
            continue
        if gpu_column is not None and len(words) > gpu_column and re.fullmatch(r"\d+|<none>", words[gpu_column]):
            count = int(words[gpu_column]) if words[gpu_column].isdecimal() else 0
            nodes.append(KubernetesNode(name=words[0], allocatable_gpu=count, evidence=evidence))
            continue
        node = _NODE_ROW.match(line)
        if node:
            nodes.append(
                KubernetesNode(
                    name=node["name"],
                    ready=node["status"] == "Ready",
                    unschedulable=node["cordon"] is not None,
                    kubelet_version=node["version"],
                    evidence=evidence,
                )
            )
            continue
        pod = _POD_ROW.match(line)
        if pod:
            pods.append(
                KubernetesPod(
                    name=pod["name"],
                    namespace=pod["namespace"],
                    status=pod["status"],
                    ready=pod["ready"] == pod["all"],
                    restarts=int(pod["restarts"]),
                    evidence=evidence,
                )
            )
    return nodes, pods
