"""What agents find out of their nodes while real ranks run, and what that must never do to a run."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from local_runs import LocalRun, LocalRuns, until
from pythons import supported

from worldsize.agent.posix import processes
from worldsize.agent.supervision import rank_observers
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.agent_bundle import ensure_agent_bundle
from worldsize.wings.facts.agent import helper
from worldsize.wings.facts.records import read_node_files

SOON = 20.0
"""Seconds: sooner than what hangs would end by itself."""

WORKS = """
import time
from pathlib import Path
print("ready", flush=True)
while not Path("end").exists():
    time.sleep(0.02)
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalRuns]:
    """Runs whose agents look at once."""
    monkeypatch.setattr(rank_observers, "DELAY", 0.0)
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


def complete(run: LocalRun) -> bool:
    return any(node.complete for node in read_node_files(run.paths))


def end(run: LocalRun) -> None:
    Path(run.paths.code, "end").touch()
    assert run.ended(SOON)["state"] == "SUCCEEDED"


def test_virtual_nodes_are_one_machine_that_one_agent_looks_at(start: LocalRuns) -> None:
    run = start.python(WORKS, nodes=2)
    until(lambda: complete(run))
    end(run)
    first, second = read_node_files(run.paths)
    assert (first.node_rank, second.node_rank) == (0, 1)
    assert (first.machine, first.host) == (second.machine, processes.host_name())
    assert first.cores >= 1
    assert {"cores", "memory", "kernel"} <= set(dict(first.hardware))
    assert dict(first.software)["Python"].startswith("3.")
    assert os.listdir(run.paths.facts_dir) == ["node-0000.json"]
    assert os.stat(run.paths.facts_dir).st_mode == os.stat(run.paths.attempt_dir).st_mode
    assert os.stat(run.paths.node_facts(0)).st_mode & 0o777 == 0o600


def test_a_run_that_is_over_at_once_pays_nothing(tmp_path: Path) -> None:
    runs = LocalRuns(str(tmp_path / "home"))
    try:
        run = runs.sh("exit 0", nodes=2)
        assert run.ended()["state"] == "SUCCEEDED"
        assert not os.path.exists(run.paths.facts_dir)
    finally:
        runs.destroy()


def test_what_hangs_holds_up_no_end_and_is_nobodys_leftover(
    start: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = tmp_path / "pids"
    pids.mkdir()
    hangs = "import os, time; open(%r + '/%%d' %% os.getpid(), 'w'); time.sleep(600)" % str(pids)
    monkeypatch.setattr(helper, "_PROGRAM", hangs)
    run = start.python(WORKS)
    until(lambda: os.listdir(pids))
    end(run)
    assert "leftover" not in Path(run.paths.exit_record(0)).read_text()
    until(lambda: processes.start_time(int(os.listdir(pids)[0])) is None, what="the program's end")


def test_an_mpirun_that_hangs_does_neither(start: LocalRuns, tmp_path: Path) -> None:
    """The program is a child of the agent's process, and becomes the agent's own once that is killed."""
    pid = tmp_path / "pid"
    (tmp_path / "bin").mkdir()
    mpirun = tmp_path / "bin" / "mpirun"
    mpirun.write_text("#!/bin/sh\necho $$ >%s\nexec /bin/sleep 600\n" % pid)
    mpirun.chmod(0o755)
    run = start.python(WORKS, environ={"PATH": "%s:/usr/bin:/bin" % mpirun.parent})
    until(lambda: pid.exists() and pid.read_text().endswith("\n"))
    end(run)
    assert "leftover" not in Path(run.paths.exit_record(0)).read_text()
    until(lambda: processes.start_time(int(pid.read_text())) is None, what="the end of mpirun")


@pytest.mark.exhaustive(unless=["file"])
@pytest.mark.parametrize("what", ["link", "file", "removed"])
def test_where_nothing_can_be_written_the_run_goes_on(
    start: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    over = tmp_path / "over"
    after = "; open(%r, 'w')" % str(over)
    monkeypatch.setattr(helper, "_PROGRAM", helper._PROGRAM + after)
    run = start.sh("echo ready; while [ ! -e end ]; do sleep 0.02; done")
    if what == "link":
        os.symlink(tmp_path / "missing", run.paths.facts_dir)
    elif what == "file":
        Path(run.paths.facts_dir).touch()
    until(over.exists)
    end(run)


def test_out_of_the_one_file_that_travels_to_nodes(tmp_path: Path) -> None:
    runs = LocalRuns(str(tmp_path / "home"))
    try:
        run = runs.spawned("while [ ! -e end ]; do sleep 0.02; done")
        until(lambda: complete(run))
        end(run)
    finally:
        runs.destroy()


@pytest.mark.parametrize("python", supported()[:1])
def test_on_the_oldest_python(tmp_path: Path, python: str) -> None:
    paths = RunPaths(str(tmp_path / "run"))
    os.makedirs(paths.attempt_dir)
    order = {
        "path": paths.node_facts(0), "nodes": [0], "agent": os.getpid(), "argv": ["python3"], "directory": "/",
        "variables": {"PATH": os.environ["PATH"]},
    }  # fmt: skip
    words = [python, "-I", "-S", "-c", helper._PROGRAM, ensure_agent_bundle(str(tmp_path / "cache"))]
    subprocess.run(words, env={**os.environ, "WORLDSIZE_FACTS_ORDER": json.dumps(order)}, check=True, timeout=60)
    (facts,) = read_node_files(paths)
    assert "kernel" in dict(facts.hardware)
