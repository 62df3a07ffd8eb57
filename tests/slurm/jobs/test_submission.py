"""Submission: what Slurm will not take is said before, and what it takes is taken exactly once."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from driver import wait_for
from slurm.cluster import Cluster, Flavour
from slurm.fixtures import skip_without_cluster
from slurm.login import PATIENCE, UP, Login, login_of

LATER = {"begin": "now+1hour"}


def job_names(login: Login) -> list[str]:
    """Of all jobs that the cluster still knows, whether they have ended or not."""
    return login.cluster.command("squeue", "--noheader", "--states=all", "--format=%j").split()


def job_file(login: Login, keys: str, nodes: int = 2) -> str:
    text = "command: 'true'\nresources:\n  instance_count: %d\nslurm:\n%s\n" % (nodes, keys)
    login.write("job.yml", text)
    return "job.yml"


@pytest.mark.parametrize(
    ("keys", "nodes", "said"),
    [
        ("  partition: nowhere", 2, "job.yml:5: slurm.partition: Slurm would refuse it: invalid partition"),
        ("  time: 3\n  partition: short", 2, "job.yml:5: slurm.time: a time limit of 3 min is longer than partition"),
        ("  gpus_per_node: 5", 2, "job.yml:5: slurm.gpus_per_node: 5 GPUs per node are asked for, and nodes of"),
        ("  partition: cpu", 3, "job.yml:3: resources.instance_count: 3 nodes are asked for, and partition cpu gives"),
        ("  partition: main", 5, "job.yml:3: resources.instance_count: 5 nodes are asked for, and partition main has"),
        ("  mem: 900G", 2, "job.yml:4: slurm: Slurm would refuse it: Requested node configuration is not"),
        pytest.param(
            *("  constraint: fast", 2, "job.yml:5: slurm.constraint: Slurm would refuse it: Invalid feature"),
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(
            *("  nodelist: moon1", 1, "job.yml:5: slurm.nodelist: Slurm would refuse it: Invalid node name"),
            marks=pytest.mark.exhaustive,
        ),
        ("  sbatch_options:\n    array: 1-3", 1, "job.yml:6: slurm.sbatch_options.array: array cannot be set here"),
    ],
)
def test_what_can_not_run_is_refused_before(login: Login, keys: str, nodes: int, said: str) -> None:
    result = login.refused("submit", job_file(login, keys, nodes))
    assert said in result.err, result.err


def test_all_problems_at_once_each_in_its_place(login: Login) -> None:
    result = login.refused("submit", job_file(login, "  partition: cpu\n  time: 2-0\n  gpus_per_node: 9", 3))
    assert "3 problems:" in result.err
    for place in ("job.yml:3: resources.instance_count", "job.yml:6: slurm.time", "job.yml:7: slurm.gpus_per_node"):
        assert place in result.err


def test_what_the_configuration_said_is_laid_to_it(slurm: Cluster) -> None:
    with login_of(slurm, 'partition = "nowhere"\n') as login:
        assert "compute.slurm.partition: Slurm would refuse it" in login.refused("submit", "--", "true").err


def test_accounts_and_qualities_of_service() -> None:
    skip_without_cluster()
    with Cluster.start(Flavour(nodes=1, enforce=True)) as cluster, login_of(cluster) as login:
        assert (
            "slurm.account: Slurm would refuse" in login.refused("submit", job_file(login, "  account: nobodys", 1)).err
        )
        assert "slurm.qos: Slurm would refuse" in login.refused("submit", job_file(login, "  qos: none", 1)).err
        run = login.run(job_file(login, "  account: teaching\n  qos: urgent", 1))
        asked = ["sacct", "--noheader", "-X", "-P", "--format=Account,QOS", "--jobs", login.native(run)]
        wait_for(lambda: cluster.command(*asked).strip() == "teaching|urgent")


def test_a_cluster_whose_nodes_are_away_is_waited_for(login: Login) -> None:
    """--test-only calls it impossible; sbatch takes it. Which of two reasons Slurm has depends on which of its
    schedulers looks first, and only one of them names the nodes."""
    login.cluster.command("scontrol", "update", "NodeName=node[1-3]", "State=DRAIN", "Reason=maintenance")
    result = login.ok("submit", login.job("true", "2x1"))
    assert "is up now (node[1-3])" in result.err
    run = result.out.strip()
    login.cluster.until(lambda: "that are down, drained or" in login.status(run)["message"], "no reason was given")
    assert login.status(run)["state"] == "QUEUED"
    login.cluster.command("scontrol", "update", "NodeName=node[1-3]", "State=RESUME")
    assert login.ended(run)["state"] == "SUCCEEDED"


def test_a_run_that_is_held_says_so_and_goes_on_once_released(login: Login) -> None:
    run = login.begin("true", slurm={"sbatch_options": LATER})
    job = login.native(run)
    login.cluster.command("scontrol", "hold", job)
    status = login.status(run)
    assert status["state"] == "QUEUED"
    assert "because an administrator" in status["message"] or "its owner holds it" in status["message"]
    assert "will not start by itself" in status["message"]
    login.cluster.command("scontrol", "release", job)
    login.update(job, StartTime="now")
    assert login.ended(run)["state"] == "SUCCEEDED"


def test_a_dependency_that_can_not_be_met_is_said(login: Login) -> None:
    first = login.running(UP + "; until test -e outputs/go; do sleep 0.05; done; exit 5")
    second = login.begin("true", slurm={"dependency": "afterok:" + login.native(first)})
    assert "for other jobs to end" in login.status(second)["message"]
    open(login.path(first, "outputs", "go"), "w").close()
    assert login.ended(first)["exit_code"] == 5
    wait_for(lambda: "will not start by itself" in login.status(second)["message"])
    status = login.status(second)
    assert status["state"] == "QUEUED" and "that did not end as required" in status["message"]
    login.ok("cancel", second)
    assert login.ended(second)["state"] == "CANCELLED"


# programs that stand before Slurm's own


def test_what_only_sbatch_refuses_is_kept_as_failed(login: Login) -> None:
    """Its partition is closed between the check and the submission."""
    script = '[ "$1" = --test-only ] || scontrol update Partition=cpu State=INACTIVE; exec $REAL "$@"'
    environ = login.shadow("sbatch", script)
    try:
        result = login("submit", job_file(login, "  partition: cpu"), **environ)
    finally:
        login.cluster.command("scontrol", "update", "Partition=cpu", "State=UP")
    assert result.code not in (0, 2) and "Required partition not available" in result.err, result
    status = login.status()
    assert (status["state"], status["reason"]) == ("FAILED", "SUBMIT_REJECTED")
    assert "Required partition not available" in status["message"]
    assert login.latest() not in job_names(login)


@pytest.mark.exhaustive(unless=["2"])
@pytest.mark.parametrize("submissions", [1, 2])
def test_a_reply_that_is_lost_is_no_second_submission(login: Login, submissions: int) -> None:
    """Of `submissions` calls that reach slurmctld, none is heard of."""
    count = os.path.join(login.root, "count")
    script = (
        '[ "$1" = --test-only ] && exec $REAL "$@"\n'
        'echo >> %s; [ $(wc -l < %s) = %d ] && $REAL "$@" >/dev/null\n'
        "echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1"
    ) % (count, count, submissions)
    run = login.ok("submit", login.job("true"), **login.shadow("sbatch", script)).out.strip()
    with open(count) as file:
        assert len(file.readlines()) == submissions
    assert job_names(login).count(run) == 1
    assert login.ended(run)["state"] == "SUCCEEDED"


# slurmctld away


def away(login: Login, number: int, seconds: float) -> threading.Thread:
    """The controller is gone, or silent, for so long."""
    login.cluster.stop_controller(number)

    def back() -> None:
        time.sleep(seconds)
        login.cluster.start_controller()

    thread = threading.Thread(target=back)
    thread.start()
    return thread


@pytest.mark.exhaustive(unless=["9"])
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_submission_waits_for_a_controller_that_is_away(login: Login, number: int) -> None:
    thread = away(login, number, 6)
    began = time.monotonic()
    result = login("run", login.job("true"), timeout=90)
    thread.join()
    assert result.code == 0 and time.monotonic() - began > 5, result
    assert login.ended(login.latest())["state"] == "SUCCEEDED"
    assert job_names(login).count(login.latest()) == 1


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGTERM])
def test_a_run_does_not_care_whether_the_controller_is_there(login: Login, number: int) -> None:
    """One ends while nobody can be asked, and is followed to its end all the same; one goes on until after that."""
    name = login.job(UP + "; until test -e outputs/go; do sleep 0.05; done; echo went on")
    following = login.start("run", name, "--fold", "off")
    wait_for(lambda: login.runs() and login.left(login.runs()[0], "up-1-0"), PATIENCE)
    first = login.latest()
    second = login.submit(name)
    login.wait_up(second)
    login.cluster.stop_controller(number)
    open(login.path(first, "outputs", "go"), "w").close()
    out, err = following.communicate(timeout=60)
    said = sorted(out.decode().splitlines())
    assert (following.returncode, said) == (0, ["0:0: went on", "1:1: went on"]), err
    assert login.status(first)["state"] == "SUCCEEDED"
    assert login.status(second)["state"] == "RUNNING", "nobody says otherwise"
    login.cluster.start_controller()
    assert login.status(second)["state"] == "RUNNING"
    open(login.path(second, "outputs", "go"), "w").close()
    assert login.ended(second)["state"] == "SUCCEEDED"
