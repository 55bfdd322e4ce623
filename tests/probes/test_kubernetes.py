"""Kubernetes nodes and pods from what kubectl prints, in its forms and also cut, filtered or damaged."""

from __future__ import annotations

import json

import pytest

from gpudoctor.facts import KubernetesNode, KubernetesPod
from gpudoctor.probes import kubernetes
from gpudoctor.probes.kubernetes import parse_kubernetes
from gpudoctor.sources import open_text

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/gpu.product": "NVIDIA-L4", "nvidia.com/gpu.count": "2"}},
    "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
    "status": {
        "capacity": {"cpu": "64", "nvidia.com/gpu": "2", "nvidia.com/mig-1g.5gb": "0"},
        "allocatable": {"cpu": "63500m", "nvidia.com/gpu": "1"},
        "conditions": [
            {"type": "Ready", "status": "False", "message": "container runtime is down"},
            {"type": "DiskPressure", "status": "True", "message": "kubelet has disk pressure"},
            {"type": "EtcdIsVoter", "status": "True"},
        ],
        "nodeInfo": {"containerRuntimeVersion": "containerd://2.0.2", "kubeletVersion": "v1.31.6", "kernelVersion": "6.8.0-51-generic"},
        "runtimeHandlers": [{"name": "runc"}, {"name": "nvidia"}],
    },
}  # fmt: skip
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train-0", "namespace": "ml"},
    "spec": {"nodeName": "gpu-1", "runtimeClassName": "nvidia", "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "2", "memory": "1Gi"}}}]},
    "status": {
        "phase": "Running",
        "containerStatuses": [{"restartCount": 3, "ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}],
    },
}  # fmt: skip
DESCRIBED = """\
Name:               gpu-1
Roles:              worker
Labels:             kubernetes.io/hostname=gpu-1
                    nvidia.com/gpu.product=Tesla-T4
Annotations:        nvidia.com/gpu-driver-upgrade-enabled: true
Taints:             nvidia.com/gpu=present:NoSchedule
                    node.kubernetes.io/unschedulable:NoSchedule
Unschedulable:      true
Conditions:
  Type             Status  LastHeartbeatTime                 LastTransitionTime                Reason                       Message
  ----             ------  -----------------                 ------------------                ------                       -------
  MemoryPressure   False   Mon, 01 Jul 2024 10:00:00 +0000   Mon, 01 Jul 2024 09:00:00 +0000   KubeletHasSufficientMemory   kubelet has sufficient memory available
  Ready            True    Mon, 01 Jul 2024 10:00:00 +0000   Mon, 01 Jul 2024 09:00:00 +0000   KubeletReady                 kubelet is posting ready status
Capacity:
  cpu:                16
  memory:             64Gi
  nvidia.com/gpu:     4
Allocatable:
  cpu:                15
  memory:             60Gi
  nvidia.com/gpu:     3
System Info:
  Kernel Version:             5.15.0-91-generic
  Container Runtime Version:  containerd://1.7.12
  Kubelet Version:            v1.28.5
Non-terminated Pods:          (2 in total)
  Namespace                   Name                                    CPU Requests  CPU Limits  Memory Requests  Memory Limits  Age
  kube-system                 nvidia-device-plugin-daemonset-x2b4k    0 (0%)        0 (0%)      0 (0%)           0 (0%)         5d
Allocated resources:
  Resource           Requests     Limits
  cpu                850m (5%)    0 (0%)
  nvidia.com/gpu     2            2
Events:              <none>
"""
DESCRIBED_POD = """\
Name:             train-0
Namespace:        ml
Service Account:  default
Node:             <none>
Status:           Pending
Containers:
  main:
    Image:      nvidia/cuda:12.4.1-base-ubuntu22.04
    Limits:
      nvidia.com/gpu:  8
    Requests:
      nvidia.com/gpu:  8
Conditions:
  Type           Status
  PodScheduled   False
Node-Selectors:  <none>
Events:
  Type     Reason            Age   From               Message
  ----     ------            ----  ----               -------
  Warning  FailedScheduling  12s   default-scheduler  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.
"""


def node(text: str) -> KubernetesNode:
    found = parse_kubernetes(text).nodes
    assert found is not None
    assert len(found) == 1
    return found[0]


def pod(text: str) -> KubernetesPod:
    found = parse_kubernetes(text).pods
    assert found is not None
    assert len(found) == 1
    return found[0]


def test_node_objects() -> None:
    read = node(json.dumps({"apiVersion": "v1", "kind": "List", "items": [NODE]}))
    assert (read.name, read.capacity_gpu, read.allocatable_gpu) == ("gpu-1", 2, 1)
    assert read.taints == ["nvidia.com/gpu=present:NoSchedule"]
    assert read.ready is False
    assert read.problems == ["Ready is False: container runtime is down", "DiskPressure: kubelet has disk pressure"]
    assert read.runtime_handlers == ["runc", "nvidia"]
    assert (read.runtime_version, read.kubelet_version) == ("containerd://2.0.2", "v1.31.6")


def test_yaml_says_the_same_as_json() -> None:
    import yaml

    assert node(yaml.safe_dump(NODE)) == node(json.dumps(NODE))


def test_node_list_items_without_kind() -> None:
    bare = {k: v for k, v in NODE.items() if k != "kind"}
    assert node(json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": [bare]})).capacity_gpu == 2


def test_a_node_without_the_resource_has_no_gpu() -> None:
    bare = {**NODE, "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}}}
    read = node(json.dumps(bare))
    assert (read.capacity_gpu, read.allocatable_gpu, read.ready) == (0, 0, None)


def test_cut_off_yaml_leaves_the_rest_unknown() -> None:
    read = node("apiVersion: v1\nkind: Node\nmetadata:\n  name: gpu-7\n  labels:\n")
    assert (read.name, read.capacity_gpu, read.ready, read.unschedulable) == ("gpu-7", None, None, None)


def test_pod_object() -> None:
    read = pod(json.dumps(POD))
    assert (read.name, read.namespace, read.node, read.requested_gpu, read.runtime_class) == (
        "train-0",
        "ml",
        "gpu-1",
        2,
        "nvidia",
    )
    assert (read.container_reason, read.exit_code, read.restarts, read.ready) == ("OOMKilled", 137, 3, False)


def test_describe_node() -> None:
    read = node(DESCRIBED)
    assert (read.name, read.capacity_gpu, read.allocatable_gpu, read.allocated_gpu) == ("gpu-1", 4, 3, 2)
    assert read.taints == ["nvidia.com/gpu=present:NoSchedule", "node.kubernetes.io/unschedulable:NoSchedule"]
    assert (read.unschedulable, read.ready, read.problems) == (True, True, [])
    assert read.device_plugin_pods == ["nvidia-device-plugin-daemonset-x2b4k"]
    assert read.labels is not None
    assert read.labels["nvidia.com/gpu.product"] == "Tesla-T4"
    assert read.evidence["capacity_gpu"].line == 17


def test_describe_through_grep() -> None:
    lines = [line for line in DESCRIBED.splitlines() if "nvidia.com/gpu" in line]
    read = node("\n".join(lines))
    assert (read.capacity_gpu, read.allocatable_gpu, read.allocated_gpu) == (4, 3, 2)
    assert read.ready is None
    assert read.device_plugin_pods is None


def test_describe_of_two_nodes() -> None:
    text = DESCRIBED + "\n\n" + DESCRIBED.replace("gpu-1", "gpu-2")
    assert [n.name for n in parse_kubernetes(text).nodes or []] == ["gpu-1", "gpu-2"]


def test_a_capacity_section_without_gpus_is_known_to_have_none() -> None:
    text = "Capacity:\n cpu:     16\n memory:  64Gi\n pods:    110\nAllocatable:\n"
    read = node(text)
    assert (read.capacity_gpu, read.allocatable_gpu) == (0, None)


def test_describe_pod() -> None:
    read = pod(DESCRIBED_POD)
    assert (read.phase, read.node, read.requested_gpu, read.reason) == ("Pending", None, 8, "FailedScheduling")
    assert read.message is not None
    assert "3 Insufficient nvidia.com/gpu" in read.message


def test_a_pods_limits_are_no_nodes_capacity() -> None:
    assert parse_kubernetes("    Limits:\n      nvidia.com/gpu:  1\n").nodes is None
    assert parse_kubernetes("      resources:\n        limits:\n          nvidia.com/gpu: 2\n").nodes is None


def test_tables() -> None:
    read = parse_kubernetes(
        "NAME    STATUS                        ROLES    AGE   VERSION\n"
        "gpu-1   NotReady,SchedulingDisabled   <none>   90d   v1.28.9+rke2r1\n"
        "NAMESPACE      NAME                                   READY   STATUS                  RESTARTS        AGE\n"
        "gpu-operator   nvidia-operator-validator-8x2zt        0/1     Init:CrashLoopBackOff   6 (20s ago)     10m\n"
    )
    assert read.nodes is not None
    assert read.pods is not None
    assert (read.nodes[0].ready, read.nodes[0].unschedulable) == (False, True)
    assert (read.pods[0].status, read.pods[0].ready, read.pods[0].restarts) == ("Init:CrashLoopBackOff", False, 6)


def test_custom_columns_of_gpus() -> None:
    read = parse_kubernetes("NAME    GPU\ngpu-1   8\ncpu-1   <none>\n")
    assert [(n.name, n.allocatable_gpu) for n in read.nodes or []] == [("gpu-1", 8), ("cpu-1", 0)]


@pytest.mark.parametrize(
    "text",
    ["", "\x00\xff\x00", "{", '{"kind": "Node"', "kind: Node\n\t- broken: [", "[" * 5000, "NodeName=", "a: &a [*a]"],
)
def test_damaged_text_gives_nothing_and_never_raises(text: str) -> None:
    assert parse_kubernetes(text).pods is None


def test_odd_types_are_passed_over() -> None:
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [1, None, {"kind": "Node", "metadata": [], "status": {"capacity": {"nvidia.com/gpu": "many"}}}]})  # fmt: skip
    assert node(text).capacity_gpu == 0


def test_a_paste_of_several_outputs() -> None:
    source = open_text(f"$ kubectl describe node gpu-1\n{DESCRIBED}$ kubectl describe pod train-0\n{DESCRIBED_POD}")
    read = kubernetes.probe(source)
    assert read is not None
    assert [n.name for n in read.nodes or []] == ["gpu-1"]
    assert [(p.name, p.requested_gpu) for p in read.pods or []] == [("train-0", 8)]
