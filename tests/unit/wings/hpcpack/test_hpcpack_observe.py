"""What HPC Pack says of jobs and tasks, and what it means to a run."""

from __future__ import annotations

import pytest
from hpcpack_server import LOST, Asked, Reply, props, serving, several

from worldsize.jobspec.config.config import ComputeSettings
from worldsize.wings.hpcpack.compute import HpcPackCompute
from worldsize.wings.hpcpack.failure_cause import find_failure_cause
from worldsize.wings.hpcpack.head.wire import properties
from worldsize.wings.hpcpack.observe import observation, observations
from worldsize.wings.hpcpack.states import JOBS, NODES, state_of, unusable_reason

RUN = "20261121-103158-417k3f"
NAME = "worldsize " + RUN
SPEC_STATES = (
    *("Configuring", "Submitted", "Validating", "ExternalValidation", "Queued", "Running", "Finishing", "Finished"),
    *("Failed", "Canceling", "Canceled"),
)


def handle(job: int = 14, run: str = RUN) -> dict[str, object]:
    return {"type": "hpcpack", "job": job, "run_id": run, "share": {"head": "", "node": "/app", "local": "/mnt"}}


def row(**values: object) -> dict[str, str]:
    return dict(properties(props(Id=14, Name=NAME, **values)))


def test_every_state_is_in_the_table() -> None:
    assert set(SPEC_STATES) == set(JOBS)
    assert state_of("Melting").phase == "unknown" and "Melting" in state_of("Melting").words
    assert state_of("queued").phase == "queued"


@pytest.mark.parametrize(
    ("state", "phase", "reason", "code"),
    [
        ("Configuring", "queued", None, None),
        ("Submitted", "queued", None, None),
        ("Queued", "queued", None, None),
        ("Running", "running", None, None),
        ("Finishing", "running", None, None),
        ("Canceling", "running", None, None),
        ("Finished", "ended", None, 0),
        ("Canceled", "ended", "CANCELLED_BY_USER", 130),
        ("Failed", "ended", None, 1),
        ("Melting", "unknown", None, None),
    ],
)
def test_a_jobs_state(state: str, phase: str, reason: str | None, code: int | None) -> None:
    seen = observation(row(State=state, RequeueCount=2, StartTime="11/21/2026 5:20:00 PM"), 14, RUN)
    assert (seen.phase, seen.reason, seen.code) == (phase, reason, code)
    if phase != "unknown":
        assert seen.restarts == 2 and not seen.counted
    assert seen.started == (None if phase == "queued" else 1795281600)
    assert seen.stuck == (state == "Configuring")
    assert seen.ending == (state in ("Finishing", "Canceling"))


def test_what_is_not_there_or_another_is_absent() -> None:
    assert observation(None, 14, RUN).phase == "absent"
    other = observation(row(State="Running") | {"name": "worldsize other"}, 14, RUN)
    assert other.phase == "absent" and "worldsize other" in other.message


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"State": "Queued"}, "waits for free nodes"),
        ({"State": "Queued", "ParentJobIds": "7,8"}, "waits for job 7,8 to end"),
        ({"State": "Queued", "PendingReason": "Not enough nodes."}, "waits: Not enough nodes."),
        ({"State": "Configuring"}, "will not start by itself"),
    ],
)
def test_why_a_job_waits(values: dict[str, str], words: str) -> None:
    assert words in observation(row(**values), 14, RUN).message


def task(name: str = "node-1", node: str = "cn02", state: str = "Failed", **values: object) -> dict[str, str]:
    found = {"TaskId": "14.2", "Name": name, "AllocatedNodes": node, "State": state, **values}
    return dict(properties(props(StartTime="11/21/2026 5:20:00 PM", **found)))


FAILED = row(State="Failed", ErrorMessage="Task 14.2 failed, and so does the job: …", StartTime="11/21/2026 5:20:00 PM")


@pytest.mark.parametrize(
    ("values", "reason", "code", "says"),
    [
        (
            {
                "Output": "python3: can't open file '/app/runs/x/agent.pyz': [Errno 2] No such file or directory\n",
                "ExitCode": 2,
            },
            "ENVIRONMENT",
            2,
            ["node cn02 does not see the share at /app", "never started", "worldsize hpcpack share"],
        ),
        (
            {
                "Output": 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
                "FileNotFoundError: [Errno 2] No such file or directory: '/app/runs/x'\n",
                "ExitCode": 1,
            },
            "ENVIRONMENT",
            1,
            ["node cn02 does not see the share at /app", "(FileNotFoundError: [Errno 2] No such file"],
        ),
        (  # Python 3.13 shows the line of the program, too
            {
                "Output": 'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
                '    import os,sys;f=os.open(sys.argv[1],0);f or sys.exit("worldsize agent: not your run")\n'
                "                  ~~~~~~~^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
                "FileNotFoundError: [Errno 2] No such file or directory: '/app/runs/x'\n",
                "ExitCode": 1,
            },
            "ENVIRONMENT",
            1,
            ["node cn02 does not see the share at /app", "(FileNotFoundError: [Errno 2] No such file"],
        ),
        (
            {"Output": "worldsize agent: not your run\n", "ExitCode": 1},
            "EXIT_CODE",
            1,
            ["node cn02: not your run"],
        ),
        (
            {"ErrorMessage": "The working directory /app does not exist."},
            "ENVIRONMENT",
            1,
            ["node cn02 does not see the share at /app"],
        ),
        (
            {"Output": "/bin/sh: 1: python3: not found", "ExitCode": 127},
            "ENVIRONMENT",
            127,
            ["node cn02 has no python3", "`python` of the compute"],
        ),
        (
            {"Output": "sh: /opt/env/bin/python: No such file or directory", "ExitCode": 127},
            "ENVIRONMENT",
            127,
            ["node cn02 has no /opt/env/bin/python"],
        ),
        (
            {"Output": "python3: can't open file '/app/x': [Errno 13] Permission denied", "ExitCode": 2},
            "ENVIRONMENT",
            2,
            ["cn02"],
        ),
        (
            {"ErrorMessage": "Node cn02 became unreachable while the task was running.", "ExitCode": -1},
            "NODE_FAILURE",
            1,
            ["node cn02 was lost"],
        ),
        (
            {"ErrorMessage": "The task ran for longer than its limit of 60 seconds."},
            "TIME_LIMIT",
            124,
            ["limit of 60 seconds"],
        ),
        (
            {"Output": "noise\nworldsize agent: not an address of this host is known\n", "ExitCode": 1},
            "EXIT_CODE",
            1,
            ["node cn02: not an address of this host is known"],
        ),
        ({"ExitCode": 137}, "EXIT_CODE", 137, ["never started, or was killed"]),
    ],
)
def test_why_a_task_failed(values: dict[str, object], reason: str, code: int, says: list[str]) -> None:
    tasks = [task("node-0", "cn01", TaskId="14.1", Output="worldsize agent: late"), task(**values)]
    why = find_failure_cause(FAILED, tasks, "/app")
    assert (why.reason, why.code) == (reason, code)
    for words in says:
        assert words in why.message


def test_the_first_that_failed_counts_where_none_is_named() -> None:
    job = {**FAILED, "errormessage": ""}
    late = task("node-0", "cn01", EndTime="11/21/2026 5:22:00 PM", Output="worldsize agent: late")
    early = task("node-1", "cn02", EndTime="11/21/2026 5:21:00 PM", Output="worldsize agent: early")
    assert find_failure_cause(job, [late, early], "/app").message == "node cn02: early"
    assert find_failure_cause(job, [], "/app").reason == "NODE_FAILURE"


def test_a_job_that_never_started_was_refused() -> None:
    job = row(State="Failed", ErrorMessage="The node N9 does not exist in this cluster.")
    why = find_failure_cause(job, [task() | {"starttime": ""}], "/app")
    assert why.reason == "SUBMIT_REJECTED" and "The node N9 does not exist" in why.message


def test_the_jobs_own_limit() -> None:
    job = FAILED | {"errormessage": "The job ran for longer than its limit of 90 seconds."}
    why = find_failure_cause(job, [task(ErrorMessage="The job ran for longer than its limit of 90 seconds.")], "/app")
    assert (why.reason, why.code) == ("TIME_LIMIT", 124)


# questions


def test_one_job_takes_one_request_and_a_failed_one_two() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("/tasks"):
            failed = {"TaskId": "14.1", "Name": "node-0", "State": "Failed", "AllocatedNodes": "cn01", "ExitCode": "3"}
            return Reply(body=several({**failed, "StartTime": "11/21/2026 5:20:00 PM"}))
        state = "Failed" if asked.path.endswith("/14") else "Running"
        return Reply(body=props(Id=14, Name=NAME, State=state, StartTime="11/21/2026 5:20:00 PM"))

    with serving(answer) as server, server.head() as head:
        assert observations(head, [handle(15)])[0].phase == "running"
        assert server.lines() == ["GET /hpc/jobs/15"]
        del server.asked[:]
        seen = observations(head, [handle(), handle()])
        assert seen[0] == seen[1] and (seen[0].phase, seen[0].reason, seen[0].over) == ("ended", "EXIT_CODE", True)
        assert server.lines() == ["GET /hpc/jobs/14", "GET /hpc/jobs/14/tasks"]


def test_many_jobs_take_one_list_and_a_request_for_each_that_it_lacks() -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path == "/hpc/jobs":
            listed = [{"Id": job, "Name": "worldsize r%d" % job, "State": "Running"} for job in (20, 18, 17)]
            return Reply(body=several(*listed), headers={"x-ms-continuation-queryId": "more"})
        if asked.path == "/hpc/jobs/19":
            return Reply(body=props(Id=19, Name="worldsize r19", State="Queued"))
        return Reply(404, "no such job")

    with serving(answer) as server, server.head() as head:
        seen = observations(head, [handle(job, "r%d" % job) for job in (18, 99, 20, 19, 18)])
        assert [each.phase for each in seen] == ["running", "absent", "running", "queued", "running"]
        assert server.lines() == ["GET /hpc/jobs", "GET /hpc/jobs/99", "GET /hpc/jobs/19"]
        asked = server.asked[0].params
        assert asked["owner"] == "CORP\\me" and asked["rowsPerRead"] == "1000" and "State" in asked["properties"]


@pytest.mark.parametrize("reply", [LOST, Reply(401), Reply(403, "no"), Reply(500), Reply(200, {"no": "list"})])
def test_who_cannot_be_asked_is_unknown_and_nothing_is_raised(reply: Reply) -> None:
    with serving(lambda asked: reply) as server, server.head(1) as head:
        for handles in ([handle()], [handle(), handle(15)]):
            assert {each.phase for each in observations(head, handles)} == {"unknown"}


def test_a_node_that_starts_no_tasks_says_why() -> None:
    assert unusable_reason("Online", "OK") == unusable_reason("Online", "Warning") == ""
    assert "offline" in unusable_reason("Offline", "OK") and unusable_reason("Online", "Error")
    assert unusable_reason("Sleeping", "OK") == "it is Sleeping"
    assert all(unusable_reason(state, "OK") for state in NODES if state != "Online")


def test_who_cancels_a_task_is_heard_whichever_task_the_job_names():
    told = task(exitcode="143", errormessage="The command of the task exited with code 143.", output="")
    ended = {**task(exitcode="130", errormessage="we need it", output=""), "taskid": "7.2"}
    for said in ("Task 7.1 failed: " + told["errormessage"], "Task 7.2 failed: we need it"):
        why = find_failure_cause(FAILED | {"errormessage": said}, [told, ended], "/app")
        assert why.reason == "CANCELLED_BY_USER" and why.message.endswith("was terminated: we need it")


def test_ranks_that_exit_with_130_were_cancelled_by_nobody():
    said = "The command of the task exited with code 130."
    failed = task(exitcode="130", errormessage=said, output="")
    job = FAILED | {"errormessage": "Task 7.1 failed: " + said}
    others = {**failed, "taskid": "7.2", "errormessage": job["errormessage"]}
    assert find_failure_cause(job, [failed, others], "/app").reason == "EXIT_CODE"


def test_a_task_that_was_told_to_end_at_its_limit_was_cancelled_by_nobody():
    late = task(exitcode="130", errormessage="The task ran for longer than its limit of 60 seconds.", output="")
    assert find_failure_cause(FAILED, [late], "/app").reason == "TIME_LIMIT"


def test_a_job_of_another_head_or_account_is_not_asked_for() -> None:
    """Its number is that of another job there, which says nothing of the run."""
    with serving([]) as server:
        mine = {"url": server.url, "user": "CORP\\me"}
        compute = HpcPackCompute(ComputeSettings("hpc", "hpcpack", options=mine), {})
        others = [{**handle(), **mine, **other} for other in ({"url": "https://other"}, {"user": "CORP\\you"})]
        found = compute.observe(others)
        assert [each.phase for each in found] == ["unknown"] * 2 and "another head node" in found[0].message
        assert server.asked == []


def test_a_head_that_cannot_be_asked_leaves_its_jobs_unknown() -> None:
    mine = {"url": "http://head", "user": "CORP\\me"}
    compute = HpcPackCompute(ComputeSettings("hpc", "hpcpack", options=mine), {})
    (found,) = compute.observe([{**handle(), **mine}])
    assert found.phase == "unknown" and "sent unencrypted" in found.message
