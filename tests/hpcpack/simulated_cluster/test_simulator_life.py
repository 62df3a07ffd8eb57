"""The simulator's jobs and tasks from submission to end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hpcpack.simulator import Simulator, until

pytestmark = pytest.mark.exhaustive

NODES = {"UnitType": "Node", "AutoCalculateMin": "False", "AutoCalculateMax": "False"}
TWO_NODES = {**NODES, "MinNodes": 2, "MaxNodes": 2}
SLEEP = "sleep 60 || true"


def one_node(command: str, **properties: object) -> dict[str, object]:
    return {"CommandLine": command, "MinNodes": 1, "MaxNodes": 1, **properties}


def test_tasks_run_on_nodes_of_their_own(hpcpack: Simulator) -> None:
    line = 'echo "$(hostname) $CCP_NODES_CORES $CCP_NUMCPUS"; pwd; cat $CCP_MPI_HOSTFILE; echo text > file-$CCP_TASKID'
    task = one_node(line, WorkDirectory="/app")
    job = hpcpack.submitted(task, task, Name="two", **TWO_NODES)
    found = hpcpack.wait(job)
    assert (found["State"], found["ErrorMessage"], found["AllocatedNodes"]) == ("Finished", "", "cn01,cn02")
    first, second = hpcpack.task(job, 1), hpcpack.task(job, 2)
    assert first["Output"] == "cn01 1 cn01 4 4\n/app\ncn01\n"
    assert second["Output"] == "cn02 1 cn02 4 4\n/app\ncn02\n"
    assert (first["ExitCode"], first["AllocatedNodes"], first["TaskId"]) == ("0", "cn01", "%d.1" % job)
    assert os.path.exists(os.path.join(hpcpack.share, "file-1"))


def test_variables_of_job_and_task(hpcpack: Simulator) -> None:
    line = 'echo "$CCP_JOBID $CCP_TASKID $CCP_TASKINSTANCEID $BOTH $OF_JOB $OF_TASK [$HPC]"; env | wc -l'
    job = hpcpack.new_job(line)
    hpcpack.ask("POST", "/jobs/%d/envVariables" % job, pairs(BOTH="job", OF_JOB="a b", OF_TASK="no"))
    hpcpack.ask("POST", "/jobs/%d/tasks/1/envVariables" % job, pairs(BOTH="task", OF_TASK="yes"))
    assert hpcpack.ask("GET", "/jobs/%d/envVariables?names=OF_JOB,none" % job) == pairs(OF_JOB="a b", none="")
    assert hpcpack.ask("GET", "/jobs/%d/tasks/1/envVariables" % job) == pairs(BOTH="task", OF_TASK="yes")
    hpcpack.ask("POST", "/jobs/%d/submit" % job)
    hpcpack.wait(job)
    words, count = hpcpack.task(job)["Output"].splitlines()
    assert words == "%d 1 0 task a b yes []" % job
    assert int(count) < 20, "the simulator's own environment is not the tasks'"


def pairs(**values: str) -> list[dict[str, str]]:
    return [{"Name": name, "Value": value} for name, value in values.items()]


def test_a_failing_command_fails_its_job(hpcpack: Simulator) -> None:
    job = hpcpack.submitted("echo broken >&2; exit 3", "echo fine")
    found = hpcpack.wait(job)
    assert (found["State"], "code 3" in found["ErrorMessage"]) == ("Failed", True)
    assert [hpcpack.task(job, each)["State"] for each in (1, 2)] == ["Failed", "Finished"]
    assert (hpcpack.task(job)["ExitCode"], hpcpack.task(job)["Output"]) == ("3", "broken\n")


def test_exit_codes_that_count_as_success(hpcpack: Simulator) -> None:
    job = hpcpack.submitted({"CommandLine": "exit 3", "ValidExitCodes": "0,3"})
    assert hpcpack.wait(job)["State"] == "Finished"


def test_fail_on_task_failure_ends_the_others(hpcpack: Simulator) -> None:
    job = hpcpack.submitted(SLEEP, "sleep 0.3; exit 4", FailOnTaskFailure=True)
    found = hpcpack.wait(job)
    assert (found["State"], "%d.2" % job in found["ErrorMessage"]) == ("Failed", True)
    assert hpcpack.task(job, 1)["State"] == "Failed"


def test_output_is_cut_to_1500_bytes_of_each_stream(hpcpack: Simulator) -> None:
    job = hpcpack.submitted("yes out | head -c 5000; yes err | head -c 5000 >&2")
    hpcpack.wait(job)
    output = hpcpack.task(job)["Output"]
    assert output == ("out\n" * 500)[:1500] + ("err\n" * 500)[:1500]


def test_streams_into_files(hpcpack: Simulator) -> None:
    files = {"StdInFilePath": "in.txt", "StdOutFilePath": "/app/out.txt", "StdErrFilePath": "err.txt"}
    with open(os.path.join(hpcpack.share, "in.txt"), "w") as file:
        file.write("words")
    job = hpcpack.submitted({"CommandLine": "cat; echo bad >&2", "WorkDirectory": "/app", **files})
    assert hpcpack.wait(job)["State"] == "Finished"
    for name, text in (("out.txt", "words"), ("err.txt", "bad\n")):
        with open(os.path.join(hpcpack.share, name)) as file:
            assert file.read() == text
    assert hpcpack.task(job)["Output"] == ""


def test_a_directory_that_is_not_there(hpcpack: Simulator) -> None:
    job = hpcpack.submitted({"CommandLine": "true", "WorkDirectory": "/app/none"})
    assert hpcpack.wait(job)["State"] == "Failed"
    assert "/app/none" in hpcpack.task(job)["ErrorMessage"]


def test_states_on_the_way(tmp_path: Path) -> None:
    """Of jobs whose passing states take long enough for each to be seen."""
    simulator = Simulator.start(str(tmp_path), 1, delay=1)
    job, task = simulator.new_job("until test -e /app/go; do sleep 0.05; done"), simulator.new_job("true")
    assert simulator.job(job)["State"] == "Configuring"
    assert simulator.ask("GET", "/jobs/%d/tasks/1?properties=State" % task) == pairs(State="Configuring")
    simulator.ask("POST", "/jobs/%d/submit" % job)
    seen = [simulator.job(job)["State"]]
    deadline = time.monotonic() + 60
    while seen[-1] not in ("Finished", "Failed") and time.monotonic() < deadline:
        state = simulator.job(job)["State"]
        seen += [state] if state != seen[-1] else []
        if state == "Running":
            open(os.path.join(simulator.share, "go"), "w").close()
    assert simulator.stop() == 0
    order = ["Submitted", "Validating", "ExternalValidation", "Queued", "Running", "Finishing", "Finished"]
    assert seen == [state for state in order if state in seen] and seen[-1] == "Finished"
    assert "Running" in seen and len(seen) > 3


# Cancel, finish, requeue


def test_cancel_a_running_job(tmp_path: Path) -> None:
    simulator = Simulator.start(str(tmp_path), 1, cancel_grace=60)
    job = simulator.submitted("trap 'echo told; exit 5' INT; touch /app/set; sleep 60 & wait")
    simulator.wait_task(job, 1, "Running")
    until(lambda: os.path.exists(os.path.join(simulator.share, "set")), bool, 20)
    simulator.ask("POST", "/jobs/%d/cancel" % job, "enough")
    found = simulator.wait(job)
    assert (found["State"], found["ErrorMessage"]) == ("Canceled", "enough")
    task = simulator.task(job)
    assert (task["State"], task["Output"], task["ErrorMessage"]) == ("Failed", "told\n", "enough")
    assert simulator.stop() == 0


@pytest.mark.parametrize("forced", [True, False])
def test_what_does_not_end_is_killed(tmp_path: Path, forced: bool) -> None:
    """At once when forced, after the grace otherwise; with everything that it has started."""
    simulator = Simulator.start(str(tmp_path), 1, cancel_grace=60 if forced else 3)
    mark = "%d.25" % (1000 + time.monotonic_ns() % 100000)
    job = simulator.submitted("trap '' INT TERM; setsid sleep %s & (sleep %s); sleep %s" % (mark, mark, mark))
    simulator.wait_task(job, 1, "Running")
    until(lambda: living(mark), lambda found: len(found) >= 2, 20)
    began = time.monotonic()
    simulator.ask("POST", "/jobs/%d/cancel?forced=%s" % (job, str(forced).lower()))
    assert simulator.wait(job, timeout=30)["State"] == "Canceled"
    assert forced or time.monotonic() - began > 2.5
    assert living(mark) == []
    assert simulator.stop() == 0


def living(mark: str) -> list[int]:
    """The processes whose last word is `mark`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                if file.read().split(b"\0")[-2:-1] == [mark.encode()]:
                    found.append(int(name))
        except OSError:
            continue
    return found


def test_what_a_task_leaves_behind_ends_with_it(hpcpack: Simulator) -> None:
    mark = "%d.5" % (1000 + time.monotonic_ns() % 100000)
    job = hpcpack.submitted("setsid sleep %s & sleep 0.2" % mark)
    assert hpcpack.wait(job)["State"] == "Finished"
    assert living(mark) == []


def test_cancel_before_it_runs(hpcpack: Simulator) -> None:
    new = hpcpack.new_job("true")
    hpcpack.ask("POST", "/jobs/%d/cancel" % new)
    assert (hpcpack.job(new)["State"], hpcpack.task(new)["State"]) == ("Canceled", "Configuring")
    queued = hpcpack.submitted("true", HoldUntil="1/1/2100 1:00:00 AM")
    hpcpack.wait(queued, "Queued")
    hpcpack.ask("POST", "/jobs/%d/cancel" % queued)
    assert hpcpack.wait(queued)["State"] == "Canceled"
    assert hpcpack.task(queued)["State"] == "Canceled"


def test_finish_a_job(hpcpack: Simulator) -> None:
    job = hpcpack.submitted(SLEEP)
    hpcpack.wait_task(job, 1, "Running")
    hpcpack.ask("POST", "/jobs/%d/finish" % job, "good enough")
    assert (hpcpack.wait(job)["State"], hpcpack.task(job)["State"]) == ("Finished", "Finished")


def test_requeue_a_job(hpcpack: Simulator) -> None:
    """What has finished stays so; the rest runs again."""
    job = hpcpack.submitted("echo once >> /app/once", "test -e /app/mended")
    assert hpcpack.wait(job)["State"] == "Failed"
    open(os.path.join(hpcpack.share, "mended"), "w").close()
    hpcpack.ask("POST", "/jobs/%d/requeue" % job)
    found = hpcpack.wait(job)
    assert (found["State"], found["RequeueCount"], found["ErrorMessage"]) == ("Finished", "1", "")
    assert [hpcpack.task(job, each)["RequeueCount"] for each in (1, 2)] == ["0", "1"]
    with open(os.path.join(hpcpack.share, "once")) as file:
        assert file.read() == "once\n"


def test_requeue_a_running_job(hpcpack: Simulator) -> None:
    job = hpcpack.submitted("echo x >> /app/twice; " + SLEEP)
    path = os.path.join(hpcpack.share, "twice")
    until(lambda: os.path.exists(path) and os.path.getsize(path), lambda size: size == 2, 20)
    hpcpack.ask("POST", "/jobs/%d/requeue" % job)
    until(lambda: os.path.getsize(path), lambda size: size == 4, 20)
    assert hpcpack.wait(job, "Running")["RequeueCount"] == "1"


def test_one_task_fails_when_it_is_cancelled(hpcpack: Simulator) -> None:
    job = hpcpack.submitted(SLEEP, "true")
    hpcpack.wait_task(job, 1, "Running")
    hpcpack.ask("POST", "/jobs/%d/tasks/1/cancel" % job, "not this one")
    assert hpcpack.wait(job)["State"] == "Failed"
    task = hpcpack.task(job)
    assert (task["State"], task["ErrorMessage"]) == ("Failed", "not this one")


def test_finish_and_requeue_a_task(hpcpack: Simulator) -> None:
    job = hpcpack.submitted(SLEEP, RunUntilCanceled=True)
    hpcpack.wait_task(job, 1, "Running")
    hpcpack.ask("POST", "/jobs/%d/tasks/1/cancel" % job)
    hpcpack.wait_task(job, 1, "Failed")
    assert hpcpack.job(job)["State"] == "Running"
    hpcpack.ask("POST", "/jobs/%d/tasks/1/requeue" % job)
    hpcpack.wait_task(job, 1, "Running")
    hpcpack.ask("POST", "/jobs/%d/tasks/1/finish" % job, "enough")
    task = hpcpack.wait_task(job, 1)
    assert (task["State"], task["ErrorMessage"], task["RequeueCount"]) == ("Finished", "enough", "1")


def test_a_requeued_task_of_a_failed_job_waits_for_its_submission(hpcpack: Simulator) -> None:
    job = hpcpack.submitted("test -e /app/later", "true")
    assert hpcpack.wait(job)["State"] == "Failed"
    hpcpack.ask("POST", "/jobs/%d/tasks/1/requeue" % job)
    time.sleep(0.2)
    assert (hpcpack.task(job)["State"], hpcpack.job(job)["State"]) == ("Configuring", "Failed")
    open(os.path.join(hpcpack.share, "later"), "w").close()
    hpcpack.ask("POST", "/jobs/%d/submit" % job)
    assert hpcpack.wait(job, "Finished")["State"] == "Finished"


@pytest.mark.parametrize("verb", ["submit", "cancel", "finish", "requeue"])
def test_what_makes_no_sense_is_refused(hpcpack: Simulator, verb: str) -> None:
    job = hpcpack.submitted("true")
    hpcpack.wait(job)
    answer = hpcpack.call("POST", "/jobs/%d/%s" % (job, verb))
    assert (answer.status_code, "Finished state" in answer.json()) == (400, True)


def test_time_limits(hpcpack: Simulator) -> None:
    of_job = hpcpack.submitted(SLEEP, RuntimeSeconds=1)
    of_task = hpcpack.submitted({"CommandLine": SLEEP, "RuntimeSeconds": 1})
    for job in (of_job, of_task):
        found = hpcpack.wait(job)
        assert (found["State"], "limit of 1 seconds" in found["ErrorMessage"]) == ("Failed", True)
