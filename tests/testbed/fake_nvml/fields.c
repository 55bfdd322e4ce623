/* nvmlDeviceGetFieldValues: one number per field id, each with its own return code. */
#include "fake_nvml.h"

#include <stdio.h>
#include <time.h>

/* nvmlFieldValue_t */
typedef struct {
    unsigned field, scope;
    long long timestamp_us, latency_us;
    int type, code;
    union {
        double real;
        int signed_int;
        unsigned unsigned_int;
        unsigned long long wide;
    } value;
} FieldValue;

enum { UNSIGNED_INT = 1, UNSIGNED_WIDE = 3, SIGNED_INT = 5 }; /* nvmlValueType_t */

typedef struct {
    unsigned field;
    const char *key;
    const char *fallback;
    double scale;
    int type;
} Field;

/* Ids are NVML_FI_DEV_* of nvml.h. */
static const Field fields[] = {
    {1, "ecc_mode", "1", 1, UNSIGNED_INT},
    {2, "ecc_mode_pending", "1", 1, UNSIGNED_INT},
    {3, "ecc_corrected_volatile", "0", 1, UNSIGNED_WIDE},
    {4, "ecc_uncorrected_volatile", "0", 1, UNSIGNED_WIDE},
    {5, "ecc_corrected_aggregate", "0", 1, UNSIGNED_WIDE},
    {6, "ecc_uncorrected_aggregate", "0", 1, UNSIGNED_WIDE},
    {29, "retired_pages_single_bit", "na", 1, UNSIGNED_INT},
    {30, "retired_pages_double_bit", "na", 1, UNSIGNED_INT},
    {31, "retired_pages_pending", "na", 1, UNSIGNED_INT},
    {38, "nvlink_crc_flit_errors", "na", 1, UNSIGNED_WIDE},
    {45, "nvlink_crc_data_errors", "na", 1, UNSIGNED_WIDE},
    {52, "nvlink_replay_errors", "na", 1, UNSIGNED_WIDE},
    {59, "nvlink_recovery_errors", "na", 1, UNSIGNED_WIDE},
    {82, "memory_temperature_c", "40", 1, UNSIGNED_INT},
    {83, "energy_j", "1000", 1000, UNSIGNED_WIDE},
    {90, "nvlink_speed_mbps", "25000", 1, UNSIGNED_INT},
    {91, "nvlinks", "0", 1, UNSIGNED_INT},
    {94, "pcie_replay", "0", 1, UNSIGNED_WIDE},
    {95, "pcie_replay_rollover", "0", 1, UNSIGNED_WIDE},
    {142, "remapped_rows_correctable", "0", 1, UNSIGNED_INT},
    {143, "remapped_rows_uncorrectable", "0", 1, UNSIGNED_INT},
    {144, "remapped_rows_pending", "0", 1, UNSIGNED_INT},
    {145, "remapped_rows_failure", "0", 1, UNSIGNED_INT},
    {147, "nvswitch_links", "na", 1, UNSIGNED_INT},
    {161, "nvlink_replay_errors", "0", 1, UNSIGNED_WIDE}, /* 161 to 165: scope is the link */
    {162, "nvlink_recovery_errors", "0", 1, UNSIGNED_WIDE},
    {163, "nvlink_crc_flit_errors", "0", 1, UNSIGNED_WIDE},
    {164, "nvlink_speed_mbps", "25000", 1, UNSIGNED_INT},
    {185, "power_w", "72", 1000, UNSIGNED_INT},               /* average */
    {186, "power_w", "72", 1000, UNSIGNED_INT},               /* this moment */
    {187, "power_limit_min_w", "100", 1000, UNSIGNED_INT},
    {188, "power_limit_max_w", "400", 1000, UNSIGNED_INT},
    {189, "power_limit_default_w", "400", 1000, UNSIGNED_INT},
    {190, "power_limit_w", "400", 1000, UNSIGNED_INT},        /* in force */
    {192, "power_limit_w", "400", 1000, UNSIGNED_INT},        /* asked for */
    {193, "temperature_shutdown_tlimit_c", "na", 1, SIGNED_INT},
    {194, "temperature_slowdown_tlimit_c", "na", 1, SIGNED_INT},
    {195, "temperature_memory_max_tlimit_c", "na", 1, SIGNED_INT},
    {196, "temperature_gpu_max_tlimit_c", "na", 1, SIGNED_INT},
    {226, "reset_required", "0", 1, UNSIGNED_INT},
    {227, "drain_and_reset_recommended", "0", 1, UNSIGNED_INT},
    {230, "recovery_action", "na", 1, UNSIGNED_INT}, /* nvmlDeviceGpuRecoveryAction_t; na before driver 570 */
};

static void trace_field(unsigned field, unsigned scope, int code) {
    char name[48];
    snprintf(name, sizeof name, "  field %u scope %u", field, scope);
    trace(name, code);
}

/* Power fields have scopes: 0 the GPU, 1 the module with its CPU, 2 the memory. Only the first is played. */
static bool is_power_field(unsigned field) { return field >= 185 && field <= 192; }

/* Fields of one NVLink: scope is the link, and error counts are those of link 0 (see links.c). */
enum { LINK_REPLAY = 161, LINK_CRC = 163, LINK_SPEED = 164, LINK_STATE = 165 };

/* nvidia-smi 470 asks for the speed of each link by an id of its own: links 0 to 5, links 6 to 11. */
static bool is_link_speed(unsigned field) { return (field >= 84 && field <= 89) || (field >= 132 && field <= 137); }

static int check_link_field(const Gpu *gpu, FieldValue *out) {
    unsigned active = 0;
    int code = nvlink_state(gpu, out->scope, &active);
    out->type = UNSIGNED_INT;
    out->value.wide = active;
    return code;
}

static void answer(const Gpu *gpu, FieldValue *out) {
    double number = 0;
    bool of_link = out->field >= LINK_REPLAY && out->field <= LINK_STATE;
    out->code = NOT_SUPPORTED;
    if (is_power_field(out->field) && out->scope != 0) return;
    if (of_link && check_link_field(gpu, out) != SUCCESS) return;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const Field *field = &fields[i];
        if (field->field != (is_link_speed(out->field) ? LINK_SPEED : out->field)) continue;
        out->code = fact_number(gpu, field->key, field->fallback, &number);
        out->type = field->type;
        if (of_link && out->field <= LINK_CRC && out->scope > 0) number = 0;
        if (field->type == SIGNED_INT) out->value.signed_int = (int)number;
        else out->value.wide = (unsigned long long)(number * field->scale + 0.5);
    }
    if (out->field == LINK_STATE) out->code = SUCCESS;
    trace_field(out->field, out->scope, out->code);
}

int nvmlDeviceGetFieldValues(Gpu *gpu, int count, FieldValue *values) {
    BEGIN(gpu);
    if (values == NULL || count <= 0) return INVALID_ARGUMENT;
    for (int i = 0; i < count; i++) {
        values[i].timestamp_us = (long long)time(NULL) * 1000000;
        values[i].latency_us = 10;
        answer(gpu, &values[i]);
    }
    return SUCCESS;
}
