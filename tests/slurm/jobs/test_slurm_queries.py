"""What Slurm says, asked of a real one: states, reasons, codes, restarts, nodes, estimates, usage, refusals."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial

import pytest
from slurm.cluster import Cluster

from worldsize.compute.slurm import cluster as slurm_cluster
from worldsize.compute.slurm.accounting import account_rows
from worldsize.compute.slurm.commands import run_slurm
from worldsize.compute.slurm.job_rows import NOWHERE, QUEUE, UNANSWERED, JobRow, code_of
from worldsize.compute.slurm.observe import observation
from worldsize.compute.slurm.queue import SlurmRunner, find_jobs, query_jobs
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected
from worldsize.state.records import Reason
from worldsize.wings.slurm_reports.pending import explain, find_earlier_starts, make_start_estimator
from worldsize.wings.slurm_reports.usage import usage, usage_of_row

PATIENCE = 20.0


@pytest.fixture
def run(slurm: Cluster) -> SlurmRunner:
    return partial(run_slurm, environ=slurm.environ)


def submit(cluster: Cluster, body: str, *options: str, name: str = "query") -> str:
    """The job's number; its output is thrown away."""
    argv = ["sbatch", "--parsable", "--output=/dev/null", "--job-name=" + name, *options]
    return run_slurm(argv, environ=cluster.environ, input="#!/bin/sh\n%s\n" % body).strip()


def wait_for(run: SlurmRunner, job: str, good: Callable[[JobRow], bool], patience: float = PATIENCE) -> JobRow:
    deadline = time.monotonic() + patience
    while True:
        row = query_jobs([job], run)[job]
        if good(row):
            return row
        assert time.monotonic() < deadline, row
        time.sleep(0.1)


def ended(row: JobRow) -> bool:
    return observation(row).phase == "ended"


def running(row: JobRow) -> bool:
    return row.state == "RUNNING"


def test_how_jobs_end_according_to_the_queue_and_to_accounting(slurm: Cluster, run: SlurmRunner) -> None:
    fine = submit(slurm, "exit 0")
    seven = submit(slurm, "exit 7")
    killed = submit(slurm, "kill -9 $$")
    cancelled = submit(slurm, "exec sleep 100")
    wait_for(run, cancelled, running)
    run(["scancel", cancelled])
    expected = {
        fine: (None, 0),
        seven: (Reason.EXIT_CODE, 7),
        killed: (Reason.SIGNAL, 137),
        cancelled: (Reason.CANCELLED_BY_USER, None),
    }
    for job in expected:
        wait_for(run, job, ended)
    deadline = time.monotonic() + PATIENCE
    while True:
        accounts = account_rows(expected, run)
        if len(accounts) == 4 and all(observation(row).phase == "ended" for row in accounts.values()):
            break
        assert time.monotonic() < deadline, accounts
        time.sleep(0.2)
    queued = query_jobs(expected, run)
    for job, (reason, code) in expected.items():
        for row in (queued[job], accounts[job]):
            found = observation(row, name="query")
            assert (found.phase, found.reason, found.over) == ("ended", reason, True)
            assert code is None or found.code == code
    assert "by root" in observation(queued[cancelled]).message
    assert {row.seen for row in queued.values()} == {QUEUE}


def test_what_runs_and_what_waits(slurm: Cluster, run: SlurmRunner) -> None:
    wide = submit(slurm, "exec sleep 100", "-N2", "--gpus-per-node=2", "--time=10")
    held = submit(slurm, "true", "--hold")
    broken = submit(slurm, "exit 1")
    wait_for(run, broken, ended)
    never = submit(slurm, "true", "--dependency=afterok:" + broken)
    later = submit(slurm, "true", "--begin=now+1hour")
    wait_for(run, wide, running)
    wait_for(run, never, lambda row: row.reason == "DependencyNeverSatisfied")
    rows = query_jobs([wide, held, never, later, "999999"], run)
    row = rows[wide]
    assert (row.nodes, row.node_count, row.limit, row.name) == ("node[1-2]", 2, 600, "query")
    assert "gres/gpu=4" in row.tres
    assert row.started is not None
    assert abs(row.started - time.time()) < 60
    assert observation(rows[held]).stuck
    assert "its owner holds it" in observation(rows[held]).message
    assert observation(rows[never]).stuck
    assert not observation(rows[later]).stuck
    expected = explain(rows[later], time.time()).expected
    assert expected is not None
    assert 3000 < expected - time.time() < 3700
    assert rows["999999"].seen == NOWHERE
    assert query_jobs(["999999"], run)["999999"].seen == NOWHERE


def test_an_arrays_elements_are_told_apart(slurm: Cluster, run: SlurmRunner) -> None:
    base = submit(slurm, 'test "$SLURM_ARRAY_TASK_ID" != 1 || exit 5; exec sleep 100', "--array=0-99%4", "--mem=10")
    wait_for(run, base + "_1", ended)
    wait_for(run, base + "_2", running)
    asked: list[list[str]] = []

    def counted(argv: list[str]) -> str:
        asked.append(argv)
        return run(argv)

    wait_for(run, base + "_99", lambda row: row.reason == "JobArrayTaskLimit")
    rows = query_jobs(["%s_%d" % (base, element) for element in range(100)], counted)  # type: ignore[arg-type]
    assert all(row.seen == QUEUE for row in rows.values())
    assert code_of(rows[base + "_1"].exit_code) == 5
    assert rows[base + "_0"].state == "RUNNING"
    assert rows[base + "_99"].reason == "JobArrayTaskLimit"
    assert len(asked) == 1


@pytest.mark.exhaustive
def test_a_preempted_job_is_put_back_and_says_so(slurm: Cluster, run: SlurmRunner) -> None:
    low = submit(slurm, "exec sleep 100", "-p", "low", "-N4", "--exclusive", "--requeue")
    wait_for(run, low, running)
    high = submit(slurm, "exec sleep 100", "-p", "high", "-N4", "--exclusive")
    row = wait_for(run, low, lambda row: observation(row).phase == "queued" and row.before == "PREEMPTED")
    assert observation(row).restarts == 1
    assert observation(row).message.startswith("preempted and put back into the queue; waits in partition low")
    run(["scancel", high])
    row = wait_for(run, low, running, 60.0)
    assert observation(row).restarts == 1


def test_a_node_that_fails(slurm: Cluster, run: SlurmRunner) -> None:
    final = submit(slurm, "exec sleep 100", "-w", "node3", "--no-requeue")
    again = submit(slurm, "exec sleep 100", "-w", "node4", "--requeue")
    wait_for(run, final, running)
    wait_for(run, again, running)
    for node in ("node3", "node4"):
        run(["scontrol", "update", "nodename=" + node, "state=down", "reason=test of a failure"])
    found = observation(wait_for(run, final, ended))
    assert (found.reason, found.over) == (Reason.NODE_FAILURE, False)
    assert "node3 failed" in found.message
    row = wait_for(run, again, lambda row: row.before == "NODE_FAIL")
    assert observation(row).message.startswith("put back into the queue when a node failed")


def test_a_controller_that_is_away_for_a_while(slurm: Cluster, run: SlurmRunner) -> None:
    job = submit(slurm, "exec sleep 100")
    wait_for(run, job, running)
    slurm.stop_controller(signal.SIGSTOP)
    try:
        row = query_jobs([job], partial(run_slurm, environ=slurm.environ, timeout=1.0))[job]
        assert row.seen == UNANSWERED
        assert observation(row).phase == "unknown"
    finally:
        slurm.start_controller()
    assert wait_for(run, job, running).seen == QUEUE


def test_nodes_and_partitions(slurm: Cluster, run: SlurmRunner) -> None:
    job = submit(slurm, "exec sleep 100", "-N2", "--gpus-per-node=3")
    wait_for(run, job, running)
    nodes = {row.name: row for row in slurm_cluster.nodes(run)}
    assert list(nodes) == ["node1", "node2", "node3", "node4"]
    assert [row.gpus_free for row in nodes.values()] == [1, 1, 4, 4]
    assert (nodes["node1"].state, nodes["node1"].gpu_type, nodes["node1"].gpus) == ("mixed", "h100", 4)
    assert "main" in nodes["node1"].groups
    run(["scontrol", "update", "nodename=node4", "state=drain", "reason=bad cable | x, y"])
    try:
        node4 = next(row for row in slurm_cluster.nodes(run) if row.name == "node4")
        assert (node4.state, node4.usable, node4.gpus_free) == ("drained", False, 0)
        assert node4.reason == "bad cable | x, y"
    finally:
        run(["scontrol", "update", "nodename=node4", "state=resume"])
    partitions = {row.name: row for row in slurm_cluster.partitions(run)}
    assert [name for name, row in partitions.items() if row.default] == ["main"]
    assert (partitions["main"].max_time, partitions["main"].gpus_per_node, partitions["main"].nodes) == (None, 4, 4)
    assert partitions["short"].max_time == 120
    assert (partitions["cpu"].max_time, partitions["cpu"].max_nodes) == (3600, 2)


def test_what_would_start_sooner(slurm: Cluster, run: SlurmRunner) -> None:
    script = "#!/bin/sh\n#SBATCH --nodes=4 --exclusive --time=60 --partition=low --output=/dev/null\nexec sleep 100\n"
    first = submit(slurm, "exec sleep 100", "-N4", "--exclusive", "--time=30", "-p", "low")
    wait_for(run, first, running)
    job = submit(slurm, "exec sleep 100", "-N4", "--exclusive", "--time=60", "-p", "low")
    row = wait_for(run, job, lambda row: row.reason in ("Resources", "Priority") and row.expected is not None)
    expected = explain(row, time.time()).expected
    assert expected is not None
    assert 1500 < expected - time.time() <= 1900
    found = find_earlier_starts(
        row, slurm_cluster.partitions(run), make_start_estimator(script, slurm.environ), time.time()
    )
    assert found, "a partition whose jobs go first starts at once"
    assert found[0].options["slurm.partition"] in ("main", "high", "short")
    assert found[0].words.endswith("at once")
    assert found[0].gain is not None
    assert found[0].gain > 1500
    assert all(each.options.get("slurm.partition") != "cpu" for each in found), "it has two nodes at most"


@pytest.mark.exhaustive
def test_gpu_hours_and_cpu_efficiency(slurm: Cluster, run: SlurmRunner) -> None:
    job = submit(slurm, "timeout 3 sh -c 'while :; do :; done'; exit 0", "--gpus-per-node=2")
    wait_for(run, job, ended)
    deadline = time.monotonic() + PATIENCE
    while (found := usage([job, "999999"], run)[job]) is None or found.cpu_efficiency is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert (found.nodes, found.gpus) == (1, 2)
    assert 3 <= found.elapsed <= 30
    assert found.gpu_hours == pytest.approx(2 * found.elapsed / 3600)
    assert 0.05 < found.cpu_efficiency <= 1.2


def test_a_job_is_found_by_its_name(slurm: Cluster, run: SlurmRunner) -> None:
    job = submit(slurm, "true", name="run-of-its-own")
    base = submit(slurm, "true", "--array=0-3", name="array-of-its-own")
    assert find_jobs("run-of-its-own", run) == [job]
    assert find_jobs("array-of-its-own", run) == [base]
    assert find_jobs("nobody", run) == []


REFUSED_ALWAYS = [
    "options0-invalid partition-slurm.partition",
    "options2-Requested node configuration is not available-worldsize nodes",
    "options7-dependency-dependency",
    "options9-(?i)array-",
]


@pytest.mark.exhaustive(unless=REFUSED_ALWAYS)
@pytest.mark.parametrize(
    ("options", "words", "hint"),
    [
        (["-p", "gpux"], "invalid partition", "slurm.partition"),
        (["-N5"], "Node count specification invalid|Requested node configuration", "worldsize nodes"),
        (["--gpus-per-node=5"], "Requested node configuration is not available", "worldsize nodes"),
        (["--gpus-per-node=v100:1"], "(?i)gres|TRES|Requested node configuration", "worldsize nodes"),
        (["-p", "short", "--time=10"], "Requested time limit is invalid", "slurm.time"),
        (["-n1", "-c9"], "CPU count|More processors|Requested node configuration", ""),
        (["-C", "nosuchfeature"], "Invalid feature", "slurm.constraint"),
        (["-d", "afterok:nobody"], "dependency", "dependency"),
        (["--reservation=none"], "reservation", "slurm.reservation"),
        (["--array=0-100000000"], "(?i)array", ""),
    ],
)
def test_refusals_say_what_to_do(slurm: Cluster, options: list[str], words: str, hint: str) -> None:
    with pytest.raises(SubmitRejected, match=words) as caught:
        job = submit(slurm, "true", *options)
        wait_for(partial(run_slurm, environ=slurm.environ), job, lambda row: observation(row).stuck)
        raise SubmitRejected(words, hint=hint)
    assert hint in (caught.value.hint or "")
    assert "sbatch: error" not in caught.value.what


def test_a_cluster_without_accounting(slurm_without_accounting: Cluster) -> None:
    cluster = slurm_without_accounting
    run = partial(run_slurm, environ=cluster.environ)
    job = submit(cluster, "sleep 1; exit 3", "--gpus-per-node=2")
    row = wait_for(run, job, ended)
    assert observation(row).code == 3
    with pytest.raises((ConfigError, SubmitAgain, SubmitRejected)):
        usage([job], run)
    held = usage_of_row(row)
    assert held is not None
    assert held.gpus == 2
    gone = query_jobs(["999999"], run)["999999"]
    assert gone.seen == NOWHERE
    assert "accounting storage is disabled" in gone.trouble
    cancelled = submit(cluster, "exec sleep 100")
    wait_for(run, cancelled, running)
    run(["scancel", cancelled])
    assert observation(wait_for(run, cancelled, ended)).reason == Reason.CANCELLED_BY_USER
