"""Nodes and pods from `kubectl get ... -o json|yaml`: one object or a List, also cut off in the middle."""

from __future__ import annotations

from typing import Any

from gpudoctor.facts import Evidence, KubernetesNode, KubernetesPod
from gpudoctor.lazy import Lazy

RESOURCE_PREFIX = "nvidia.com/"
GPU_RESOURCE = "nvidia.com/gpu"
# the kubelet's own pressure conditions, node-problem-detector's, and what GPU health agents add
BAD_WHEN_TRUE = Lazy(
    r"Pressure$|Unavailable$|Problem$|Deadlock$|^Frequent|Unhealthy$|^ReadonlyFilesystem$|(?i:gpu|xid)"
)


def load_documents(text: str) -> list[dict[str, Any]]:
    """Every mapping of a JSON or YAML text; `[]` for damaged text. All scalars may come as strings."""
    text = text.strip()
    if text.startswith(("{", "[")):
        import json

        try:
            loaded = json.loads(text)
        except (ValueError, RecursionError):
            return []
        return [item for item in (loaded if isinstance(loaded, list) else [loaded]) if isinstance(item, dict)]
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        return [item for item in yaml.load_all(text, Loader=loader) if isinstance(item, dict)]
    except (yaml.YAMLError, RecursionError, ValueError):
        return []


def parse_objects(text: str, source: str) -> tuple[list[KubernetesNode], list[KubernetesPod]]:
    """Nodes and pods among the objects of a text; other kinds are passed over."""
    nodes: list[KubernetesNode] = []
    pods: list[KubernetesPod] = []
    for document in load_documents(text):
        for item in _items(document):
            kind = item.get("kind")
            if kind == "Node":
                nodes.append(_node(item, source))
            elif kind == "Pod":
                pods.append(_pod(item, source))
    return nodes, pods


def _items(document: dict[str, Any]) -> list[dict[str, Any]]:
    kind = str(document.get("kind", ""))
    if not kind.endswith("List"):
        return [document]
    item_kind = kind.removesuffix("List")
    items = [item for item in _list(document.get("items")) if isinstance(item, dict)]
    return [item if "kind" in item or not item_kind else {**item, "kind": item_kind} for item in items]


def _node(item: dict[str, Any], source: str) -> KubernetesNode:
    metadata, spec, status = _map(item.get("metadata")), _map(item.get("spec")), _map(item.get("status"))
    name = str(metadata.get("name") or _map(metadata.get("labels")).get("kubernetes.io/hostname") or "unnamed")
    capacity = _resources(status.get("capacity"))
    allocatable = _resources(status.get("allocatable"))
    info = _map(status.get("nodeInfo"))
    ready, problems = _conditions(status.get("conditions"))
    handlers = status.get("runtimeHandlers")
    labels = metadata.get("labels")
    return KubernetesNode(
        name=name,
        capacity_gpu=None if capacity is None else capacity.get(GPU_RESOURCE, 0),
        allocatable_gpu=None if allocatable is None else allocatable.get(GPU_RESOURCE, 0),
        capacity_resources=capacity,
        allocatable_resources=allocatable,
        ready=ready,
        problems=problems,
        # an omitted `unschedulable` means false once the spec itself is there
        unschedulable=str(spec.get("unschedulable", "false")).lower() == "true" if spec else None,
        taints=[_taint(taint) for taint in _list(spec.get("taints")) if isinstance(taint, dict)] if spec else None,
        labels={str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else None,
        runtime_version=_text(info.get("containerRuntimeVersion")),
        kubelet_version=_text(info.get("kubeletVersion")),
        kernel_version=_text(info.get("kernelVersion")),
        os_image=_text(info.get("osImage")),
        runtime_handlers=[str(_map(h).get("name") or "runc") for h in handlers]
        if isinstance(handlers, list)
        else None,
        evidence={"": Evidence(source=source, text=f"Node {name}: {_summary(capacity, allocatable)}")},
    )


def _summary(capacity: dict[str, int] | None, allocatable: dict[str, int] | None) -> str:
    def say(resources: dict[str, int] | None) -> str:
        if resources is None:
            return "not given"
        return ", ".join(f"{name}={count}" for name, count in resources.items()) or "no nvidia.com/ resource"

    return f"capacity {say(capacity)}; allocatable {say(allocatable)}"


def _conditions(value: Any) -> tuple[bool | None, list[str] | None]:
    if not isinstance(value, list):
        return None, None
    ready: bool | None = None
    problems: list[str] = []
    for condition in value:
        condition = _map(condition)
        kind, status = str(condition.get("type")), str(condition.get("status"))
        words = _text(condition.get("message")) or _text(condition.get("reason")) or ""
        if kind == "Ready":
            ready = status == "True"
            if not ready:
                problems.append(f"Ready is {status}: {words}")
        elif status == "True" and BAD_WHEN_TRUE.search(kind):
            problems.append(f"{kind}: {words}")
    return ready, problems


def _pod(item: dict[str, Any], source: str) -> KubernetesPod:
    metadata, spec, status = _map(item.get("metadata")), _map(item.get("spec")), _map(item.get("status"))
    containers = [_map(c) for c in _list(spec.get("containers"))]
    requested: dict[str, int] = {}
    for container in containers:
        resources = _map(container.get("resources"))
        for name, count in (
            _resources(resources.get("limits")) or _resources(resources.get("requests")) or {}
        ).items():
            requested[name] = requested.get(name, 0) + count
    statuses = [
        _map(s) for s in [*_list(status.get("initContainerStatuses")), *_list(status.get("containerStatuses"))]
    ]
    reason, exit_code = _container_end(statuses)
    unscheduled = next(
        (
            _map(c)
            for c in _list(status.get("conditions"))
            if _map(c).get("type") == "PodScheduled" and _map(c).get("status") == "False"
        ),
        {},
    )
    name = str(metadata.get("name") or "unnamed")
    message = _text(status.get("message")) or _text(unscheduled.get("message"))
    return KubernetesPod(
        name=name,
        namespace=_text(metadata.get("namespace")),
        node=_text(spec.get("nodeName")),
        phase=_text(status.get("phase")),
        requested_gpu=requested.get(GPU_RESOURCE, 0) if containers else None,
        requested_resources=requested if containers else None,
        reason=_text(status.get("reason")) or _text(unscheduled.get("reason")),
        message=message,
        runtime_class=_text(spec.get("runtimeClassName")) or ("" if spec else None),
        restarts=sum(_int(s.get("restartCount")) or 0 for s in statuses) if statuses else None,
        ready=all(str(s.get("ready")).lower() == "true" for s in _map_list(status.get("containerStatuses")))
        if statuses
        else None,
        container_reason=reason,
        exit_code=exit_code,
        evidence={
            "": Evidence(
                source=source, text=f"Pod {name}: {message or reason or status.get('phase') or ''}".rstrip(": ")
            )
        },
    )


def _container_end(statuses: list[dict[str, Any]]) -> tuple[str | None, int | None]:
    """What ended a container last: the reason and exit code of a termination before a mere `CrashLoopBackOff`."""
    waiting: str | None = None
    for status in statuses:
        for key in ("state", "lastState"):
            terminated = _map(_map(status.get(key)).get("terminated"))
            code = _int(terminated.get("exitCode"))
            if terminated and code not in (0, None):
                return _text(terminated.get("reason")), code
        waiting = waiting or _text(_map(_map(status.get("state")).get("waiting")).get("reason"))
    return waiting, None


def _resources(value: Any) -> dict[str, int] | None:
    """GPU resources (`nvidia.com/...`) of a resource list; None when there is no list at all."""
    if not isinstance(value, dict):
        return None
    counts = {str(name): _int(count) for name, count in value.items() if str(name).startswith(RESOURCE_PREFIX)}
    return {name: count for name, count in counts.items() if count is not None}


def _taint(taint: dict[str, Any]) -> str:
    value = _text(taint.get("value"))
    return f"{taint.get('key')}{'=' + value if value else ''}:{taint.get('effect')}"


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _map_list(value: Any) -> list[dict[str, Any]]:
    return [_map(item) for item in _list(value)]


def _text(value: Any) -> str | None:
    return str(value) if value not in (None, "") and not isinstance(value, dict | list) else None


def _int(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
