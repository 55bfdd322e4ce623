/* What the parts of the fake NVML share: codes, the device handle, and reading a device's facts from the scenario. */
#ifndef FAKE_NVML_H
#define FAKE_NVML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* nvmlReturn_t, as far as used here. */
enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25,
};

enum { MAX_GPUS = 64, MAX_PROCESSES = 256, ALL_ONES = -1 };

/* nvmlDevice_t points to one of these: a GPU, or MIG device number `mig` of GPU `index`. */
enum { NOT_MIG = -1, MAX_MIG = 8 };
typedef struct {
    int index;
    int mig;
} Gpu;

/* nvmlPciInfo_t */
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device;
    unsigned device_id;    /* device << 16 | vendor */
    unsigned subsystem_id; /* device << 16 | vendor */
    char bus_id[32];
} PciInfo;

/* One process that holds a context. kind is 'c' (compute), 'g' (graphics) or 'm' (MPS client). */
typedef struct {
    unsigned pid;
    unsigned long long bytes;
    char kind;
    char name[256];
} Process;

/* --- scenario (core.c) --- */
bool is_initialized(void);
unsigned gpu_count(void);
Gpu *gpu_at(unsigned index);
bool is_gpu(const void *pointer);

/* What a MIG device answers differently from its GPU, or NULL (mig.c). */
bool is_mig(const void *pointer);
const char *mig_fact(const Gpu *gpu, const char *key);

/* A fact: line gpuN.KEY, else line gpu.KEY, else FALLBACK. "na" as value means not supported. */
const char *fact_text(const Gpu *gpu, const char *key, const char *fallback);
int fact_number(const Gpu *gpu, const char *key, const char *fallback, double *out);

/* What FUNCTION must return before it looks at anything: not initialised, wrong handle, lost device, err.FUNCTION. */
int enter(const Gpu *gpu, const char *function);
int enter_cached(const Gpu *gpu, const char *function); /* what the library still knows of a lost device */
int enter_system(const char *function);

/* What the scenario makes FUNCTION do on this device: see scenario_behaviour. */
int device_behaviour(const Gpu *gpu, const char *function);

/* Whole getters: one fact into one number of the given type, multiplied by SCALE. */
int get_u32(const Gpu *gpu, const char *function, const char *key, const char *fallback, double scale, unsigned *out);
int get_u64(const Gpu *gpu, const char *function, const char *key, const char *fallback, double scale,
            unsigned long long *out);
int get_string(const Gpu *gpu, const char *function, const char *key, const char *fallback, char *out, unsigned size);

int copy_text(const char *text, char *out, unsigned size); /* "na" is NOT_SUPPORTED */

/* --- shared between the parts --- */
const char *driver_version(void);
const char *bus_id_of(const Gpu *gpu);
int fill_pci_info(const Gpu *gpu, PciInfo *out);
int list_processes(const Gpu *gpu, char kind, Process *out, int size);
int topology_between(const Gpu *a, const Gpu *b);     /* nvmlGpuTopologyLevel_t */
unsigned nvlinks_between(const Gpu *a, const Gpu *b); /* active ones, directly or over switches */
int nvlink_state(const Gpu *gpu, unsigned link, unsigned *active);
int open_gpu(unsigned index, Gpu **out); /* what nvmlDeviceGetHandleByIndex does */
void trace(const char *function, int code);

/* Leaves the calling function when the device cannot answer. */
#define BEGIN(gpu)                              \
    do {                                        \
        int code_ = enter(gpu, __func__);       \
        if (code_ != SUCCESS) return code_;     \
    } while (0)
#define BEGIN_CACHED(gpu)                       \
    do {                                        \
        int code_ = enter_cached(gpu, __func__); \
        if (code_ != SUCCESS) return code_;     \
    } while (0)
#define BEGIN_SYSTEM()                          \
    do {                                        \
        int code_ = enter_system(__func__);     \
        if (code_ != SUCCESS) return code_;     \
    } while (0)

/* Versioned structures carry size | version << 24 in their first word; NVML refuses any other value. */
#define STRUCT_VERSION(type, version) ((unsigned)(sizeof(type) | ((version) << 24)))

#endif
