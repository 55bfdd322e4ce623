"""Deep-learning frameworks: what build is installed, for which CUDA and GPUs. Read from files, torch's collect_env, pip list.

A framework is never imported: on a broken machine that can take minutes or crash.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from gpudoctor.facts import Document, Driver, Facts, Framework, Gpu
from gpudoctor.lazy import Lazy
from gpudoctor.probes.ask import first_command, is_machine, said
from gpudoctor.probes.collect import quote, quote_document
from gpudoctor.probes.framework_session import parse_python_session
from gpudoctor.sources.answers import CommandAnswer, Source, Status
from gpudoctor.sources.requests import COLLECT_ENV, PIP_LIST, TORCH_CHECK

NAME = "frameworks"

_NAMES = {
    "torch": "torch",
    "pytorch": "torch",
    "tensorflow": "tensorflow",
    "tensorflow-gpu": "tensorflow",
    "tensorflow-cpu": "tensorflow",
    "jax": "jax",
    "jaxlib": "jaxlib",
    "cupy": "cupy",
    "vllm": "vllm",
    "flash-attn": "flash-attn",
    "flash_attn": "flash-attn",
    "deepspeed": "deepspeed",
    "transformers": "transformers",
    "bitsandbytes": "bitsandbytes",
    "xformers": "xformers",
    "triton": "triton",
    "onnxruntime": "onnxruntime",
    "onnxruntime-gpu": "onnxruntime-gpu",
    "paddlepaddle-gpu": "paddlepaddle",
    "mxnet": "mxnet",
}
_WITH_CUDA = Lazy(
    r"^(cupy-cuda|jax-cuda|onnxruntime-|nvidia-(?:cudnn|nccl|cublas|cuda-runtime|cuda-nvrtc)-cu)(\d+)\w*",
    needs=("-cuda", "onnxruntime-", "-cu"),
)
_COLLECT_ENV_FIELDS = {
    "PyTorch version": "version",
    "CUDA used to build PyTorch": "cuda_build",
    "Is CUDA available": "cuda_available",
    "Is debug build": "debug_build",
    "cuDNN version": "cudnn_version",
}
_PACKAGE_LINE = Lazy(r"^(?:\[(?:pip3?|conda)\]\s+)?([A-Za-z][\w.\-]*)(?:\s+|==)v?(\d[\w.+!\-]*)")
_DRIVER = Lazy(r"^\s*Nvidia driver version: (\d[\d.]+)")
_GPU = Lazy(r"^\s*(?:GPU models and configuration: )?GPU (\d+): (\S.*?)\s*$")
_LLAMA = ("llama", "ggml", "--list-devices", "load_backend", "Device list output")
_LLAMA_DEVICE = Lazy(r"^\s+\w+: \S.*\(\d+ MiB")
_DIST_INFO = Lazy(r"^([\w.]+)-(\d[\w.+!]*)\.(?:dist-info|egg-info)$")


def probe(source: Source) -> Facts | None:
    """The frameworks of this Python environment, or of a pasted collect_env (which also names driver and GPUs) or pip list."""
    found: list[Framework] = []
    driver, gpus = None, None
    answer = None if source.kind == "live" else first_command(source, COLLECT_ENV)
    if answer is not None and said(answer):
        found += parse_collect_env(answer)
        driver, gpus = parse_driver(answer), parse_gpus(answer) or None
    session = None if source.kind == "live" else first_command(source, TORCH_CHECK)
    if session is not None and said(session):
        found = _completed(found, [_with_cuda_of_version(f) for f in parse_python_session(session)])
    packages = None if source.kind == "live" else first_command(source, PIP_LIST)
    if packages is not None and said(packages):
        found = _completed(found, parse_pip_list(packages))
    if is_machine(source):
        found = _completed(found, installed(source))
    else:
        found = _completed(found, [f for d in source.documents() for f in parse_llama_devices(d)])
    return Facts(frameworks=found or None, driver=driver, gpus=gpus) if found or driver or gpus else None


def parse_llama_devices(document: Document) -> list[Framework]:
    """`llama-cli --list-devices`: "Available devices:" and below it one line a GPU, "  CUDA0: NAME (24576 MiB, ...)", or none."""
    if "Available devices:" not in document.text:
        return []
    lines = document.text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip() == "Available devices:"), None)
    if start is None or not any(word in document.text for word in _LLAMA):
        return []
    seen = any(_LLAMA_DEVICE.match(line) for line in lines[start + 1 : start + 17])
    evidence = dict.fromkeys(("", "cuda_available"), quote_document(document, start))
    return [Framework(name="llama.cpp", cuda_available=seen, evidence=evidence)]


def _completed(first: list[Framework], more: list[Framework]) -> list[Framework]:
    """The first, with what only the second know: other frameworks, and fields that the first left open."""
    later = {f.name: f for f in reversed(more)}
    known = [_filled(f, later[f.name]) if f.name in later else f for f in first]
    have = {f.name for f in first}
    return known + [f for f in more if f.name not in have]


def _filled(first: Framework, later: Framework) -> Framework:
    gaps = [name for name in Framework.__struct_fields__ if getattr(first, name) is None]
    fields = {name: getattr(later, name) for name in gaps if getattr(later, name) is not None}
    return msgspec.structs.replace(first, **fields, evidence={**later.evidence, **first.evidence})


def _with_cuda_of_version(framework: Framework) -> Framework:
    build = framework.cuda_build
    if build is None and framework.version is not None:
        build = _cuda_of(framework.name, framework.version)
    return msgspec.structs.replace(framework, cuda_build=build)


def parse_collect_env(answer: CommandAnswer) -> list[Framework]:
    """torch.utils.collect_env: `PyTorch version: 2.3.0+cu121`, `Is CUDA available: False`, and its list of packages."""
    fields: dict[str, object] = {}
    evidence = {}
    packages: list[Framework] = []
    for index, line in enumerate(answer.stdout.splitlines()):
        key, _, value = line.strip().partition(":")
        name = _COLLECT_ENV_FIELDS.get(key)
        if name is not None and name not in fields:
            fields[name] = _collect_env_value(name, value.strip())
            evidence[name] = quote(answer, index)
        elif line.strip().startswith("[") and (package := _package(answer, index, line)) is not None:
            packages.append(package)
    if "version" not in fields:
        return packages
    torch = msgspec.convert({"name": "torch"} | {k: v for k, v in fields.items() if v is not None}, Framework)
    return _completed([msgspec.structs.replace(torch, evidence=evidence)], packages)


def parse_driver(answer: CommandAnswer) -> Driver | None:
    """`Nvidia driver version: 535.104.05`"""
    for index, line in enumerate(answer.stdout.splitlines()):
        if match := _DRIVER.match(line):
            return Driver(version=match.group(1), evidence={"version": quote(answer, index)})
    return None


def parse_gpus(answer: CommandAnswer) -> list[Gpu]:
    """`GPU 0: NVIDIA GeForce RTX 3090`, the first perhaps behind `GPU models and configuration: `."""
    return [
        Gpu(index=int(match.group(1)), name=match.group(2), evidence={"": quote(answer, index)})
        for index, line in enumerate(answer.stdout.splitlines())
        if (match := _GPU.match(line))
    ]


def _collect_env_value(name: str, value: str) -> object:
    if name in ("cuda_available", "debug_build"):
        return {"true": True, "false": False}.get(value.lower())
    if name == "cuda_build":
        return "" if value in ("None", "N/A", "Could not collect") else value
    if value in ("No CUDA", "N/A", "Could not collect", "None") or value.endswith(":"):
        return None
    return value


def parse_pip_list(answer: CommandAnswer) -> list[Framework]:
    """`pip list` and `pip freeze` / `conda list` lines: frameworks and the CUDA libraries they bring."""
    found: list[Framework] = []
    for index, line in enumerate(answer.stdout.splitlines()):
        package = _package(answer, index, line)
        if package is not None and package.name not in {f.name for f in found}:
            found.append(package)
    return found


def _package(answer: CommandAnswer, index: int, line: str) -> Framework | None:
    match = _PACKAGE_LINE.match(line.strip())
    if match is None:
        return None
    framework = _framework(match.group(1), match.group(2))
    return framework and msgspec.structs.replace(framework, evidence={"": quote(answer, index)})


def _framework(package: str, version: str) -> Framework | None:
    package = package.lower().replace("_", "-")
    with_cuda = _WITH_CUDA.match(package)
    if with_cuda:
        name = with_cuda.group(1).removeprefix("nvidia-").removesuffix("-cu").removesuffix("-cuda").rstrip("-")
        return Framework(name=name, version=version, cuda_build=with_cuda.group(2))
    name = _NAMES.get(package, "")
    if not name:
        return None
    return Framework(name=name, version=version, cuda_build=_cuda_of(package, version))


def _cuda_of(package: str, version: str) -> str | None:
    """The local version tells: 2.3.0+cu121 is CUDA 12.1, +cpu is a CPU-only build. PyPI's own wheels carry none."""
    local = version.partition("+")[2]
    if local.startswith("cu") and local[2:].isdecimal():
        return f"{local[2:-1]}.{local[-1]}"
    if local.startswith("cpu") or package.endswith("-cpu"):
        return ""
    return None


def installed(source: Source) -> list[Framework]:
    """Frameworks of the Python environments in use, by their dist-info folders and torch/version.py."""
    found: list[Framework] = []
    for folder in _site_packages(source):
        listed = source.list(folder)
        for name in listed.names if listed.status is Status.OK else []:
            match = _DIST_INFO.match(name)
            framework = _framework(match.group(1), match.group(2)) if match else None
            if framework is not None and framework.name not in {f.name for f in found}:
                found.append(_with_build(source, folder, framework))
    return found


def _site_packages(source: Source) -> Iterator[str]:
    for prefix in (source.env("VIRTUAL_ENV"), source.env("CONDA_PREFIX"), "/opt/conda", "/usr/local", "/usr"):
        if not prefix:
            continue
        for name in source.list(f"{prefix}/lib").names:
            if name.startswith("python3"):
                yield f"{prefix}/lib/{name}/site-packages"
                if prefix in ("/usr", "/usr/local"):
                    yield f"{prefix}/lib/{name}/dist-packages"


def _with_build(source: Source, folder: str, framework: Framework) -> Framework:
    if framework.name != "torch":
        return framework
    answer = source.read(f"{folder}/torch/version.py")
    if answer.status is not Status.OK:
        return framework
    for index, line in enumerate(answer.text.splitlines()):
        match = re.match(r"cuda(?::.*)?\s*=\s*(?:'([\d.]+)'|None)", line)
        if match:
            evidence = {"cuda_build": quote(answer, index)}
            return msgspec.structs.replace(framework, cuda_build=match.group(1) or "", evidence=evidence)
    return framework
