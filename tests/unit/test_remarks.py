"""What the batch script's log adds to a failure that nobody else can explain."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.plan.paths import RunPaths
from worldsize.service.remarks import while_ending, with_remarks
from worldsize.state.records import Failure, Reason, RunState, Status

KILLED = Status(RunState.FAILED, Reason.SIGNAL, 137, "Slurm: the job failed by signal 9 (KILL)", started=5.0)


def remarked(tmp_path: Path, text: str, status: Status) -> Status:
    paths = RunPaths(str(tmp_path))
    Path(paths.batch_log).write_text(text)
    return with_remarks(paths, status)


@pytest.mark.parametrize(
    "line",
    [
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=7.0 cgroup. Some of your processes may have been",
        "slurmstepd-gpu01: error: Detected 1 oom_kill event in StepId=7.0. Some of the tasks have been OOM Killed.",
        "slurmstepd-node1: error: Exceeded job memory limit",
        "slurmstepd: error: Job 7 exceeded memory limit (208896 > 102400), being killed",
        "slurmstepd: error: StepId=7.0 exceeded memory limit (336887808 > 104857600), being killed",
    ],
)
def test_a_step_that_was_killed_for_its_memory(tmp_path: Path, line: str) -> None:
    text = "srun: something\n%s\nsrun: error: node1: task 0: Killed\n" % line
    found = remarked(tmp_path, text, KILLED)
    assert (found.state, found.reason, found.exit_code) == (RunState.FAILED, Reason.OUT_OF_MEMORY, 137)
    assert found.message == "Slurm: " + line.partition("error: ")[2]
    assert found.failure is not None and found.failure.reason == Reason.OUT_OF_MEMORY


@pytest.mark.parametrize("line", ["ranks say: exceeded memory limit", "srun: error: node1: task 0: Killed", ""])
def test_other_lines_explain_nothing_of_ranks_that_had_started(tmp_path: Path, line: str) -> None:
    assert remarked(tmp_path, line + "\n", KILLED) == KILLED


def test_a_rank_that_is_known_to_have_failed_stays_the_reason(tmp_path: Path) -> None:
    failure = Failure(Reason.EXIT_CODE, "rank 1 exited with code 3", 0, 1, 3)
    known = Status(RunState.FAILED, failure.reason, 3, failure.message, failure)
    assert remarked(tmp_path, "slurmstepd: error: Exceeded job memory limit\n", known) == known


UNREACHED = """\
srun: error: Task launch for StepId=7.0 failed on node node2: Communication connection failure
srun: error: Task launch for StepId=7.0 failed on node node4: Communication connection failure
srun: error: Application launch failed: Communication connection failure
srun: Job step aborted: Waiting up to 7 seconds for job step to finish.
srun: error: node1: task 0: Killed
"""
WHICH = (
    "srun could not start anything on node2,node4: Communication connection failure"
    " (to do without: slurm.exclude: node2,node4)"
)


def test_nodes_that_srun_cannot_start_on_are_named_not_those_whose_step_it_ends_then(tmp_path: Path) -> None:
    logs = Path(RunPaths(str(tmp_path)).logs_dir)
    logs.mkdir(parents=True)
    (logs / "agent-0000.log").write_text("slurmstepd-node1: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-22 ***\n")
    found = remarked(tmp_path, UNREACHED, KILLED._replace(started=None))
    assert (found.reason, found.exit_code) == (Reason.NODE_FAILURE, 137)
    assert found.message == "no rank was started: " + WHICH
    assert found.failure is not None and found.failure.message == found.message


def test_a_step_that_was_ended_says_nothing_of_why(tmp_path: Path) -> None:
    logs = Path(RunPaths(str(tmp_path)).logs_dir)
    logs.mkdir(parents=True)
    (logs / "agent-0000.log").write_text("slurmstepd-node1: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-11-22 ***\n")
    found = remarked(tmp_path, "srun: error: node1: task 0: Killed\n", KILLED._replace(started=None))
    assert found.message == "no rank was started: srun: error: node1: task 0: Killed"


def test_slurm_may_wait_long_for_such_a_node_and_it_is_told_before(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path))
    ending = Status(RunState.STARTING, message="Slurm: it is ending (COMPLETING)")
    assert while_ending(paths, ending) == ending
    Path(paths.batch_log).write_text(UNREACHED)
    assert while_ending(paths, ending).message == WHICH + ". Slurm: it is ending (COMPLETING)"
    assert while_ending(paths, ending._replace(started=5.0)) == ending._replace(started=5.0)
