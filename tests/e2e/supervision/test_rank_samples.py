"""What agents sample of real ranks, and what sampling must never do to a run."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_runs import LocalRun, LocalRuns, until
from nvml_library import compile_nvml

from worldsize.agent.posix import processes
from worldsize.agent.supervision import rank_observers
from worldsize.wings.metrics.agent import intervals, line_file, sample_writer
from worldsize.wings.metrics.agent.gpus import devices, helper
from worldsize.wings.metrics.agent.records import NodeSample, NodeUse, SamplesHeader, from_line

SOON = 20.0
"""Seconds: sooner than what hangs would end by itself."""

WORKS = """
import os, time
from pathlib import Path
end = Path("end")
child = os.fork()
if child == 0:
    kept = bytearray(os.urandom(1 << 20)) * 32
    until = time.process_time() + 0.2
    while time.process_time() < until:
        pass
    print("ready", flush=True)
else:
    Path("read-%s" % os.environ["RANK"]).write_bytes(bytes(1 << 20))
while not end.exists():
    time.sleep(0.02)
if child == 0:
    os._exit(0)
os.wait()
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRuns]:
    """Runs whose agents sample at once, and often."""
    monkeypatch.setattr(intervals, "SHORTEST", 0.05)
    monkeypatch.setattr(intervals, "SHARE", 1.0)
    monkeypatch.setattr(rank_observers, "FIRST_SAMPLE", 0.0)
    monkeypatch.setattr(rank_observers, "FIRST_SAMPLE_PER_AGENT", 0.0)
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


def records(run: LocalRun, node_rank: int) -> list[Any]:
    try:
        return [from_line(line) for line in Path(run.paths.samples(node_rank)).read_bytes().splitlines()]
    except FileNotFoundError:
        return []


def end(run: LocalRun) -> None:
    Path(run.paths.code, "end").touch()


def test_two_nodes_write_a_header_samples_and_what_was_used(start: LocalRuns) -> None:
    run = start.python(WORKS, nodes=2, ranks=2, metrics=True)
    run.said("ready")
    for node_rank in (0, 1):
        until(lambda at=node_rank: any(rank.memory > 32 << 20 for each in records(run, at)[1:] for rank in each.ranks))
    end(run)
    assert run.ended()["state"] == "SUCCEEDED"
    for node_rank in (0, 1):
        header, *samples, use = records(run, node_rank)
        assert isinstance(header, SamplesHeader)
        assert (header.node_rank, header.host, header.gpus) == (node_rank, processes.host_name(), ())
        assert header.cores >= 1
        assert (header.memory or 0) > 64 << 20
        assert all(isinstance(each, NodeSample) for each in samples)
        assert [rank.rank for rank in samples[-1].ranks] == [2 * node_rank, 2 * node_rank + 1]
        times = [header.time, *(each.time for each in samples)]
        assert times == sorted(times)
        for rank in range(2):
            counts = [each.ranks[rank].cpu for each in samples]
            assert counts == sorted(counts)
        assert samples[-1].ranks[0].memory == 0
        assert all((rank.written or 0) >= 1 << 20 for rank in samples[-1].ranks)
        assert isinstance(use, NodeUse)
        assert use.samples == len(samples)
        assert use.cpu >= 0.4
        assert 64 << 20 < use.memory < 4 << 30
        assert os.stat(run.paths.samples(node_rank)).st_mode & 0o777 == 0o600
    assert os.stat(run.paths.samples_dir).st_mode == os.stat(run.paths.attempt_dir).st_mode


def test_a_run_that_is_over_before_the_first_sample_writes_nothing(tmp_path: Path) -> None:
    runs = LocalRuns(str(tmp_path / "home"))
    try:
        run = runs.sh("exit 0", nodes=2, metrics=True)
        assert run.ended()["state"] == "SUCCEEDED"
        assert not os.path.exists(run.paths.samples_dir)
        assert not os.path.exists(run.paths.metrics_dir)
    finally:
        runs.destroy()


def test_without_metrics_nothing_is_sampled(start: LocalRuns) -> None:
    run = start.python(WORKS)
    run.said("ready")
    end(run)
    assert run.ended()["state"] == "SUCCEEDED"
    assert not os.path.exists(run.paths.samples_dir)


@pytest.mark.exhaustive(unless=["link"])
@pytest.mark.parametrize("what", ["link", "file", "directory of another"])
def test_where_samples_cannot_be_written_the_run_goes_on(start: LocalRuns, tmp_path: Path, what: str) -> None:
    run = start.sh("echo ready; while [ ! -e begin ]; do sleep 0.02; done; sleep 0.3", metrics=True)
    # The agent makes the directory no sooner than it has found the ranks; what stands in its place is not followed.
    shutil.rmtree(run.paths.samples_dir, ignore_errors=True)
    try:
        if what == "link":
            os.symlink(tmp_path / "missing", run.paths.samples_dir)
        elif what == "file":
            Path(run.paths.samples_dir).touch()
        else:
            os.mkdir(run.paths.samples_dir, 0o500)
            os.symlink("/dev/null", run.paths.samples(0))
    except FileExistsError:
        pass  # the agent was sooner, which is as well
    run.said("ready")
    Path(run.paths.code, "begin").touch()
    assert run.ended()["state"] == "SUCCEEDED"


def test_a_full_disk_ends_the_samples_and_not_the_run(start: LocalRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write(file: int, data: bytes) -> None:
        if written:
            raise OSError(errno.ENOSPC, "full")
        written.append(os.write(file, data))

    monkeypatch.setattr(line_file, "write_all", write)
    run = start.python(WORKS, metrics=True)
    run.said("ready")
    until(lambda: len(records(run, 0)) == 1)
    end(run)
    assert run.ended()["state"] == "SUCCEEDED"
    assert len(records(run, 0)) == 1


def test_samples_that_somebody_removes_do_not_come_again(start: LocalRuns) -> None:
    run = start.python(WORKS, metrics=True)
    run.said("ready")
    until(lambda: len(records(run, 0)) > 1)
    shutil.rmtree(run.paths.samples_dir)
    end(run)
    assert run.ended()["state"] == "SUCCEEDED"
    assert not os.path.exists(run.paths.samples_dir)


def test_a_file_server_that_hangs_holds_the_end_up_for_a_moment(
    start: LocalRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_file, "write_all", lambda file, data: time.sleep(600))
    run = start.python(WORKS, metrics=True)
    run.said("ready")
    until(lambda: os.path.exists(run.paths.samples(0)))
    end(run)
    assert run.ended(SOON)["state"] == "SUCCEEDED"


def test_a_program_that_asks_gpus_ends_with_the_run_and_with_the_agent(
    start: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program hangs, as one does whose driver hangs."""
    pids = tmp_path / "pids"
    pids.mkdir()
    hangs = "import os, time; open(%r + '/%%d' %% os.getpid(), 'w'); time.sleep(600)" % str(pids)
    monkeypatch.setattr(devices, "has_gpus", lambda environ: True)
    monkeypatch.setattr(helper, "_PROGRAM", hangs.replace("{", "{{").replace("}", "}}"))
    run = start.python(WORKS, metrics=True)
    run.said("ready")
    until(lambda: os.listdir(pids))
    end(run)
    assert run.ended()["state"] == "SUCCEEDED"
    assert "leftover" not in Path(run.paths.exit_record(0)).read_text()
    until(lambda: processes.start_time(int(os.listdir(pids)[0])) is None, what="the program's end")
    header, *_, use = records(run, 0)
    assert (header.gpus, use.gpus) == ((), ())


@pytest.mark.exhaustive
def test_gpus_are_sampled(start: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "has_gpus", lambda environ: True)
    compile_nvml(tmp_path, "-DNEW")
    monkeypatch.setattr(sample_writer, "has_kernels_pids", lambda: True)
    pids = tmp_path / "pids"
    environ = {"LD_LIBRARY_PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": "0,1", "NVML_PIDS": str(pids)}
    run = start.python(WORKS, metrics=True, environ=environ)
    run.said("ready")
    pids.write_text(str(processes.trees([run.agent(0)])[-1]))
    seen = len(records(run, 0))
    until(lambda: sum(len(each.gpus) == 2 for each in records(run, 0)[seen:]) > 2, what="samples of GPUs")
    end(run)
    assert run.ended()["state"] == "SUCCEEDED"
    header, *samples, use = records(run, 0)
    assert [(gpu.gpu, gpu.uuid, gpu.memory) for gpu in header.gpus] == [(0, "GPU-00", 1000), (1, "GPU-10", 1000)]
    assert [(*gpu[:3], gpu.own) for gpu in use.gpus] == [(0, 0.25, 810, None), (1, 0.41, 811, True)]
    first = next(each.time for each in samples if each.gpus)
    assert use.first_busy == pytest.approx(first - header.time, abs=0.1)


@pytest.mark.exhaustive
def test_a_driver_that_hangs_outlives_no_agent(
    start: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "has_gpus", lambda environ: True)
    compile_nvml(tmp_path, "-DHANGS")
    run = start.python(WORKS, metrics=True, environ={"LD_LIBRARY_PATH": str(tmp_path)})
    run.said("ready")
    agent = run.agent(0)
    until(lambda: asking_gpus(agent), what="the program that asks GPUs")
    (program,) = asking_gpus(agent)
    os.kill(agent, signal.SIGKILL)
    assert run.ended()["state"] == "FAILED"
    until(lambda: processes.start_time(program) is None, what="the program's end")


def asking_gpus(agent: int) -> list[int]:
    found = processes.trees([agent])
    return [pid for pid in found if any("gpus.program" in word for word in processes.command_line(pid))]


@pytest.mark.exhaustive
def test_a_launchers_ranks_are_told_apart(start: LocalRuns) -> None:
    pytest.importorskip("torch")
    run = start.python(
        WORKS, nodes=1, ranks=2, metrics=True, launcher="torchrun", framework="torch", python=sys.executable
    )
    run.said("ready")
    until(lambda: _memories(run)[1] > 32 << 20, what="a sample of rank 1")
    end(run)
    assert run.ended()["state"] == "SUCCEEDED"


def _memories(run: LocalRun) -> list[int]:
    samples = records(run, 0)[1:]
    return [rank.memory for rank in samples[-1].ranks] if samples else [0, 0]
