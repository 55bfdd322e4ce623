"""Pasted Python sessions: what `torch.cuda.is_available()`, `tf.config.list_physical_devices('GPU')` and the like answered."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from gpudoctor.facts import Framework
from gpudoctor.lazy import Lazy
from gpudoctor.probes.collect import quote
from gpudoctor.sources.answers import CommandAnswer

_VERSION = r"(?<![\w.])\d+\.\d+[\w.]*(?:\+\w+)?"
_TRUTH = r"\b(?:True|False)\b"
_NUMBER = r"(?<![\w.])\d+(?![\w.])"
_LIST = r"\[[^\]]*\]"

# What is asked (name of its group), and what its answer looks like.
_ANSWERS = {
    "torch_version": _VERSION,
    "torch_cuda": rf"{_VERSION}|\bNone\b",
    "torch_available": _TRUTH,
    "torch_count": _NUMBER,
    "tf_version": _VERSION,
    "tf_built": _TRUTH,
    "tf_count": _NUMBER,
    "tf_devices": _LIST,
    "tf_available": _TRUTH,
    "jax_version": _VERSION,
    "jax_devices": _LIST,
    "ort_version": _VERSION,
    "ort_providers": _LIST,
    "llama_version": _VERSION,
    "llama_built": _TRUTH,
}
_GPUS = r"config\.(?:experimental\.)?list_physical_devices\(\s*['\"]GPU['\"]\s*\)"
_ASKED = Lazy(
    rf"(?P<torch_version>\btorch\.__version__)|(?P<torch_cuda>\btorch\.version\.cuda\b)"
    r"|(?P<torch_available>\btorch\.cuda\.is_available\(\))|(?P<torch_count>\btorch\.cuda\.device_count\(\))"
    rf"|(?P<tf_version>\b(?:tf|tensorflow)\.__version__)|(?P<tf_built>\b(?:tf|tensorflow)\.test\.is_built_with_cuda\(\))"
    rf"|(?P<tf_count>\blen\(\s*(?:tf|tensorflow)\.{_GPUS}\s*\))|(?P<tf_devices>\b(?:tf|tensorflow)\.{_GPUS})"
    r"|(?P<tf_available>\b(?:tf|tensorflow)\.test\.is_gpu_available\(\))"
    r"|(?P<jax_version>\bjax\.__version__)|(?P<jax_devices>\bjax\.(?:local_)?devices\(\))"
    r"|(?P<ort_version>\b(?:onnxruntime|ort|rt)\.__version__)|(?P<ort_providers>\.get_(?:available_)?providers\(\))"
    r"|(?P<llama_version>\bllama_cpp\.__version__)|(?P<llama_built>\bllama_supports_gpu_offload\(\))"
)
_PROMPT = Lazy(r"^(?:>>>|\.\.\.) ?")
_LONGEST = 20_000  # characters of one statement or of what it printed


def parse_python_session(answer: CommandAnswer) -> list[Framework]:
    """`>>> code` lines, each with what it printed: one framework each, with the fields that were asked for."""
    found: dict[str, Framework] = {}
    for index, code, printed in _statements(answer.stdout):
        for asked, told in _pairs(code, printed):
            name, fields = _fields(asked, told)
            before = found.get(name, Framework(name=name))
            evidence = {**before.evidence, **dict.fromkeys(fields, quote(answer, index))}
            found[name] = msgspec.structs.replace(before, **fields, evidence=evidence)
    return [framework for framework in found.values() if framework != Framework(name=framework.name)]


def _statements(text: str) -> Iterator[tuple[int, str, str]]:
    """The index of the statement's line, the code, and what it printed."""
    start, code, printed = 0, "", ""
    for index, line in enumerate(text.splitlines()):
        prompt = _PROMPT.match(line)
        if prompt is None:
            printed += line[:_LONGEST] + "\n" if len(printed) < _LONGEST else ""
        elif line.startswith("..."):
            code += "\n" + line[prompt.end() :][:_LONGEST]
        else:
            yield start, code, printed
            start, code, printed = index, line[prompt.end() :][:_LONGEST], ""
    yield start, code, printed


def _pairs(code: str, printed: str) -> Iterator[tuple[str, str]]:
    """Each question with its answer: the next text behind the last answer that looks like one."""
    if "Traceback (most recent call last)" in printed:
        return
    at = 0
    for question in _ASKED.finditer(code):
        asked = question.lastgroup or ""
        told = re.compile(_ANSWERS[asked]).search(printed, at)
        if told is None:
            return
        yield asked, told.group()
        at = told.end()


def _fields(asked: str, told: str) -> tuple[str, dict[str, object]]:
    """The framework's name and its field with the value that was told."""
    short, _, what = asked.partition("_")
    name = {"tf": "tensorflow", "ort": "onnxruntime", "llama": "llama-cpp-python"}.get(short, short)
    if what == "version":
        return name, {"version": told}
    if what == "cuda":
        return name, {"cuda_build": "" if told == "None" else told}
    if what == "built":
        return name, {"cuda_build": ""} if told == "False" else {}
    if what == "available":
        return name, {"cuda_available": told == "True"}
    if what == "count":
        return name, {"cuda_available": told != "0"}
    gpu = re.search(r"GPU|Cuda|CUDA|gpu\(|\bgpu\b", told) is not None
    return name, {"cuda_available": gpu}
