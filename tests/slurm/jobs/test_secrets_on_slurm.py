"""Secrets are where their user put them, and nowhere else: the controller keeps scripts and variables of jobs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from canaries import NAMED, SECRETS, Canaries
from driver import wait_for
from slurm.by_hand import Shell, fill, run_of
from slurm.login import PATIENCE, Login

WAYS = {
    "alone": {},
    "array": {"count": 2},
    "shared": {"share": "group"},
    "srun": {"distribution": {"type": "mpi", "launcher": "srun", "process_count_per_instance": 1}},
    "mpirun": {"distribution": {"type": "mpi", "launcher": "mpirun", "process_count_per_instance": 1}},
}


def begun(login: Login, run: str, ranks: int) -> bool:
    return len(list(Path(login.path(run, "outputs")).glob("up-*"))) == ranks


def nowhere(login: Login, canaries: Canaries, *but: str) -> None:
    found = canaries.in_files(login.cluster.folder, but=("project/job.yml", "project/job.sh", *but))
    assert found + canaries.in_processes() == []


@pytest.mark.exhaustive(unless=["shared", "srun"])
@pytest.mark.parametrize("way", WAYS)
def test_a_run(login: Login, way: str) -> None:
    canaries = Canaries()
    login.write("job.yml", json.dumps(canaries.job("1x1" if way == "array" else "2x1", **WAYS[way])))
    run = login.ok("submit", "job.yml", **canaries.environ).out.strip()
    runs = [run + "_0", run + "_1"] if way == "array" else [run]
    for each in runs:
        wait_for(lambda each=each: begun(login, each, 2 // len(runs)), PATIENCE)
    nowhere(login, canaries, SECRETS)
    for each in runs:
        Path(login.path(each, "outputs", "go")).touch()
    assert login("wait", run, timeout=PATIENCE).code == 0, login("status", run)
    nowhere(login, canaries)


def test_a_secret_in_setup(login: Login) -> None:
    """It is part of the batch script, which Slurm keeps as long as it knows the job: that is said, and we keep none."""
    canaries = Canaries()
    lines = ["export SETUP_TOKEN=" + canaries("Setup"), 'echo "had: $EXPERIMENT"']
    login.write("job.yml", json.dumps(canaries.job(setup=lines)))
    told = login.ok("run", "--dry-run", "job.yml", **canaries.environ)
    assert "a line of setup holds a secret" in told.err and canaries.word not in told.out + told.err
    run = login.ok("submit", "job.yml", **canaries.environ).out.strip()
    wait_for(lambda: begun(login, run, 2), PATIENCE)
    found = canaries.in_files(login.cluster.folder, but=("project/job.yml", SECRETS))
    assert {line.rpartition(": ")[2] for line in found} == {canaries("Setup")}
    assert not [line for line in found if login.root in line]
    Path(login.path(run, "outputs", "go")).touch()
    assert login.ended(run)["state"] == "SUCCEEDED"
    assert "had: " in login.read(run, "batch.log").splitlines()


@pytest.mark.exhaustive
def test_a_secret_by_another_name_in_setup(login: Login) -> None:
    """Found by review: what nothing but a variable's name tells was in the preview, which a group may read."""
    canaries = Canaries()
    word = canaries("Word")
    job = {"command": "true", "setup": ["true login %s" % word], "environment_variables": {"WANDB_API_KEY": word}}
    login.write("job.yml", json.dumps({**job, "share": "group"}))
    result = login.ok("run", "job.yml")
    root = str(Path(login.path(login.latest())).resolve())
    assert "a line of setup holds a secret" in result.err
    assert canaries.in_files(root) == [] and word not in result.out + result.err


@pytest.mark.exhaustive
def test_a_secret_in_an_option_of_sbatch(login: Login) -> None:
    """Found by review: what is kept of the script, which `share: group` opens, and what is shown of it had it."""
    canaries = Canaries()
    slurm = {"sbatch_options": {"comment": "api_key=" + canaries("Option")}}
    login.write("job.yml", json.dumps({"command": "true", "slurm": slurm, "share": "group"}))
    told = login.ok("run", "--dry-run", "job.yml")
    run = login.run("job.yml")
    assert canaries.word not in told.out + told.err and "api_key=***" in told.out
    assert canaries.in_files(login.root, but=("project/job.yml",)) == [], run


def test_a_script_submitted_by_hand(login: Login) -> None:
    """It holds none: they are taken from the variables of whoever submits it."""
    canaries = Canaries()
    login.write(
        "job.yml",
        json.dumps(
            {
                "command": "test -n $EXPERIMENT -a -n $HF_TOKEN",
                "secrets": list(canaries.environ)[:1],
                "environment_variables": {"HF_TOKEN": canaries("Variable")},
            }
        ),
    )
    script = login.write("job.sh", login.ok("run", "--dry-run", "job.yml", **canaries.environ).out)
    assert canaries.word not in Path(script).read_text()
    for number, values in enumerate(({}, {NAMED: "1", "HF_TOKEN": "2"})):
        argv = ["sbatch", "--wait", "--parsable", "--output=%s.out" % script, script]
        job = subprocess.run(argv, env={**login.environ, **values}, stdout=subprocess.PIPE, text=True).stdout.strip()
        (run,) = (run for run in login.runs() if run.endswith("-" + job))
        assert login.status(run)["state"] == ("FAILED", "SUCCEEDED")[number]
        if not number:
            assert "the run's secrets were removed" in login("status", run).out


def test_inside_an_allocation(login: Login) -> None:
    canaries = Canaries()
    login.write("job.yml", json.dumps(canaries.job(display_name="inside", setup=["true --token " + canaries("Setup")])))
    shell = Shell(login, "-N2")
    try:
        words = " ".join("%s=%s" % each for each in canaries.environ.items())
        said = shell("env %s %s -m worldsize submit --compute slurm job.yml" % (words, sys.executable))
        run = run_of(login, "inside")
        wait_for(lambda: begun(login, run, 2), PATIENCE)
        nowhere(login, canaries, SECRETS)
        Path(login.path(run, "outputs", "go")).touch()
        assert login("wait", run, timeout=PATIENCE).code == 0, said
    finally:
        shell.close()
    nowhere(login, canaries)


def test_what_sbatch_is_asked_before_and_afterwards(login: Login) -> None:
    """Found by review: a trial sends its environment to the controller as a submission does."""
    canaries = Canaries()
    seen = login.path("..", "..", "seen")
    environ = {**canaries.environ, **login.shadow("sbatch", 'echo "$*" >>%s; env >>%s; exec $REAL "$@"' % (seen, seen))}
    del environ["HF_TOKEN"]  # which no key of this job names
    fill(login, "--partition=low", "--time=3:00:00")
    job = {"secrets": [NAMED], "slurm": {"partition": "low", "time": "1:00:00"}}
    login.ok("run", "--dry-run", login.job("true", **job), **environ)
    run = login.ok("submit", "job.yml", **environ).out.strip()
    told = wait_for(
        lambda: json.loads(login.ok("status", run, "-o", "json", **environ).out)["waiting"]["sooner"], PATIENCE
    )
    lines = Path(seen).read_text().splitlines()
    assert told and "--test-only" in lines and "--test-only --partition=main" in lines
    assert canaries.word not in "".join(lines)
    login.ok("cancel", run)
