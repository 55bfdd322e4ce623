/* Start, stop, versions, and how a device's facts are read from the scenario. */
#define _GNU_SOURCE
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

static const char *VARIABLE = "FAKE_NVML";
static Gpu gpus[MAX_GPUS];
static int users; /* nvmlInit calls not yet undone */

void trace(const char *function, int code) { scenario_trace(VARIABLE, function, code); }

bool is_initialized(void) { return users > 0; }

bool is_gpu(const void *pointer) {
    return ((const Gpu *)pointer >= gpus && (const Gpu *)pointer < gpus + MAX_GPUS) || is_mig(pointer);
}

unsigned gpu_count(void) {
    double count = scenario_number(VARIABLE, "count", 1);
    return count > MAX_GPUS ? MAX_GPUS : (unsigned)count;
}

Gpu *gpu_at(unsigned index) {
    gpus[index] = (Gpu){(int)index, NOT_MIG};
    return &gpus[index];
}

/* --- facts --- */

const char *fact_text(const Gpu *gpu, const char *key, const char *fallback) {
    char name[128];
    const char *text = gpu->mig == NOT_MIG ? NULL : mig_fact(gpu, key);
    if (text) return text;
    snprintf(name, sizeof name, "gpu%d.%s", gpu->index, key);
    text = scenario_text(VARIABLE, name);
    if (text) return text;
    snprintf(name, sizeof name, "gpu.%s", key);
    text = scenario_text(VARIABLE, name);
    return text ? text : fallback;
}

int fact_number(const Gpu *gpu, const char *key, const char *fallback, double *out) {
    const char *text = fact_text(gpu, key, fallback);
    if (strcmp(text, "na") == 0) return NOT_SUPPORTED;
    *out = strtod(text + (*text == 'P'), NULL); /* "P8" is performance state 8 */
    return SUCCESS;
}

int device_behaviour(const Gpu *gpu, const char *function) {
    char prefix[32];
    int code = scenario_behaviour(VARIABLE, "gpu.", function);
    snprintf(prefix, sizeof prefix, "gpu%d.", gpu->index);
    int own = scenario_behaviour(VARIABLE, prefix, function);
    return own ? own : code;
}

int enter_system(const char *function) {
    int code = scenario_behaviour(VARIABLE, "", function);
    if (code == SUCCESS && !is_initialized()) code = UNINITIALIZED;
    trace(function, code);
    return code;
}

int enter_cached(const Gpu *gpu, const char *function) {
    int code = scenario_behaviour(VARIABLE, "", function);
    if (code == SUCCESS && !is_initialized()) code = UNINITIALIZED;
    if (code == SUCCESS && !is_gpu(gpu)) code = INVALID_ARGUMENT;
    if (code == SUCCESS) code = device_behaviour(gpu, function);
    trace(function, code);
    return code;
}

int enter(const Gpu *gpu, const char *function) {
    double lost = 0;
    int code = enter_cached(gpu, function);
    if (code == SUCCESS) fact_number(gpu, "lost", "0", &lost);
    return lost ? GPU_IS_LOST : code;
}

int get_u64(const Gpu *gpu, const char *function, const char *key, const char *fallback, double scale,
            unsigned long long *out) {
    double value = 0;
    int code = enter(gpu, function);
    if (code == SUCCESS && out == NULL) code = INVALID_ARGUMENT;
    if (code == SUCCESS) code = fact_number(gpu, key, fallback, &value);
    if (code == SUCCESS) *out = (unsigned long long)(value * scale + 0.5);
    return code;
}

int get_u32(const Gpu *gpu, const char *function, const char *key, const char *fallback, double scale, unsigned *out) {
    unsigned long long value = 0;
    int code = get_u64(gpu, function, key, fallback, scale, &value);
    if (code == SUCCESS && out == NULL) code = INVALID_ARGUMENT;
    if (code == SUCCESS) *out = (unsigned)value;
    return code;
}

int copy_text(const char *text, char *out, unsigned size) {
    if (strcmp(text, "na") == 0) return NOT_SUPPORTED;
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

int get_string(const Gpu *gpu, const char *function, const char *key, const char *fallback, char *out, unsigned size) {
    int code = enter(gpu, function);
    if (code != SUCCESS) return code;
    return copy_text(fact_text(gpu, key, fallback), out, size);
}

/* --- start and stop: init=CODE, wedge.init=1, crash.init=1, delay.init=MILLISECONDS --- */

int nvmlInit_v2(void) {
    scenario_behaviour(VARIABLE, "", "init");
    int code = (int)scenario_number(VARIABLE, "init", SUCCESS);
    if (code == SUCCESS) users++;
    trace(__func__, code);
    return code;
}
int nvmlInit(void) { return nvmlInit_v2(); }
int nvmlInitWithFlags(unsigned flags) { (void)flags; return nvmlInit_v2(); }

int nvmlShutdown(void) {
    BEGIN_SYSTEM();
    users--;
    return SUCCESS;
}

/* --- versions --- */

const char *driver_version(void) {
    const char *text = scenario_text(VARIABLE, "driver");
    return text ? text : "535.309.01";
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) { BEGIN_SYSTEM(); return copy_text(driver_version(), out, size); }
/* The library knows its own version without a driver: nvidia-smi prints it after a failed start. */
int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    const char *text = scenario_text(VARIABLE, "nvml");
    return copy_text(text ? text : "12.535.309.01", out, size);
}
int nvmlSystemGetCudaDriverVersion(int *out) { BEGIN_SYSTEM(); *out = (int)scenario_number(VARIABLE, "cuda", 12020); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return nvmlSystemGetCudaDriverVersion(out); }

/* Code texts in the words of the genuine library. */
static const char *const error_texts[] = {
    "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions", "Already Initialized",
    "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded", "Timeout",
    "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found", "Corrupted infoROM", "GPU is lost",
    "GPU requires reset", "GPU access blocked by the operating system", "Driver/library version mismatch",
    "In use by another client", "Insufficient Memory", "No data", "vGPU ECC not supported",
    "Insufficient Resources", "Invalid Frequency", "Argument version mismatch",
    "Requested functionality has been deprecated",
};
const char *nvmlErrorString(int code) {
    int known = sizeof error_texts / sizeof *error_texts;
    return code >= 0 && code < known ? error_texts[code] : "Unknown Error";
}
