"""Probes: raw evidence in, typed facts out. A probe is a module with NAME, `probe(source)`, and pure `parse_*` functions.

`probe(source)` returns its group's value (GROUP, by default NAME), or `Facts` where it knows fields of several groups, or
`None` when it learnt nothing. A probe may have `lacks(value)`, which says what keeps its facts from being an answer, or
`None`. It never raises for what a machine or a text does; if it does, only that probe is lost.
"""

from __future__ import annotations

from types import ModuleType

from gpudoctor.probes import (
    container,
    cuda,
    dcgm,
    driver,
    frameworks,
    host,
    kernel_log,
    kernel_state,
    kubernetes,
    nccl,
    network,
    nvidia_smi,
    nvml,
    pci,
    runtime,
    slurm,
    topology,
    training,
)

# In report order. Of two probes that know the same field, the earlier one holds.
PROBES: tuple[ModuleType, ...] = (
    host,
    pci,
    driver,
    nvml,
    nvidia_smi,
    kernel_log,
    kernel_state,
    topology,
    cuda,
    frameworks,
    nccl,
    network,
    dcgm,
    container,
    runtime,
    kubernetes,
    slurm,
    training,
)
