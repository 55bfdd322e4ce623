"""Container engines on the host: the toolkit, Docker, containerd, podman, CRI-O, CDI."""

from __future__ import annotations

import pytest

from gpudoctor.probes import runtime
from gpudoctor.probes.runtime_cdi import parse_cdi_list, parse_specification
from gpudoctor.probes.runtime_docker import DOCKER_INFO_JSON, parse_daemon_json, parse_info_json, parse_info_text
from gpudoctor.sources import open_text
from gpudoctor.sources.answers import StatAnswer, Status
from tests.probes.machine import NOW, machine

HOST = {"/proc/2/comm": "kthreadd\n", "/proc/self/mounts": "/dev/sda1 / ext4 rw 0 0\n"}
DOCKER = {"/usr/bin/dockerd": "x", "/usr/bin/docker": "x", "/var/run/docker.sock": ""}
TOOLKIT = {"/usr/bin/nvidia-ctk": "x", "/usr/bin/nvidia-container-runtime": "x"}
DAEMON_JSON = (
    '{"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}, "default-runtime": "nvidia"}'
)
INFO = '{"ServerVersion":"27.3.1","Runtimes":{"io.containerd.runc.v2":{},"runc":{}},"DefaultRuntime":"runc","CgroupDriver":"systemd","CgroupVersion":"2","SecurityOptions":["name=seccomp,profile=builtin","name=rootless"],"OperatingSystem":"Ubuntu 22.04","DockerRootDir":"/var/lib/docker"}'
INFO_TEXT = """\
Client: Docker Engine - Community
 Version:    29.2.1

Server:
 Containers: 0
 Server Version: 29.2.1
 Cgroup Driver: systemd
 Cgroup Version: 2
 Runtimes: io.containerd.runc.v2 nvidia runc
 Default Runtime: runc
 Operating System: Docker Desktop
 Docker Root Dir: /var/lib/docker
 Security Options:
  seccomp
   Profile: builtin
"""


def on_host(files=None, **more):
    return runtime.probe(machine({**HOST, **(files or {})}, links={"/proc/self/ns/pid": "pid:[4026531836]"}, **more))


def test_docker_without_the_toolkit():
    facts = on_host(DOCKER, commands={DOCKER_INFO_JSON: INFO})
    assert (facts.toolkit_installed, facts.docker_installed, facts.docker_running) == (False, True, True)
    assert (facts.docker_version, facts.docker_runtimes, facts.docker_default_runtime) == (
        "27.3.1",
        ["io.containerd.runc.v2", "runc"],
        "runc",
    )
    assert (facts.docker_cgroup_driver, facts.docker_cgroup_version, facts.docker_is_rootless) == ("systemd", 2, True)
    assert (facts.docker_nvidia_configured, facts.docker_is_snap, facts.docker_is_desktop) == (False, False, False)


def test_nothing_is_installed():
    facts = on_host()
    assert (facts.toolkit_installed, facts.docker_installed, facts.podman_installed, facts.containerd_installed) == (
        False,
        False,
        False,
        False,
    )
    assert facts.cdi_specs == []
    assert facts.docker_running is None


def test_configured_and_registered():
    commands = {
        DOCKER_INFO_JSON: INFO.replace('"runc":{}', '"nvidia":{},"runc":{}'),
        ("nvidia-ctk", "--version"): "NVIDIA Container Toolkit CLI version 1.17.4\ncommit: abc\n",
    }
    facts = on_host({**DOCKER, **TOOLKIT, "/etc/docker/daemon.json": DAEMON_JSON}, commands=commands)
    assert (facts.toolkit_installed, facts.toolkit_version) == (True, "1.17.4")
    assert (facts.docker_daemon_json_valid, facts.docker_nvidia_configured) == (True, True)
    assert "nvidia" in facts.docker_runtimes
    # What the daemon says it runs with holds over what the file says.
    assert facts.docker_default_runtime == "runc"


def test_the_daemon_does_not_answer():
    failed = {
        DOCKER_INFO_JSON: "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    }
    facts = on_host(DOCKER, failed=failed)
    assert facts.docker_running is False
    assert "Cannot connect" in facts.evidence["docker_running"].text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (DAEMON_JSON, (True, True, "nvidia")),
        ("{}", (True, False, None)),
        ("", (True, False, None)),
        ('{"runtimes": {"nvidia": {}},}', (False, None, None)),
        ("[1]", (False, None, None)),
        ('{"runtimes": [], "default-runtime": 3}', (True, False, None)),
    ],
)
def test_daemon_json(text, expected):
    assert parse_daemon_json(text) == expected


@pytest.mark.parametrize("text", ["", "{", '{"ServerErrors":["Cannot connect"]}', "[]", "\x00"])
def test_docker_info_that_says_nothing(text):
    assert parse_info_json(text) is None


def test_docker_info_as_text():
    info = parse_info_text(INFO_TEXT)
    assert (info.version, info.runtimes, info.default_runtime) == (
        "29.2.1",
        ["io.containerd.runc.v2", "nvidia", "runc"],
        "runc",
    )
    assert (info.cgroup_driver, info.cgroup_version, info.desktop, info.rootless) == ("systemd", 2, True, False)
    filtered = parse_info_text(" Runtimes: runc io.containerd.runc.v2\n Default Runtime: runc\n")
    assert (filtered.runtimes, filtered.version, filtered.desktop) == (["io.containerd.runc.v2", "runc"], None, None)


@pytest.mark.parametrize(("changed", "restarted"), [(-50.0, False), (-5000.0, True)])
def test_a_configuration_newer_than_the_daemon(changed, restarted):
    files = {
        **DOCKER,
        "/etc/docker/daemon.json": DAEMON_JSON,
        "/sys/fs/cgroup/system.slice/docker.service/cgroup.procs": "900\n",
        # started 1000 s before now: uptime 3000 s, start at tick 200000
        "/proc/900/stat": "900 (docker d) S 1 " + "0 " * 17 + "200000 0 0\n",
        "/proc/uptime": "3000.0 1.0\n",
    }
    source = machine({**HOST, **files}, links={"/proc/self/ns/pid": "pid:[4026531836]"})
    source.answers.stats["/etc/docker/daemon.json"] = StatAnswer(
        path="/etc/docker/daemon.json", status=Status.OK, kind="file", modified=NOW + changed
    )
    facts = runtime.probe(source)
    assert facts.docker_restarted_since_config is restarted
    assert facts.docker_running is True


SPEC = """\
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  hooks:
  - hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
- name: all
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
"""
SPEC_JSON = '{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[{"name":"all","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"}]}}],"containerEdits":{"mounts":[{"hostPath":"/usr/lib64/libcuda.so.550.54.15","containerPath":"/x"}]}}'


@pytest.mark.parametrize(
    ("text", "devices", "path"),
    [
        (SPEC, ["nvidia.com/gpu=0", "nvidia.com/gpu=all"], "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01"),
        (SPEC_JSON, ["nvidia.com/gpu=all"], "/usr/lib64/libcuda.so.550.54.15"),
    ],
)
def test_a_specification_in_both_formats(text, devices, path):
    specification = parse_specification(text)
    assert (specification.kind, specification.devices) == ("nvidia.com/gpu", devices)
    assert path in specification.paths
    assert "/dev/nvidia0" in specification.paths


@pytest.mark.parametrize("text", ["", "kind: other.com/net\n", "\x00\xff", "devices:\n" * 10])
def test_a_damaged_specification(text):
    assert "nvidia" not in (parse_specification(text).kind or "")


def test_a_specification_of_an_older_driver():
    present = {
        "/usr/lib/x86_64-linux-gnu/libcuda.so.550.90.07": "x",
        "/etc/cdi/nvidia.yaml": SPEC,
        "/dev/nvidia0": "",
    }
    facts = on_host(present)
    assert (facts.cdi_specs, facts.cdi_spec_version_stale) == (["/etc/cdi/nvidia.yaml"], True)
    assert facts.cdi_stale_paths == ["/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01"]
    assert facts.evidence["cdi_stale_paths"].line == 8
    facts = on_host({**present, "/usr/lib/x86_64-linux-gnu/libcuda.so.535.183.01": "x"})
    assert facts.cdi_spec_version_stale is False


SPEC_WITH_NUMBERS = """\
cdiVersion: 0.7.0
kind: nvidia.com/gpu
containerEdits:
  deviceNodes:
  - fileMode: 438
    major: 510
    path: /dev/nvidia-uvm
  - path: /dev/nvidiactl
    major: 195
  - path: /dev/dri/card0
    hostPath: /dev/dri/card0
"""


@pytest.mark.parametrize(("uvm", "wrong"), [(510, []), (509, ["/dev/nvidia-uvm 510, not 509"])])
def test_a_specification_with_another_device_number(uvm, wrong):
    stats = tuple(
        StatAnswer(path=path, status=Status.OK, kind="char", mode="0666", major=major, minor=0)
        for path, major in (("/dev/nvidia-uvm", uvm), ("/dev/nvidiactl", 195))
    )
    assert on_host({"/etc/cdi/nvidia.yaml": SPEC_WITH_NUMBERS}, stats=stats).cdi_wrong_numbers == wrong
    assert parse_specification(
        '{"kind":"nvidia.com/gpu","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia-uvm","major":510}]}}'
    ).majors == {"/dev/nvidia-uvm": 510}


def test_a_pasted_specification_with_another_device_number():
    text = (
        "$ ls -l /dev/nvidia-uvm\ncrw-rw-rw- 1 root root 508, 0 May  3 10:00 /dev/nvidia-uvm\n"
        "$ grep -A1 'path: /dev/nvidia-uvm$' /etc/cdi/nvidia.yaml\n    - path: /dev/nvidia-uvm\n      major: 511\n"
    )
    assert runtime.probe(open_text(text)).cdi_wrong_numbers == ["/dev/nvidia-uvm 511, not 508"]


def test_list_of_cdi_devices():
    text = 'time="2024" level=info msg="Found 2 CDI devices"\nnvidia.com/gpu=0\nnvidia.com/gpu=all\n'
    assert parse_cdi_list(text) == ["nvidia.com/gpu=0", "nvidia.com/gpu=all"]
    assert parse_cdi_list('level=info msg="Found 0 CDI devices"') == []
    assert parse_cdi_list("") is None


CONTAINERD = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\n  default_runtime_name = "nvidia"\n  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia]\n    runtime_type = "io.containerd.runc.v2"\n'


@pytest.mark.parametrize(
    ("text", "configured", "default"),
    [
        (CONTAINERD, True, "nvidia"),
        (CONTAINERD.replace("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"), True, "nvidia"),
        ('version = 2\n  default_runtime_name = "runc"\n', False, "runc"),
        ("", False, None),
        ("\x00[[[", False, None),
    ],
)
def test_containerd_configuration(text, configured, default):
    assert runtime.parse_containerd_config(text) == (configured, default)


def test_containerd_of_a_distribution_of_kubernetes():
    facts = on_host({"/var/lib/rancher/k3s/agent/etc/containerd/config.toml": CONTAINERD})
    assert (facts.containerd_installed, facts.containerd_nvidia_configured) == (True, True)
    facts = on_host({"/etc/crio/crio.conf.d/99-nvidia.conf": "[crio.runtime.runtimes.nvidia]\n"})
    assert facts.crio_nvidia_configured is True


@pytest.mark.parametrize(
    ("text", "no_cgroups", "mode"),
    [
        ('[nvidia-container-cli]\nno-cgroups = true\n[nvidia-container-runtime]\nmode = "cdi"\n', True, "cdi"),
        ('[nvidia-container-cli]\n#no-cgroups = false\n[nvidia-container-runtime]\nmode = "auto"\n', False, "auto"),
        ("", False, "auto"),
    ],
)
def test_toolkit_configuration(text, no_cgroups, mode):
    facts = on_host({**TOOLKIT, "/etc/nvidia-container-runtime/config.toml": text})
    assert (facts.toolkit_no_cgroups, facts.toolkit_mode) == (no_cgroups, mode)


def test_none_inside_a_container():
    assert runtime.probe(machine({"/run/.containerenv": "", **DOCKER})) is None


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        (
            "$ which nvidia-container-cli nvidia-container-runtime-hook\n$ docker --version\nDocker version 20.10.11, build dea9396\n",
            "toolkit_installed",
            False,
        ),
        ("$ docker --version\nDocker version 20.10.11, build dea9396\n", "docker_version", "20.10.11"),
        ("$ docker info | grep -i 'default runtime'\n Default Runtime: nvidia\n", "docker_default_runtime", "nvidia"),
        ("$ snap list | grep docker\ndocker  20.10.24  2915  latest/stable  canonical  -\n", "docker_is_snap", True),
        ("$ grep -c nvidia /etc/containerd/config.toml\n0\n", "containerd_nvidia_configured", False),
        (
            "$ grep -n no-cgroups /etc/nvidia-container-runtime/config.toml\n14:no-cgroups = true\n",
            "toolkit_no_cgroups",
            True,
        ),
        ("$ nvidia-ctk --version\nNVIDIA Container Toolkit CLI version 1.18.0\n", "toolkit_version", "1.18.0"),
        (
            "$ dpkg -l | grep nvidia-container-toolkit\nii  nvidia-container-toolkit   1.14.6-1   amd64   x\n",
            "toolkit_version",
            "1.14.6",
        ),
        ("$ dpkg -l | grep nvidia-container-toolkit\n$ uname -r\n6.8.0-49-generic\n", "toolkit_installed", False),
        (
            "$ docker info\nCannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
            "docker_running",
            False,
        ),
        ("$ podman --version\npodman version 4.9.3\n", "podman_version", "4.9.3"),
        ("$ nvidia-ctk cdi list\nINFO[0000] Found 0 CDI devices\n", "cdi_devices", []),
        ("$ systemctl is-active docker\nactive\n", "docker_running", True),
    ],
)
def test_pasted_commands(text, field, value):
    facts = runtime.probe(open_text(text))
    assert (getattr(facts, field) if facts else None) == value
