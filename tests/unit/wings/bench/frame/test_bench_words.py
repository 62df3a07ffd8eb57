"""The words of `worldsize bench`, before anything is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from in_process import InProcess


@pytest.fixture
def cli(tmp_path: Path) -> InProcess:
    return InProcess(str(tmp_path))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bench",), "nothing to measure"),
        (("bench", "resnet51"), "'resnet51' is not a benchmark"),
        (("bench", "job"), "'job' is not a benchmark"),
        (("bench", "missing.yml"), "missing.yml"),
        (("bench", "resnet50", "-w", "1y1"), "'1y1' is not a world size"),
        (("bench", "resnet50", "--sizes", "8B"), "--sizes goes with `bench allreduce`"),
        (("bench", "launch", "--metric", "loss"), "--metric goes with a job of your own"),
        (("bench", "allreduce", "-w", "1x1"), "there is nothing to reduce"),
        (("bench", "allreduce", "-w", "1x2", "--sizes", "1GB:8B"), "ends before it begins"),
        (("bench", "allreduce", "-w", "1x2", "--backend", "mpi", "--dtype", "float16"), "mpi has no float16"),
        (("bench", "launch", "-w", "1x2", "--launchers", "worldsize,ssh"), "'ssh' is not a launcher"),
        (("bench", "resnet50", "-w", "1x1", "--against", "none.json"), "none.json"),
        (("bench", "resnet50", "--", "true"), "both resnet50 and a command"),
        (("bench", "-w", "1x1", "--pattern", "x", "--", "true"), "has no group"),
        (("bench", "-w", "1x1", "--unit", "x", "--", "true"), "--unit describes the value"),
        (("bench", "-w", "1x1", "--environment", "no", "--", "true"), "--environment: there is no environment 'no'"),
        (("bench", "-w", "1x1", "--dry-run", "-o", "json", "--", "true"), "as text only"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_made(cli: InProcess, words: tuple[str, ...], said: str) -> None:
    result = cli(*words)
    assert result.code == 2, result
    assert said in result.err
    assert os.listdir(cli.project) == []


def test_a_cluster_is_asked_for_worlds(cli: InProcess) -> None:
    cli.write("worldsize.toml", '[compute.lab]\ntype = "slurm"\n')
    result = cli("bench", "resnet50", "--compute", "lab")
    assert result.code == 2
    assert "no worlds named to measure on lab" in result.err and "-w 1x1" in result.err


def test_an_array_and_a_job_that_sets_its_own_world_are_refused(cli: InProcess) -> None:
    cli.write("job.yml", "command: echo ${{inputs.lr}}\ncode: .\ninputs: {lr: 1}\nmatrix: {lr: [1, 2]}\n")
    result = cli("bench", "job.yml", "-w", "1,2")
    assert result.code == 2, result
    assert "an array cannot be measured" in result.err
    cli.write("job.yml", "command: 'true'\ncode: .\n")
    result = cli("bench", "job.yml", "-w", "1x2", "--set", "resources.instance_count=2")
    assert result.code == 2, result


def test_dry_run_shows_each_world_and_makes_nothing(cli: InProcess) -> None:
    result = cli("bench", "-w", "1,2", "--dry-run", "--", "echo", "hi")
    assert result.code == 0, result
    assert "# 1x1" in result.out and "# 1x2" in result.out
    assert os.listdir(cli.project) == []
    result = cli("bench", "launch", "-w", "1x2", "--dry-run", "--launchers", "worldsize")
    assert result.code == 0, result
    assert "run -w 1x2" in result.out


def test_the_compute_of_the_job_says_whether_worlds_must_be_named(cli: InProcess) -> None:
    cli.write("worldsize.toml", '[compute.lab]\ntype = "slurm"\n')
    cli.write("job.yml", "command: 'true'\ncompute: lab\n")
    result = cli("bench", "job.yml", "--dry-run")
    assert result.code == 2, result
    assert "no worlds named to measure on lab" in result.err
