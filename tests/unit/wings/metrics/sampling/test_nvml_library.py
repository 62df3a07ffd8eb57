"""The program that asks GPUs, with a small library in C that plays NVML."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nvml_library import compile_nvml

from worldsize.wings.metrics.agent.gpus.helper import GpuHelper, GpuTraffic
from worldsize.wings.metrics.agent.records import GpuFacts, GpuSample

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

SOON = 30.0
Start = Callable[..., GpuHelper]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program with the library, compiled with these words, and with these variables."""
    helpers: list[GpuHelper] = []

    def begin(*words: str, **variables: str) -> GpuHelper:
        compile_nvml(tmp_path, *words)
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
    assert helper.traffic == [GpuTraffic(0, 0.55, False), GpuTraffic(1, 0.07, False)]  # the last one is divided
    again, cpu = helper.read(SOON)
    assert [gpu.busy for gpu in again] == [0.25, 0.41, 0.25]
    assert cpu < 0.1


def test_a_driver_that_lacks_functions(start: Start) -> None:
    helper = start()
    assert helper.find(SOON) == tuple(GpuFacts(each, "GPU-%d0" % each, "NVIDIAX%d" % each, 1000) for each in (0, 1, 3))
    assert helper.read(SOON)[0] == tuple(GpuSample(each, (40 + each) / 100, 900 + each, 70.5) for each in (0, 1, 3))
    assert helper.traffic == [GpuTraffic(each, 0.07, False) for each in (0, 1, 3)]


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
