/* How GPUs are joined: NVLink, PCIe topology, peer-to-peer, CPU affinity. */
#define _GNU_SOURCE
#include "fake_nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

enum { MAX_NVLINKS = 18 };

/* --- NVLink: nvlinks=N links exist; bit L of nvlink_down_mask is set when link L is down --- */

static int check_link(const Gpu *gpu, unsigned link) {
    double links = 0;
    fact_number(gpu, "nvlinks", "0", &links);
    if (link >= MAX_NVLINKS) return INVALID_ARGUMENT;
    return link < links ? SUCCESS : NOT_SUPPORTED;
}

int nvlink_state(const Gpu *gpu, unsigned link, unsigned *active) {
    double down = 0;
    int code = check_link(gpu, link);
    fact_number(gpu, "nvlink_down_mask", "0", &down);
    if (code == SUCCESS) *active = !((unsigned)down >> link & 1);
    return code;
}

int nvmlDeviceGetNvLinkState(Gpu *gpu, unsigned link, unsigned *active) { BEGIN(gpu); return nvlink_state(gpu, link, active); }

int nvmlDeviceGetNvLinkVersion(Gpu *gpu, unsigned link, unsigned *version) {
    BEGIN(gpu);
    int code = check_link(gpu, link);
    return code == SUCCESS ? get_u32(gpu, __func__, "nvlink_version", "3", 1, version) : code;
}

/* Capabilities: peer-to-peer, system memory, atomics of both, SLI bridge, valid. */
int nvmlDeviceGetNvLinkCapability(Gpu *gpu, unsigned link, unsigned capability, unsigned *present) {
    BEGIN(gpu);
    int code = check_link(gpu, link);
    if (code == SUCCESS) *present = capability != 4;
    return code;
}

/* nvlink_..._errors is the count of link 0; the other links have none. */
static const char *const link_error_keys[] = {"nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_crc_flit_errors",
                                              "nvlink_crc_data_errors", "nvlink_ecc_data_errors"};
int nvmlDeviceGetNvLinkErrorCounter(Gpu *gpu, unsigned link, unsigned counter, unsigned long long *out) {
    BEGIN(gpu);
    int code = check_link(gpu, link);
    if (code == SUCCESS && counter >= 5) code = INVALID_ARGUMENT;
    if (code != SUCCESS) return code;
    if (link > 0) return *out = 0, SUCCESS;
    return get_u64(gpu, __func__, link_error_keys[counter], "0", 1, out);
}

/* nvlink_remote=switch: every link ends at an NVSwitch; nvlink_remote=N: at GPU N; else links are spread over the others. */
static int remote_gpu(const Gpu *gpu, unsigned link) {
    const char *remote = fact_text(gpu, "nvlink_remote", "");
    int others = (int)gpu_count() - 1;
    if (strcmp(remote, "switch") == 0 || others < 1) return -1;
    if (*remote) return atoi(remote);
    int other = (int)link % others;
    return other >= gpu->index ? other + 1 : other;
}

unsigned nvlinks_between(const Gpu *a, const Gpu *b) {
    unsigned count = 0;
    for (unsigned link = 0; link < MAX_NVLINKS; link++) {
        unsigned active = 0;
        int other = remote_gpu(a, link);
        if (nvlink_state(a, link, &active) == SUCCESS && active && (other < 0 || other == b->index)) count++;
    }
    return count;
}

enum { REMOTE_GPU = 0, REMOTE_SWITCH = 2 };
int nvmlDeviceGetNvLinkRemoteDeviceType(Gpu *gpu, unsigned link, unsigned *type) {
    BEGIN(gpu);
    int code = check_link(gpu, link);
    if (code == SUCCESS) *type = remote_gpu(gpu, link) < 0 ? REMOTE_SWITCH : REMOTE_GPU;
    return code;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(Gpu *gpu, unsigned link, PciInfo *out) {
    BEGIN(gpu);
    int code = check_link(gpu, link);
    if (code != SUCCESS) return code;
    int other = remote_gpu(gpu, link);
    if (other >= 0) return fill_pci_info(gpu_at((unsigned)other), out);
    memset(out, 0, sizeof *out);
    out->bus = 0xc0 + link / 2;
    out->device_id = 0x1af110de; /* NVSwitch of an A100 board */
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "0000:%02X:00.0", out->bus);
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemotePciInfo(Gpu *gpu, unsigned link, PciInfo *out) { return nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu, link, out); }

/* --- PCIe topology: topology.A-B=LEVEL with A < B, or topology=LEVEL for all pairs --- */

typedef struct {
    const char *name;
    int level; /* nvmlGpuTopologyLevel_t */
} Level;
static const Level levels[] = {{"INTERNAL", 0}, {"PIX", 10}, {"PXB", 20}, {"PHB", 30}, {"NODE", 40}, {"SYS", 50}};

static const char *pair_text(const char *word, const Gpu *a, const Gpu *b, const char *fallback) {
    char key[64];
    int low = a->index < b->index ? a->index : b->index;
    int high = a->index < b->index ? b->index : a->index;
    snprintf(key, sizeof key, "%s.%d-%d", word, low, high);
    const char *text = scenario_text("FAKE_NVML", key);
    if (text == NULL) text = scenario_text("FAKE_NVML", word);
    return text ? text : fallback;
}

int topology_between(const Gpu *a, const Gpu *b) {
    const char *text = pair_text("topology", a, b, "NODE");
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (strcmp(levels[i].name, text) == 0) return levels[i].level;
    }
    return atoi(text);
}

int nvmlDeviceGetTopologyCommonAncestor(Gpu *a, Gpu *b, unsigned *level) {
    BEGIN(a);
    if (!is_gpu(b)) return INVALID_ARGUMENT;
    *level = (unsigned)topology_between(a, b);
    return SUCCESS;
}

int nvmlDeviceGetTopologyNearestGpus(Gpu *gpu, int level, unsigned *count, Gpu **out) {
    unsigned found = 0, room = *count;
    BEGIN(gpu);
    for (unsigned i = 0; i < gpu_count(); i++) {
        Gpu *other = gpu_at(i);
        if (other == gpu || topology_between(gpu, other) != level) continue;
        if (out && found < room) out[found] = other;
        found++;
    }
    *count = found;
    return SUCCESS;
}

/* p2p.A-B=STATUS, nvmlGpuP2PStatus_t: 0 works, 1 chipset, 2 GPU, 3 I/O hub, 4 switched off, 5 not supported */
int nvmlDeviceGetP2PStatus(Gpu *a, Gpu *b, int capability, unsigned *status) {
    (void)capability;
    BEGIN(a);
    if (!is_gpu(b)) return INVALID_ARGUMENT;
    *status = (unsigned)atoi(pair_text("p2p", a, b, "0"));
    return SUCCESS;
}

/* --- CPU and memory affinity: masks --- */

static int affinity(Gpu *gpu, const char *function, const char *key, const char *fallback, unsigned words, unsigned long *out) {
    unsigned long long mask = 0;
    int code = get_u64(gpu, function, key, fallback, 1, &mask);
    if (code != SUCCESS || words == 0) return code;
    memset(out, 0, words * sizeof *out);
    out[0] = (unsigned long)mask;
    return SUCCESS;
}

int nvmlDeviceGetCpuAffinity(Gpu *gpu, unsigned words, unsigned long *out) { return affinity(gpu, __func__, "cpu_mask", "0x3", words, out); }
int nvmlDeviceGetCpuAffinityWithinScope(Gpu *gpu, unsigned words, unsigned long *out, unsigned scope) { (void)scope; return affinity(gpu, __func__, "cpu_mask", "0x3", words, out); }
int nvmlDeviceGetMemoryAffinity(Gpu *gpu, unsigned words, unsigned long *out, unsigned scope) { (void)scope; return affinity(gpu, __func__, "numa_mask", "0x1", words, out); }
int nvmlDeviceGetNumaNodeId(Gpu *gpu, unsigned *out) { return get_u32(gpu, __func__, "numa_id", "na", 1, out); } /* of GPU memory: Grace only */
