"""Which task of a step failed first, by srun's own lines of Slurm 22.05 and 24.11."""

from __future__ import annotations

import pytest

from worldsize.wings.batch_scripts.agent.script_failures import EndedTask, first_failed_task

OTHERS_WORK = """\
srun: error: node2: task 1: Exited with exit code 1
srun: launch/slurm: _step_signal: Terminating StepId=2.0
slurmstepd-node1: error: *** STEP 2.0 ON node1 CANCELLED AT 2026-11-26T02:52:48 ***
srun: error: node1: task 0: Terminated
srun: Force Terminated StepId=2.0
"""
KILLED = """\
srun: error: node1: task 0: Killed
srun: Terminating StepId=9.0
srun: error: node2: task 1: Terminated
"""
ALONE = "srun: error: node1: task 0: Exited with exit code 3\n"
SEVERAL = "srun: error: node[1-2]: tasks 2-3: Exited with exit code 2\n"


@pytest.mark.parametrize(
    ("text", "code", "first"),
    [
        (OTHERS_WORK, 143, EndedTask(1, "node2", 1)),
        ("step 1\n" + ALONE + "went on\n" + OTHERS_WORK, 143, EndedTask(1, "node2", 1)),
        (KILLED, 143, EndedTask(0, "node1", 137)),
        (ALONE, 3, EndedTask(0, "node1", 3)),
        (SEVERAL, 2, EndedTask(2, "node[1-2]", 2)),
        ("srun: error: node1: task 0: Segmentation fault (core dumped)\n", 139, EndedTask(0, "node1", 139)),
        (ALONE, 7, None),
        ("", 143, None),
        ("srun: error: node1: task 0: something new\n", 1, None),
    ],
)
def test_the_first_task_that_failed(text: str, code: int, first: EndedTask | None) -> None:
    assert first_failed_task(text.splitlines(), code) == first
