"""What a container sees of the host's GPUs: variables, device nodes, injected libraries, device rules."""

from __future__ import annotations

import re

from gpudoctor.facts import Container, Evidence, InjectedLibrary
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import exists, is_machine, read_text
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.probes.container_detect import INITIAL_PID_NAMESPACE, INITIAL_USER_NAMESPACE, detect
from gpudoctor.probes.driver_modules import PROC_VERSION, parse_banner
from gpudoctor.probes.driver_packages import collect_packages
from gpudoctor.probes.driver_userspace import LIBRARY_DIRS, WSL_DIR
from gpudoctor.sources.answers import Source, StatAnswer, Status

NAME = "container"
# Library, and the capability (NVIDIA_DRIVER_CAPABILITIES) that has it injected.
_NEEDED = {"libnvidia-ml.so.1": "utility", "libcuda.so.1": "compute"}
_LIBRARY = Lazy(r"^(lib(?:cuda|cudadebugger|nvidia-[\w-]+|nvcuvid|nvoptix))\.so\.(\d+(?:\.\d+)*)$")
_OWN_VERSION = Lazy(r"^libnvidia-(?:container|egl|api|vksc|fatbinaryloader|nscq|pkcs11)")
_NVIDIA_MAJOR = (
    195  # the kernel's list of allocated majors (admin-guide/devices.txt has it as local; NVIDIA's driver uses it)
)


def probe(source: Source) -> Container | None:
    """The container's view; `None` on a host."""
    found = Collected()
    detection = detect(source)
    if detection.inside is False:
        return None
    _collect_variables(source, found)
    if detection.inside:
        found.set("kind", detection.kind, detection.evidence)
        _collect_devices(source, found)
        _collect_libraries(source, found)
        _collect_cgroup(source, found)
        _collect_rights(source, found)
        found.set("hidden", _hidden(source))
        _collect_driver_packages(source, found)
    return found.build(Container)


# Packages that bring the driver's libraries, by the names of Debian, Ubuntu, NVIDIA's repositories and Fedora's.
_DRIVER_PACKAGE = Lazy(
    r"^(libnvidia-(compute|ml)\S*|libcuda1|nvidia-(driver|utils|compute-utils|headless)\S*|cuda-drivers\S*|xorg-x11-drv-nvidia\S*)$"
)


def _collect_driver_packages(source: Source, found: Collected) -> None:
    packages = Collected()
    collect_packages(source, packages)
    if packages.get("packages") is None:
        return
    inside = [package for package in packages.get("packages") if _DRIVER_PACKAGE.match(package.name)]
    inside = [package for package in inside if package.state not in ("config-files", "not-installed")]
    proof = inside[0].evidence.get("") if inside else None
    found.set("driver_packages", [f"{package.name} {package.version}" for package in inside], proof)


def _collect_variables(source: Source, found: Collected) -> None:
    names = {
        "visible_devices": "NVIDIA_VISIBLE_DEVICES",
        "driver_capabilities": "NVIDIA_DRIVER_CAPABILITIES",
        "require_cuda": "NVIDIA_REQUIRE_CUDA",
    }
    environment = source.environment() or {}
    for field, name in names.items():
        value = environment.get(name, source.env(name))
        if value is not None:
            found.set(field, value, Evidence(source="env", text=f"{name}={value}"))


def _collect_devices(source: Source, found: Collected) -> None:
    listing = source.list("/dev")
    if listing.status is not Status.OK:
        return
    nodes = [f"/dev/{name}" for name in listing.names if re.fullmatch(r"nvidia(?:\d+|ctl|-uvm|-modeset)|dxg", name)]
    found.set("device_nodes", nodes, Evidence(source="ls /dev", text=" ".join(nodes) or "no NVIDIA device node"))


def _collect_libraries(source: Source, found: Collected) -> None:
    version = source.read(PROC_VERSION)
    banner = parse_banner(version.text) if version.status is Status.OK else None
    libraries: list[InjectedLibrary] = []
    present: set[str] = set()
    seen = False
    for directory in (*LIBRARY_DIRS, WSL_DIR, *_search_path(source)):
        listing = source.list(directory)
        seen = seen or listing.status is Status.OK
        for name in listing.names:
            match = _LIBRARY.match(name)
            if match is None or _OWN_VERSION.match(name):
                continue
            stat = source.stat(f"{directory}/{name}")
            if stat.status is Status.OK and stat.target_exists is not False:
                present.add(name)
            library = judge_library(stat, match[2], banner.version if banner else None)
            if library.path not in (known.path for known in libraries):
                libraries.append(library)
    if not seen:
        return
    bad = next((library for library in libraries if library.problem), None)
    found.set("injected_libraries", libraries, bad.evidence[""] if bad else None)
    if banner is not None or source.list(WSL_DIR).names:
        missing = [name for name in _NEEDED if name not in present]
        words = f"not found: {', '.join(missing)}" if missing else "libnvidia-ml.so.1 and libcuda.so.1 are there"
        found.set("libraries_missing", missing, Evidence(source="library directories", text=words))


def _search_path(source: Source) -> list[str]:
    value = (source.environment() or {}).get("LD_LIBRARY_PATH", source.env("LD_LIBRARY_PATH")) or ""
    known = (*LIBRARY_DIRS, WSL_DIR)
    return [
        path for path in dict.fromkeys(value.split(":")) if path.startswith("/") and path.rstrip("/") not in known
    ][:16]


def judge_library(stat: StatAnswer, version: str, module_version: str | None) -> InjectedLibrary:
    """A library file with what is wrong with it: empty, dangling, or of another version than the kernel module."""
    full = version if "." in version else None
    problem: str | None = None
    words = stat.path
    if stat.kind == "link" and stat.target_exists is False:
        problem, words = "dangling", f"{stat.path} -> {stat.target} (missing)"
    elif stat.kind == "file" and stat.size_bytes == 0:
        problem, words = "empty", f"{stat.path} has 0 bytes"
    elif full and module_version and full != module_version and "/compat/" not in stat.path:
        problem, words = "mismatched", f"{stat.path} beside kernel module {module_version}"
    return InjectedLibrary(
        path=stat.path,
        size_bytes=stat.size_bytes,
        version=full,
        problem=problem,
        evidence={"": Evidence(source=stat.path, text=words)},
    )


def denies_gpu(devices_list: str) -> bool | None:
    """Whether a cgroup v1 `devices.list` leaves out NVIDIA's character devices; `None` when it is empty."""
    rules = [line.split() for line in devices_list.splitlines() if line.strip()]
    if not rules:
        return None
    for rule in rules:
        if len(rule) < 3:
            continue
        major = rule[1].split(":", 1)[0]
        if rule[0] == "a" or (
            rule[0] == "c" and major in ("*", str(_NVIDIA_MAJOR)) and "r" in rule[2] and "w" in rule[2]
        ):
            return False
    return True


def _collect_cgroup(source: Source, found: Collected) -> None:
    two = exists(source, "/sys/fs/cgroup/cgroup.controllers")
    if two is not None:
        found.set("cgroup_version", 2 if two else 1)
    rules = source.read("/sys/fs/cgroup/devices/devices.list")
    if rules.status is Status.OK:
        denied = denies_gpu(rules.text)
        found.set("cgroup_denies_gpu", denied, quote(rules, None, "no rule for c 195:*" if denied else None))
        return
    # cgroup v2 has its rules in a BPF program that cannot be read: a node that anybody may open, and we may not, shows them.
    for path in found.get("device_nodes") or []:
        stat = source.stat(path)
        if stat.mode is None or stat.openable is None:
            continue
        may = int(stat.mode, 8) & 0o6 == 0o6
        if may and stat.openable is False:
            words = f"{path} has mode {stat.mode} and cannot be opened"
            found.set("cgroup_denies_gpu", True, Evidence(source=path, text=words))
        elif stat.openable:
            found.set("cgroup_denies_gpu", False, Evidence(source=path, text=f"{path} can be opened"))


def _collect_rights(source: Source, found: Collected) -> None:
    user = source.stat("/proc/self/ns/user").target
    if user is not None:
        found.set("user_namespace", user != INITIAL_USER_NAMESPACE)
    status = source.read("/proc/self/status").text
    effective = re.search(r"(?m)^CapEff:\s*([0-9a-f]+)", status)
    last = read_text(source, "/proc/sys/kernel/cap_last_cap")
    if effective and last and last.isdecimal():
        found.set("privileged", int(effective[1], 16) == (1 << int(last) + 1) - 1)


def _hidden(source: Source) -> list[str] | None:
    """What cannot be seen from in here, in words for the report."""
    if not is_machine(source):
        return None
    hidden = ["the host's packages, DKMS and modules on disk", "the host's container engines and their configuration"]
    if source.stat("/proc/self/ns/pid").target != INITIAL_PID_NAMESPACE:
        hidden.append("processes of the host and of other containers")
    if exists(source, "/dev/kmsg") is False:
        hidden.append("the kernel log")
    return hidden
