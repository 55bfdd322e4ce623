"""CDI specifications: which devices they offer, and whether the files they name are still there."""

from __future__ import annotations

import re

import msgspec

from gpudoctor.facts import Evidence
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import is_machine, said
from gpudoctor.probes.collect import Collected, quote
from gpudoctor.sources import requests
from gpudoctor.sources.answers import Source, Status

DIRECTORIES = ("/etc/cdi", "/var/run/cdi")
_FILES_LIMIT = 400  # paths looked up per specification


class Specification(msgspec.Struct, frozen=True):
    """`devices` as nvidia.com/gpu=0; `paths` are host files and device nodes that it injects, `majors` those nodes' numbers where it names them."""

    kind: str | None
    devices: list[str]
    paths: list[str]
    majors: dict[str, int] = {}


_KIND = Lazy(r'(?m)^[ \t]*(?:- )?"?kind"?[ \t]*:[ \t]*"?([\w.-]+/[\w.-]+)"?')
_NAME = Lazy(r'(?m)^[ \t]*(?:-[ \t]+)?(?:\{[ \t]*)?"?name"?[ \t]*:[ \t]*"?([\w.:-]+)"?')
_HOST_PATH = Lazy(r'"?hostPath"?\s*:\s*"?(/[^"\s,}]+)"?')
_DEVICE = Lazy(r"[\w.-]+/[\w.-]+=[\w.:-]+")
_ITEM = Lazy(r"(?m)^(?=[ \t]*-[ \t])")
_MAJOR = Lazy(r"(?m)^[ \t]*(?:-[ \t]+)?major[ \t]*:[ \t]*(\d{1,5})[ \t]*$")
_NODE = Lazy(r'"?path"?\s*:\s*"?(/dev/[^"\s,}]+)"?')


def parse_specification(text: str) -> Specification:
    """Reads a CDI specification. JSON is decoded; YAML is read by its lines: enough for names and paths, and safe on anything."""
    if text.lstrip().startswith("{"):
        return _parse_json(text)
    kind = _KIND.search(text)
    names = _device_names(text)
    prefix = f"{kind[1]}=" if kind else ""
    # A node's hostPath, where given, is the file on the host; else its path is.
    paths = dict.fromkeys(_HOST_PATH.findall(text))
    if "hostPath" not in text or not any(path.startswith("/dev/") for path in paths):
        paths |= dict.fromkeys(_NODE.findall(text))
    return Specification(
        kind[1] if kind else None, [prefix + name for name in names], list(paths), _node_majors(text)
    )


def _node_majors(text: str) -> dict[str, int]:
    """Of each list item that has both: the file on the host and the major number."""
    majors = {}
    for item in _ITEM.split(text):
        path, major = _HOST_PATH.search(item) or _NODE.search(item), _MAJOR.search(item)
        if path and major and path[1].startswith("/dev/"):
            majors[path[1]] = int(major[1])
    return majors


def _parse_json(text: str) -> Specification:
    try:
        data = msgspec.json.decode(text.strip().encode())
    except msgspec.DecodeError:
        return Specification(None, [], [])
    kind = data.get("kind") if isinstance(data, dict) else None
    if not isinstance(kind, str):
        return Specification(None, [], [])
    devices = [device for device in data.get("devices") or [] if isinstance(device, dict)]
    paths: dict[str, None] = {}
    majors: dict[str, int] = {}
    for edits in (data.get("containerEdits"), *(device.get("containerEdits") for device in devices)):
        for name in ("mounts", "deviceNodes"):
            for item in (edits.get(name) or []) if isinstance(edits, dict) else []:
                path = (item.get("hostPath") or item.get("path")) if isinstance(item, dict) else None
                if isinstance(path, str) and path.startswith("/"):
                    paths[path] = None
                    major = item.get("major")
                    if isinstance(major, int):
                        majors[path] = major
    return Specification(kind, [f"{kind}={device.get('name')}" for device in devices], list(paths), majors)


def _device_names(text: str) -> list[str]:
    """Names in the list `devices:`, not those in `hooks` (hookName) or elsewhere."""
    start = re.search(r'(?m)^[ \t]{0,2}"?devices"?\s*:', text) or re.search(r'"devices"\s*:', text)
    if start is None:
        return []
    return list(dict.fromkeys(_NAME.findall(text[start.end() :])))


def collect_cdi(source: Source, found: Collected) -> None:
    """Sets cdi_specs, cdi_devices, cdi_spec_version_stale, cdi_stale_paths and cdi_wrong_numbers."""
    if not is_machine(source):
        _collect_pasted(source, found)
        return
    specs: list[str] = []
    devices: list[str] = []
    stale: list[str] = []
    wrong: list[str] = []
    proof: Evidence | None = None
    known = False
    for directory in DIRECTORIES:
        listing = source.list(directory)
        known = known or listing.status in (Status.OK, Status.NOT_FOUND)
        for name in listing.names:
            answer = source.read(f"{directory}/{name}") if name.endswith((".yaml", ".yml", ".json")) else None
            if answer is None or answer.status is not Status.OK:
                continue
            specification = parse_specification(answer.text)
            if specification.kind is None or "nvidia" not in specification.kind:
                continue
            specs.append(answer.path)
            devices += specification.devices
            missing = [
                path for path in specification.paths[:_FILES_LIMIT] if source.stat(path).status is Status.NOT_FOUND
            ]
            stale += missing
            wrong += _wrong_numbers(source, specification)
            if missing and proof is None:
                index = next((i for i, line in enumerate(answer.text.splitlines()) if missing[0] in line), None)
                proof = quote(answer, index)
    if not known:
        return
    found.set(
        "cdi_specs", specs, Evidence(source="/etc/cdi", text=" ".join(specs) or "no specification of NVIDIA devices")
    )
    found.set("cdi_devices", devices)
    if specs:
        found.set("cdi_stale_paths", stale, proof)
        found.set("cdi_spec_version_stale", bool(stale), proof)
        found.set("cdi_wrong_numbers", wrong, Evidence(source=specs[0], text="; ".join(wrong)[:400]))


def _wrong_numbers(source: Source, specification: Specification) -> list[str]:
    """Device nodes that the specification makes with another major number than the host's node has."""
    here = {path: source.stat(path).major for path in specification.majors if path.startswith("/dev/nvidia")}
    return [
        f"{path} {specification.majors[path]}, not {major}"
        for path, major in here.items()
        if major is not None and major != specification.majors[path]
    ]


def parse_cdi_list(text: str) -> list[str] | None:
    """Device names of `nvidia-ctk cdi list`; `None` when it says nothing of devices."""
    devices = [line.strip() for line in text.splitlines() if _DEVICE.fullmatch(line.strip())]
    if devices:
        return list(dict.fromkeys(devices))
    return [] if re.search(r"Found 0 CDI devices", text) else None


def _collect_pasted(source: Source, found: Collected) -> None:
    answer = source.run(*requests.NVIDIA_CTK_CDI_LIST)
    devices = parse_cdi_list(answer.text) if said(answer) else None
    if devices is not None:
        found.set("cdi_devices", devices, quote(answer, None))
    for directory in DIRECTORIES:
        for name in ("nvidia.yaml", "nvidia.json"):
            spec = source.read(f"{directory}/{name}")
            if spec.status is Status.OK and spec.text.strip():
                found.set("cdi_specs", [spec.path], quote(spec, 0))
                specification = parse_specification(spec.text)
                found.set("cdi_devices", specification.devices)
                if any(source.stat(path).major is not None for path in specification.majors):
                    wrong = _wrong_numbers(source, specification)
                    found.set("cdi_wrong_numbers", wrong, quote(spec, 0))
