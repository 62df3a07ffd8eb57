/* Plays NVML for tests: -DNEW has what drivers of today have, -DHANGS one that hangs at the second question.
   $NVML_LEVELS: a file with the milliwatts and the percents of memory traffic of GPUs that are all 100 % busy; each time
   that it is read, a byte is added to $NVML_LEVELS.reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
typedef unsigned long long big;
typedef struct { big time; unsigned value, rest; } sample;
static long devices[4] = {0, 1, 2, 3};
static int reads;

static int level(int which, unsigned otherwise) {
    char name[4096], *at = getenv("NVML_LEVELS");
    unsigned found[2] = {0, 0};
    FILE *file = at ? fopen(at, "r") : NULL;
    if (!file) return otherwise;
    int known = fscanf(file, "%u %u", &found[0], &found[1]);
    fclose(file);
    snprintf(name, sizeof name, "%s.reads", at);
    if ((file = fopen(name, "a"))) { fputc('.', file); fclose(file); }
    return known == 2 ? found[which] : otherwise;
}

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 4; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index == 2) return 15;  /* the GPU is lost */
    *device = &devices[index];
    return 0;
}
int nvmlDeviceGetUUID(long *device, char *text, unsigned size) { snprintf(text, size, "GPU-%ld0", *device); return 0; }
int nvmlDeviceGetName(long *device, char *text, unsigned size) {
    snprintf(text, size, "NVIDIA\tX%ld", *device); return 0;
}
int nvmlDeviceGetMemoryInfo(long *device, big *memory) {
#ifdef HANGS
    if (reads++) for (;;) pause();
#endif
    memory[0] = 1000; memory[1] = 100; memory[2] = 900 + *device;
    return 0;
}
int nvmlDeviceGetPowerUsage(long *device, unsigned *milliwatts) { *milliwatts = level(0, 70500); return 0; }
int nvmlDeviceGetUtilizationRates(long *device, unsigned *rates) {
    rates[0] = getenv("NVML_LEVELS") ? 100 : 40 + *device;
    rates[1] = level(1, 7);
    return 0;
}
#ifdef NEW
int nvmlDeviceGetMigMode(long *device, unsigned *now, unsigned *next) { *now = *next = *device == 3; return 0; }
int nvmlDeviceGetMemoryInfo_v2(long *device, void *memory) {
    struct { unsigned version; big total, reserved, free, used; } *found = memory;
    if (found->version != (sizeof *found | 2 << 24)) return 25;
    found->total = 1000; found->reserved = 90; found->free = 100; found->used = 810 + *device;
    return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(long *device, unsigned *count, void *found) {
    struct { unsigned pid; big memory; unsigned gpu_instance, compute_instance; } *processes = found;
    FILE *file = fopen(getenv("NVML_PIDS") ? getenv("NVML_PIDS") : "", "r");
    if (!file || *count < 2) return 7;
    processes[0].pid = 1;
    *count = *device == 1 && fscanf(file, "%u", &processes[1].pid) == 1 ? 2 : 1;
    fclose(file);
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(long *device, big *millijoules) {
    struct timespec now;
    if (getenv("NVML_LEVELS")) return 3;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = 400ULL * (now.tv_sec * 1000 + now.tv_nsec / 1000000);
    return 0;
}
int nvmlDeviceGetSamples(long *device, int what, big seen, int *kind, unsigned *count, sample *found) {
    if (what != 1 && (what != 2 || getenv("NVML_LEVELS"))) return 2;
    if (!found) { *count = 120; return 0; }
    if (*device == 1) return 3;  /* it keeps no history */
    *kind = 1;
    if (!seen) {
        found[0] = (sample) {1000, 100, 0};
        *count = 1;
        return 0;
    }
    found[0] = (sample) {seen, 100, 0};  /* the last one again */
    found[1] = (sample) {seen + 10, what == 1 ? 20 : 50, 0};
    found[2] = (sample) {seen + 20, what == 1 ? 30 : 60, 0};
    *count = 3;
    return 0;
}
#endif
