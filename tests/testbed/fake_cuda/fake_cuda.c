/* A libcuda.so.1 whose answers come from a key=value file named by FAKE_CUDA:
 *   init=CODE         what cuInit, and then every other call, returns: a CUresult
 *   driver=12020      CUDA version of the driver
 *   count=N           devices; gpu.name, gpu.compute_capability, gpu.memory_total_mib tell of all of them
 *   wedge.F, crash.F, delay.F, err.F for any function F: see scenario.h
 * Devices can be listed and asked about; no context is made and no kernel runs (those calls return 100, no device). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../fake_nvml/scenario.h"
#include "fake_cuda.h"

static const char *VARIABLE = "FAKE_CUDA";
static int started;

static int number(const char *key, int fallback) { return (int)scenario_number(VARIABLE, key, fallback); }

int cuda_enter(const char *function) {
    int code = scenario_behaviour(VARIABLE, "", function);
    if (code == SUCCESS) code = number("init", SUCCESS);
    if (code == SUCCESS && !started) code = NOT_INITIALIZED;
    scenario_trace(VARIABLE, function, code);
    return code;
}

#define BEGIN()                          \
    do {                                 \
        int code_ = cuda_enter(__func__);     \
        if (code_ != SUCCESS) return code_; \
    } while (0)
#define BEGIN_DEVICE(device)             \
    do {                                 \
        BEGIN();                         \
        if ((device) < 0 || (device) >= number("count", 1)) return INVALID_DEVICE; \
    } while (0)

/* --- start --- */

int cuInit(unsigned flags) {
    (void)flags;
    started = 1;
    return cuda_enter(__func__);
}

/* Answers without a device and before cuInit, as the genuine one does. */
int cuDriverGetVersion(int *version) {
    *version = number("driver", 12020);
    return SUCCESS;
}

/* --- devices --- */

int cuDeviceGetCount(int *count) { BEGIN(); *count = number("count", 1); return SUCCESS; }
int cuDeviceGet(int *device, int ordinal) { BEGIN_DEVICE(ordinal); *device = ordinal; return SUCCESS; }

int cuDeviceGetName(char *name, int size, int device) {
    BEGIN_DEVICE(device);
    const char *text = scenario_text(VARIABLE, "gpu.name");
    snprintf(name, (size_t)size, "%s", text ? text : "NVIDIA A100-SXM4-80GB");
    return SUCCESS;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) { BEGIN_DEVICE(device); *bytes = (size_t)number("gpu.memory_total_mib", 81920) << 20; return SUCCESS; }
int cuDeviceTotalMem(size_t *bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }

static void compute_capability(int *major, int *minor) {
    double version = scenario_number(VARIABLE, "gpu.compute_capability", 8.0);
    *major = (int)version;
    *minor = (int)((version - *major) * 10 + 0.5);
}
int cuDeviceComputeCapability(int *major, int *minor, int device) { BEGIN_DEVICE(device); compute_capability(major, minor); return SUCCESS; }

/* CUdevice_attribute: the few that programs print; the others are 0. */
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int major, minor;
    BEGIN_DEVICE(device);
    compute_capability(&major, &minor);
    switch (attribute) {
        case 16: *value = number("gpu.multiprocessors", 108); break;
        case 33: *value = device + 1; break; /* PCI bus */
        case 75: *value = major; break;
        case 76: *value = minor; break;
        default: *value = 0;
    }
    return SUCCESS;
}

int cuDeviceGetPCIBusId(char *text, int size, int device) { BEGIN_DEVICE(device); snprintf(text, (size_t)size, "0000:%02X:00.0", device + 1); return SUCCESS; }
int cuDeviceGetUuid(char *bytes, int device) { BEGIN_DEVICE(device); memset(bytes, 0, 16); memcpy(bytes, "\xfa\x4e", 2); bytes[15] = (char)device; return SUCCESS; }
int cuDeviceGetUuid_v2(char *bytes, int device) { return cuDeviceGetUuid(bytes, device); }

/* --- errors --- */

typedef struct {
    int code;
    const char *name, *text;
} Error;
static const Error errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
static const Error *find_error(int code) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code == code) return &errors[i];
    }
    return NULL;
}
int cuGetErrorName(int code, const char **name) { const Error *error = find_error(code); *name = error ? error->name : NULL; return error ? SUCCESS : INVALID_VALUE; }
int cuGetErrorString(int code, const char **text) { const Error *error = find_error(code); *text = error ? error->text : NULL; return error ? SUCCESS : INVALID_VALUE; }

/* --- how the CUDA runtime finds everything else --- */

/* The runtime lives without the private tables when this fails. */
int cuGetExportTable(const void **table, const void *id) { (void)table; (void)id; return UNKNOWN; }

static int find_function(const char *name, void **function) {
    Dl_info self;
    dladdr((void *)cuInit, &self);
    *function = dlsym(dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD), name);
    scenario_trace(VARIABLE, name, *function ? SUCCESS : NOT_FOUND);
    return *function ? SUCCESS : NOT_FOUND;
}
int cuGetProcAddress(const char *name, void **function, int version, unsigned long long flags) { (void)version; (void)flags; return find_function(name, function); }
int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long long flags, int *status) {
    (void)version, (void)flags;
    int code = find_function(name, function);
    if (status) *status = code == SUCCESS ? 0 : 1; /* CU_GET_PROC_ADDRESS_SUCCESS, SYMBOL_NOT_FOUND */
    return code;
}
