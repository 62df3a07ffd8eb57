"""A search by trials: each a small run on the run's own nodes, one after another or beside each other."""

from __future__ import annotations

import csv
import json
import os
import re
import signal

import pytest
from driver import Cli, wait_for

from worldsize.agent.posix import processes

SCRIPT = """
import json, os, sys, time

config = json.load(open("conf/ds.json"))
size, stage = config["train_micro_batch_size_per_gpu"], config["zero_optimization"]["stage"]
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if rank == 1 and size > 8 and stage == 0:
    raise MemoryError("CUDA out of memory")
open("outputs/rank-%d" % rank, "w").write(str(world))
while len(os.listdir("outputs")) < world:
    time.sleep(0.02)
for step in range(600):
    if rank == 0:
        print("speed=%d" % (size * 10 + stage), flush=True)
    time.sleep(0.05)
"""
SEARCH = {
    "config": "conf/ds.json",
    "metric": "speed",
    "reports": 2,
    "search": {"zero_stage": [0, 1], "micro_batch": [8, 32, 16]},
}


@pytest.fixture
def job(cli: Cli) -> str:
    cli.write("code/train.py", SCRIPT)
    cli.write("code/conf/ds.json", '{"fp16": {"enabled": false}}')
    value = {
        "command": "python train.py",
        "code": "code",
        "distribution": {"type": "pytorch", "process_count_per_instance": 2},
        "resources": {"instance_count": 2},
        "autotune": SEARCH,
        "grace": 3,
    }
    return cli.write("job.yml", json.dumps(value))


def rows(cli: Cli) -> list[list[str]]:
    return [row[:5] for row in csv.reader(cli.read(cli.latest(), "outputs", "trials.csv").splitlines())][1:]


@pytest.mark.timing
@pytest.mark.exhaustive(unless=["2"])
@pytest.mark.parametrize("nodes", [2, 1])
def test_the_best_configuration_is_left_in_outputs(cli: Cli, job: str, nodes: int) -> None:
    result = cli.ok("run", job, "--set", "autotune.nodes=%d" % nodes)
    best = json.loads(cli.read(cli.latest(), "outputs", "ds.json"))
    assert best == {"fp16": {"enabled": False}, "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 32}
    found = rows(cli)
    assert found[0] == ["1", "0", "8", "80", "measured"] and found[1][2:] == ["16", "", "failed"]
    assert found[-1] == ["6", "1", "32", "321", "measured"] and len(found) == 6
    if nodes == 2:
        assert found[2][3:] == ["", "left out"]
    assert "0:0: autotune: best: zero_stage=1 micro_batch=32  speed=321\n" in result.out
    ranks = 2 * nodes
    trial = cli.path(cli.latest(), "attempt-0", "trials", "001")
    assert sorted(os.listdir(os.path.join(trial, "outputs"))) == ["rank-%d" % rank for rank in range(ranks)]
    with open(os.path.join(trial, "outputs", "rank-1")) as file:
        assert file.read() == str(ranks)


def test_what_is_hopeless_is_given_up(cli: Cli, job: str) -> None:
    stands_still = "    if size == 100 and step == 9:\n        time.sleep(60)\n"
    cli.write("code/train.py", SCRIPT.replace("    time.sleep(0.05)\n", "    time.sleep(0.05)\n" + stands_still))
    words = ("autotune.search={micro_batch: [1, 100], zero_stage: [1]}", "autotune.goal=min", "autotune.reports=15")
    cli.ok("run", job, *(word for setting in words for word in ("--set", setting)))
    assert [row[3:] for row in rows(cli)] == [["11", "measured"], ["1001", "given up"]]


def test_without_a_measured_trial_the_run_fails_and_says_why(cli: Cli, job: str) -> None:
    result = cli("run", job, "--set", "command=exit 3", "--set", "autotune.search.micro_batch=[1]")
    assert result.code == 1 and "no trial could be measured: EXIT_CODE: rank" in result.err
    assert "attempt-0/trials/001/attempt-0/logs" in cli.status()["failure"]["message"]
    silent = cli("run", job, "--set", "command=true", "--set", "autotune.search={micro_batch: [1]}")
    assert silent.code == 1 and "it never told its speed" in silent.err


def started(cli: Cli, run: str) -> bool:
    return os.path.exists(cli.path(run, "attempt-0", "trials", "001", "outputs", "rank-3"))


def test_cancelling_ends_the_trial_too(cli: Cli, job: str) -> None:
    run = cli.submit(job, "--set", "autotune.reports=1000")
    wait_for(lambda: started(cli, run))
    cli.ok("cancel", run)
    cli("wait", run)
    assert cli.status(run)["state"] == "CANCELLED" and not os.path.exists(cli.path(run, "outputs", "ds.json"))


def test_a_tuner_that_is_killed_takes_its_trial_with_it(cli: Cli, job: str) -> None:
    run = cli.submit(job, "--set", "autotune.reports=1000")
    wait_for(lambda: started(cli, run))
    (trial,) = set(tuners(cli, 1)) - {tuner(cli, 1)}
    os.kill(tuner(cli, 1), signal.SIGKILL)
    assert cli("wait", run).code != 0 and cli.status(run)["state"] == "FAILED"
    assert trial not in cli.processes()


def tuner(cli: Cli, node_rank: int) -> int:
    """The process of a node's tuner; a trial's agent is a fork of it."""
    found = tuners(cli, node_rank)
    return next(pid for pid in found if parent(pid) not in found)


def parent(pid: int) -> int:
    fields = processes.stat_fields(pid)
    return int(fields[1]) if fields else 0


def tuners(cli: Cli, node_rank: int) -> list[int]:
    return [pid for pid, words in cli.processes().items() if re.search("--node-rank %d .*--tune" % node_rank, words)]


def test_a_node_that_hears_late_that_all_is_over_ends_well(cli: Cli, job: str) -> None:
    """With the head gone by then: the last word and the lost connection arrive as one."""
    go = os.path.join(cli.root, "go")
    command = "while grep -q '_gpu.: 8' conf/ds.json && ! test -e %s; do sleep 0.05; done; exec python train.py" % go
    keys = ("command=" + command, "autotune.nodes=1", "autotune.search={zero_stage: [1], micro_batch: [8, 32]}")
    run = cli.submit(job, *(word for key in keys for word in ("--set", key)))
    wait_for(lambda: os.path.exists(cli.path(run, "outputs", "trials.csv")))
    assert [row[:1] + row[3:] for row in rows(cli)] == [["2", "321", "measured"]]
    head, member = (tuner(cli, node) for node in (0, 1))
    os.kill(member, signal.SIGSTOP)
    open(go, "w").close()
    wait_for(lambda: head not in cli.processes())
    os.kill(member, signal.SIGCONT)
    assert cli("wait", run).code == 0, cli.status(run)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("autotune.config=nope.json", "there is no nope.json in"),
        ("autotune.nodes=3", "2 nodes cannot be shared out to trials of 3"),
        ("autotune.by=deepspeed", "is a part of its launcher"),
        ("autotune.search.micro_batch=8", "expected a list of values"),
        ("autotune.serach={}", "search"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_starts(cli: Cli, job: str, words: str, message: str) -> None:
    result = cli("run", job, "--set", words)
    assert result.code == 2 and message in result.err and cli.json("list") == []
