/* MIG devices: mig_devices=PROFILE[:UUID],... of a GPU whose mig_mode is 1, as "1g.10gb,2g.20gb:MIG-...".
 * A MIG device has the facts of its GPU, but a name, UUID and memory of its own. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Gpu devices[MAX_GPUS][MAX_MIG];

bool is_mig(const void *pointer) { return (const Gpu *)pointer >= devices[0] && (const Gpu *)pointer < devices[0] + MAX_GPUS * MAX_MIG; }

/* Copies item ORDINAL of the GPU's list; false when there are fewer. */
static bool read_item(const Gpu *gpu, int ordinal, char *out, size_t size) {
    const char *item = fact_text(gpu, "mig_devices", "");
    for (int i = 0; *item; i++) {
        size_t length = strcspn(item, ",");
        if (i == ordinal) return snprintf(out, size, "%.*s", (int)length, item), true;
        item += length + (item[length] == ',');
    }
    return false;
}

const char *mig_fact(const Gpu *gpu, const char *key) {
    static char text[160];
    char item[96] = "";
    Gpu parent = {gpu->index, NOT_MIG};
    int slices = 0, gigabytes = 0;
    read_item(&parent, gpu->mig, item, sizeof item);
    char *uuid = strchr(item, ':');
    if (uuid) *uuid++ = '\0';
    sscanf(item, "%dg.%dgb", &slices, &gigabytes);
    if (strcmp(key, "name") == 0) snprintf(text, sizeof text, "%.60s MIG %.90s", fact_text(&parent, "name", "NVIDIA A100-SXM4-80GB"), item);
    else if (strcmp(key, "uuid") == 0 && uuid) snprintf(text, sizeof text, "%s", uuid);
    else if (strcmp(key, "uuid") == 0) snprintf(text, sizeof text, "MIG-fa4e0000-0000-5000-8000-%08x%04x", (unsigned)gpu->index, (unsigned)gpu->mig);
    else if (strcmp(key, "memory_total_mib") == 0) snprintf(text, sizeof text, "%d", gigabytes * 1024 - gigabytes * 51);
    else if (strcmp(key, "mig_slices") == 0) snprintf(text, sizeof text, "%d", slices);
    else return NULL;
    return text;
}

int nvmlDeviceGetMaxMigDeviceCount(Gpu *gpu, unsigned *out) {
    double enabled = 0;
    BEGIN(gpu);
    if (fact_number(gpu, "mig_mode", "0", &enabled) != SUCCESS) return NOT_SUPPORTED;
    *out = enabled ? 7 : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Gpu *gpu, unsigned index, Gpu **out) {
    char item[96];
    BEGIN(gpu);
    if (index >= MAX_MIG || !read_item(gpu, (int)index, item, sizeof item)) return NOT_FOUND;
    *out = &devices[gpu->index][index];
    **out = (Gpu){gpu->index, (int)index};
    return SUCCESS;
}

int nvmlDeviceIsMigDeviceHandle(Gpu *gpu, unsigned *out) { BEGIN(gpu); *out = is_mig(gpu); return SUCCESS; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Gpu *gpu, Gpu **out) { BEGIN(gpu); *out = gpu_at((unsigned)gpu->index); return SUCCESS; }
int nvmlDeviceGetGpuInstanceId(Gpu *gpu, unsigned *out) { BEGIN(gpu); *out = (unsigned)gpu->mig + 1; return is_mig(gpu) ? SUCCESS : NOT_SUPPORTED; }
int nvmlDeviceGetComputeInstanceId(Gpu *gpu, unsigned *out) { BEGIN(gpu); *out = 0; return is_mig(gpu) ? SUCCESS : NOT_SUPPORTED; }

/* nvmlDeviceAttributes_t */
typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} Attributes;
int nvmlDeviceGetAttributes_v2(Gpu *gpu, Attributes *out) {
    double slices = 0, memory_mib = 0;
    BEGIN(gpu);
    if (!is_mig(gpu)) return NOT_SUPPORTED;
    fact_number(gpu, "mig_slices", "1", &slices);
    fact_number(gpu, "memory_total_mib", "9728", &memory_mib);
    unsigned count = (unsigned)slices;
    *out = (Attributes){14 * count, 1, 0, 0, 0, 0, count, count, (unsigned long long)memory_mib};
    return SUCCESS;
}
int nvmlDeviceGetAttributes(Gpu *gpu, Attributes *out) { return nvmlDeviceGetAttributes_v2(gpu, out); }
