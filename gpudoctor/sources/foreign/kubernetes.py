"""What kubectl prints: objects (`-o json|yaml`), `describe` (also through grep), tables, events; and GPU feature discovery's labels."""

from __future__ import annotations

import re

from gpudoctor.facts import DocumentKind
from gpudoctor.lazy import Lazy
from gpudoctor.sources import requests as known
from gpudoctor.sources.foreign.answer import Found, command

KIND = DocumentKind.COMMAND

_KIND = r"(?:Node|Pod|List|NodeList|PodList)"
_OBJECT = Lazy(rf'"kind":\s*"{_KIND}"|^(?:- )?kind: {_KIND}\s*$', re.MULTILINE, needs=('"kind"', "kind: "))
_API = Lazy(r'"apiVersion":\s*"v1"|^(?:- )?apiVersion: v1\s*$', re.MULTILINE, needs=("apiVersion",))
_NAME = Lazy(r"^Name:\s+\S", re.MULTILINE, needs=("Name:",))
_POD = Lazy(r"^(?:Containers:|Node-Selectors:|QoS Class:|Service Account:)", re.MULTILINE)
_NODE = Lazy(
    r"^(?:Roles|Taints|Capacity|Allocatable|Unschedulable):"
    r"|^(?:Labels:)?\s*nvidia\.com/(?:gpu|mig|gfd|cuda)[\w.\-]*=\S"
    r"|^\s+nvidia\.com/(?:gpu|mig-)[\w.\-]*:\s+\d+\s*$",
    re.MULTILINE,
    needs=("Roles", "Taints", "Capacity", "Allocatable", "Unschedulable", "nvidia.com/"),
)
_EVENT = Lazy(
    r"^\s*(?:\S+\s+)?(?:Warning|Normal)\s+(?:Failed\w*|Unhealthy|BackOff|Scheduled|Pull(?:ing|ed)|Created|Started|Killing|Evicted"
    r"|UnexpectedAdmissionError|TopologyAffinityError|OutOf\w+|Node\w+|GPUDriverUpgrade|Preempted)\s",
    re.MULTILINE,
    needs=("Warning", "Normal"),
)
_PODS = Lazy(
    r"^(?:NAMESPACE\s+)?NAME\s+READY\s+STATUS\s+RESTARTS"
    r"|^[ \t]*(?:\S+[ \t]+)?[a-z0-9][a-z0-9.\-]*[ \t]+\d+/\d+\s+(?:Running|Pending|Completed|Error|Evicted|OOMKilled|Terminating|Unknown|Init:\S+"
    r"|ContainerCreating|\w*BackOff|Err\w+|CreateContainer\w+|UnexpectedAdmissionError|PodInitializing)\s+\d+",
    re.MULTILINE,
    needs=(
        "READY",
        "Running",
        "Pending",
        "Completed",
        "Err",
        "Evicted",
        "OOMKilled",
        "Terminating",
        "Unknown",
        "Init",
        "Creating",
        "BackOff",
        "CreateContainer",
        "Admission",
    ),
)
_NODES = Lazy(
    r"^NAME\s+STATUS\s+ROLES\s+AGE\s+VERSION|^\S+\s+(?:Not)?Ready(?:,SchedulingDisabled)?\s+\S+\s+\d+\w+\s+v\d"
    r"|^(?:NAME|NODE)\s+GPUS?\s*$",
    re.MULTILINE | re.IGNORECASE,
)


def recognise(text: str) -> bool:
    """Whether kubectl, or GPU feature discovery, wrote some of this."""
    head = text[:65536]
    return _is_objects(head) or any(p.search(head) for p in (_NODE, _EVENT, _PODS, _NODES)) or _is_pod(head)


def requests(text: str) -> Found:
    """Each form that occurs; a paste may hold several."""
    if _is_objects(text[:65536]):
        return command(known.KUBECTL_GET_NODES, text)
    found: Found = {}
    if _is_pod(text):
        found |= command(known.KUBECTL_DESCRIBE_POD, text)
    elif _NODE.search(text):
        found |= command(known.KUBECTL_DESCRIBE_NODE, text, partial=_NAME.search(text) is None)
    if _PODS.search(text):
        found |= command(known.KUBECTL_GET_PODS, text, partial=True)
    if _NODES.search(text):
        found |= command(known.KUBECTL_NODES_TABLE, text, partial=True)
    if _EVENT.search(text):
        found |= command(known.KUBECTL_GET_EVENTS, text, partial=True)
    return found


def _is_objects(text: str) -> bool:
    return _OBJECT.search(text) is not None and _API.search(text) is not None


def _is_pod(text: str) -> bool:
    return _NAME.search(text) is not None and _POD.search(text) is not None
