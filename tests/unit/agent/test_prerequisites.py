"""What agents do themselves where no batch script comes first: dependencies, setup, where torchrun meets."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from clocks import Clock
from driver import wait_for

from worldsize.agent.launchers.torchrun import torchrun_argv
from worldsize.agent.outcome.node_record import write_unstarted_record
from worldsize.agent.startup import prerequisites
from worldsize.agent.startup.prerequisites import run_prerequisites, unmet_dependency
from worldsize.common.atomic_files import write_json
from worldsize.errors import RunFailed
from worldsize.plan.array import after_file
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit
from worldsize.state.records import Status
from worldsize.state.result import result

SOURCE = str(Path(__file__).resolve().parents[3] / "src")


def a_run(folder: Path, name: str = "20260101-000000-000abc", **fields) -> tuple[Plan, RunPaths]:
    paths = RunPaths(str(folder / name))
    plan = Plan(name, "n", "lab", 1.0, 0, node_major_layout(2, 1), ("true",), {}, **fields)
    os.makedirs(paths.root)
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    with open(paths.plan, "w") as file:
        file.write(plan.to_json())
    return plan, paths


def waits_for(paths: RunPaths, *others: RunPaths, any_end: bool = False) -> None:
    rows = [{"run": other.run_id, "roots": [other.root], "any_end": any_end} for other in others]
    write_json(after_file(paths.root), rows)


def test_nothing_to_prepare(tmp_path: Path) -> None:
    plan, paths = a_run(tmp_path)
    environ = {"A": "1"}
    assert run_prerequisites(plan, paths, 0, environ) is environ


def test_a_run_starts_once_those_before_it_have_succeeded(tmp_path: Path) -> None:
    _, paths = a_run(tmp_path)
    other, before = a_run(tmp_path, "before")
    waits_for(paths, before)
    for node in (0, 1):
        write_unstarted_record(other, before, node, "", None, 0)
    assert unmet_dependency(paths) == ""
    write_json(before.result, result(other, Status("CANCELLED", "CANCELLED_BY_USER", 130)))
    assert unmet_dependency(paths) == "before to succeed, and that run is CANCELLED"
    waits_for(paths, before, any_end=True)
    assert unmet_dependency(paths) == ""


def test_the_latest_attempt_of_another_run_counts(tmp_path: Path) -> None:
    _, paths = a_run(tmp_path)
    other, before = a_run(tmp_path, "before")
    waits_for(paths, before)
    write_unstarted_record(other, before, 0, "lost a node")
    assert unmet_dependency(paths) == "before to succeed, and that run is FAILED"
    again = RunPaths(before.root, 1)
    for directory in again.directories():
        os.makedirs(directory, exist_ok=True)
    for node in (0, 1):
        write_unstarted_record(other, again, node, "", None, 0)
    assert unmet_dependency(paths) == ""


def test_setup_that_a_signal_has_ended_has_the_code_of_that_signal(tmp_path: Path) -> None:
    """A cancel that reaches the setup before the agent is known by it."""
    plan, paths = a_run(tmp_path, setup=("kill -TERM $$",))
    with pytest.raises(RunFailed) as failed:
        run_prerequisites(plan, paths, 0, os.environ)
    assert failed.value.exit_code == 143
    record = read_exit(paths, 0)
    assert record is not None and record.failure is not None and record.failure.code == 143
    assert "ended with code 143" in record.failure.message


def test_what_is_never_to_start_says_why_and_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        clock.now += seconds
        pauses.append(seconds)

    monkeypatch.setattr(prerequisites, "time", SimpleNamespace(monotonic=clock, sleep=sleep))
    plan, paths = a_run(tmp_path)
    _, before = a_run(tmp_path, "before")
    waits_for(paths, before)
    write_json(before.result, {"summary": {"state": "FAILED"}})
    with pytest.raises(RunFailed, match="before to succeed"):
        run_prerequisites(plan, paths, 1, {})
    assert sum(pauses) >= prerequisites._LAG, "its record may become visible some seconds later"
    record = read_exit(paths, 1)
    assert record is not None and record.failure is not None and record.failure.reason == "DEPENDENCY"


def test_setup_gives_its_environment_and_has_a_log_on_each_node(tmp_path: Path) -> None:
    plan, paths = a_run(tmp_path, setup=("echo here", "export FOUND=$PWD"))
    for node, name in ((0, "batch.log"), (1, "batch-0001.log")):
        found = run_prerequisites(plan, paths, node, {"PATH": os.environ["PATH"]})
        assert found["FOUND"] == paths.code and "RUN" not in found
        with open(os.path.join(paths.root, name)) as file:
            assert file.read() == "here\n"
    assert sorted(name for name in os.listdir(paths.root) if "environment" in name) == []


def test_setup_that_fails_is_on_record(tmp_path: Path) -> None:
    plan, paths = a_run(tmp_path, setup=("true", "sh -c 'exit 5'"))
    with pytest.raises(RunFailed) as caught:
        run_prerequisites(plan, paths, 1, {"PATH": os.environ["PATH"]})
    record = read_exit(paths, 1)
    assert caught.value.exit_code == 5 and record is not None and record.failure is not None
    assert (record.code, record.failure.reason) == (5, "ENVIRONMENT") and "exit 5" in record.failure.message


@pytest.mark.parametrize(("line", "code"), [("exit 0", 1), ("exit 3", 3), (": ${NOTHING:?is missing}", 127)])
def test_setup_that_leaves_its_shell_is_on_record(tmp_path: Path, line: str, code: int) -> None:
    plan, paths = a_run(tmp_path, setup=("true", line, "echo never"))
    with pytest.raises(RunFailed) as caught:
        run_prerequisites(plan, paths, 1, {"PATH": os.environ["PATH"]})
    record = read_exit(paths, 1)
    assert caught.value.exit_code == code and record is not None and record.failure is not None
    assert record.failure.message.endswith("setup ended with code %d: %s" % (0 if code == 1 else code, line))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_setup_cancels(tmp_path: Path, number: int) -> None:
    """As a scheduler sends it: to the agent and to all of its processes."""
    _, paths = a_run(tmp_path, setup=("touch $RUN/up; sleep 600",))
    words = [sys.executable, "-m", "worldsize.agent", paths.root, "--node-rank", "1", "--prepare"]
    agent = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": SOURCE}, stderr=subprocess.PIPE)
    wait_for(lambda: os.path.exists(os.path.join(paths.root, "up")), 60)
    agent.send_signal(number)
    _, err = agent.communicate(timeout=60)
    record = read_exit(paths, 1)
    assert record is not None and (record.stop, record.failure, agent.returncode) == ("cancel", None, 143), err


def endpoint(said: str | None, node: int, hosts: tuple[str, ...] = ("N1", "n2.corp.local")) -> list[str]:
    plan = Plan(
        "r", "n", "lab", 1.0, 0, node_major_layout(2, 4), ("/app/run.sh",), {}, python="python3", rdzv_endpoint=said
    )
    world = RendezvousResult("10.0.0.1", 7777, tuple(Host(name, 8) for name in hosts))
    argv = torchrun_argv(plan, world, plan.nodes[node], RunPaths("/app/runs/r"), {})
    assert argv[:5] == ("python3", "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=4")
    assert "--rdzv-backend=c10d" in argv and argv[-1] == "/app/run.sh"
    return [word.partition("=")[2] for word in argv if word.startswith(("--rdzv-endpoint", "--rdzv-conf"))]


@pytest.mark.parametrize(
    ("said", "first", "second"),
    [
        (None, ["10.0.0.1:7777", "is_host=1"], ["10.0.0.1:7777", "is_host=0"]),
        ("N1:29400", ["N1:29400", "is_host=1"], ["N1:29400", "is_host=0"]),
        ("n1", ["n1:7777", "is_host=1"], ["n1:7777", "is_host=0"]),
        ("N2:29501", ["N2:29501", "is_host=0"], ["N2:29501", "is_host=1"]),
        ("N2", ["N2:29400", "is_host=0"], ["N2:29400", "is_host=1"]),
        ("10.0.0.2:29400", ["10.0.0.2:29400"], ["10.0.0.2:29400"]),
    ],
)
def test_torchrun_meets_where_the_job_says(said: str | None, first: list[str], second: list[str]) -> None:
    assert (endpoint(said, 0), endpoint(said, 1)) == (first, second)


def test_ranks_are_kept_from_what_is_meant_for_the_agent(tmp_path: Path) -> None:
    """INT comes from the cluster to all processes of a task; TERM from the agent."""
    plan, paths = a_run(tmp_path, shielded=True)
    plan = plan._replace(nodes=node_major_layout(1, 1), argv=("grep", "SigBlk", "/proc/self/status"))
    write_json(paths.plan, json.loads(plan.to_json()))
    words = [sys.executable, "-m", "worldsize.agent", paths.root, "--node-rank", "0"]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": SOURCE}, check=True)
    with open(paths.rank_log(0)) as file:
        blocked = int(file.read().split()[1], 16)
    assert blocked == 1 << (signal.SIGINT - 1)
