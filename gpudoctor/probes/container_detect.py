"""Am I inside a container, and of which kind? Weighs signs, since some hosts carry a stray /.dockerenv."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import exists, is_absent, read_text
from gpudoctor.probes.collect import quote
from gpudoctor.sources.answers import Source, Status

# The inode numbers of the first namespaces are fixed in the kernel (include/uapi or linux/proc_ns.h: PROC_PID_INIT_INO ...).
INITIAL_PID_NAMESPACE = "pid:[4026531836]"
INITIAL_USER_NAMESPACE = "user:[4026531837]"
INITIAL_CGROUP_NAMESPACE = "cgroup:[4026531835]"


class Detection(msgspec.Struct, frozen=True):
    """`inside` None: could not tell. `evidence` is the sign that decided."""

    inside: bool | None
    kind: str | None = None
    evidence: Evidence | None = None


_CGROUP_KINDS = (
    (Lazy(r"kubepods"), "kubernetes"),
    (Lazy(r"libpod-[0-9a-f]{12,}|/libpod_parent/"), "podman"),
    (Lazy(r"/docker/[0-9a-f]{12,}|docker-[0-9a-f]{12,}\.scope|/docker-ce/|/actions_job/"), "docker"),
    (Lazy(r"/lxc/|/lxc\.payload|/lxc\.monitor"), "lxc"),
    (Lazy(r"machine-.*\.scope/payload|/machine\.slice/machine-"), "systemd-nspawn"),
    (Lazy(r"cri-containerd-[0-9a-f]{12,}|crio-[0-9a-f]{12,}|/containerd/|/garden/"), "containerd"),
    (Lazy(r"/ecs/[0-9a-f-]{12,}"), "docker"),
)
_CONTAINER_ENV = {
    "lxc": "lxc",
    "lxc-libvirt": "lxc",
    "docker": "docker",
    "podman": "podman",
    "oci": "oci",
    "systemd-nspawn": "systemd-nspawn",
    "kube": "kubernetes",
    "enroot": "enroot",
}


def kind_in_cgroup(text: str) -> tuple[str, int] | None:
    """The kind of container that /proc/PID/cgroup names and the index of the line; `None` when no line names one."""
    for index, line in enumerate(text.splitlines()):
        path = line.rsplit(":", 1)[-1]
        for pattern, kind in _CGROUP_KINDS:
            if pattern.search(path):
                return kind, index
    return None


def container_variable(environ: str) -> str | None:
    """The value of `container=` in /proc/1/environ."""
    for entry in environ.split("\0"):
        if entry.startswith("container="):
            return entry.removeprefix("container=").strip() or None
    return None


def root_file_system(mounts: str) -> tuple[str, int] | None:
    """The type of the last file system mounted on / and the index of its line in /proc/self/mounts."""
    found = None
    for index, line in enumerate(mounts.splitlines()):
        words = line.split()
        if len(words) >= 3 and words[1] == "/":
            found = (words[2], index)
    return found


def detect(source: Source) -> Detection:
    """Weighs all signs. Signs that only a container has decide at once; a bare /.dockerenv needs the process view to agree."""
    strong = _strong_sign(source)
    if strong is not None:
        return strong
    mounts = source.read("/proc/self/mounts")
    root = root_file_system(mounts.text) if mounts.status is Status.OK else None
    overlay = root is not None and root[0] in (
        "overlay",
        "overlayfs",
        "aufs",
        "fuse-overlayfs",
        "fuse.fuse-overlayfs",
    )
    if mounts.status is Status.OK and "lxcfs /proc/" in mounts.text:
        line = next(i for i, text in enumerate(mounts.text.splitlines()) if "lxcfs /proc/" in text)
        return Detection(True, "lxc", quote(mounts, line))
    namespace = source.stat("/proc/self/ns/pid").target
    own_processes = namespace is not None and namespace != INITIAL_PID_NAMESPACE
    kernel_threads = read_text(source, "/proc/2/comm") == "kthreadd"
    marker = exists(source, "/.dockerenv")
    if marker:
        host_view = kernel_threads and not own_processes
        first_cgroup = _has_initial(source, "cgroup")
        # Docker gives a layered root, and on cgroup v2 a cgroup namespace; where it shares the host's, its paths name it.
        likely = overlay and first_cgroup is False if host_view else overlay or first_cgroup is not True
        if likely:
            return Detection(True, "docker", Evidence(source="/.dockerenv", text="/.dockerenv exists"))
    if overlay and own_processes and root is not None:
        return Detection(True, "oci", quote(mounts, root[1]))
    known = marker is not None and (mounts.status is Status.OK or namespace is not None or _has_host_disk(source))
    return Detection(False if known else None)


def _has_host_disk(source: Source) -> bool:
    """A disk with kernels and an init system is a host's, also when it is seen below --root."""
    kernels = any(re.match(r"\d+\.\d+", name) for name in source.list("/lib/modules").names)
    return kernels and bool(exists(source, "/usr/lib/systemd/systemd") or exists(source, "/sbin/init"))


def _strong_sign(source: Source) -> Detection | None:
    host = source.env("KUBERNETES_SERVICE_HOST")
    if host:
        text = f"KUBERNETES_SERVICE_HOST={host}"
        return Detection(True, "kubernetes", Evidence(source="env", text=text))
    if exists(source, "/var/run/secrets/kubernetes.io"):
        path = "/var/run/secrets/kubernetes.io"
        return Detection(True, "kubernetes", Evidence(source=path, text=f"{path} exists"))
    for path in ("/proc/1/cgroup", "/proc/self/cgroup"):
        answer = source.read(path)
        found = kind_in_cgroup(answer.text) if answer.status is Status.OK else None
        if found is not None:
            return Detection(True, found[0], quote(answer, found[1]))
    containerenv = source.read("/run/.containerenv")
    if not is_absent(containerenv) and containerenv.status in (Status.OK, Status.DENIED):
        return Detection(True, "podman", Evidence(source="/run/.containerenv", text="/run/.containerenv exists"))
    named = source.read("/run/systemd/container")
    if named.status is Status.OK and named.text.strip() not in ("", "wsl"):
        kind = named.text.strip().split()[0]
        return Detection(True, _CONTAINER_ENV.get(kind, kind), quote(named, 0))
    environ = source.read("/proc/1/environ")
    variable = container_variable(environ.text) if environ.status is Status.OK else None
    if variable is not None and variable != "wsl":
        kind = _CONTAINER_ENV.get(variable, variable)
        return Detection(True, kind, Evidence(source="/proc/1/environ", text=f"container={variable}"))
    own = source.env("container")
    if own and own != "wsl":
        return Detection(True, _CONTAINER_ENV.get(own, own), Evidence(source="env", text=f"container={own}"))
    for name, kind in (("APPTAINER_CONTAINER", "apptainer"), ("SINGULARITY_CONTAINER", "apptainer")):
        value = source.env(name)
        if value:
            return Detection(True, kind, Evidence(source="env", text=f"{name}={value}"))
    if exists(source, "/.singularity.d"):
        return Detection(True, "apptainer", Evidence(source="/.singularity.d", text="/.singularity.d exists"))
    return None


def _has_initial(source: Source, kind: str) -> bool | None:
    expected = {"cgroup": INITIAL_CGROUP_NAMESPACE, "user": INITIAL_USER_NAMESPACE, "pid": INITIAL_PID_NAMESPACE}[
        kind
    ]
    target = source.stat(f"/proc/self/ns/{kind}").target
    return None if target is None else target == expected
