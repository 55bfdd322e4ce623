/* Device handles, and what identifies a device: index, UUID, PCI address. */
#define _GNU_SOURCE
#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>


int nvmlDeviceGetCount_v2(unsigned *out) { BEGIN_SYSTEM(); *out = gpu_count(); return SUCCESS; }
int nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

/* A device whose scenario says lost=1 still has a handle; err.nvmlDeviceGetHandleByIndex=15 takes that away too. */
int open_gpu(unsigned index, Gpu **out) {
    int code = enter_system("nvmlDeviceGetHandleByIndex_v2");
    if (code == SUCCESS && index >= gpu_count()) code = INVALID_ARGUMENT;
    if (code == SUCCESS) code = device_behaviour(gpu_at(index), "nvmlDeviceGetHandleByIndex_v2");
    if (code == SUCCESS) *out = gpu_at(index);
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Gpu **out) { return open_gpu(index, out); }
int nvmlDeviceGetHandleByIndex(unsigned index, Gpu **out) { return open_gpu(index, out); }

static int handle_where(const char *(*property)(const Gpu *), const char *text, const char *function, Gpu **out) {
    int code = enter_system(function);
    if (code != SUCCESS) return code;
    for (unsigned i = 0; i < gpu_count(); i++) {
        const char *own = property(gpu_at(i));
        bool equal = strcasecmp(own, text) == 0 || strcasecmp(own + 4, text) == 0; /* 0000:01:00.0 finds 00000000:01:00.0 */
        if (equal) return open_gpu(i, out);
    }
    return NOT_FOUND;
}

static const char *uuid_of(const Gpu *gpu) {
    static char made_up[MAX_GPUS][48];
    snprintf(made_up[gpu->index], sizeof made_up[0], "GPU-fa4e0000-0000-4000-8000-%012x", (unsigned)gpu->index);
    return fact_text(gpu, "uuid", made_up[gpu->index]);
}

const char *bus_id_of(const Gpu *gpu) {
    static char made_up[MAX_GPUS][20];
    snprintf(made_up[gpu->index], sizeof made_up[0], "00000000:%02X:00.0", (unsigned)gpu->index + 1);
    return fact_text(gpu, "bus_id", made_up[gpu->index]);
}

static const char *serial_of(const Gpu *gpu) { return fact_text(gpu, "serial", "1562821083900"); }

int nvmlDeviceGetHandleByPciBusId_v2(const char *text, Gpu **out) { return handle_where(bus_id_of, text, __func__, out); }
int nvmlDeviceGetHandleByPciBusId(const char *text, Gpu **out) { return handle_where(bus_id_of, text, __func__, out); }
int nvmlDeviceGetHandleByUUID(const char *text, Gpu **out) { return handle_where(uuid_of, text, __func__, out); }
int nvmlDeviceGetHandleBySerial(const char *text, Gpu **out) { return handle_where(serial_of, text, __func__, out); }

int nvmlDeviceGetUUID(Gpu *gpu, char *out, unsigned size) { BEGIN(gpu); return copy_text(uuid_of(gpu), out, size); }
int nvmlDeviceGetIndex(Gpu *gpu, unsigned *out) { BEGIN_CACHED(gpu); *out = (unsigned)(is_mig(gpu) ? gpu->mig : gpu->index); return SUCCESS; }

/* --- PCI address --- */

int fill_pci_info(const Gpu *gpu, PciInfo *out) {
    double device_id = 0, subsystem_id = 0;
    const char *bus_id = bus_id_of(gpu);
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", bus_id);
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%.12s", strlen(bus_id) > 12 ? bus_id + 4 : bus_id);
    sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    fact_number(gpu, "pci_device_id", "0x20B210DE", &device_id);
    fact_number(gpu, "pci_subsystem_id", "0x147F10DE", &subsystem_id);
    out->device_id = (unsigned)device_id;
    out->subsystem_id = (unsigned)subsystem_id;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Gpu *gpu, PciInfo *out) { BEGIN_CACHED(gpu); return fill_pci_info(gpu, out); }
int nvmlDeviceGetPciInfo_v2(Gpu *gpu, PciInfo *out) { return nvmlDeviceGetPciInfo_v3(gpu, out); }
int nvmlDeviceGetPciInfo(Gpu *gpu, PciInfo *out) { return nvmlDeviceGetPciInfo_v3(gpu, out); }

/* nvmlPciInfoExt_v1_t: nvidia-smi 550 reads its PCI block from here. */
typedef struct {
    unsigned version;
    unsigned domain, bus, device;
    unsigned device_id, subsystem_id;
    unsigned base_class, sub_class;
    char bus_id[32];
} PciInfoExt;
int nvmlDeviceGetPciInfoExt(Gpu *gpu, PciInfoExt *out) {
    PciInfo plain;
    BEGIN_CACHED(gpu);
    if (out->version != STRUCT_VERSION(PciInfoExt, 1)) return VERSION_MISMATCH;
    fill_pci_info(gpu, &plain);
    *out = (PciInfoExt){out->version, plain.domain, plain.bus, plain.device, plain.device_id, plain.subsystem_id, 3, 2, ""};
    memcpy(out->bus_id, plain.bus_id, sizeof out->bus_id);
    return SUCCESS;
}
