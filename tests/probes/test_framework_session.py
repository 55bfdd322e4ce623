"""Pasted Python sessions: what the frameworks answered becomes facts."""

from __future__ import annotations

import pytest

from gpudoctor.facts import Framework
from gpudoctor.probes.run import run_probes
from gpudoctor.sources import open_text
from tests.rules.reading import explain, read_text


def _told(text: str) -> list[tuple[str, str | None, str | None, bool | None]]:
    facts, _ = read_text(text)
    return [(f.name, f.version, f.cuda_build, f.cuda_available) for f in facts.frameworks or []]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (">>> import torch\n>>> torch.cuda.is_available()\nFalse\n", [("torch", None, None, False)]),
        ("In [3]: torch.cuda.is_available()\nOut[3]: True\n", [("torch", None, None, True)]),
        (
            '$ python -c "import torch; print(torch.__version__, torch.version.cuda, torch.cuda.is_available())"\n'
            "2.4.1+cpu None False\n",
            [("torch", "2.4.1+cpu", "", False)],
        ),
        (
            ">>> print('CUDA:', torch.cuda.is_available(), 'devices', torch.cuda.device_count())\n"
            "CUDA: True devices 4\n",
            [("torch", None, None, True)],
        ),
        (">>> torch.__version__\n'2.6.0+cu126'\n", [("torch", "2.6.0+cu126", "12.6", None)]),
        (
            'C:\\Users\\jo> python -c "import tensorflow as tf; '
            "print(tf.__version__, tf.config.list_physical_devices('GPU'))\"\n2.15.0 []\n",
            [("tensorflow", "2.15.0", None, False)],
        ),
        (
            ">>> tf.config.list_physical_devices('GPU')\n"
            "[PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')]\n",
            [("tensorflow", None, None, True)],
        ),
        (">>> jax.devices()\n[CpuDevice(id=0)]\n", [("jax", None, None, False)]),
        (">>> jax.devices()\n[CudaDevice(id=0), CudaDevice(id=1)]\n", [("jax", None, None, True)]),
        (
            ">>> import onnxruntime as ort\n>>> ort.get_available_providers()\n['CUDAExecutionProvider', 'CPUExecutionProvider']\n",
            [("onnxruntime", None, None, True)],
        ),
        (
            ">>> import llama_cpp\n>>> llama_cpp.__version__\n'0.3.9'\n>>> llama_cpp.llama_supports_gpu_offload()\nFalse\n",
            [("llama-cpp-python", "0.3.9", "", None)],
        ),
    ],
)
def test_answers_of_a_session(text: str, told: list[tuple[str, str | None, str | None, bool | None]]) -> None:
    assert _told(text) == told


@pytest.mark.parametrize(
    "text",
    [
        ">>> torch.cuda.is_available()\n",
        ">>> torch.cuda.is_available(",
        ">>> torch.cuda.is_available()\nTraceback (most recent call last):\nNameError: name 'torch' is not defined, False\n",
        ">>> print('torch')\ntorch\n",
        ">>> torch.version.cuda\n" + "\x1b[31m\udcff" * 1000,
        ">>> import torch\n" + "... x\n" * 5000,
    ],
)
def test_unfinished_and_damaged_sessions_tell_nothing(text: str) -> None:
    assert _told(text) == []


def test_a_package_list_completes_what_the_session_left_open() -> None:
    text = (
        ">>> torch.cuda.is_available()\nFalse\n$ pip list\nPackage  Version\n-------- --------\ntorch    2.4.1+cpu\n"
    )
    assert ("torch", "2.4.1+cpu", "", False) in _told(text)


def test_two_lines_of_python_are_enough_for_an_answer() -> None:
    found = [f.rule for f in explain(">>> torch.cuda.is_available()\nFalse\n").findings]
    assert found[:1] == ["cuda/no-device"]


def test_a_frame_keeps_where_it_was_read() -> None:
    facts, _ = read_text("some words\n>>> torch.cuda.is_available()\nFalse\n")
    torch: Framework = (facts.frameworks or [])[0]
    assert torch.evidence["cuda_available"].line == 2


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("$ llama-cli --list-devices\nAvailable devices:\n", False),
        ("load_backend: loaded CPU backend from libggml-cpu.so\nAvailable devices:\n$ ls\nsize (3 MiB)\n", False),
        (
            "ggml_cuda_init: found 1 CUDA devices:\nAvailable devices:\n  CUDA0: NVIDIA L4 (22478 MiB, 22000 MiB free)\n",
            True,
        ),
        ("pactl\nAvailable devices:\n", None),
        ("", None),
    ],
)
def test_devices_of_llama_cpp(text: str, seen: bool | None) -> None:
    facts, _ = run_probes(open_text(text))
    found = [f.cuda_available for f in facts.frameworks or [] if f.name == "llama.cpp"]
    assert found == ([] if seen is None else [seen])
