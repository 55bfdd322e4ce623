"""Recordings of nodes that ran active tests: what workers, NVML and the kernel log said, as `collect --level 2` writes it.

`Node(H100, 8)` is healthy. Change `figures`, `after`, `answers`, `log_after` ... and `write` it; then `check --from` reads it.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from tests.cli.made_up_machine import NOW, nvml_lines

Argv = tuple[str, ...]
GIB = 1 << 30
BUSES = (0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)
LOG = "[    0.000000] Linux version 6.8.0-49-generic (buildd@lcy02) (gcc 13.2.0) #49-Ubuntu SMP\n"

H100: dict[str, Any] = {
    "values": {
        "name": "NVIDIA H100 80GB HBM3", "device_id": "10de:2330", "architecture": "hopper", "compute_capability": "9.0",
        "memory_total_mib": 81559, "pcie_generation": 1, "pcie_generation_max": 5, "pcie_generation_device_max": 5,
        "power_limit_w": 700.0, "power_limit_default_w": 700.0, "sm_clock_max_mhz": 1980, "links": 18,
        "fabric_state": "completed", "fabric_status_code": 0, "temperature_margin_c": 50,
    },
    "memory": {"read": 3050.0, "write": 2960.0, "copy": 3010.0, "scale": 3008.0, "triad": 3021.0, "device_copy": 2890.0},
    "gemm": {"fp32": 51.0, "tf32": 390.0, "fp16": 705.0, "bf16": 720.0, "fp8": 1290.0},
    "pcie": {"h2d_pinned": 55.2, "d2h_pinned": 55.0, "bidirectional_pinned": 98.0, "h2d_pageable": 12.1, "d2h_pageable": 11.0},
    "p2p": {"path": "nvlink", "one_way": 392.0, "both": 770.0, "latency": 1.9},
    "nccl": {"all_reduce": 478.0, "all_gather": 358.0, "reduce_scatter": 360.0, "broadcast": 355.0, "sendrecv": 380.0},
    "nccl_size": 8 * GIB,
}  # fmt: skip
A100_PCIE: dict[str, Any] = {
    "values": {
        "name": "NVIDIA A100 80GB PCIe", "device_id": "10de:20b5", "architecture": "ampere", "compute_capability": "8.0",
        "memory_total_mib": 81920, "pcie_generation": 4, "pcie_generation_max": 4, "pcie_generation_device_max": 4,
        "power_limit_w": 300.0, "power_limit_default_w": 300.0, "sm_clock_max_mhz": 1410, "links": 0,
    },
    "memory": {"read": 1760.0, "write": 1700.0, "copy": 1720.0, "scale": 1718.0, "triad": 1731.0, "device_copy": 1690.0},
    "gemm": {"fp32": 18.1, "tf32": 128.0, "fp16": 240.0, "bf16": 238.0},
    "pcie": {"h2d_pinned": 24.9, "d2h_pinned": 26.1, "bidirectional_pinned": 44.0, "h2d_pageable": 8.8, "d2h_pageable": 7.9},
    "p2p": {"path": "pcie", "one_way": 21.5, "both": 38.0, "latency": 8.0},
    "nccl": {"all_reduce": 15.2, "all_gather": 14.8, "reduce_scatter": 15.0, "broadcast": 14.1, "sendrecv": 18.0},
    "nccl_size": GIB,
}  # fmt: skip
RTX_4090: dict[str, Any] = {
    "values": {
        "name": "NVIDIA GeForce RTX 4090", "device_id": "10de:2684", "architecture": "ada", "compute_capability": "8.9",
        "memory_total_mib": 24564, "pcie_generation": 1, "pcie_generation_max": 4, "pcie_generation_device_max": 4,
        "power_limit_w": 450.0, "power_limit_default_w": 450.0, "sm_clock_max_mhz": 3105, "links": 0, "ecc_mode": None, "ecc_mode_pending": None,
    },
    "memory": {"read": 945.0, "write": 930.0, "copy": 921.0, "scale": 920.0, "triad": 927.0, "device_copy": 915.0},
    "gemm": {"fp32": 75.0, "tf32": 81.0, "fp16": 158.0, "bf16": 160.0, "fp8": 300.0},
    "pcie": {"h2d_pinned": 25.1, "d2h_pinned": 26.2, "bidirectional_pinned": 46.0, "h2d_pageable": 10.2, "d2h_pageable": 9.9},
    "p2p": {"path": "host", "one_way": 12.1, "both": 18.0, "latency": 15.0},
    "nccl": {"all_reduce": 8.4, "all_gather": 8.1, "reduce_scatter": 8.2, "broadcast": 8.0, "sendrecv": 9.0},
    "nccl_size": GIB,
}  # fmt: skip
UNKNOWN: dict[str, Any] = copy.deepcopy(H100)
UNKNOWN["values"] |= {"name": "NVIDIA X9000", "device_id": "10de:3fff", "architecture": "hopper"}
_IDLE: dict[str, Any] = {
    "serial": "1324322008814", "memory_used_mib": 4, "bar1_total_mib": 131072, "temperature_c": 34, "power_w": 70.0,
    "utilization_gpu_pct": 0, "utilization_memory_pct": 0, "sm_clock_mhz": 345, "memory_clock_mhz": 2619,
    "memory_clock_max_mhz": 2619, "performance_state": "P0", "throttle_mask": 1, "persistence_mode": 1,
    "compute_mode": "default", "mig_mode": 0, "mig_mode_pending": 0, "ecc_mode": 1, "ecc_mode_pending": 1,
    "ecc_corrected_volatile": 0, "ecc_uncorrected_volatile": 0, "ecc_corrected_aggregate": 0, "ecc_uncorrected_aggregate": 0,
    "remapped_rows_correctable": 0, "remapped_rows_uncorrectable": 0, "remapped_rows_pending": 0, "remapped_rows_failure": 0,
    "pcie_width": 16, "pcie_width_max": 16, "pcie_replay_count": 0, "display_active": 0, "processes": [],
}  # fmt: skip
_TESTS = ("memory", "gemm", "pcie", "p2p", "nccl")


def lines(*items: dict[str, Any]) -> str:
    """JSON lines of a worker."""
    return "".join(json.dumps(item) + "\n" for item in items)


class Node:
    """A node and everything that its tests said."""

    def __init__(self, model: dict[str, Any], count: int, *, tests: tuple[str, ...] = _TESTS) -> None:
        self.model = copy.deepcopy(model)
        self.count = count
        self.tests = tuple(test for test in tests if count > 1 or test not in ("p2p", "nccl"))
        self.values = [self._values(index) for index in range(count)]
        self.devices = [self._device(index) for index in range(count)]
        # (test, GPU) -> metric -> value; p2p: (test, from, to); nccl: (test,)
        self.figures: dict[tuple[Any, ...], dict[str, float]] = {}
        for index in range(count):
            for test in ("memory", "gemm", "pcie"):
                self.figures[test, index] = dict(self.model[test])
            for other in range(count):
                if other != index:
                    self.figures["p2p", index, other] = {"p2p_unidirectional": self.model["p2p"]["one_way"]}
        self.figures["nccl",] = dict(self.model["nccl"])
        self.paths: dict[tuple[int, int], str] = {}
        self.extra: dict[tuple[Any, ...], list[dict[str, Any]]] = {}  # (test, GPU) -> further lines before the end
        self.answers: dict[Argv, dict[str, Any]] = {}  # replaces what is made here: status, stdout, ...
        self.after: dict[str, dict[int, dict[str, Any]]] = {}  # test -> GPU -> NVML values that changed
        self.samples: dict[str, dict[int, dict[str, Any]]] = {}  # test -> GPU -> what was seen under load
        self.log = LOG
        self.log_after: dict[str, str] = {}  # test -> lines added while it ran
        self.environment: dict[str, str] = {}

    def _values(self, index: int) -> dict[str, Any]:
        own = dict(self.model["values"])
        links = own.pop("links", 0)
        active = [
            {
                "link": n,
                "active": True,
                "speed_gbps": 26.562,
                "crc_errors": 0,
                "replay_errors": 0,
                "recovery_errors": 0,
            }
            for n in range(links)
        ]
        return {
            **_IDLE,
            **own,
            "bdf": bdf(index),
            "uuid": uuid(index),
            "minor": index,
            **({"nvlinks": active} if links else {}),
        }

    def _device(self, index: int) -> dict[str, Any]:
        values = self.model["values"]
        return {
            "ordinal": index,
            "name": values["name"],
            "bdf": bdf(index),
            "uuid": uuid(index),
            "compute_capability": values["compute_capability"],
            "multiprocessors": 132,
            "memory_total_bytes": values["memory_total_mib"] << 20,
        }

    def request(self, test: str, *ordinals: int) -> Argv:
        """The worker's request on these devices."""
        alone = ("--alone",) if test == "nccl" else ()
        return ("worker", f"bench_{test}", "--quick", *alone, *(p for o in ordinals for p in ("--device", str(o))))

    def output(self, test: str, *ordinals: int) -> str:
        """What the worker says there."""
        start = {"event": "start", "test": test, "devices": [self.devices[o] for o in ordinals], "cupy": "14.2.0"}
        said: list[dict[str, Any]] = [start]
        if test == "p2p":
            for one in ordinals:
                for other in ordinals:
                    if one != other:
                        path = self.paths.get((one, other), self.model["p2p"]["path"])
                        said += [
                            _figure(metric, value, one, 64 << 20, peer=other, path=path)
                            for metric, value in self.figures["p2p", one, other].items()
                        ]
        elif test == "nccl":
            size = self.model["nccl_size"]
            for metric, value in self.figures["nccl",].items():
                said += [_figure(metric, value * 0.3, None, 1 << 20), _figure(metric, value, None, size)]
        else:
            unit = "TFLOPS" if test == "gemm" else "GB/s"
            said += [_figure(m, v, ordinals[0], GIB, unit=unit) for m, v in self.figures[test, ordinals[0]].items()]
        said += self.extra.get((test, *ordinals) if len(ordinals) == 1 else (test,), [])
        return lines(*said, {"event": "end", "complete": True, "seconds": 4.2})

    def commands(self) -> dict[Argv, dict[str, Any]]:
        """Every command's answer by its request."""
        devices = lines(
            {"event": "start", "test": "devices", "devices": self.devices, "cupy": "14.2.0"},
            {"event": "end", "complete": True, "seconds": 1.1},
        )
        found: dict[Argv, dict[str, Any]] = {
            ("worker", "nvml_dump"): {"stdout": nvml_lines("580.95.05", [{"values": v} for v in self.values])},
            ("dmesg",): {"stdout": self.log},
            ("worker", "bench_devices"): {"stdout": devices},
        }
        everyone = [device["ordinal"] for device in self.devices]
        values, log = copy.deepcopy(self.values), self.log
        for number, test in enumerate(self.tests, 1):
            label = f"{number} {test}"
            sets = [everyone] if test in ("p2p", "nccl") else [[ordinal] for ordinal in everyone]
            for ordinals in sets:
                found[self.request(test, *ordinals)] = {"stdout": self.output(test, *ordinals)}
            for index, changed in self.after.get(test, {}).items():
                values[index] |= changed
            log += self.log_after.get(test, "")
            dump = nvml_lines("580.95.05", [{"values": v} for v in values])
            found["worker", "nvml_dump", f"#after {label}"] = {"stdout": dump}
            found["dmesg", f"#after {label}"] = {"stdout": log}
            found["worker", "nvml_sample", f"#during {label}"] = {"stdout": self._samples(test)}
        return {**found, **self.answers}

    def _samples(self, test: str) -> str:
        busy = {
            "sm_clock_mhz": 1755,
            "utilization_gpu_pct": 100,
            "temperature_c": 55,
            "power_w": 480.0,
            "throttle_mask": 0,
        }
        busy |= {"pcie_generation": self.model["values"]["pcie_generation_max"], "pcie_width": 16}
        return lines(
            *(
                {"kind": "sample", "index": i, "bdf": "0000" + bdf(i).upper(), "at": at / 2,
                 "values": {**busy, **self.samples.get(test, {}).get(i, {})}}
                for at in range(8)
                for i in range(self.count)
            )
        )  # fmt: skip

    def write(self, folder: Path) -> Path:
        """The recording as a directory."""
        requests: list[dict[str, Any]] = []
        for number, (argv, answer) in enumerate(self.commands().items()):
            entry: dict[str, Any] = {"command": list(argv), "status": "ok", "exit_code": 0, "seconds": 4.4}
            entry |= {name: value for name, value in answer.items() if name not in ("stdout", "stderr")}
            for stream in ("stdout", "stderr"):
                if answer.get(stream):
                    place = folder / "commands" / str(number) / stream
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(answer[stream], encoding="utf-8")
                    entry[stream] = str(place.relative_to(folder))
            requests.append(entry)
        manifest = {
            "schema": 1,
            "tool": "gpudoctor",
            "now": NOW,
            "environment": self.environment,
            "requests": requests,
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder


def _figure(
    metric: str,
    value: float,
    device: int | None,
    size: int,
    *,
    unit: str = "GB/s",
    peer: int | None = None,
    path: str | None = None,
) -> dict[str, Any]:
    item: dict[str, Any] = {"event": "figure", "metric": metric, "value": value, "unit": unit, "size_bytes": size}
    for name, known in (("device", device), ("peer", peer), ("path", path)):
        if known is not None:
            item[name] = known
    return item


def bdf(index: int) -> str:
    return f"0000:{BUSES[index]:02x}:00.0"


def uuid(index: int) -> str:
    return f"GPU-{index:08x}-0b6e-4c3a-9a55-6d1e2f30a7b1"
