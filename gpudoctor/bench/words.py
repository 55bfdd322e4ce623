"""Figures and tests in words for people."""

from __future__ import annotations

from gpudoctor.facts import BenchFigure

TESTS = {
    "memory": "device memory",
    "gemm": "matrix products",
    "pcie": "copies to and from the host",
    "p2p": "copies between GPUs",
    "nccl": "NCCL collectives",
    "memtest": "memory test",
    "burn": "burn",
    "devices": "CUDA",
}
_HOST = {"h2d": "host to GPU", "d2h": "GPU to host", "bidirectional": "both ways at once"}
_MEMORY = {"device_copy": "the driver's own copy"}
_PEER = {"unidirectional": "one way", "bidirectional": "both ways at once", "latency": "latency"}


def metric_words(figure: BenchFigure) -> str:
    """`host to GPU, pinned`."""
    name = figure.metric
    if figure.test == "pcie":
        way, _, rest = name.partition("_")
        return f"{_HOST.get(way, way)}, {rest.replace('_far', ', far socket').replace('_', ' ')}" if rest else name
    if figure.test == "p2p":
        return _PEER.get(name.removeprefix("p2p_"), name)
    if figure.test == "memory":
        return _MEMORY.get(name, name)
    return name
