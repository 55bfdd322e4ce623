/* nvidia-smi takes part of its answers from an undocumented table of functions. What each slot answers was found by
 * watching which line of nvidia-smi 470, 535 and 550 changes; a slot not listed says "not supported", which all of
 * them show as N/A. FAKE_NVML_TRACE=1 prints the slots a newer nvidia-smi asks for. */
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef unsigned long Word; /* an argument register */
typedef long (*Slot)(Word a, Word b, Word c, Word d);

enum { SLOTS = 256 };

/* (index, Gpu **out, 0x22): tried before nvmlDeviceGetHandleByIndex, and must fail with the same code */
static long handle_by_index(Word a, Word b, Word c, Word d) {
    (void)c, (void)d;
    if (a >= gpu_count()) return INVALID_ARGUMENT;
    return open_gpu((unsigned)a, (Gpu **)b);
}

static Gpu *gpu_with_bus_id(const char *bus_id) {
    for (unsigned i = 0; i < gpu_count(); i++) {
        if (strcasecmp(bus_id_of(gpu_at(i)), bus_id) == 0) return gpu_at(i);
    }
    return NULL;
}

/* (const char *bus_id, const char *bus_id, unsigned *kind): PIX, PXB, PHB, NODE, SYS from 0 on, then NV1, NV2, ...
 * Network cards are asked for too: they are NODE away. */
enum { KIND_NODE = 3, KIND_SYS = 4 };
static long topology(Word a, Word b, Word c, Word d) {
    (void)d;
    Gpu *first = gpu_with_bus_id((char *)a), *second = gpu_with_bus_id((char *)b);
    unsigned *kind = (unsigned *)c;
    *kind = KIND_NODE;
    if (first == NULL || second == NULL) return SUCCESS;
    unsigned links = nvlinks_between(first, second);
    int level = topology_between(first, second); /* 10 is PIX */
    *kind = links ? KIND_SYS + links : level < 10 ? 0 : (unsigned)(level / 10 - 1);
    return SUCCESS;
}

/* Entry of the process lists: the name is inline. */
typedef struct {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
    unsigned long long reserved;
    char name[4096];
} NamedProcess;
_Static_assert(sizeof(NamedProcess) == 4128, "nvidia-smi steps through the list by this size");

static long named_processes(char kind, Word a, Word b, Word c) {
    static Process found[MAX_PROCESSES];
    NamedProcess *out = (NamedProcess *)c;
    unsigned *count = (unsigned *)b;
    if (!is_gpu((void *)a)) return INVALID_ARGUMENT;
    unsigned total = (unsigned)list_processes((Gpu *)a, kind, found, MAX_PROCESSES);
    if (total > *count) total = *count;
    for (unsigned i = 0; out && i < total; i++) {
        out[i] = (NamedProcess){found[i].pid, found[i].bytes, (unsigned)ALL_ONES, (unsigned)ALL_ONES, 0, ""};
        memcpy(out[i].name, found[i].name, sizeof found[i].name);
    }
    *count = total;
    return SUCCESS;
}
static long compute_processes(Word a, Word b, Word c, Word d) { return (void)d, named_processes('c', a, b, c); }
static long graphics_processes(Word a, Word b, Word c, Word d) { return (void)d, named_processes('g', a, b, c); }
static long mps_processes(Word a, Word b, Word c, Word d) { return (void)d, named_processes('m', a, b, c); }

/* (Gpu *, unsigned *out): one fact */
static long one_fact(const char *key, const char *fallback, double scale, Word a, Word b) {
    double value = 0;
    if (!is_gpu((void *)a)) return INVALID_ARGUMENT;
    int code = fact_number((Gpu *)a, key, fallback, &value);
    if (code == SUCCESS) *(unsigned *)b = (unsigned)(value * scale + 0.5);
    return code;
}
static long enforced_limit(Word a, Word b, Word c, Word d) { return (void)c, (void)d, one_fact("power_limit_w", "400", 1000, a, b); }
static long module_id(Word a, Word b, Word c, Word d) { return (void)c, (void)d, one_fact("module_id", "1", 1, a, b); }
static long voltage(Word a, Word b, Word c, Word d) { return (void)c, (void)d, one_fact("voltage_uv", "na", 1, a, b); }
static long host_pcie_max(Word a, Word b, Word c, Word d) { return (void)c, (void)d, one_fact("pcie_generation_host_max", "4", 1, a, b); }
static long tlimit(Word a, Word b, Word c, Word d) { return (void)c, (void)d, one_fact("temperature_tlimit_c", "na", 1, a, b); }

static const Slot slots[SLOTS] = {
    [23] = topology,            /* topo -m: common ancestor of two PCI addresses */
    /* [26]                        a log call with format strings; its answer is ignored */
    [81] = handle_by_index,     /* the devices that nvidia-smi walks through */
    [108] = enforced_limit,     /* --query-gpu=enforced.power.limit */
    /* [165]                       vGPU list: any count but "not supported" is dereferenced */
    [207] = module_id,          /* 470 only; later versions call nvmlDeviceGetModuleId */
    [209] = voltage,            /* -q "Voltage" */
    /* [211]                       470's GSP firmware version */
    [213] = compute_processes,  /* 535, 550: process box and -q "Processes" */
    [214] = mps_processes,
    [215] = graphics_processes,
    /* [226]                       -q "Atomic Caps Inbound/Outbound": two masks */
    [230] = host_pcie_max,      /* -q "Host Max" PCIe generation */
    /* [231]                       -q "GPU Part Number": 0x50 bytes of text */
    /* [232]                       -q "Deferred Clocks": memory */
    /* [237]                       -q "FRU Part Number": text */
    [240] = tlimit,             /* -q "GPU T.Limit Temp"; "not supported" brings the thresholds in degrees */
    /* [242]                       -q "Addressing Mode" */
    /* [243] (535), [249] (550)    -q "Sparse Operation Mode" */
};

static long call_slot(int number, Word a, Word b, Word c, Word d) {
    long code = slots[number] ? slots[number](a, b, c, d) : NOT_SUPPORTED;
    char name[32];
    snprintf(name, sizeof name, "private slot %d", number);
    trace(name, (int)code);
    return code;
}

/* 256 entry points, each knowing its number: entry_00 ... entry_ff */
#define ENTRY(hex) \
    static long entry_##hex(Word a, Word b, Word c, Word d) { return call_slot(0x##hex, a, b, c, d); }
#define EACH_LOW_DIGIT(X, high)                                                                                        \
    X(high##0) X(high##1) X(high##2) X(high##3) X(high##4) X(high##5) X(high##6) X(high##7)                            \
    X(high##8) X(high##9) X(high##a) X(high##b) X(high##c) X(high##d) X(high##e) X(high##f)
#define EACH_NUMBER(X)                                                                                                 \
    EACH_LOW_DIGIT(X, 0) EACH_LOW_DIGIT(X, 1) EACH_LOW_DIGIT(X, 2) EACH_LOW_DIGIT(X, 3) EACH_LOW_DIGIT(X, 4)           \
    EACH_LOW_DIGIT(X, 5) EACH_LOW_DIGIT(X, 6) EACH_LOW_DIGIT(X, 7) EACH_LOW_DIGIT(X, 8) EACH_LOW_DIGIT(X, 9)           \
    EACH_LOW_DIGIT(X, a) EACH_LOW_DIGIT(X, b) EACH_LOW_DIGIT(X, c) EACH_LOW_DIGIT(X, d) EACH_LOW_DIGIT(X, e)           \
    EACH_LOW_DIGIT(X, f)
EACH_NUMBER(ENTRY)

#define ADDRESS(hex) (void *)entry_##hex,
static void *table[SLOTS] = {EACH_NUMBER(ADDRESS)};

/* All versions ask with one 16-byte id, and get the one table; word 0 is its size in bytes. */
int nvmlInternalGetExportTable(void **out, const unsigned char *id) {
    (void)id;
    table[0] = (void *)sizeof table;
    *out = table;
    trace(__func__, SUCCESS);
    return SUCCESS;
}
