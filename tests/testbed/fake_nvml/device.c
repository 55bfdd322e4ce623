/* Getters of one device that are one fact each, as a table; and the few that fill a structure. */
#include "fake_nvml.h"

#include <string.h>

/* One line a function: name, scenario key, value when the scenario is silent, factor to NVML's unit.
 * The silent device is a healthy, idle A100-SXM4-80GB. */
#define TEXT(function, key, fallback) \
    int function(Gpu *gpu, char *out, unsigned size) { return get_string(gpu, __func__, key, fallback, out, size); }
#define U32(function, key, fallback, scale) \
    int function(Gpu *gpu, unsigned *out) { return get_u32(gpu, __func__, key, fallback, scale, out); }
#define U64(function, key, fallback, scale) \
    int function(Gpu *gpu, unsigned long long *out) { return get_u64(gpu, __func__, key, fallback, scale, out); }
/* Current and pending (or default) value of a mode. */
#define PAIR(function, key, fallback, second_key, second_fallback)                  \
    int function(Gpu *gpu, unsigned *current, unsigned *second) {                   \
        int code = get_u32(gpu, __func__, key, fallback, 1, current);               \
        if (code != SUCCESS) return code;                                           \
        return get_u32(gpu, __func__, second_key, fact_text(gpu, key, second_fallback), 1, second); \
    }

/* identity */
TEXT(nvmlDeviceGetName, "name", "NVIDIA A100-SXM4-80GB")
TEXT(nvmlDeviceGetSerial, "serial", "1562821083900")
TEXT(nvmlDeviceGetVbiosVersion, "vbios_version", "92.00.45.00.05")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom_image", "G506.0212.00.02")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part_number", "692-2G506-0212-003")
U32(nvmlDeviceGetMinorNumber, "minor_number", "0", 1)
U32(nvmlDeviceGetBrand, "brand", "14", 1) /* 14: NVIDIA */
U32(nvmlDeviceGetArchitecture, "architecture", "7", 1) /* 5 Volta, 6 Turing, 7 Ampere, 8 Ada, 9 Hopper, 10 Blackwell */
U32(nvmlDeviceGetModuleId, "module_id", "1", 1)
U32(nvmlDeviceGetMultiGpuBoard, "multi_gpu_board", "0", 1)
U32(nvmlDeviceGetBoardId, "board_id", "0x100", 1)
U32(nvmlDeviceGetNumGpuCores, "cuda_cores", "6912", 1)
U32(nvmlDeviceGetBusType, "bus_type", "2", 1) /* 2: PCIe */

/* modes */
U32(nvmlDeviceGetPersistenceMode, "persistence_mode", "1", 1)
U32(nvmlDeviceGetComputeMode, "compute_mode", "0", 1) /* 0 default, 2 prohibited, 3 exclusive process */
U32(nvmlDeviceGetDisplayMode, "display_mode", "0", 1)
U32(nvmlDeviceGetDisplayActive, "display_active", "0", 1)
U32(nvmlDeviceGetAccountingMode, "accounting_mode", "0", 1)
U32(nvmlDeviceGetAccountingBufferSize, "accounting_buffer", "4000", 1)
U32(nvmlDeviceGetVirtualizationMode, "virtualization_mode", "0", 1) /* 0 none, 1 passthrough, 2 vGPU, 3 host vGPU */
PAIR(nvmlDeviceGetMigMode, "mig_mode", "0", "mig_mode_pending", "0")
PAIR(nvmlDeviceGetEccMode, "ecc_mode", "1", "ecc_mode_pending", "1")
PAIR(nvmlDeviceGetGpuOperationMode, "operation_mode", "na", "operation_mode_pending", "na")
PAIR(nvmlDeviceGetAutoBoostedClocksEnabled, "auto_boost", "na", "auto_boost_default", "na")

/* temperature, fan, power */
U32(nvmlDeviceGetFanSpeed, "fan_pct", "na", 1)
U32(nvmlDeviceGetNumFans, "fan_count", "0", 1)
U32(nvmlDeviceGetPerformanceState, "performance_state", "P0", 1)
U32(nvmlDeviceGetPowerState, "performance_state", "P0", 1)
U32(nvmlDeviceGetPowerUsage, "power_w", "72", 1000)
U32(nvmlDeviceGetEnforcedPowerLimit, "power_limit_w", "400", 1000)
U32(nvmlDeviceGetPowerManagementLimit, "power_limit_w", "400", 1000)
U32(nvmlDeviceGetPowerManagementDefaultLimit, "power_limit_default_w", "400", 1000)
U32(nvmlDeviceGetPowerManagementMode, "power_management", "1", 1)
U64(nvmlDeviceGetTotalEnergyConsumption, "energy_j", "1000", 1000)

/* clock event ("throttle") reasons: a bit mask, 1 is idle */
U64(nvmlDeviceGetCurrentClocksThrottleReasons, "throttle_mask", "1", 1)
U64(nvmlDeviceGetCurrentClocksEventReasons, "throttle_mask", "1", 1)
U64(nvmlDeviceGetSupportedClocksThrottleReasons, "throttle_supported_mask", "0x1ff", 1)
U64(nvmlDeviceGetSupportedClocksEventReasons, "throttle_supported_mask", "0x1ff", 1)

/* PCIe link */
U32(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation", "4", 1)
U32(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max", "4", 1)
U32(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie_generation_gpu_max", "4", 1)
U32(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", "16", 1)
U32(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", "16", 1)
U32(nvmlDeviceGetPcieReplayCounter, "pcie_replay", "0", 1)
U32(nvmlDeviceGetPcieSpeed, "pcie_speed_mbps", "16000", 1)

int nvmlDeviceGetPcieThroughput(Gpu *gpu, int counter, unsigned *out) {
    return get_u32(gpu, __func__, counter ? "pcie_rx_kbps" : "pcie_tx_kbps", "0", 1, out);
}

int nvmlDeviceGetCudaComputeCapability(Gpu *gpu, int *major, int *minor) {
    double value = 0;
    BEGIN(gpu);
    int code = fact_number(gpu, "compute_capability", "8.0", &value);
    if (code != SUCCESS) return code;
    *major = (int)value;
    *minor = (int)((value - *major) * 10 + 0.5);
    return SUCCESS;
}

/* The only text without a size argument: the header promises a buffer of 64 bytes. Firmware comes with the driver. */
int nvmlDeviceGetGspFirmwareVersion(Gpu *gpu, char *out) { return get_string(gpu, __func__, "gsp_firmware_version", driver_version(), out, 64); }
int nvmlDeviceGetGspFirmwareMode(Gpu *gpu, unsigned *enabled, unsigned *by_default) {
    int code = get_u32(gpu, __func__, "gsp_firmware_mode", "1", 1, enabled);
    return code == SUCCESS ? get_u32(gpu, __func__, "gsp_firmware_default", "1", 1, by_default) : code;
}

/* --- temperature --- */

int nvmlDeviceGetTemperature(Gpu *gpu, int sensor, unsigned *out) {
    return sensor == 0 ? get_u32(gpu, __func__, "temperature_c", "34", 1, out) : INVALID_ARGUMENT;
}

typedef struct {
    unsigned version;
    unsigned sensor;
    int temperature;
} TemperatureV1;
int nvmlDeviceGetTemperatureV(Gpu *gpu, TemperatureV1 *out) {
    if (out->version != STRUCT_VERSION(TemperatureV1, 1)) return VERSION_MISMATCH;
    return get_u32(gpu, __func__, "temperature_c", "34", 1, (unsigned *)&out->temperature);
}

/* Index is nvmlTemperatureThresholds_t. */
static const char *const threshold_keys[] = {"temperature_shutdown_c", "temperature_slowdown_c", "temperature_memory_max_c",
                                             "temperature_gpu_max_c"};
static const char *const threshold_defaults[] = {"92", "89", "95", "85"};
int nvmlDeviceGetTemperatureThreshold(Gpu *gpu, unsigned kind, unsigned *out) {
    if (kind >= 4) return enter(gpu, __func__) == SUCCESS ? NOT_SUPPORTED : enter(gpu, __func__);
    return get_u32(gpu, __func__, threshold_keys[kind], threshold_defaults[kind], 1, out);
}

int nvmlDeviceGetFanSpeed_v2(Gpu *gpu, unsigned fan, unsigned *out) {
    (void)fan;
    return get_u32(gpu, __func__, "fan_pct", "na", 1, out);
}

/* --- power and clocks --- */

int nvmlDeviceGetPowerManagementLimitConstraints(Gpu *gpu, unsigned *min, unsigned *max) {
    int code = get_u32(gpu, __func__, "power_limit_min_w", "100", 1000, min);
    return code == SUCCESS ? get_u32(gpu, __func__, "power_limit_max_w", "400", 1000, max) : code;
}

/* Index is nvmlClockType_t: graphics, SM, memory, video. */
static const char *const clock_keys[] = {"graphics_clock_mhz", "sm_clock_mhz", "memory_clock_mhz", "video_clock_mhz"};
static const char *const clock_defaults[] = {"1410", "1410", "1593", "1275"};
static const char *const clock_max_keys[] = {"graphics_clock_max_mhz", "sm_clock_max_mhz", "memory_clock_max_mhz",
                                             "video_clock_max_mhz"};
static const char *const clock_max_defaults[] = {"1410", "1410", "1593", "1290"};

int nvmlDeviceGetClockInfo(Gpu *gpu, unsigned kind, unsigned *out) {
    if (kind >= 4) return INVALID_ARGUMENT;
    return get_u32(gpu, __func__, clock_keys[kind], clock_defaults[kind], 1, out);
}
int nvmlDeviceGetMaxClockInfo(Gpu *gpu, unsigned kind, unsigned *out) {
    if (kind >= 4) return INVALID_ARGUMENT;
    return get_u32(gpu, __func__, clock_max_keys[kind], clock_max_defaults[kind], 1, out);
}
int nvmlDeviceGetApplicationsClock(Gpu *gpu, unsigned kind, unsigned *out) {
    if (kind >= 4) return INVALID_ARGUMENT;
    return get_u32(gpu, __func__, kind == 2 ? "application_memory_clock_mhz" : "application_clock_mhz", kind == 2 ? "1593" : "1275", 1, out);
}
int nvmlDeviceGetDefaultApplicationsClock(Gpu *gpu, unsigned kind, unsigned *out) {
    if (kind >= 4) return INVALID_ARGUMENT;
    return get_u32(gpu, __func__, kind == 2 ? "application_memory_clock_default_mhz" : "application_clock_default_mhz",
                   kind == 2 ? "1593" : "1275", 1, out);
}
/* Clock of a kind at an id: current (0), application targets (1, 2), customer boost maximum (3). */
int nvmlDeviceGetClock(Gpu *gpu, unsigned kind, unsigned id, unsigned *out) {
    if (id == 0) return nvmlDeviceGetClockInfo(gpu, kind, out);
    if (id == 3) return nvmlDeviceGetMaxClockInfo(gpu, kind, out);
    return nvmlDeviceGetApplicationsClock(gpu, kind, out);
}
int nvmlDeviceGetMaxCustomerBoostClock(Gpu *gpu, unsigned kind, unsigned *out) { return nvmlDeviceGetMaxClockInfo(gpu, kind, out); }

/* --- utilisation: percent, with the sampling period in microseconds --- */

typedef struct {
    unsigned gpu, memory;
} Utilization;
int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *out) {
    int code = get_u32(gpu, __func__, "utilization_gpu_pct", "0", 1, &out->gpu);
    return code == SUCCESS ? get_u32(gpu, __func__, "utilization_memory_pct", "0", 1, &out->memory) : code;
}

static int engine_utilization(Gpu *gpu, const char *function, const char *key, unsigned *out, unsigned *period) {
    *period = 167000;
    return get_u32(gpu, function, key, "0", 1, out);
}
int nvmlDeviceGetEncoderUtilization(Gpu *gpu, unsigned *out, unsigned *period) { return engine_utilization(gpu, __func__, "utilization_encoder_pct", out, period); }
int nvmlDeviceGetDecoderUtilization(Gpu *gpu, unsigned *out, unsigned *period) { return engine_utilization(gpu, __func__, "utilization_decoder_pct", out, period); }
int nvmlDeviceGetJpgUtilization(Gpu *gpu, unsigned *out, unsigned *period) { return engine_utilization(gpu, __func__, "utilization_jpeg_pct", out, period); }
int nvmlDeviceGetOfaUtilization(Gpu *gpu, unsigned *out, unsigned *period) { return engine_utilization(gpu, __func__, "utilization_ofa_pct", out, period); }

/* --- memory --- */

typedef struct {
    unsigned long long total, free, used;
} Memory;
typedef struct {
    unsigned version;
    unsigned long long total, reserved, free, used;
} MemoryV2;

static const double MIB = 1048576;
static int read_memory(const Gpu *gpu, MemoryV2 *out) {
    double total = 0, reserved = 0, used = 0;
    int code = fact_number(gpu, "memory_total_mib", "81920", &total);
    if (code != SUCCESS) return code;
    fact_number(gpu, "memory_reserved_mib", "568", &reserved);
    fact_number(gpu, "memory_used_mib", "0", &used);
    out->total = (unsigned long long)(total * MIB);
    out->reserved = (unsigned long long)(reserved * MIB);
    out->used = (unsigned long long)(used * MIB);
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}

/* The first version counts what the driver reserves as used. */
int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *out) {
    MemoryV2 memory = {0};
    BEGIN(gpu);
    int code = read_memory(gpu, &memory);
    if (code == SUCCESS) *out = (Memory){memory.total, memory.free, memory.used + memory.reserved};
    return code;
}
int nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, MemoryV2 *out) {
    BEGIN(gpu);
    if (out->version != STRUCT_VERSION(MemoryV2, 2)) return VERSION_MISMATCH;
    return read_memory(gpu, out);
}

int nvmlDeviceGetBAR1MemoryInfo(Gpu *gpu, Memory *out) {
    double total = 0;
    BEGIN(gpu);
    int code = fact_number(gpu, "bar1_total_mib", "131072", &total);
    if (code == SUCCESS) *out = (Memory){(unsigned long long)(total * MIB), (unsigned long long)((total - 1) * MIB), (unsigned long long)MIB};
    return code;
}
