"""The user-space half of the driver: libraries, nvidia-smi, device nodes, services, how it was installed."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import DeviceNode, Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import exists, filter_shows, is_absent, is_machine, said
from gpudoctor.probes.collect import Collected, find_line, quote, quote_document
from gpudoctor.probes.services import service
from gpudoctor.sources import requests
from gpudoctor.sources.answers import CommandAnswer, Source, StatAnswer, Status

LIBRARY_DIRS = (
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu/nvidia/current",
    "/usr/lib/aarch64-linux-gnu/nvidia/current",
    "/usr/lib64",
    "/usr/lib64/nvidia",
    "/usr/lib",
    "/usr/lib/nvidia",
    "/usr/local/nvidia/lib64",
    "/usr/local/nvidia/lib",
    "/usr/local/lib",
    "/opt/lib64",
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    "/run/opengl-driver/lib",
)
WSL_DIR = "/usr/lib/wsl/lib"
# Libraries that carry the driver's version in their file name. Others of that name (libnvidia-container) have their own versions.
_LIBRARY = Lazy(
    r"^(libnvidia-ml|libcuda|libnvidia-ptxjitcompiler|libnvidia-nvvm|libcudadebugger|libnvidia-cfg|libnvidia-opencl)\.so\.(\d+\.\d+(?:\.\d+)*)$"
)
_SMI_PATHS = (
    "/usr/bin/nvidia-smi",
    "/usr/local/bin/nvidia-smi",
    "/usr/lib/nvidia/current/nvidia-smi",
    "/usr/lib/wsl/lib/nvidia-smi",
    "/usr/local/nvidia/bin/nvidia-smi",
    "/opt/bin/nvidia-smi",
    "/run/nvidia/driver/usr/bin/nvidia-smi",
    "/run/current-system/sw/bin/nvidia-smi",
)


class LibraryFile(msgspec.Struct, frozen=True):
    name: str
    version: str
    path: str


def library_files(source: Source) -> list[LibraryFile] | None:
    """Driver libraries by file name in the usual directories; `None` when no directory was seen."""
    found: list[LibraryFile] = []
    seen = False
    for directory in LIBRARY_DIRS:
        listing = source.list(directory)
        seen = seen or listing.status is Status.OK
        for name in listing.names:
            match = _LIBRARY.match(name)
            if match:
                found.append(LibraryFile(match[1], match[2], f"{directory}/{name}"))
    return found if seen else None


def collect_libraries(source: Source, found: Collected) -> None:
    """Sets library_version, library_versions and library_paths."""
    files = library_files(source)
    if files is None or (not files and not is_machine(source)):
        _collect_ldconfig(source, found)
        _collect_written(source, found)
        return
    main = [file for file in files if file.name in ("libnvidia-ml", "libcuda")] or files
    found.set("library_paths", [file.path for file in main])
    versions = list(dict.fromkeys(file.version for file in main))
    found.set("library_versions", versions)
    if main:
        chosen = _linked(source, main) or main[0]
        found.set("library_version", chosen.version, Evidence(source=chosen.path, text=chosen.path))


def _linked(source: Source, files: list[LibraryFile]) -> LibraryFile | None:
    """The file that the .so.1 beside it points to: the one that programs load."""
    for file in files:
        target = source.stat(f"{file.path.rsplit('/', 1)[0]}/{file.name}.so.1").target or ""
        if target.rsplit("/", 1)[-1] == file.path.rsplit("/", 1)[-1]:
            return file
    return None


def _collect_ldconfig(source: Source, found: Collected) -> None:
    answer = source.run(*requests.LDCONFIG)
    if not said(answer):
        return
    paths = re.findall(r"=> (/\S*/lib(?:nvidia-ml|cuda)\.so\S*)", answer.stdout)
    if paths:
        found.set("library_paths", paths, quote(answer, find_line(answer.stdout, paths[0])))
    elif filter_shows(answer.filtered_by, "libnvidia-ml.so.1") and not answer.truncated:
        found.set("library_paths", [], quote(answer, None, "no libnvidia-ml or libcuda in the linker's cache"))


# libnvidia-ml.so.535.183.01 in a listing, and the link that programs follow: libnvidia-ml.so.1 -> libnvidia-ml.so.535.183.01
_WRITTEN = Lazy(r"\blib(?:nvidia-ml|cuda)\.so\.(\d{3}\.\d+(?:\.\d+)*)\b")
_LINK = Lazy(r"\blib(?:nvidia-ml|cuda)\.so\.1 -> \S*?lib(?:nvidia-ml|cuda)\.so\.(\d{3}\.\d+(?:\.\d+)*)")


def _collect_written(source: Source, found: Collected) -> None:
    """Sets library_version and library_versions from file names in pasted listings (ls, find, dpkg -S, strace)."""
    versions: list[str] = []
    for document in source.documents():
        if ".so." not in document.text:
            continue
        for index, line in enumerate(document.text.splitlines()):
            versions += _WRITTEN.findall(line)
            if link := _LINK.search(line):
                found.set("library_version", link[1], quote_document(document, index))
    if versions:
        found.set("library_versions", list(dict.fromkeys(versions)))


def collect_nvidia_smi(source: Source, found: Collected) -> None:
    """Sets nvidia_smi_present."""
    if not is_machine(source):
        answer = source.run(*requests.NVIDIA_SMI)
        located = source.run("which", "nvidia-smi")
        if is_absent(answer) or is_absent(located):
            found.set("nvidia_smi_present", False, quote(answer if is_absent(answer) else located))
        elif said(answer):
            found.set("nvidia_smi_present", True, quote(answer))
        return
    seen = [exists(source, path) for path in _SMI_PATHS]
    if any(seen):
        path = _SMI_PATHS[seen.index(True)]
        found.set("nvidia_smi_present", True, Evidence(source=path, text=path))
    elif seen[0] is False:
        found.set(
            "nvidia_smi_present", False, Evidence(source="/usr/bin/nvidia-smi", text="nvidia-smi is not installed")
        )


_LS_LINE = Lazy(
    r"^\s*(?P<kind>[cb])(?P<bits>[r-][w-][xsS-][r-][w-][xsS-][r-][w-][xtT-])[.+@]?\s+\d+\s+(?P<owner>\S+)\s+(?P<group>\S+)\s+(?P<major>\d+),\s*(?P<minor>\d+)\s.*?(?P<path>/dev/\S+|nvidia\S*)\s*$"
)


def parse_ls_nodes(text: str) -> list[tuple[DeviceNode, int]]:
    """Device nodes of `ls -l /dev/nvidia*` with the index of their line."""
    nodes = []
    for index, line in enumerate(text.splitlines()):
        match = _LS_LINE.match(line)
        if match is None:
            continue
        path = match["path"] if match["path"].startswith("/") else f"/dev/{match['path']}"
        node = DeviceNode(
            path=path,
            major=int(match["major"]),
            minor=int(match["minor"]),
            mode=mode_of(match["bits"]),
            owner=match["owner"],
            group=match["group"],
        )
        nodes.append((node, index))
    return nodes


def mode_of(bits: str) -> str:
    """The octal mode of nine permission letters: "0660" for rw-rw----."""
    digits = [
        sum(value for letter, value in zip(bits[i : i + 3], (4, 2, 1), strict=True) if letter not in "-ST")
        for i in (0, 3, 6)
    ]
    return "0" + "".join(str(digit) for digit in digits)


def collect_nodes(source: Source, found: Collected) -> None:
    """Sets device_nodes and nodes_denied. An empty list: /dev was seen and has none."""
    listing = source.list("/dev")
    nodes: list[DeviceNode] = []
    if listing.status is Status.OK:
        names = [
            name
            for name in listing.names
            if re.match(r"nvidia(?:\d+|ctl|-uvm(?:-tools)?|-modeset|-nvlink|-nvswitch\S*)$", name)
        ]
        if "nvidia-caps" in listing.names:
            names += [f"nvidia-caps/{name}" for name in source.list("/dev/nvidia-caps").names]
        stats = [source.stat(f"/dev/{name}") for name in names]
        nodes = [_node(stat) for stat in stats if stat.status is Status.OK]
        words = " ".join(node.path for node in nodes) or "no /dev/nvidia*"
        found.set("device_nodes", nodes, Evidence(source="ls -l /dev/nvidia*", text=words[:400]))
        wrong = wrong_majors(source, nodes)
        if wrong is not None:
            found.set("nodes_wrong", wrong, Evidence(source="/proc/devices", text="; ".join(wrong)[:400]))
        if is_machine(source):
            denied = [node.path for node in nodes if node.openable is False]
            found.set("nodes_denied", denied, next((n.evidence[""] for n in nodes if n.path in denied), None))
        return
    answer = source.run(*requests.LS_DEV_NVIDIA)
    if said(answer):
        _collect_ls(answer, found)


_OWNERS = (
    (Lazy(r"/dev/nvidia(?:\d+|ctl)"), ("nvidia", "nvidia-frontend", "nvidiactl")),
    (Lazy(r"/dev/nvidia-uvm(?:-tools)?"), ("nvidia-uvm",)),
    (Lazy(r"/dev/nvidia-caps/.*"), ("nvidia-caps",)),
)


def wrong_majors(source: Source, nodes: list[DeviceNode]) -> list[str] | None:
    """Nodes with another major number than /proc/devices gives their driver; `None` where that cannot be compared."""
    answer = source.read("/proc/devices")
    if answer.status is not Status.OK or not nodes:
        return None
    majors = {name: int(number) for number, name in re.findall(r"(?m)^\s*(\d+) (nvidia\S*)$", answer.text)}
    wrong = []
    for node in nodes:
        owners = next((names for pattern, names in _OWNERS if pattern.fullmatch(node.path)), ())
        right = next((majors[name] for name in owners if name in majors), None)
        if right is not None and node.major is not None and node.major != right:
            wrong.append(f"{node.path} {node.major}, not {right}")
    return wrong if majors else None


def _collect_ls(answer: CommandAnswer, found: Collected) -> None:
    pairs = parse_ls_nodes(answer.text)
    nodes = [msgspec.structs.replace(node, evidence={"": quote(answer, index)}) for node, index in pairs]
    if nodes:
        found.set("device_nodes", nodes, nodes[0].evidence[""])
    elif re.search(r"No such file or directory|cannot access|no matches found", answer.text):
        found.set("device_nodes", [], quote(answer))


def _node(stat: StatAnswer) -> DeviceNode:
    denied = ", this user may not open it" if stat.openable is False else ""
    words = f"{stat.path} mode {stat.mode} uid {stat.uid} gid {stat.gid} device {stat.major},{stat.minor}{denied}"
    return DeviceNode(
        path=stat.path,
        major=stat.major,
        minor=stat.minor,
        mode=stat.mode,
        owner="root" if stat.uid == 0 else str(stat.uid) if stat.uid is not None else None,
        group="root" if stat.gid == 0 else str(stat.gid) if stat.gid is not None else None,
        openable=stat.openable,
        evidence={"": Evidence(source=f"ls -l {stat.path}", text=words)},
    )


def collect_services(source: Source, found: Collected) -> None:
    """Sets how the persistence daemon, the fabric manager and IMEX fare."""
    persistenced = service(source, "nvidia-persistenced")
    found.set("persistenced_running", persistenced.running, persistenced.evidence)
    fabric = service(source, "nvidia-fabricmanager")
    found.set("fabric_manager_running", fabric.running, fabric.evidence)
    found.set("fabric_manager_installed", fabric.installed, fabric.evidence)
    found.set("fabric_manager_failed", fabric.failed, fabric.evidence)
    imex = service(source, "nvidia-imex")
    found.set("imex_running", imex.running, imex.evidence)


def collect_install_method(source: Source, found: Collected) -> None:
    """Sets install_method and runfile_log: the vendor's installer leaves an uninstaller and a log."""
    log = source.read("/var/log/nvidia-installer.log")
    if log.status is Status.OK:
        lines = log.text.splitlines()
        error = next((i for i, line in enumerate(lines) if "ERROR:" in line), None)
        found.set("runfile_log", log.text[-4000:], quote(log, error))
    for path in ("/usr/bin/nvidia-uninstall", "/usr/local/bin/nvidia-uninstall"):
        if exists(source, path):
            found.set("install_method", "runfile", Evidence(source=path, text=f"{path} exists"))
    if source.list(WSL_DIR).status is Status.OK:
        found.set("install_method", "wsl", Evidence(source=WSL_DIR, text=f"{WSL_DIR} exists"))
    if exists(source, "/run/nvidia/driver/usr/bin"):
        evidence = Evidence(source="/run/nvidia/driver", text="a driver container keeps its files here")
        found.set("install_method", "container", evidence)
    drivers = [
        p
        for p in found.get("packages") or []
        if p.driver_version and p.state not in ("config-files", "not-installed")
    ]
    if drivers:
        found.set("install_method", "package", drivers[0].evidence.get(""))
