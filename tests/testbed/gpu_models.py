"""Facts of known GPUs for scenarios: `scenario({"count": 8, "gpu": H100})`. The fake's default is an A100-SXM4-80GB."""

from __future__ import annotations

from .scenario_file import Scenario

H100: Scenario = {
    "name": "NVIDIA H100 80GB HBM3",
    "pci_device_id": "0x233010DE",
    "architecture": 9,
    "compute_capability": "9.0",
    "memory_total_mib": 81559,
    "power_limit_w": 700,
    "power_limit_default_w": 700,
    "power_limit_min_w": 200,
    "power_limit_max_w": 700,
    "sm_clock_max_mhz": 1980,
    "memory_clock_max_mhz": 2619,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "nvlinks": 18,
    "nvlink_remote": "switch",
    "nvlink_speed_mbps": 26562,
    "fabric_state": 3,
    "temperature_tlimit_c": 50,  # degrees left: Hopper reports margins in place of thresholds
    "temperature_shutdown_tlimit_c": -8,
    "temperature_slowdown_tlimit_c": -2,
    "temperature_gpu_max_tlimit_c": 0,
}
T4: Scenario = {
    "name": "Tesla T4",
    "pci_device_id": "0x1EB810DE",
    "architecture": 6,
    "compute_capability": "7.5",
    "memory_total_mib": 15360,
    "power_limit_w": 70,
    "power_limit_default_w": 70,
    "power_limit_min_w": 60,
    "power_limit_max_w": 70,
    "sm_clock_max_mhz": 1590,
    "pcie_generation": 3,
    "pcie_generation_max": 3,
    "mig_mode": None,
    "retired_pages_single_bit": 0,  # before Ampere pages are retired, not rows remapped
    "retired_pages_double_bit": 0,
    "retired_pages_pending": 0,
    "remapped_rows_correctable": None,
    "remap_banks_max": None,
}
RTX_4090: Scenario = {
    "name": "NVIDIA GeForce RTX 4090",
    "pci_device_id": "0x268410DE",
    "serial": None,
    "architecture": 8,
    "compute_capability": "8.9",
    "memory_total_mib": 24564,
    "power_limit_w": 450,
    "power_limit_default_w": 450,
    "power_limit_min_w": 150,
    "power_limit_max_w": 600,
    "sm_clock_max_mhz": 3105,
    "fan_pct": 30,
    "fan_count": 2,
    "persistence_mode": False,
    "ecc_mode": False,
    "mig_mode": None,
    "remapped_rows_correctable": None,
    "remap_banks_max": None,
}
