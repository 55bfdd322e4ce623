/* Processes on a GPU, and events.
 *
 * procs=PID:MIB[:NAME[:KIND]],...   KIND is c (compute, the default), g (graphics) or m (MPS); NAME defaults to /proc/PID/exe. */
#define _GNU_SOURCE
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- processes --- */

static void name_from_proc(unsigned pid, char *out, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/%u/exe", pid);
    ssize_t length = readlink(link, out, size - 1);
    if (length < 0) length = snprintf(out, size, "[Not Found]");
    out[length] = '\0';
}

static void parse_process(char *item, Process *out) {
    char *pid = strsep(&item, ":"), *mib = strsep(&item, ":"), *name = strsep(&item, ":"), *kind = strsep(&item, ":");
    out->pid = (unsigned)atoi(pid);
    out->bytes = mib ? strtoull(mib, NULL, 10) * 1048576 : 0;
    out->kind = kind && *kind ? *kind : 'c';
    if (name && *name) snprintf(out->name, sizeof out->name, "%s", name);
    else name_from_proc(out->pid, out->name, sizeof out->name);
}

int list_processes(const Gpu *gpu, char kind, Process *out, int size) {
    char copy[8192];
    int count = 0;
    snprintf(copy, sizeof copy, "%s", fact_text(gpu, "procs", ""));
    char *rest = copy, *item;
    while ((item = strsep(&rest, ",")) != NULL && count < size) {
        if (*item == '\0') continue;
        parse_process(item, &out[count]);
        if (out[count].kind == kind) count++;
    }
    return count;
}

/* nvmlProcessInfo_t, versions 2 and 3; version 1 ends before gpu_instance. */
typedef struct {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
} ProcessInfo;
enum { PROCESS_INFO_V1_SIZE = 16 };

static int fill(Gpu *gpu, const char *function, char kind, size_t stride, unsigned *count, void *out) {
    static Process found[MAX_PROCESSES];
    int code = enter(gpu, function);
    if (code != SUCCESS) return code;
    int total = list_processes(gpu, kind, found, MAX_PROCESSES);
    unsigned room = *count;
    *count = (unsigned)total;
    if ((unsigned)total > room || (total > 0 && out == NULL)) return INSUFFICIENT_SIZE;
    for (int i = 0; i < total; i++) {
        ProcessInfo info = {found[i].pid, found[i].bytes, (unsigned)ALL_ONES, (unsigned)ALL_ONES};
        memcpy((char *)out + (size_t)i * stride, &info, stride);
    }
    return SUCCESS;
}

#define PROCESS_GETTERS(kind_name, kind)                                                                                                                                                 \
    int nvmlDeviceGet##kind_name##RunningProcesses(Gpu *gpu, unsigned *count, void *out) { return fill(gpu, __func__, kind, PROCESS_INFO_V1_SIZE, count, out); }                         \
    int nvmlDeviceGet##kind_name##RunningProcesses_v2(Gpu *gpu, unsigned *count, void *out) { return fill(gpu, __func__, kind, sizeof(ProcessInfo), count, out); }                       \
    int nvmlDeviceGet##kind_name##RunningProcesses_v3(Gpu *gpu, unsigned *count, void *out) { return fill(gpu, __func__, kind, sizeof(ProcessInfo), count, out); }
PROCESS_GETTERS(Compute, 'c')
PROCESS_GETTERS(Graphics, 'g')
PROCESS_GETTERS(MPSCompute, 'm')

static bool name_on(const Gpu *gpu, char kind, unsigned pid, char *out, unsigned size) {
    static Process found[MAX_PROCESSES];
    int total = list_processes(gpu, kind, found, MAX_PROCESSES);
    for (int i = 0; i < total; i++) {
        if (found[i].pid != pid) continue;
        snprintf(out, size, "%s", found[i].name);
        return true;
    }
    return false;
}

int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size) {
    BEGIN_SYSTEM();
    for (unsigned i = 0; i < gpu_count(); i++) {
        for (const char *kind = "cgm"; *kind; kind++) {
            if (name_on(gpu_at(i), *kind, pid, out, size)) return SUCCESS;
        }
    }
    return NOT_FOUND;
}

/* --- events: nvidia-smi opens a set at start and gives up when it cannot; none ever arrives --- */

int nvmlEventSetCreate(void **set) { static int token; BEGIN_SYSTEM(); *set = &token; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; BEGIN_SYSTEM(); return SUCCESS; }
int nvmlDeviceRegisterEvents(Gpu *gpu, unsigned long long kinds, void *set) { (void)kinds; (void)set; BEGIN(gpu); return SUCCESS; }
int nvmlDeviceGetSupportedEventTypes(Gpu *gpu, unsigned long long *out) { BEGIN(gpu); *out = 0x1f; return SUCCESS; }
int nvmlEventSetWait_v2(void *set, void *event, unsigned ms) { (void)set; (void)event; BEGIN_SYSTEM(); usleep(ms * 1000); return TIMEOUT; }
int nvmlEventSetWait(void *set, void *event, unsigned ms) { return nvmlEventSetWait_v2(set, event, ms); }
