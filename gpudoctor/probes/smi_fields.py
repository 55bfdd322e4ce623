"""Where each fact about a GPU stands in `nvidia-smi -q` and its XML, over all drivers: one row a fact, newest name first.

Paths are labels or tags from the GPU's block downwards, lower case; a shorter path matches any deeper place.
"""

from __future__ import annotations

import msgspec

from gpudoctor.probes import smi_values as values


class Field(msgspec.Struct, frozen=True):
    name: str
    convert: values.Convert
    paths: tuple[str, ...]


FIELDS: tuple[Field, ...] = (
    Field("name", values.text, ("product_name", "product name")),
    Field("uuid", values.text, ("uuid", "gpu uuid")),
    Field("bdf", values.bdf, ("pci/pci_bus_id", "pci/bus id", "bus id")),
    Field("serial", values.identifier, ("serial", "serial number")),
    Field("device_id", values.device_id, ("pci/pci_device_id", "pci/device id")),
    Field("minor", values.number, ("minor_number", "minor number")),
    Field("vbios", values.identifier, ("vbios_version", "vbios version")),
    Field("inforom_image", values.identifier, ("inforom_version/img_version", "inforom version/image version")),
    Field("board_part_number", values.text, ("board_part_number", "board part number")),
    Field("architecture", values.architecture, ("product_architecture", "product architecture")),
    Field(
        "memory_total_mib",
        values.mebibytes,
        ("fb_memory_usage/total", "memory_usage/total", "fb memory usage/total", "memory usage/total"),
    ),
    Field(
        "memory_used_mib",
        values.mebibytes,
        ("fb_memory_usage/used", "memory_usage/used", "fb memory usage/used", "memory usage/used"),
    ),
    Field("memory_reserved_mib", values.mebibytes, ("fb_memory_usage/reserved", "fb memory usage/reserved")),
    Field("bar1_total_mib", values.mebibytes, ("bar1_memory_usage/total", "bar1 memory usage/total")),
    Field("temperature_c", values.number, ("temperature/gpu_temp", "gpu current temp", "temperature/gpu")),
    Field("temperature_memory_c", values.number, ("temperature/memory_temp", "memory current temp")),
    Field("temperature_slowdown_c", values.number, ("temperature/gpu_temp_slow_threshold", "gpu slowdown temp")),
    Field("temperature_shutdown_c", values.number, ("temperature/gpu_temp_max_threshold", "gpu shutdown temp")),
    Field(
        "temperature_max_operating_c",
        values.number,
        ("temperature/gpu_temp_max_gpu_threshold", "gpu max operating temp"),
    ),
    Field(
        "temperature_margin_c",
        values.number,
        ("temperature/gpu_temp_tlimit", "gpu current t.limit temp", "gpu t.limit temp"),
    ),
    Field("fan_pct", values.number, ("fan_speed", "fan speed")),
    Field(
        "power_w",
        values.watts,
        (
            "gpu_power_readings/average_power_draw",
            "gpu_power_readings/power_draw",
            "power_readings/power_draw",
            "gpu_power_readings/instant_power_draw",
            "gpu power readings/average power draw",
            "gpu power readings/power draw",
            "power readings/power draw",
            "gpu power readings/instantaneous power draw",
        ),
    ),
    Field(
        "power_limit_w",
        values.watts,
        (
            "gpu_power_readings/current_power_limit",
            "power_readings/enforced_power_limit",
            "power_readings/power_limit",
            "gpu power readings/current power limit",
            "power readings/enforced power limit",
            "power readings/power limit",
        ),
    ),
    Field(
        "power_limit_default_w",
        values.watts,
        (
            "gpu_power_readings/default_power_limit",
            "power_readings/default_power_limit",
            "gpu power readings/default power limit",
            "power readings/default power limit",
        ),
    ),
    Field(
        "power_limit_min_w",
        values.watts,
        (
            "gpu_power_readings/min_power_limit",
            "power_readings/min_power_limit",
            "gpu power readings/min power limit",
            "power readings/min power limit",
        ),
    ),
    Field(
        "power_limit_max_w",
        values.watts,
        (
            "gpu_power_readings/max_power_limit",
            "power_readings/max_power_limit",
            "gpu power readings/max power limit",
            "power readings/max power limit",
        ),
    ),
    Field("utilization_gpu_pct", values.number, ("utilization/gpu_util", "utilization/gpu")),
    Field("utilization_memory_pct", values.number, ("utilization/memory_util", "utilization/memory")),
    Field("sm_clock_mhz", values.number, ("clocks/sm_clock", "clocks/sm")),
    Field("sm_clock_max_mhz", values.number, ("max_clocks/sm_clock", "max clocks/sm")),
    Field("memory_clock_mhz", values.number, ("clocks/mem_clock", "clocks/memory")),
    Field("memory_clock_max_mhz", values.number, ("max_clocks/mem_clock", "max clocks/memory")),
    Field("performance_state", values.performance_state, ("performance_state", "performance state")),
    Field("persistence_mode", values.flag, ("persistence_mode", "persistence mode")),
    Field("compute_mode", values.compute_mode, ("compute_mode", "compute mode")),
    Field("mig_mode", values.flag, ("mig_mode/current_mig", "mig mode/current")),
    Field("mig_mode_pending", values.flag, ("mig_mode/pending_mig", "mig mode/pending")),
    Field("ecc_mode", values.flag, ("ecc_mode/current_ecc", "ecc mode/current")),
    Field("ecc_mode_pending", values.flag, ("ecc_mode/pending_ecc", "ecc mode/pending")),
    Field(
        "ecc_sram_threshold_exceeded", values.flag, ("aggregate/sram_threshold_exceeded", "sram threshold exceeded")
    ),
    Field(
        "retired_pages_single_bit",
        values.number,
        ("multiple_single_bit_retirement/retired_count", "retired pages/single bit ecc"),
    ),
    Field(
        "retired_pages_double_bit",
        values.number,
        ("double_bit_retirement/retired_count", "retired pages/double bit ecc"),
    ),
    Field(
        "retired_pages_pending",
        values.flag,
        (
            "retired_pages/pending_blacklist",
            "retired_pages/pending_retirement",
            "retired pages/pending page blacklist",
            "retired pages/pending",
        ),
    ),
    Field(
        "remapped_rows_correctable",
        values.number,
        ("remapped_rows/remapped_row_corr", "remapped rows/correctable error"),
    ),
    Field(
        "remapped_rows_uncorrectable",
        values.number,
        ("remapped_rows/remapped_row_unc", "remapped rows/uncorrectable error"),
    ),
    Field("remapped_rows_pending", values.flag, ("remapped_rows/remapped_row_pending", "remapped rows/pending")),
    Field("remapped_rows_failure", values.flag, ("remapped_rows/remapped_row_failure", "remapping failure occurred")),
    Field("memory_unrepairable", values.flag, ("ecc_errors/unrepairable_memory", "unrepairable memory")),
    Field("channel_repair_pending", values.flag, ("ecc_errors/channel_repair_pending", "channel repair pending")),
    Field("tpc_repair_pending", values.flag, ("ecc_errors/tpc_repair_pending", "tpc repair pending")),
    Field("remap_banks_max", values.number, ("row_remapper_histogram_max", "bank remap availability histogram/max")),
    Field(
        "remap_banks_high", values.number, ("row_remapper_histogram_high", "bank remap availability histogram/high")
    ),
    Field(
        "remap_banks_partial",
        values.number,
        ("row_remapper_histogram_partial", "bank remap availability histogram/partial"),
    ),
    Field("remap_banks_low", values.number, ("row_remapper_histogram_low", "bank remap availability histogram/low")),
    Field(
        "remap_banks_none", values.number, ("row_remapper_histogram_none", "bank remap availability histogram/none")
    ),
    Field("pcie_generation", values.number, ("pcie_gen/current_link_gen", "pcie generation/current")),
    Field("pcie_generation_max", values.number, ("pcie_gen/max_link_gen", "pcie generation/max")),
    Field(
        "pcie_generation_device_max", values.number, ("pcie_gen/max_device_link_gen", "pcie generation/device max")
    ),
    Field("pcie_width", values.number, ("link_widths/current_link_width", "link width/current")),
    Field("pcie_width_max", values.number, ("link_widths/max_link_width", "link width/max")),
    Field("pcie_replay_count", values.number, ("pci/replay_counter", "replays since reset")),
    Field("recovery_action", values.recovery_action, ("gpu_recovery_action", "gpu recovery action")),
    Field("reset_required", values.flag, ("gpu_reset_status/reset_required", "gpu reset status/reset required")),
    Field(
        "drain_and_reset_recommended",
        values.flag,
        ("gpu_reset_status/drain_and_reset_recommended", "gpu reset status/drain and reset recommended"),
    ),
    Field("fabric_state", values.snake, ("fabric/state",)),
    Field("fabric_status", values.nvml_status, ("fabric/status",)),
    Field("fabric_health", values.snake, ("fabric/health/summary",)),
    Field("fabric_cluster_uuid", values.identifier, ("fabric/clusteruuid", "fabric/cluster_uuid")),
    Field("fabric_clique", values.number, ("fabric/cliqueid", "fabric/clique_id")),
    Field("display_active", values.flag, ("display_active", "display active")),
    Field(
        "virtualization_mode",
        values.virtualization,
        ("gpu_virtualization_mode/virtualization_mode", "gpu virtualization mode/virtualization mode"),
    ),
    Field("addressing_mode", values.none_or_snake, ("addressing_mode", "addressing mode")),
    Field("gsp_firmware_version", values.text, ("gsp_firmware_version", "gsp firmware version")),
)
