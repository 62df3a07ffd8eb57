"""Which processes of a node are the ranks that a person asks about: told of by the agent, or found by what they say of
themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from worldsize.wings.hangs.agent.node_stacks import PROGRAM, node_roots, started_processes

RUN = "20260101-120000-nodestacks"
Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process that waits, with these variables; its pid, once it runs."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*argv: str, **variables: str) -> int:
        words = argv or (sys.executable, "-S", "-c", "print(flush=True); input()")
        environ = {"PATH": os.environ["PATH"], **variables}
        process = subprocess.Popen(words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()
        return process.pid

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def told(**pids: object) -> list[dict[str, Any]]:
    return [
        {"event": "agent_started"},
        {"event": "ranks_started", "pids": {name[1:]: pid for name, pid in pids.items()}},
    ]


@pytest.mark.parametrize(
    ("events", "ranks", "found"),
    [
        ([], (0, 1), {}),
        (told(r0=70, r1=71), (0, 1), {0: 70, 1: 71}),
        (told(r2=70), (2, 3), {2: 70, 3: 70}),
        (told(r0=70) + told(r0=80), (0,), {0: 80}),
        (told(r1=70), (0, 1), {1: 70}),
        ([{"event": "ranks_started", "pids": [70]}], (0,), {}),
        (told(r0="70", rx=3, r1=True, r2=-1), (0, 1, 2), {}),
    ],
)
def test_the_processes_that_an_agent_has_told_of(events: Any, ranks: tuple[int, ...], found: dict[int, int]) -> None:
    assert started_processes(events, ranks) == found


def test_a_process_that_is_told_of_counts_only_as_the_runs_own(start: Start) -> None:
    """Its number may be another program's by now."""
    rank, other = start(WORLDSIZE_RUN_ID=RUN), start(WORLDSIZE_RUN_ID=RUN + "_1")
    assert node_roots(RUN, (0, 1, 2), told(r0=rank, r1=other, r2=2**22 + 1)) == {0: rank}


def test_ranks_that_others_have_started_are_found(start: Start) -> None:
    """As by mpirun on another node; the outermost process of each, and that of a step rather than the batch script."""
    ours = {"WORLDSIZE_RUN_ID": RUN}
    script = start(SLURM_PROCID="0", **ours)
    step = start(SLURM_PROCID="0", SLURM_STEP_ID="0", **ours)
    shell = start("sh", "-c", "%s -S -c 'print(flush=True); input()'; true" % sys.executable, PMI_RANK="1", **ours)
    start(RANK="2", **ours)
    start(RANK="1", WORLDSIZE_RUN_ID="another")
    assert node_roots(RUN, (0, 1), ()) == {0: step, 1: shell} and script != step


def test_what_cannot_be_done_is_one_sentence(tmp_path: Any) -> None:
    for variables in (
        {"WORLDSIZE_RUN_DIR": str(tmp_path)},
        {"WORLDSIZE_RUN_DIR": str(tmp_path), "WORLDSIZE_NODE_RANK": "0"},
    ):
        environ = {**variables, "PYTHONPATH": os.pathsep.join(sys.path)}
        words = [sys.executable, "-c", PROGRAM, "0", "1", "0"]
        done = subprocess.run(words, env=environ, capture_output=True, text=True)
        assert done.returncode == 1 and done.stderr.startswith("its stacks are not taken: "), done
    bare = [sys.executable, "-I", "-S", "-c", PROGRAM, "0", "1", "0"]
    done = subprocess.run(bare, env={"WORLDSIZE_RUN_DIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.stderr == "the run was started by a release of worldsize that has no `stacks`\n"
