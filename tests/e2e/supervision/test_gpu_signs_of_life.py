"""Runs that say nothing while their GPUs work, or wait, as a library tells that plays NVML. Which readings show work:
tests/unit/wings/hangs/judgement/test_gpu_signs.py."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runs import LocalRun, LocalRuns, until
from nvml_library import compile_nvml

from worldsize.agent.posix import processes
from worldsize.wings.hangs.agent import node_gpus
from worldsize.wings.metrics.agent.gpus import devices

pytestmark = pytest.mark.slow

SPEAKS_ONCE = """
import os, time
while not os.path.exists("go"):
    time.sleep(0.02)
print("ready", flush=True)
while not os.path.exists("end"):
    time.sleep(0.05)
"""
LIMIT = 3.0
LOOKS = 20
"""Looks at signs of life in that time, each of which reads the GPUs."""

IDLES, WORKS, SPINS = "70000 0", "540000 44", "190000 0"
"""Milliwatts and percents. All are 100 % busy."""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRuns]:
    monkeypatch.setattr(devices, "has_gpus", lambda environ: True)
    monkeypatch.setattr(node_gpus, "has_kernels_pids", lambda: False)
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


class Gpus:
    """What the library tells, and how often it has been asked."""

    def __init__(self, directory: Path, *words: str) -> None:
        compile_nvml(directory, *words)
        self._file, self._new = directory / "levels", directory / "levels.new"
        self.set(IDLES)
        self.environ = {"LD_LIBRARY_PATH": str(directory), "NVML_LEVELS": str(self._file)}

    def set(self, levels: str) -> None:
        self._new.write_text(levels)
        os.rename(self._new, self._file)

    def read(self, count: int) -> None:
        """Wait until they have been read so many times more."""
        before = self._reads()
        until(lambda: self._reads() >= before + 6 * count, what="%d readings" % count)  # two values of three GPUs

    def _reads(self) -> int:
        try:
            return os.stat(str(self._file) + ".reads").st_size
        except FileNotFoundError:
            return 0


def looks(run: LocalRun) -> list[str]:
    return glob.glob(os.path.join(run.paths.stacks_dir, "node-0000-*"))


def start_ranks(runs: LocalRuns, environ: dict[str, str], ranks: int = 1) -> LocalRun:
    run = runs.python(SPEAKS_ONCE, ranks=ranks, watchdog_timeout=LIMIT, environ=environ)
    os.makedirs(run.paths.stacks_dir, exist_ok=True)  # the hook of the wing makes it, in ranks of an installed agent
    return run


def touch(run: LocalRun, name: str) -> None:
    Path(run.paths.code, name).touch()


def test_a_silent_run_is_looked_at_once_its_gpus_do_not_work(
    start: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpus = Gpus(tmp_path)
    for name, value in gpus.environ.items():
        monkeypatch.setenv(name, value)
    run = start_ranks(start, gpus.environ, ranks=2)
    gpus.read(1)  # the watch has begun
    gpus.set(WORKS)
    touch(run, "go")
    run.said("ready")
    gpus.read(3 * LOOKS)
    assert looks(run) == []
    gpus.set(SPINS)
    until(lambda: os.path.exists(run.paths.stacks_of_node(0, 1)), what="a look")
    touch(run, "end")
    assert run.ended()["state"] == "SUCCEEDED"


@pytest.mark.exhaustive
def test_a_driver_that_hangs_keeps_nobody_from_the_look(
    start: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_nvml(tmp_path, "-DHANGS")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    run = start_ranks(start, {"LD_LIBRARY_PATH": str(tmp_path)})
    touch(run, "go")
    until(lambda: os.path.exists(run.paths.stacks_of_node(0, 1)), what="a look")
    (asking,) = [
        pid
        for pid in processes.trees([run.agent(0)])
        if any("gpus.program" in word for word in processes.command_line(pid))
    ]
    touch(run, "end")
    assert run.ended()["state"] == "SUCCEEDED"
    until(lambda: processes.start_time(asking) is None, what="the program's end")
