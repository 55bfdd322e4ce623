/* Memory errors and their repair (ECC, retired pages, remapped rows), reset advice, and the NVSwitch fabric. */
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>

/* --- ECC ---
 * ecc_{corrected,uncorrected}_{volatile,aggregate} are the totals. The DRAM share is the total less what
 * ecc_..._sram says lies in the caches. */

static const char *ecc_key(int uncorrected, int aggregate, const char *suffix) {
    static char key[64];
    snprintf(key, sizeof key, "ecc_%scorrected_%s%s", uncorrected ? "un" : "", aggregate ? "aggregate" : "volatile", suffix);
    return key;
}

/* Counters do not exist while ECC is off or not supported. */
static int ecc_count(const Gpu *gpu, int uncorrected, int aggregate, const char *suffix, double *out) {
    double enabled = 0;
    int code = fact_number(gpu, "ecc_mode", "1", &enabled);
    if (code != SUCCESS || !enabled) return NOT_SUPPORTED;
    return fact_number(gpu, ecc_key(uncorrected, aggregate, suffix), "0", out);
}

int nvmlDeviceGetTotalEccErrors(Gpu *gpu, int uncorrected, int aggregate, unsigned long long *out) {
    double total = 0;
    BEGIN(gpu);
    int code = ecc_count(gpu, uncorrected, aggregate, "", &total);
    if (code == SUCCESS) *out = (unsigned long long)total;
    return code;
}

enum { LOCATION_DRAM = 2, LOCATION_SRAM = 7 };
int nvmlDeviceGetMemoryErrorCounter(Gpu *gpu, int uncorrected, int aggregate, int location, unsigned long long *out) {
    double total = 0, sram = 0;
    BEGIN(gpu);
    int code = ecc_count(gpu, uncorrected, aggregate, "", &total);
    if (code == SUCCESS) code = ecc_count(gpu, uncorrected, aggregate, "_sram", &sram);
    if (code != SUCCESS) return code;
    if (location != LOCATION_DRAM && location != LOCATION_SRAM) return NOT_SUPPORTED;
    *out = (unsigned long long)(location == LOCATION_SRAM ? sram : total - sram);
    return SUCCESS;
}

typedef struct {
    unsigned long long l1, l2, device, registers;
} EccCounts;
int nvmlDeviceGetDetailedEccErrors(Gpu *gpu, int uncorrected, int aggregate, EccCounts *out) {
    double total = 0;
    BEGIN(gpu);
    int code = ecc_count(gpu, uncorrected, aggregate, "", &total);
    if (code == SUCCESS) *out = (EccCounts){0, 0, (unsigned long long)total, 0};
    return code;
}

/* nvmlEccSramErrorStatus_v1_t */
typedef struct {
    unsigned version;
    unsigned long long aggregate_parity, aggregate_secded, aggregate_corrected;
    unsigned long long volatile_parity, volatile_secded, volatile_corrected;
    unsigned long long bucket_l2, bucket_sm, bucket_pcie, bucket_microcontroller, bucket_other;
    unsigned threshold_exceeded;
} SramStatus;
int nvmlDeviceGetSramEccErrorStatus(Gpu *gpu, SramStatus *out) {
    double value[4] = {0}, exceeded = 0;
    BEGIN(gpu);
    if (out->version != STRUCT_VERSION(SramStatus, 1)) return VERSION_MISMATCH;
    for (int i = 0; i < 4; i++) {
        int code = ecc_count(gpu, i & 1, i >> 1, "_sram", &value[i]);
        if (code != SUCCESS) return code;
    }
    fact_number(gpu, "ecc_sram_threshold_exceeded", "0", &exceeded);
    *out = (SramStatus){.version = out->version};
    out->volatile_corrected = (unsigned long long)value[0];
    out->volatile_secded = (unsigned long long)value[1];
    out->aggregate_corrected = (unsigned long long)value[2];
    out->aggregate_secded = (unsigned long long)value[3];
    out->bucket_sm = (unsigned long long)value[3];
    out->threshold_exceeded = (unsigned)exceeded;
    return SUCCESS;
}

/* --- retired pages (before Ampere) and remapped rows (since) --- */

static const char *const retired_keys[] = {"retired_pages_single_bit", "retired_pages_double_bit"};
int nvmlDeviceGetRetiredPages(Gpu *gpu, unsigned cause, unsigned *count, unsigned long long *addresses) {
    double retired = 0;
    BEGIN(gpu);
    if (cause > 1) return INVALID_ARGUMENT;
    int code = fact_number(gpu, retired_keys[cause], "na", &retired);
    if (code != SUCCESS) return code;
    unsigned room = *count;
    *count = (unsigned)retired;
    if (addresses == NULL || room < *count) return *count ? INSUFFICIENT_SIZE : SUCCESS;
    for (unsigned i = 0; i < *count; i++) addresses[i] = 0x1000ULL * (i + 1);
    return SUCCESS;
}
int nvmlDeviceGetRetiredPages_v2(Gpu *gpu, unsigned cause, unsigned *count, unsigned long long *addresses, unsigned long long *times) {
    unsigned room = *count;
    int code = nvmlDeviceGetRetiredPages(gpu, cause, count, addresses);
    for (unsigned i = 0; code == SUCCESS && times && i < *count && i < room; i++) times[i] = 0;
    return code;
}
int nvmlDeviceGetRetiredPagesPendingStatus(Gpu *gpu, unsigned *out) {
    return get_u32(gpu, __func__, "retired_pages_pending", "na", 1, out);
}

int nvmlDeviceGetRemappedRows(Gpu *gpu, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failure) {
    int code = get_u32(gpu, __func__, "remapped_rows_correctable", "0", 1, corrected);
    if (code == SUCCESS) code = get_u32(gpu, __func__, "remapped_rows_uncorrectable", "0", 1, uncorrected);
    if (code == SUCCESS) code = get_u32(gpu, __func__, "remapped_rows_pending", "0", 1, pending);
    return code == SUCCESS ? get_u32(gpu, __func__, "remapped_rows_failure", "0", 1, failure) : code;
}

/* Banks by how many spare rows they have left. */
typedef struct {
    unsigned max, high, partial, low, none;
} RemapHistogram;
int nvmlDeviceGetRowRemapperHistogram(Gpu *gpu, RemapHistogram *out) {
    int code = get_u32(gpu, __func__, "remap_banks_max", "640", 1, &out->max);
    if (code == SUCCESS) code = get_u32(gpu, __func__, "remap_banks_high", "0", 1, &out->high);
    if (code == SUCCESS) code = get_u32(gpu, __func__, "remap_banks_partial", "0", 1, &out->partial);
    if (code == SUCCESS) code = get_u32(gpu, __func__, "remap_banks_low", "0", 1, &out->low);
    return code == SUCCESS ? get_u32(gpu, __func__, "remap_banks_none", "0", 1, &out->none) : code;
}

/* --- fabric (NVSwitch machines) --- */

typedef struct {
    unsigned char cluster[16];
    int status;
    unsigned clique, state;
} FabricInfo;
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique, state, health_mask;
    unsigned char health_summary; /* since version 3 */
} FabricInfoV;
enum { FABRIC_V2_SIZE = offsetof(FabricInfoV, health_summary) };

static int read_fabric(const Gpu *gpu, FabricInfoV *out) {
    double state = 0, status = 0, clique = 0, health_mask = 0, health_summary = 0;
    int code = fact_number(gpu, "fabric_state", "na", &state); /* 1 not started, 2 in progress, 3 completed */
    if (code != SUCCESS) return code;
    fact_number(gpu, "fabric_status", "0", &status);           /* an NVML code */
    fact_number(gpu, "fabric_clique", "0", &clique);
    fact_number(gpu, "fabric_health_mask", "0", &health_mask);
    fact_number(gpu, "fabric_health_summary", "0", &health_summary);
    memset(out->cluster, state == 3 ? 0xa5 : 0, sizeof out->cluster);
    out->status = (int)status;
    out->clique = (unsigned)clique;
    out->state = (unsigned)state;
    out->health_mask = (unsigned)health_mask;
    out->health_summary = (unsigned char)health_summary;
    return SUCCESS;
}

int nvmlDeviceGetGpuFabricInfo(Gpu *gpu, FabricInfo *out) {
    FabricInfoV info = {0};
    BEGIN(gpu);
    int code = read_fabric(gpu, &info);
    if (code != SUCCESS) return code;
    memcpy(out->cluster, info.cluster, sizeof out->cluster);
    out->status = info.status;
    out->clique = info.clique;
    out->state = info.state;
    return SUCCESS;
}
int nvmlDeviceGetGpuFabricInfoV(Gpu *gpu, FabricInfoV *out) {
    FabricInfoV info = {0};
    BEGIN(gpu);
    bool second = out->version == (FABRIC_V2_SIZE | 2u << 24);
    if (!second && out->version != STRUCT_VERSION(FabricInfoV, 3)) return VERSION_MISMATCH;
    int code = read_fabric(gpu, &info);
    info.version = out->version;
    if (code == SUCCESS) memcpy(out, &info, second ? (size_t)FABRIC_V2_SIZE : sizeof info);
    return code;
}
