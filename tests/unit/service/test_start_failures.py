"""What the batch script's log adds to a failure that nobody else can explain."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.start_failures import with_cause, with_ending_cause
from worldsize.service.runs.startup_wait import with_startup_wait
from worldsize.state.records import Failure, Reason, RunState, Status

KILLED = Status(RunState.FAILED, Reason.SIGNAL, 137, "Slurm: the job failed by signal 9 (KILL)", started=5.0)


def remarked(tmp_path: Path, text: str, status: Status, cancelled: bool = False) -> Status:
    paths = RunPaths(str(tmp_path))
    Path(paths.batch_log).write_text(text)
    return with_cause(paths, status, cancelled)


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


def test_an_agent_that_was_killed_before_it_left_anything_ended_the_others(tmp_path: Path) -> None:
    """Found by chaos: the agent that had begun on the other node was told to end, and that was taken for the cause."""
    text = "srun: error: node2: task 1: Killed\nsrun: error: node1: task 0: Exited with exit code 143\n"
    found = remarked(tmp_path, text, KILLED)
    assert (found.state, found.reason, found.exit_code) == (RunState.FAILED, Reason.NODE_FAILURE, 137)
    assert found.message == "no rank was started: the agent on node2 was killed (SIGKILL)"


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
    " (to exclude it: slurm.exclude: node2,node4)"
)


UNSTARTED = KILLED._replace(started=None)


def test_what_an_attempt_before_this_one_said_is_not_its_cause(tmp_path: Path) -> None:
    again = (
        UNREACHED + "worldsize: attempt 1\nsrun: error: Unable to create step for job 7: Job/step already completing\n"
    )
    found = remarked(tmp_path, again, UNSTARTED)
    assert found.message.endswith("srun: error: Unable to create step for job 7: Job/step already completing")


REQUEUED = """\
slurmstepd-node1: error: *** JOB 8 ON node1 CANCELLED AT 2026-11-27T07:56:28 DUE TO PREEMPTION ***
srun: error: node2: task 1: Exited with exit code 143
"""
NOT_BEGUN = Status(RunState.FAILED, Reason.EXIT_CODE, 1, "Slurm: the job failed with code 1")


@pytest.mark.parametrize(("attempt", "text"), [(1, REQUEUED), (2, "worldsize: attempt 1\n" + REQUEUED)])
def test_an_attempt_whose_script_was_never_started_has_said_nothing(tmp_path: Path, attempt: int, text: str) -> None:
    """Slurm 22.05 gave up a job that was started again too early ("Job credential revoked"): of its attempt 0, whose
    ranks had run, that was said to have started none."""
    paths = RunPaths(str(tmp_path), attempt)
    Path(paths.batch_log).write_text(text)
    Path(paths.events_dir).mkdir(parents=True)  # `worldsize requeue` makes it
    found = with_cause(paths, NOT_BEGUN, False)
    assert found.message == "Slurm: the job failed with code 1, before the script of attempt %d began" % attempt
    assert (found.state, found.reason, found.exit_code) == (RunState.FAILED, Reason.EXIT_CODE, 1)
    ended = Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, 130, "Slurm: cancelled by root")
    assert with_cause(paths, ended, False) == ended, "while it waited again, after it was preempted"
    assert with_cause(paths, Status(RunState.LOST, exit_code=1), False).state == RunState.LOST
    ending = Status(RunState.STARTING, message="Slurm: it is ending (COMPLETING)")
    Path(paths.batch_log).write_text(UNREACHED)
    assert with_ending_cause(paths, ending) == ending


def test_a_log_that_an_attempt_has_written_to_is_its_own(tmp_path: Path) -> None:
    """Where its mark is too far up, and where the compute's scripts write none: an agent has begun it."""
    paths = RunPaths(str(tmp_path), 1)
    failed = "worldsize: setup failed with code 3: false\n"
    for text in ("worldsize: attempt 1\n" + failed, "loading\n" * 1000 + failed):
        Path(paths.batch_log).write_text(text)
        assert with_cause(paths, NOT_BEGUN, False).message == "setup failed with code 3: false", text
    Path(paths.batch_log).write_text(failed)
    Path(paths.logs_dir).mkdir(parents=True)
    assert with_cause(paths, NOT_BEGUN, False).message == "setup failed with code 3: false"


def test_a_run_whose_ranks_had_started_has_other_causes(tmp_path: Path) -> None:
    events = Path(RunPaths(str(tmp_path)).events(0))
    events.parent.mkdir(parents=True)
    events.write_text('{"event": "ranks_started", "time": 5.0}\n')
    assert remarked(tmp_path, UNREACHED, KILLED) == KILLED


def test_nodes_that_did_not_come_up_are_the_cause_unless_it_is_known_why(tmp_path: Path) -> None:
    failure = Failure(Reason.RENDEZVOUS, "1 of 2 nodes did not come up: 1 within 60 s")
    known = Status(RunState.FAILED, failure.reason, 1, failure.message, failure, started=5.0)
    head = "srun: error: node1: task 0: Exited with exit code 1\n"
    assert remarked(tmp_path, head, known) == known
    assert remarked(tmp_path, UNREACHED + head, known).message == "no rank was started: " + WHICH


def test_slurm_may_wait_long_for_a_node_that_is_not_reached_and_it_is_told_before(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path))
    ending = Status(RunState.STARTING, message="Slurm: it is ending (COMPLETING)")
    assert with_ending_cause(paths, ending) == ending
    Path(paths.batch_log).write_text(UNREACHED)
    assert with_ending_cause(paths, ending).message == WHICH + ". Slurm: it is ending (COMPLETING)"
    assert with_ending_cause(paths, ending._replace(started=5.0)) == ending._replace(started=5.0)


LOST = Status(RunState.LOST, None, 1, "its srun (process 7) is gone")


@pytest.mark.parametrize(
    ("line", "reason", "message"),
    [
        ("worldsize: setup failed with code 1: module load x", Reason.ENVIRONMENT, "setup failed with code 1: module"),
        ("srun: error: Task launch for StepId=7.0 failed on node n2: Refused", Reason.NODE_FAILURE, "no rank was"),
        ("srun: error: Unable to create step for job 7: Invalid", Reason.EXIT_CODE, "no rank was started: srun"),
        ("slurmstepd: error: Exceeded job memory limit", Reason.OUT_OF_MEMORY, "Slurm: Exceeded job memory limit"),
    ],
)
def test_who_is_gone_and_has_said_why_is_not_lost(tmp_path: Path, line: str, reason: str, message: str) -> None:
    found = remarked(tmp_path, line + "\n", LOST)
    assert (found.state, found.reason, found.exit_code) == (RunState.FAILED, reason, 1)
    assert found.message.startswith(message) and found.failure is not None and found.failure.message == found.message


def test_a_setup_line_that_spoke_last_is_no_cause_of_a_loss(tmp_path: Path) -> None:
    assert remarked(tmp_path, "loading the data\n", LOST) == LOST


ENDED = "slurmstepd-node1: error: *** STEP 7.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO %s ***\n"


@pytest.mark.parametrize("status", [LOST, Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, 130, "cancelled")])
@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("TIME LIMIT", Reason.TIME_LIMIT),
        ("PREEMPTION", Reason.PREEMPTED),
        ("NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", Reason.NODE_FAILURE),
    ],
)
def test_what_slurm_ended_by_itself_nobody_cancelled(tmp_path: Path, status: Status, words: str, reason: str) -> None:
    found = remarked(tmp_path, ENDED % words, status)
    assert (found.state, found.reason, found.exit_code) == (RunState.FAILED, reason, 1)
    assert found.message == "Slurm: STEP 7.0 ON node1 CANCELLED AT 2026-01-01T00:00:00 DUE TO " + words


def test_what_somebody_cancelled_stays_so(tmp_path: Path) -> None:
    status = Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, 130, "cancelled")
    assert remarked(tmp_path, ENDED.replace(" DUE TO %s", ""), status) == status
    assert remarked(tmp_path, ENDED % "TIME LIMIT", status, cancelled=True) == status


def test_a_setup_line_that_left_half_a_line_is_found(tmp_path: Path) -> None:
    text = "50 %\n100 %worldsize: setup failed with code 6: curl -O x\n"
    found = remarked(tmp_path, text, UNSTARTED)
    assert (found.reason, found.message) == (Reason.ENVIRONMENT, "setup failed with code 6: curl -O x")


STEP = "source env.sh"


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (LOST, Reason.ENVIRONMENT, "setup ended the run: " + STEP),
        (UNSTARTED._replace(exit_code=4), Reason.ENVIRONMENT, "setup ended the run with code 4: " + STEP),
        (
            Status(RunState.FAILED, Reason.TIME_LIMIT, 1, "Slurm: TIMEOUT after 2 min"),
            Reason.TIME_LIMIT,
            "Slurm: TIMEOUT after 2 min, at this line of setup: " + STEP,
        ),
    ],
)
def test_what_ended_during_setup_names_the_line(tmp_path: Path, status: Status, reason: str, message: str) -> None:
    Path(RunPaths(str(tmp_path)).batch_log + ".step").write_text(STEP + "\n")
    found = remarked(tmp_path, "loading\n" * 1000, status)
    assert (found.state, found.reason, found.message) == (RunState.FAILED, reason, message)


STARTING = Status(RunState.STARTING)
PLAN = Plan("r", "t", "lab", 1.0, 0, node_major_layout(4, 1), ("true",), {})


@pytest.mark.parametrize(("name", "node"), [("batch.log.step", 0), ("batch-0001.log.step", 1)])
def test_a_run_that_waits_for_setup_says_for_which_line(tmp_path: Path, name: str, node: int) -> None:
    paths, plan = RunPaths(str(tmp_path)), PLAN._replace(setup=(STEP,))
    assert with_startup_wait(paths, STARTING, plan) == STARTING
    (tmp_path / name).write_text(STEP + "\n")
    assert with_startup_wait(paths, STARTING, plan).message == "node %d executes setup: %s" % (node, STEP)


def test_a_run_that_waits_for_nodes_says_for_which_and_why(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path))
    Path(paths.events_dir).mkdir(parents=True)
    Path(paths.rendezvous).write_text("{}")
    an_hour_on = time.time() + 3600
    os.utime(paths.rendezvous, (an_hour_on, an_hour_on))  # young however long it takes to get there
    for node in (0, 2):
        Path(paths.events(node)).write_text('{"event": "agent_started"}\n')
    assert with_startup_wait(paths, STARTING, PLAN) == STARTING, "they may be on their way"
    os.utime(paths.rendezvous, (1.0, 1.0))
    assert with_startup_wait(paths, STARTING, PLAN).message == "the head waits for the agent of nodes 1,3"
    for damaged in ("{}", '{"time": 1.0}', '{"event": "unjoined"}', '{"event": "unjoined", "text": null}'):
        Path(paths.events(2)).write_text(damaged + "\n")
        assert with_startup_wait(paths, STARTING, PLAN).message == "the head waits for the agent of nodes 1,3"
    Path(paths.events(2)).write_text('{"event": "unjoined", "text": "node 2 could not"}\n')
    assert with_startup_wait(paths, STARTING, PLAN).message == "node 2 could not"


def test_agents_that_a_full_disk_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They cannot say so: their logs are on it."""
    text = "srun: error: node1: task 0: Exited with exit code 120\n"
    assert remarked(tmp_path, text, UNSTARTED).reason == Reason.EXIT_CODE
    room = os.statvfs(tmp_path)
    full = SimpleNamespace(f_bavail=0, f_frsize=room.f_frsize)
    monkeypatch.setattr(os, "statvfs", lambda path: full)
    found = remarked(tmp_path, text, UNSTARTED)
    assert (found.reason, found.message) == (
        Reason.STORAGE,
        "no rank was started: no space left on the run directory's file system (%s)" % tmp_path,
    )
    assert remarked(tmp_path, UNREACHED, UNSTARTED).message == "no rank was started: " + WHICH
