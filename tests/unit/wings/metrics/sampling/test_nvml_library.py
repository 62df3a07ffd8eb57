"""The program that asks GPUs, with a small library in C that plays NVML."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from worldsize.wings.metrics.agent.gpus.helper import GpuHelper
from worldsize.wings.metrics.agent.records import GpuFacts, GpuSample

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SOON = 30.0
NVML = r"""
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
typedef unsigned long long big;
typedef struct { big time; unsigned value, rest; } sample;
static long devices[4] = {0, 1, 2, 3};
static int reads;

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
int nvmlDeviceGetPowerUsage(long *device, unsigned *milliwatts) { *milliwatts = 70500; return 0; }
int nvmlDeviceGetUtilizationRates(long *device, unsigned *rates) { rates[0] = 40 + *device; rates[1] = 7; return 0; }
#ifdef NEW
int nvmlDeviceGetMigMode(long *device, unsigned *now, unsigned *next) { *now = *next = *device == 3; return 0; }
int nvmlDeviceGetMemoryInfo_v2(long *device, void *memory) {
    struct { unsigned version; big total, reserved, free, used; } *found = memory;
    if (found->version != (sizeof *found | 2 << 24)) return 25;
    found->total = 1000; found->reserved = 90; found->free = 100; found->used = 810 + *device;
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(long *device, big *millijoules) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *millijoules = 400ULL * (now.tv_sec * 1000 + now.tv_nsec / 1000000);
    return 0;
}
int nvmlDeviceGetSamples(long *device, int what, big seen, int *kind, unsigned *count, sample *found) {
    if (what != 1) return 2;
    if (!found) { *count = 120; return 0; }
    if (*device == 1) return 3;  /* it keeps no history */
    *kind = 1;
    if (!seen) {
        found[0] = (sample) {1000, 100, 0};
        *count = 1;
        return 0;
    }
    found[0] = (sample) {seen, 100, 0};  /* the last one again */
    found[1] = (sample) {seen + 10, 20, 0};
    found[2] = (sample) {seen + 20, 30, 0};
    *count = 3;
    return 0;
}
#endif
"""
Start = Callable[..., GpuHelper]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program with the library, compiled with these words, and with these variables."""
    helpers: list[GpuHelper] = []

    def begin(*words: str, **variables: str) -> GpuHelper:
        source = tmp_path / "nvml.c"
        source.write_text(NVML)
        library = str(tmp_path / "libnvidia-ml.so.1")
        subprocess.run(["gcc", "-shared", "-fPIC", "-w", *words, "-o", library, str(source)], check=True)
        environ = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path), **variables}
        helpers.append(GpuHelper(environ))
        return helpers[-1]

    yield begin
    for helper in helpers:
        helper.end(True)
        os.waitpid(helper.pid, 0)


def test_a_driver_of_today(start: Start) -> None:
    helper = start("-DNEW")
    gpus = [GpuFacts(number, "GPU-%d0" % number, "NVIDIAX%d" % number, 1000) for number in (0, 1, 3)]
    assert helper.find(SOON) == tuple(gpus)
    time.sleep(0.3)  # over which power is a mean
    samples, _ = helper.read(SOON)
    assert [(gpu.gpu, gpu.busy, gpu.memory) for gpu in samples] == [(0, 0.25, 810), (1, 0.41, 811), (3, 0.25, 813)]
    assert [gpu.power for gpu in samples] == [pytest.approx(400, rel=0.1)] * 3
    again, cpu = helper.read(SOON)
    assert [gpu.busy for gpu in again] == [0.25, 0.41, 0.25]
    assert cpu < 0.1


def test_a_driver_that_lacks_functions(start: Start) -> None:
    helper = start()
    assert helper.find(SOON) == tuple(GpuFacts(each, "GPU-%d0" % each, "NVIDIAX%d" % each, 1000) for each in (0, 1, 3))
    assert helper.read(SOON)[0] == tuple(GpuSample(each, (40 + each) / 100, 900 + each, 70.5) for each in (0, 1, 3))


@pytest.mark.parametrize(
    ("variable", "numbers"),
    [("1,0", [1, 0]), ("GPU-3", [3]), ("MIG-abc", [3]), ("", []), ("-1", []), ("0,9,1", [0]), ("NoDevFiles", [])],
)
def test_the_gpus_that_the_environment_names(start: Start, variable: str, numbers: list[int]) -> None:
    found = start("-DNEW", CUDA_VISIBLE_DEVICES=variable).find(SOON)
    assert found is not None
    assert [{0: 0, 1: 1, 2: 3, 3: 3}[gpu.gpu] for gpu in found] == numbers


def test_a_driver_that_hangs_holds_nobody_up(start: Start) -> None:
    helper = start("-DHANGS")
    assert helper.find(2.0) is None
    assert helper.read(0.0) == ((), 0.0)


def test_a_node_without_the_library_has_no_gpus(tmp_path: Path) -> None:
    helper = GpuHelper({"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(tmp_path)})
    assert helper.find(SOON) == ()
    assert os.waitpid(helper.pid, 0)[1] == 0
