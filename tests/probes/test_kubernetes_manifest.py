"""What pasted manifests ask for."""

from __future__ import annotations

from gpudoctor.probes.kubernetes_manifest import container_limits, misplaced_sharing

TWO = """\
apiVersion: v1
kind: Pod
spec:
  containers:
  - name: train
    resources:
      requests:
        nvidia.com/gpu: 1
      limits:
        nvidia.com/gpu: 1
  - name: view
    resources:
      limits:
        nvidia.com/gpu: "2"
---
kind: Pod
spec:
  containers:
  - resources: {}
    limits:
      # nvidia.com/gpu: 4
      cpu: 1
"""
NODE = """\
Capacity:
  nvidia.com/gpu:  8
Allocatable:
  nvidia.com/gpu:  8
"""
SHARING = """\
version: v1
flags:
  migStrategy: none
  {flag}
sharing:
  timeSlicing:
    {sharing}
    resources:
    - name: nvidia.com/gpu
      replicas: 4
"""


def test_limits_of_each_container() -> None:
    assert container_limits(TWO) == [1, 2]


def test_what_a_node_has_is_no_limit() -> None:
    assert container_limits(NODE) == []
    assert container_limits("nvidia.com/gpu: 1") == []


def test_sharing_fields_in_the_wrong_section() -> None:
    wrong = SHARING.format(flag="renameByDefault: true", sharing="failRequestsGreaterThanOne: true")
    assert misplaced_sharing(wrong) == ["renameByDefault"]


def test_sharing_fields_in_the_right_section() -> None:
    assert misplaced_sharing(SHARING.format(flag="failOnInitError: true", sharing="renameByDefault: true")) == []
    assert misplaced_sharing(NODE) is None
