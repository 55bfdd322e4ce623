"""CUDA's user-space side: toolkits on disk, nvcc, the compat package, variables, and CUDA libraries that the loader finds."""

from __future__ import annotations

from gpudoctor.facts import Cuda, Evidence, Library
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import first_command, is_machine
from gpudoctor.probes.collect import Collected, find_line, quote
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.requests import LDCONFIG, NVCC_VERSION

NAME = "cuda"

_NVCC = Lazy(r"release (\d+\.\d+)")
_TOOLKIT = Lazy(r"^cuda-(\d+\.\d+)$")
_LIBRARY = Lazy(
    r"^\s*(lib(?:cudart|cudnn|nccl|cublas|cublasLt|cufft|nvrtc|cuda)(?:\.so)?[\w.]*?)\.so\.?([\d.]*)\s*\(.*=> (\S+)"
)
_COMPAT = Lazy(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)?)$")
_COMPAT_FOLDERS = ("/usr/local/cuda/compat", "/usr/local/cuda/compat/lib", "/usr/local/cuda/compat/lib.real")


def probe(source: Source) -> Cuda | None:
    """What is known of CUDA apart from the driver; None when nothing is."""
    found = Collected()
    variables = source.environment()
    if variables is not None:
        found.set("env", variables)
        found.set(
            "visible_devices", variables.get("CUDA_VISIBLE_DEVICES"), _variable(variables, "CUDA_VISIBLE_DEVICES")
        )
    if is_machine(source):
        _add_toolkits(source, found)
        _add_compat(source, found)
    if source.kind != "live":  # running nvcc and ldconfig costs more than they tell
        _add_nvcc(first_command(source, NVCC_VERSION), found)
        _add_libraries(first_command(source, LDCONFIG), found)
    return found.build(Cuda)


def _variable(variables: dict[str, str], name: str) -> Evidence | None:
    return Evidence("env", f"{name}={variables[name]}") if name in variables else None


def _add_toolkits(source: Source, found: Collected) -> None:
    listed = source.list("/usr/local")
    if listed.status is Status.OK:
        versions = sorted(match.group(1) for name in listed.names if (match := _TOOLKIT.match(name)))
        found.set("toolkits", versions, Evidence("/usr/local", ", ".join(f"cuda-{v}" for v in versions)))


def _add_compat(source: Source, found: Collected) -> None:
    for folder in _COMPAT_FOLDERS:
        for name in source.list(folder).names:
            if match := _COMPAT.match(name):
                found.set("compat_package", match.group(1), Evidence(folder, name))
                return


def _add_nvcc(answer: CommandAnswer | None, found: Collected) -> None:
    match = _NVCC.search(answer.stdout) if answer else None
    if answer and match:
        found.set("nvcc_version", match.group(1), quote(answer, find_line(answer.stdout, match.group(0))))


def _add_libraries(answer: CommandAnswer | None, found: Collected) -> None:
    if answer is None:
        return
    libraries = [
        Library(name=m.group(1), version=m.group(2) or None, path=m.group(3), evidence={"": quote(answer, i)})
        for i, line in enumerate(answer.stdout.splitlines())
        if (m := _LIBRARY.match(line))
    ]
    found.set("libraries", libraries or None)
