"""A search by trials: each a small run on the run's own nodes, one after another or beside each other."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from glob import glob

import pytest
from driver import Cli, wait_for

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
MEETING = """import glob
while len(glob.glob("../../*/outputs/rank-0")) < 2:
    time.sleep(0.02)
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


def trials(cli: Cli, run: str) -> list[str]:
    """The trials' run directories."""
    return sorted(glob(cli.path(run, run + "_*")))


def test_the_best_configuration_is_left_in_outputs(cli: Cli, job: str) -> None:
    result = cli.ok("run", job)
    run = cli.latest()
    best = json.loads(cli.read(run, "outputs", "ds.json"))
    assert best == {"fp16": {"enabled": False}, "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 32}
    found = rows(cli)
    assert found[0] == ["1", "0", "8", "80", "measured"] and found[1][2:] == ["16", "", "failed"]
    assert found[2][3:] == ["", "left out"] and found[-1] == ["6", "1", "32", "321", "measured"] and len(found) == 6
    assert "\ntrial 3/6  zero_stage=0 micro_batch=32  left out: a micro-batch of 16 was too large" in result.err
    assert "\nbest: zero_stage=1 micro_batch=32  speed=321\n" in result.err
    first, _, left_out, *_ = trials(cli, run)
    assert sorted(os.listdir(os.path.join(first, "outputs"))) == ["rank-%d" % rank for rank in range(4)]
    with open(os.path.join(first, "outputs", "rank-1")) as file:
        assert file.read() == "4"
    assert os.listdir(os.path.join(left_out, "attempt-0", "logs")) == ["conductor.log"], "no rank was started"
    with open(os.path.join(cli.path(run), "code", "conf", "ds.json")) as file:
        assert file.read() == '{"fp16": {"enabled": false}}'


def test_a_trial_is_an_element_of_an_array(cli: Cli, job: str) -> None:
    cli("run", job)
    run, status = cli.latest(), cli.status()
    assert [status["state"], status["exit_code"]] == ["SUCCEEDED", 0]
    assert [each["state"] for each in status["elements"]] == ["SUCCEEDED", "FAILED", "FAILED", *["SUCCEEDED"] * 3]
    assert [status["elements"][k]["reason"] for k in (1, 2)] == ["OUT_OF_MEMORY", "LEFT_OUT"]
    assert status["elements"][4]["inputs"] == {"zero_stage": 1, "micro_batch": 16}
    assert "best: zero_stage=1 micro_batch=32  speed=321" in cli.ok("status", run).out
    assert "0: speed=80" in cli.ok("logs", run + "_0").out
    result = cli("rerun", run + "_1", "--set", "command=cat conf/ds.json")
    assert '"train_micro_batch_size_per_gpu": 16' in result.out, result


def test_trials_of_one_node_run_beside_each_other(cli: Cli, job: str) -> None:
    """Two at once: each waits until the other one has begun."""
    cli.write("code/train.py", SCRIPT.replace("while len(os.listdir", MEETING + "while len(os.listdir"))
    keys = ("autotune.nodes=1", "autotune.search={zero_stage: [1], micro_batch: [8, 32]}")
    cli.ok("run", job, *(word for key in keys for word in ("--set", key)))
    assert [row[2:] for row in rows(cli)] == [["8", "81", "measured"], ["32", "321", "measured"]]
    with open(os.path.join(trials(cli, cli.latest())[0], "outputs", "rank-1")) as file:
        assert file.read() == "2"


def test_what_is_hopeless_is_given_up(cli: Cli, job: str) -> None:
    stands_still = "    if size == 100 and step == 9:\n        time.sleep(60)\n"
    cli.write("code/train.py", SCRIPT.replace("    time.sleep(0.05)\n", "    time.sleep(0.05)\n" + stands_still))
    words = ("autotune.search={micro_batch: [1, 100], zero_stage: [1]}", "autotune.goal=min", "autotune.reports=15")
    cli.ok("run", job, *(word for setting in words for word in ("--set", setting)))
    assert [row[3:] for row in rows(cli)] == [["11", "measured"], ["1001", "given up"]]


def test_a_metric_that_never_comes(cli: Cli, job: str) -> None:
    keys = ("command=echo speed=nan speed=1e999 speed=1e30; exec sleep 600", "autotune.timeout=1")
    result = cli("run", job, *(word for key in keys for word in ("--set", key)), "--set", "autotune.search={x: [1]}")
    assert result.code == 124 and cli.status()["reason"] == "TIME_LIMIT"
    assert [row[1:4] for row in rows(cli)] == [
        ["1", "", "failed"]
    ] and "did not report its speed within 1 s" in result.err


def test_without_a_measured_trial_the_search_fails_and_says_why(cli: Cli, job: str) -> None:
    result = cli("run", job, "--set", "command=exit 3", "--set", "autotune.search.micro_batch=[1]")
    assert result.code == 3 and "trial 1/2  zero_stage=0 micro_batch=1  failed: EXIT_CODE: rank" in result.err
    status = cli.status()
    assert [status["state"], status["reason"]] == ["FAILED", "EXIT_CODE"]
    silent = cli("run", job, "--set", "command=true", "--set", "autotune.search={micro_batch: [1]}")
    assert silent.code == 1 and "it never reported its speed" in silent.err


def started(cli: Cli, run: str) -> bool:
    return os.path.exists(cli.path(run, run + "_0", "outputs", "rank-3"))


def test_cancelling_ends_the_trial_too(cli: Cli, job: str) -> None:
    run = cli.submit(job, "--set", "autotune.reports=1000")
    wait_for(lambda: started(cli, run))
    cli.ok("cancel", run)
    cli("wait", run)
    assert cli.status(run)["state"] == "CANCELLED" and not os.path.exists(cli.path(run, "outputs", "ds.json"))
    result = cli("rerun", run + "_5")
    assert result.code == 2 and "its configuration was not made" in result.err, "the array's own is another one"


def test_a_trial_whose_processes_were_killed_is_a_row(cli: Cli, job: str) -> None:
    """Also where it could write no record of its own; the search goes on."""
    keys = ("autotune.reports=1000", "autotune.search={zero_stage: [0, 1], micro_batch: [8]}")
    run = cli.submit(job, *(word for key in keys for word in ("--set", key)))
    wait_for(lambda: started(cli, run))
    os.kill(json.loads(cli.read(run, run + "_0", "handle.json"))["pid"], signal.SIGKILL)
    wait_for(lambda: os.path.exists(cli.path(run, run + "_1", "outputs", "rank-3")))
    cli.ok("cancel", run + "_1")
    cli("wait", run)
    assert [row[3:] for row in rows(cli)] == [["", "failed"]]


@pytest.mark.parametrize(
    ("text", "message"), [("[1]", "does not contain a JSON object"), ("{", "does not contain a JSON object")]
)
def test_a_configuration_that_is_none(cli: Cli, job: str, text: str, message: str) -> None:
    cli.write("code/conf/ds.json", text)
    result = cli("run", job)
    assert result.code == 2 and message in result.err and cli.json("list") == []


def test_a_configuration_that_leads_elsewhere_fails_each_trial(cli: Cli, job: str) -> None:
    os.rename(os.path.join(cli.project, "code", "conf"), os.path.join(cli.project, "elsewhere"))
    os.symlink("../elsewhere", os.path.join(cli.project, "code", "conf"))
    result = cli("run", job, "--set", "autotune.search={micro_batch: [8]}")
    assert result.code == 1 and "conf/ds.json is not in the snapshot of the code" in result.err, result


def test_a_search_of_a_former_release_can_be_read_and_is_not_started(cli: Cli, job: str) -> None:
    """It was one run, whose launcher led trials."""
    run = cli.latest() if cli("run", job, "--set", "autotune=null", "--set", "command=echo hello").code == 0 else ""
    plan = json.loads(cli.read(run, "plan.json"))
    with open(cli.path(run, "plan.json"), "w") as file:
        json.dump({**plan, "launcher": "autotune", "options": {"launcher": "direct", "search": SEARCH}}, file)
    assert cli.status(run)["state"] == "SUCCEEDED" and cli.json("list")[0]["state"] == "SUCCEEDED"
    assert "hello" in cli.ok("logs", run).out
    for name in ("result.json", "attempt-0/exit/node-0000.json", "attempt-0/exit/node-0001.json"):
        os.unlink(cli.path(run, name))
    words = [sys.executable, cli.path(run, "agent.pyz"), cli.path(run), "--conduct"]
    assert subprocess.run(words, timeout=60, check=False).returncode == 1
    assert "there is no launcher 'autotune'" in cli.status(run)["message"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("autotune.config=nope.json", "there is no nope.json in"),
        ("autotune.nodes=3", "2 nodes cannot be divided into trials of 3"),
        ("autotune.by=deepspeed", "is a part of its launcher"),
        ("autotune.search.micro_batch=8", "expected a list of values"),
        ("autotune.serach={}", "search"),
        ("count=2", "cannot be combined with count"),
        ("virtual_gpus=2", "one run is rehearsed at a time"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_starts(cli: Cli, job: str, words: str, message: str) -> None:
    result = cli("run", job, "--set", words)
    assert result.code == 2 and message in result.err and cli.json("list") == []
