"""Kubernetes nodes and pods from what the user brought: kubectl's objects, descriptions, tables, label files.

A cluster is never asked live: the answers come from files, pastes and recordings only.
"""

from __future__ import annotations

import re
from typing import TypeVar

from gpudoctor.facts import Kubernetes, KubernetesNode, KubernetesPod, fill
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import is_machine
from gpudoctor.probes.kubernetes_manifest import container_limits, misplaced_sharing
from gpudoctor.sources.answers import Source, Status
from gpudoctor.sources.requests import (
    KUBECTL_DESCRIBE_NODE,
    KUBECTL_DESCRIBE_POD,
    KUBECTL_GET_NODES,
    KUBECTL_GET_PODS,
    KUBECTL_NODES_TABLE,
)

NAME = "kubernetes"
_Item = TypeVar("_Item", KubernetesNode, KubernetesPod)
REQUESTS = (KUBECTL_GET_NODES, KUBECTL_DESCRIBE_NODE, KUBECTL_DESCRIBE_POD, KUBECTL_GET_PODS, KUBECTL_NODES_TABLE)
_OBJECT = Lazy(r"^\s*\{|^(?:- )?(?:apiVersion|kind):\s|^\s+\"?kind\"?:\s", re.MULTILINE)


def probe(source: Source) -> Kubernetes | None:
    """Nodes and pods of every kubectl output the source holds; None when it holds none."""
    if source.kind == "live":
        return None
    nodes: list[KubernetesNode] = []
    pods: list[KubernetesPod] = []
    for request in REQUESTS:
        answer = source.run(*request)
        if answer.status in (Status.OK, Status.FAILED) and answer.stdout.strip():
            found = parse_kubernetes(answer.stdout, answer.request)
            nodes += found.nodes or []
            pods += found.pods or []
    texts = [] if is_machine(source) else [document.text for document in source.documents()]
    limits = max((container_limits(text) for text in texts), key=len, default=[])
    misplaced = next((fields for text in texts if (fields := misplaced_sharing(text)) is not None), None)
    if not nodes and not pods and not limits and misplaced is None:
        return None
    return Kubernetes(
        nodes=_merged(nodes) or None,
        pods=_merged(pods) or None,
        container_limits=limits or None,
        misplaced_sharing=misplaced,
    )


def parse_kubernetes(text: str, source: str = "kubectl") -> Kubernetes:
    """Nodes and pods of one kubectl output in any of its forms, told apart by content."""
    from gpudoctor.probes.kubernetes_objects import parse_objects
    from gpudoctor.probes.kubernetes_tables import (
        is_pod,
        parse_described_node,
        parse_described_pod,
        parse_table,
        split_describe,
    )

    if _OBJECT.search(text[:4096]):
        nodes, pods = parse_objects(text, source)
        if nodes or pods:
            return Kubernetes(nodes=nodes or None, pods=pods or None)
    nodes, pods = parse_table(text, source)
    for start, block in split_describe(text):
        if is_pod(block):
            pod = parse_described_pod(block, source, start)
            pods += [pod] if pod else []
        else:
            node = parse_described_node(block, source, start)
            nodes += [node] if node else []
    return Kubernetes(nodes=nodes or None, pods=pods or None)


def _merged(items: list[_Item]) -> list[_Item]:
    """One item for each name: what an earlier one does not tell, a later one may."""
    found: dict[str, _Item] = {}
    for item in items:
        found[item.name] = fill(found[item.name], item) if item.name in found else item
    return list(found.values())
