"""How runs end on a simulated cluster: by cancels, limits, lost nodes, administrators; and what is said of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import heard, wait_for

from hpcpack.life import PATIENCE, Client
from hpcpack.simulator import Simulator


@pytest.fixture
def another(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Client]:
    """The client of a cluster that is as the test's parameter says."""
    simulator = Simulator.start(str(tmp_path), **{"nodes": 2, **request.param})
    made = Client(simulator)
    yield made
    made.close()
    simulator.stop()


def like(**options: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("another", [options], indirect=True, ids=[" ".join(map(str, options.items()))])


# cancel


def test_cancel_while_it_waits(client: Client) -> None:
    holding = client.running("4x1")
    run = client.submit("-w", "1", "--", "touch", "outputs/up-0")
    status = client.status(run)
    assert status["state"] == "QUEUED" and "waits" in status["message"]
    client.ok("cancel", run)
    status = client.ended(run)
    assert (status["state"], status["reason"], status["exit_code"]) == ("CANCELLED", "CANCELLED_BY_USER", 130)
    assert client.simulator.job(client.number(run))["State"] == "Canceled" and not client.ranks_up(run)
    client.ok("cancel", holding, "--now")
    assert client.ended(holding)["state"] == "CANCELLED"


@like(cancel_grace=60)
def test_cancel_while_it_runs_and_again(another: Client) -> None:
    """Ranks have their grace: it is the agent, and not the cluster, that they hear."""
    client = another
    client.job("trap 'touch outputs/saved-$RANK; exit 0' TERM; touch outputs/up-$RANK; while :; do sleep 0.05; done")
    run = client.submit("job.yml")
    wait_for(lambda: client.ranks_up(run) == 2, PATIENCE)
    for _ in range(3):
        client.ok("cancel", run)
    assert client.ended(run)["state"] == "CANCELLED"
    assert sorted(os.listdir(client.path(run, "outputs"))) == ["saved-0", "saved-1", "up-0", "up-1"]
    assert client.simulator.wait(client.number(run))["State"] == "Canceled"
    assert "already" in client.ok("cancel", run).err


def test_cancel_after_the_end_changes_nothing(client: Client) -> None:
    run = client.run("-w", "2", "--", "true")
    assert "already" in client.ok("cancel", run).err
    assert client.status(run)["state"] == "SUCCEEDED"
    assert client.simulator.wait(client.number(run))["State"] == "Finished"


def test_cancel_while_the_head_is_away_says_so_and_is_heard_later(client: Client) -> None:
    run = client.running()
    with client.simulator.away():
        cancelling = client.start("cancel", run)
        time.sleep(3)
    out, err = cancelling.communicate(timeout=60)
    assert cancelling.returncode == 0, (out, err)
    assert client.ended(run)["state"] == "CANCELLED"


def test_a_cancel_that_the_head_does_not_take_changes_nothing(client: Client) -> None:
    run = client.running()
    for words in ([run], [run, "--now"]):
        refused = client("cancel", *words, WORLDSIZE_HPCPACK_PASSWORD="wrong")
        assert refused.code == 2 and "could not cancel %s" % run in refused.err, refused
        assert "wrong user or password" in refused.err
        assert client.status(run)["state"] == "RUNNING", "nobody has told it to end"
    client.ok("cancel", run)
    assert client.ended(run)["state"] == "CANCELLED"


def test_an_array_that_could_not_be_cancelled_goes_on(client: Client) -> None:
    client.job("touch outputs/up-$RANK; exec sleep 120", "1x1", count=2)
    array = client.submit("job.yml")
    wait_for(lambda: [each["state"] for each in client.status(array)["elements"]] == ["RUNNING"] * 2, PATIENCE)
    refused = client("cancel", array, WORLDSIZE_HPCPACK_PASSWORD="wrong")
    assert refused.code == 2 and "could not cancel %s" % array in refused.err, refused
    assert [each["state"] for each in client.status(array)["elements"]] == ["RUNNING"] * 2
    client.ok("cancel", array, "--now")
    client("wait", array, timeout=PATIENCE + 30)
    assert client.status(array)["state"] == "CANCELLED"


def test_an_administrator_cancels_it(client: Client) -> None:
    run = client.running()
    client.simulator.ask("POST", "/jobs/%d/cancel" % client.number(run), "maintenance at noon")
    status = client.ended(run)
    assert (status["state"], status["exit_code"]) == ("CANCELLED", 130)
    assert "HPC Pack" in status["message"] and "maintenance at noon" in status["message"]


def test_an_administrator_finishes_it(client: Client) -> None:
    """Its agents are told to end, which is no success of its ranks."""
    run = client.running()
    client.simulator.ask("POST", "/jobs/%d/finish" % client.number(run), "enough")
    status = client.ended(run)
    assert status["state"] == "CANCELLED" and status["message"] == "HPC Pack: finished: enough", status


def test_an_administrator_cancels_a_task(client: Client) -> None:
    run = client.running()
    client.simulator.ask("POST", "/jobs/%d/tasks/2/cancel" % client.number(run), "this node is needed")
    status = client.ended(run)
    assert status["state"] == "CANCELLED"
    assert "was terminated: this node is needed" in status["message"] and "node cn0" in status["message"], status
    assert "this node is needed" in client.ok("status", run).out


# limits


def test_the_runs_own_limit_comes_first(client: Client) -> None:
    client.job("exec sleep 120", limits={"timeout": 1}, grace=0.5)
    run = client.submit("job.yml")
    status = client.ended(run)
    assert (status["state"], status["reason"], status["exit_code"]) == ("FAILED", "TIME_LIMIT", 124)
    assert "limits.timeout" in status["message"]
    assert client.simulator.job(client.number(run))["RuntimeSeconds"] == "62"


def test_the_clusters_limit_is_one_too(client: Client) -> None:
    """Of agents that hear nothing of it, since their node kills them at once."""
    run = client.running()
    client.simulator.ask("PUT", "/jobs/%d" % client.number(run), [{"Name": "RuntimeSeconds", "Value": "1"}])
    status = client.ended(run)
    assert (status["state"], status["reason"]) == ("FAILED", "TIME_LIMIT") and "limit of 1 seconds" in status["message"]


# nodes


def test_a_node_that_dies(client: Client) -> None:
    client.configure('nodes = ["cn02", "cn03"]')
    run = client.running()
    client.simulator.kill_node("cn03")
    status = client.ended(run, 60)
    assert (status["state"], status["reason"]) == ("FAILED", "NODE_FAILURE"), status
    assert "cn03" in status["message"]
    rows = {row["name"]: row for row in client.json("nodes")}
    assert not rows["cn03"]["usable"] and rows["cn03"]["reason"] and rows["cn02"]["usable"]


@pytest.mark.exhaustive
def test_the_heads_node_dies(client: Client) -> None:
    client.configure('nodes = ["cn02", "cn03"]')
    run = client.running()
    client.simulator.kill_node("cn02")
    status = client.ended(run, 60)
    assert (status["state"], status["reason"]) == ("FAILED", "NODE_FAILURE"), status


@like(unmounted=["cn02"])
def test_a_node_that_lacks_the_share(another: Client) -> None:
    """Its agent never started, so that only the task's own output can tell."""
    result = another("run", "-w", "2x2", "--", "sleep", "60")
    status = another.status(another.latest())
    assert (status["state"], status["reason"]) == ("FAILED", "ENVIRONMENT"), (status, result)
    for words in ("node cn02 does not see the share at /app", "never started", "worldsize hpcpack share"):
        assert words in status["message"] and words in result.err
    assert result.code == status["exit_code"] != 0
    another.configure('nodes = ["cn01"]')
    assert another.ok("run", "-w", "1", "--", "hostname").lines == ["0:0: cn01"]


def test_a_node_that_lacks_the_python(client: Client) -> None:
    client.configure('python = "/opt/none/bin/python3"')
    result = client("run", "-w", "2", "--", "true")
    assert result.code == 127
    assert "has no /opt/none/bin/python3" in result.err and "`python` of the compute" in result.err


def test_an_agent_that_is_killed(client: Client) -> None:
    """As by the kernel, for memory: its node lives, and its ranks are ended."""
    run = client.running()
    first = json.loads(client.read(run, "attempt-0", "events", "node-0001.jsonl").splitlines()[0])
    os.kill(first["pid"], 9)
    status = client.ended(run)
    assert status["state"] == "FAILED" and status["reason"] == "NODE_FAILURE", status
    assert "node 1 (%s): its agent was killed by signal 9" % first["host"] in status["message"], status


# output


def test_logs_are_whole_however_little_a_task_may_say(client: Client) -> None:
    """HPC Pack keeps 1,500 bytes of a task's output."""
    client.job("seq -f 'line %06g' 20000; echo the last words", "2x1")
    run = client.run("job.yml")
    for rank in range(2):
        lines = client.ok("logs", run, "--rank", str(rank), "--raw").out.splitlines()
        assert len(lines) == 20001 and lines[-1] == "the last words"
    assert len(client.simulator.task(client.number(run), 1)["Output"]) <= 1500


# the head node is away


def test_a_run_is_followed_past_a_head_that_does_not_answer(client: Client) -> None:
    command = "touch outputs/up-$RANK; until test -e outputs/go; do sleep 0.05; done; echo over"
    client.job(command)
    following = client.start("run", "job.yml", "--fold", "off")
    wait_for(lambda: client.json("list"), PATIENCE)
    run = client.latest()
    wait_for(lambda: client.ranks_up(run) == 2, PATIENCE)
    with client.simulator.away():
        client.write("unused", "")
        with open(client.path(run, "outputs", "go"), "w"):
            pass
        out, _ = following.communicate(timeout=30)
        said = sorted(out.decode().splitlines())
        assert following.returncode == 0, "its nodes' own records tell the end"
        assert said == ["0:0: over", "1:1: over"]
        assert client.status(run)["state"] == "SUCCEEDED"


@pytest.mark.exhaustive
def test_who_follows_a_run_is_told_why_nothing_happens(client: Client) -> None:
    """Each reason once: what it waits for in the queue, then a head node that cannot be asked."""
    first = client.running("4x1")
    for words in (["run", "-w", "4x1", "--", "true"], ["wait"], ["logs", "-f"]):
        following = client.start(*words)
        told = heard(following.stderr, " QUEUED: ")
        assert "QUEUED: waits: " in told and "nodes" in told, told
        client.ok("cancel", client.latest())
        out, err = following.communicate(timeout=PATIENCE + 30)
        assert b"QUEUED" not in err, (out, err)
        client.submit("-w", "4x1", "--", "true")
    client.ok("cancel", client.latest())
    following = client.start("wait", first, WORLDSIZE_HPCPACK_PASSWORD="wrong")
    assert "RUNNING: HPC Pack: the head node refuses" in heard(following.stderr, " RUNNING: ")
    client.ok("cancel", first)
    following.communicate(timeout=PATIENCE + 30)


def test_what_is_asked_of_a_head_that_is_away_is_not_known_and_said(client: Client) -> None:
    run = client.running()
    client.configure(replace={client.simulator.url.rpartition(":")[2]: "1"})
    handle = {**client.handle(run), "url": "https://localhost:1"}
    with open(client.path(run, "handle.json"), "w") as file:
        json.dump(handle, file)
    status = client.status(run)
    assert status["state"] == "RUNNING" and "cannot be reached: Connection refused" in status["message"]
    with open(client.path(run, "handle.json"), "w") as file:
        json.dump({**handle, "url": client.simulator.url}, file)
    client.configure()
    client.ok("cancel", run, "--now")
    assert client.ended(run)["state"] == "CANCELLED"


def test_a_job_that_the_head_refuses_after_all(client: Client) -> None:
    """What was there when it was checked may be gone: here, the job is refused for its own property."""
    result = client("run", "-w", "1", "--set", 'hpcpack.job_properties.HoldUntil="no date"', "--", "true")
    assert result.code == 1 and "'no date' is not a date" in result.err
    status = client.status(client.latest())
    assert (status["state"], status["reason"]) == ("FAILED", "SUBMIT_REJECTED")
    assert not [job for job in client.jobs_of(client.latest()) if job["State"] not in ("Canceled", "Failed")]


# again


def test_an_administrator_requeues_it(client: Client) -> None:
    """A run that nobody has looked at since it failed begins its next attempt, with logs of its own."""
    both = "until test -e outputs/up-0 && test -e outputs/up-1; do sleep 0.02; done"
    client.job("echo attempt $WORLDSIZE_ATTEMPT; touch outputs/up-$RANK; %s; test -e outputs/go || exit 3" % both)
    run = client.submit("job.yml")
    job = client.number(run)
    assert client.simulator.wait(job)["State"] == "Failed"
    with open(client.path(run, "outputs", "go"), "w"):
        pass
    client.simulator.ask("POST", "/jobs/%d/requeue" % job)
    assert client.simulator.wait(job, "Finished")["RequeueCount"] == "1"
    status = client.ended(run)
    assert (status["state"], status["exit_code"]) == ("SUCCEEDED", 0)
    assert client.ok("logs", run).lines == ["×2: attempt 1"]
    assert client.ok("logs", run, "--attempt", "0").lines == ["×2: attempt 0"]


def test_a_run_that_has_ended_stays_so_though_an_administrator_requeues_it(client: Client) -> None:
    client.job("touch outputs/up-$RANK-$WORLDSIZE_ATTEMPT; exit 3")
    run = client.run("job.yml", code=3)
    job = client.number(run)
    client.simulator.wait(job)
    client.simulator.ask("POST", "/jobs/%d/requeue" % job)
    assert client.simulator.wait(job, "Failed")["RequeueCount"] == "1"
    said = [client.simulator.task(job, task)["Output"] for task in (1, 2)]
    assert any("has ended, and is not started again" in words for words in said), said
    assert client.status(run)["state"] == "FAILED"
    assert not [name for name in os.listdir(client.path(run, "outputs")) if name.endswith("-1")], "no second attempt"
