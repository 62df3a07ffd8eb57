"""What is told of a batch script that ended with 0 although not all in it did."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worldsize.agent.launchers.base import find_launcher
from worldsize.agent.supervision.warnings import node_warnings
from worldsize.plan.plan import BatchPlan, Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RankExit, RunWarning
from worldsize.wings.batch_scripts.agent.step_records import step_file

PLAN = Plan("run-7", "t", "lab", 1.5, 0, node_major_layout(2, 2), ("sh",), {}, launcher="batch")
VIRTUAL = PLAN._replace(batch=BatchPlan(("n0", "n1")))
FAILURE = {"reason": "EXIT_CODE", "message": "rank 1 ended with code 3", "rank": 1}


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(str(tmp_path))
    for each in (*found.directories(), found.steps_dir, found.errors_dir, os.path.dirname(found.rank_log(0))):
        os.makedirs(each, exist_ok=True)
    return found


def write_step(paths: RunPaths, number: int, **fields: object) -> None:
    with open(step_file(paths, number), "w") as file:
        json.dump({"step": number, "command": ["python", "train.py", "--token=hunter2hunter2"], **fields}, file)


def write_error(paths: RunPaths, rank: int) -> None:
    with open(paths.rank_error(rank), "w") as file:
        json.dump({"type": "ValueError", "message": "no such sample", "frames": [], "time": 1.5, "pid": 7}, file)


def warnings(plan: Plan, paths: RunPaths) -> list[RunWarning]:
    return list(find_launcher("batch").warnings(plan, paths, [0]))


def test_a_step_that_failed_and_an_exception_that_no_step_tells_of(paths: RunPaths) -> None:
    write_step(paths, 0, code=0)
    write_step(paths, 1, code=3, failure=FAILURE)
    write_step(paths, 2, code=143, stopped=True)
    for rank in (2, 1):
        write_error(paths, rank)
    step, exception = warnings(VIRTUAL, paths)
    assert (step.id, step.rank) == ("failed-step", 1) and "hunter2" not in step.text
    assert step.text.startswith("step 1 (python train.py --token=") and step.text.endswith(
        "code 3: " + FAILURE["message"]
    )
    assert (exception.id, exception.rank) == ("uncaught-exception", 2)
    assert exception.text == "rank 2 left an uncaught ValueError: no such sample, and ended with 0"


def test_a_task_that_the_real_srun_tells_of(paths: RunPaths) -> None:
    lines = ["srun: error: n1: task 3: Exited with exit code 5", "srun: error: n0: task 0: Terminated"]
    with open(paths.rank_log(0), "w") as file:
        file.write("\n".join(lines) + "\n")
    plan = PLAN._replace(batch=BatchPlan(()))
    text = "task 3 of a step (n1) ended with code 5, and the script continued"
    assert warnings(plan, paths) == [RunWarning("failed-step", text, 3)]
    assert warnings(VIRTUAL, paths) == []


def test_the_node_tells_of_its_script(paths: RunPaths) -> None:
    write_step(paths, 0, code=3, failure=FAILURE)
    ended, failed = RankExit(0, 0, 1.0, 2.0), RankExit(0, 1, 1.0, 2.0)
    assert [each.id for each in node_warnings(VIRTUAL, paths, [ended], [])] == ["failed-step"]
    assert node_warnings(VIRTUAL, paths, [failed], []) == ()
