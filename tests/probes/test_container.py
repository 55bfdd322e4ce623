"""Inside or outside? And what a container sees: nodes, libraries, device rules."""

from __future__ import annotations

import pytest

from gpudoctor.probes import container
from gpudoctor.probes.container_detect import detect
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import StatAnswer, Status
from tests.probes.machine import machine, node

HOST_PROC = {
    "/proc/2/comm": "kthreadd\n",
    "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\n",
    "/proc/1/cgroup": "0::/init.scope\n",
}
HOST_LINKS = {"/proc/self/ns/pid": "pid:[4026531836]", "/proc/self/ns/user": "user:[4026531837]"}
INNER_LINKS = {"/proc/self/ns/pid": "pid:[4026532701]", "/proc/self/ns/user": "user:[4026531837]"}
OVERLAY = "overlay / overlay rw,lowerdir=/a 0 0\n"
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
LIB = "/usr/lib/x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("files", "links", "environment", "inside", "kind"),
    [
        (HOST_PROC, HOST_LINKS, {}, False, None),
        # A stray /.dockerenv on a host: the process view says host.
        ({**HOST_PROC, "/.dockerenv": ""}, HOST_LINKS, {}, False, None),
        (
            {"/.dockerenv": "", "/proc/self/mounts": OVERLAY, "/proc/1/cgroup": "0::/\n"},
            INNER_LINKS,
            {},
            True,
            "docker",
        ),
        ({"/proc/1/cgroup": "11:devices:/docker/0123456789abcdef0123\n"}, INNER_LINKS, {}, True, "docker"),
        ({"/proc/1/cgroup": "0::/system.slice/docker.service\n", **HOST_PROC}, HOST_LINKS, {}, False, None),
        (
            {"/proc/self/cgroup": "0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-0.scope\n"},
            INNER_LINKS,
            {},
            True,
            "kubernetes",
        ),
        ({}, INNER_LINKS, {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, True, "kubernetes"),
        ({"/run/.containerenv": 'engine="podman-4.9.3"\n'}, INNER_LINKS, {}, True, "podman"),
        ({"/run/systemd/container": "lxc\n"}, INNER_LINKS, {}, True, "lxc"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, INNER_LINKS, {}, True, "systemd-nspawn"),
        ({"/run/systemd/container": "wsl\n", **HOST_PROC}, HOST_LINKS, {}, False, None),
        ({"/proc/1/environ": "container=lxc\0PATH=/bin\0"}, INNER_LINKS, {}, True, "lxc"),
        ({}, INNER_LINKS, {"container": "podman"}, True, "podman"),
        ({"/proc/self/mounts": OVERLAY}, INNER_LINKS, {}, True, "oci"),
        # The same stray file, seen from a PID namespace of that host.
        (
            {"/.dockerenv": "", "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\n"},
            {**INNER_LINKS, "/proc/self/ns/cgroup": "cgroup:[4026531835]"},
            {},
            False,
            None,
        ),
        # A namespace alone (unshare, bwrap) is no container.
        ({"/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\n"}, INNER_LINKS, {}, False, None),
        ({"/.singularity.d/env.sh": ""}, HOST_LINKS, {}, True, "apptainer"),
        # Below --root there is no process view, but containers have no kernels on their disk.
        ({"/lib/modules/6.8.0-49-generic/modules.dep": "", "/sbin/init": ""}, {}, {}, False, None),
    ],
)
def test_inside_or_outside(files, links, environment, inside, kind):
    found = detect(machine(files, links=links, environment=environment))
    assert (found.inside, found.kind) == (inside, kind)
    assert (found.evidence is not None) == bool(inside)


def test_a_paste_does_not_tell():
    assert detect(open_text("$ nvidia-smi\nNo devices were found\n")).inside is None


def in_docker(files=None, **more):
    files = {"/.dockerenv": "", "/proc/self/mounts": OVERLAY, "/proc/1/cgroup": "0::/\n", **(files or {})}
    return container.probe(machine(files, links={**INNER_LINKS, **more.pop("links", {})}, **more))


def test_none_on_a_host():
    assert container.probe(machine(HOST_PROC, links=HOST_LINKS)) is None


def test_nothing_was_injected():
    facts = in_docker({"/proc/driver/nvidia/version": MODULE, f"{LIB}/libc.so.6": "x"}, dirs=("/dev",))
    assert facts.kind == "docker"
    assert facts.device_nodes == []
    assert facts.libraries_missing == ["libnvidia-ml.so.1", "libcuda.so.1"]
    assert facts.visible_devices is None
    assert any("kernel log" in words for words in facts.hidden)


def test_utility_only_leaves_out_libcuda():
    environment = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "utility"}
    files = {"/proc/driver/nvidia/version": MODULE, f"{LIB}/libnvidia-ml.so.535.183.01": "x"}
    links = {f"{LIB}/libnvidia-ml.so.1": "libnvidia-ml.so.535.183.01"}
    facts = in_docker(files, links=links, environment=environment)
    assert facts.libraries_missing == ["libcuda.so.1"]
    assert (facts.visible_devices, facts.driver_capabilities) == ("all", "utility")
    assert all(library.problem is None for library in facts.injected_libraries)
    assert facts.evidence["driver_capabilities"].text == "NVIDIA_DRIVER_CAPABILITIES=utility"


def test_baked_in_empty_dangling_and_mismatched_libraries():
    files = {
        "/proc/driver/nvidia/version": MODULE,
        f"{LIB}/libcuda.so.525.60.13": "x",
        f"{LIB}/libcuda.so.1": "",
        f"{LIB}/libnvidia-container.so.1.14.6": "x",
    }
    facts = in_docker(files, broken_links={f"{LIB}/libnvidia-ml.so.1": "libnvidia-ml.so.525.60.13"})
    problems = {library.path.rsplit("/", 1)[-1]: library.problem for library in facts.injected_libraries}
    assert problems == {
        "libcuda.so.525.60.13": "mismatched",
        "libcuda.so.1": "empty",
        "libnvidia-ml.so.1": "dangling",
    }
    assert facts.libraries_missing == ["libnvidia-ml.so.1"]


def test_a_node_that_anybody_may_open_and_we_may_not_is_denied_by_the_cgroup():
    nodes = (node("/dev/nvidia0", openable=False), node("/dev/nvidiactl", minor=255, openable=False))
    facts = in_docker({"/sys/fs/cgroup/cgroup.controllers": "cpu\n"}, stats=nodes)
    assert (facts.cgroup_version, facts.cgroup_denies_gpu) == (2, True)
    facts = in_docker(stats=(node("/dev/nvidia0"),))
    assert facts.cgroup_denies_gpu is False
    facts = in_docker(stats=(node("/dev/nvidia0", mode="0660", openable=False),))
    assert facts.cgroup_denies_gpu is None


@pytest.mark.parametrize(
    ("rules", "denied"),
    [
        ("a *:* rwm\n", False),
        ("c 1:3 rwm\nc 195:* rw\n", False),
        ("c 1:3 rwm\nc 136:* rwm\n", True),
        ("c 195:0 r\n", True),
        ("", None),
        ("garbage\n", True),
    ],
)
def test_device_rules_of_cgroup_v1(rules, denied):
    assert container.denies_gpu(rules) is denied


def test_privileged_and_user_namespace():
    status = "CapEff:\t000001ffffffffff\n"
    facts = in_docker({"/proc/self/status": status, "/proc/sys/kernel/cap_last_cap": "40\n"})
    assert (facts.privileged, facts.user_namespace) == (True, False)
    files = {"/proc/self/status": "CapEff:\t00000000a80425fb\n", "/proc/sys/kernel/cap_last_cap": "40\n"}
    facts = in_docker(files, links={"/proc/self/ns/user": "user:[4026532600]"})
    assert (facts.privileged, facts.user_namespace) == (False, True)


def test_a_library_that_cannot_be_looked_at_is_not_blamed():
    stat = StatAnswer(path=f"{LIB}/libcuda.so.1", status=Status.DENIED)
    assert container.judge_library(stat, "1", "535.183.01").problem is None
