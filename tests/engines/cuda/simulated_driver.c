// Simulates NVIDIA's two driver libraries, as far as harness.engines.cuda.gpus.nvidia_driver and nvidia-ml-py call them.
// SIMULATED_GPUS=N makes N GPUs of 132 SMs, in reverse bus order.  SIMULATED_SLICES=N makes one GPU of N MIG slices
// instead, of which CUDA shows the one that CUDA_VISIBLE_DEVICES names, or the first.  SIMULATED_STATUS is the status
// of cuInit, SIMULATED_MODE the compute mode, SIMULATED_PID a process on every GPU, SIMULATED_XID a pending event.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text ? atoi(text) : otherwise;
}
static int gpus(void) { return number("SIMULATED_GPUS", 0); }
static int slices(void) { return number("SIMULATED_SLICES", 0); }
static int shown_slice(void) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    return visible && !strncmp(visible, "MIG-", 4) ? (int)strtol(visible + 4, NULL, 16) - 0xa0 : 0;
}

int cuInit(unsigned flags) { return number("SIMULATED_STATUS", gpus() + slices() ? 0 : 100); }
int cuDriverGetVersion(int *version) { *version = 13020; return 0; }
int cuDeviceGetCount(int *count) { *count = slices() ? 1 : gpus(); return 0; }
int cuDeviceGet(int *device, int index) { *device = index; return 0; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 150109880320; return 0; }
int cuDeviceGetName(char *name, int size, int device) {
    snprintf(name, size, slices() ? "NVIDIA H200 MIG 1g.18gb" : "NVIDIA H200");
    return 0;
}
int cuDeviceGetPCIBusId(char *id, int size, int device) {
    snprintf(id, size, "0000:%02X:00.0", slices() ? 0x1b : 0xff - device);
    return 0;
}
int cuDeviceGetUuid(char *bytes, int device) { memset(bytes, device + 1, 16); return 0; }
int cuDeviceGetUuid_v2(char *bytes, int device) {
    cuDeviceGetUuid(bytes, device);
    if (slices()) {
        memset(bytes, 0, 16);
        bytes[3] = 0xa0 + shown_slice(); // MIG-000000a0-0000-...
    }
    return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    switch (attribute) {
    case 13: *value = 1980000; break;
    case 16: *value = slices() ? 16 : 132; break;
    case 20: *value = number("SIMULATED_MODE", 0); break;
    case 36: *value = 3201000; break;
    case 37: *value = 6016; break;
    case 38: *value = 62914560; break;
    case 39: *value = 2048; break;
    case 75: *value = 9; break;
    case 76: *value = 0; break;
    case 81: *value = 233472; break;
    case 82: *value = 65536; break;
    case 97: *value = 232448; break;
    default: return 1;
    }
    return 0;
}

enum { UNSUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMED_OUT = 10 };
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;
typedef struct { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; } Event;
typedef struct { unsigned long long total, unused, used; } Memory;
typedef struct { unsigned gpu, memory; } Rates;
static int told_xid;

const char *nvmlErrorString(int status) { return "as the pretended driver says"; }
int nvmlInit_v2(void) { return gpus() + slices() ? 0 : 9; }
int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }
int nvmlShutdown(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.159.03"); return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = slices() ? 1 : gpus(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(size_t)(index + 1); return 0; }
int nvmlDeviceGetMaxMigDeviceCount(void *device, unsigned *count) { *count = slices() ? 7 : 0; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *device, unsigned index, void **slice) {
    *slice = (void *)(size_t)(0xa0 + index);
    return index < (unsigned)slices() ? 0 : NOT_FOUND;
}
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    unsigned at = (unsigned)(size_t)device;
    if (at >= 0xa0) snprintf(text, size, "MIG-%08x-0000-0000-0000-000000000000", at);
    else snprintf(text, size, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                  at, at, at, at, at, at, at, at, at, at, at, at, at, at, at, at);
    return 0;
}
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char own[96];
    for (size_t at = 1; at <= (size_t)gpus(); at++) {
        nvmlDeviceGetUUID((void *)at, own, sizeof own);
        if (!strcmp(own, uuid)) { *device = (void *)at; return 0; }
    }
    return NOT_FOUND;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, Process *found) {
    unsigned size = *count;
    *count = getenv("SIMULATED_PID") ? 1 : 0;
    if (size < *count) return TOO_SMALL;
    if (*count) *found = (Process){number("SIMULATED_PID", 0), 3ull << 30, -1, -1};
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    *count = number("SIMULATED_ECC", 0);
    return kind == 1 && counter == 0 ? 0 : UNSUPPORTED;
}
int nvmlDeviceGetRemappedRows(void *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = 1, *pending = number("SIMULATED_PENDING", 0), *failed = 0;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, Rates *rates) { *rates = (Rates){100, 0}; return 0; }
int nvmlDeviceGetComputeMode(void *device, int *mode) { *mode = number("SIMULATED_MODE", 0); return 0; }
int nvmlDeviceGetMemoryInfo(void *device, Memory *memory) { *memory = (Memory){100, 40, 60}; return 0; }
int nvmlEventSetCreate(void **set) { *set = (void *)1; return 0; }
int nvmlEventSetFree(void *set) { return 0; }
int nvmlDeviceRegisterEvents(void *device, unsigned long long kinds, void *set) { return kinds == 8 ? 0 : UNSUPPORTED; }
int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
    if (told_xid || !getenv("SIMULATED_XID")) return TIMED_OUT;
    told_xid = 1;
    *event = (Event){(void *)1, 8, number("SIMULATED_XID", 0), -1, -1};
    return 0;
}
