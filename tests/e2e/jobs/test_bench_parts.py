"""`bench allreduce` and `bench launch`, from the words to the result, on this machine."""

from __future__ import annotations

import glob
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from driver import SOURCE, Cli, wait_for

ROOT = os.path.dirname(SOURCE)


def measured(cli: Cli, *words: str) -> tuple[list[dict[str, Any]], str]:
    said = cli("bench", *words, "--to", "found", timeout=280)
    assert said.code == 0, said
    result = json.loads(Path(cli.project, "found", "result.json").read_text())
    return result["measurements"], said.out


def environment(name: str) -> tuple[str, str]:
    path = os.path.join(ROOT, name)
    if not os.path.exists(path):
        pytest.skip("needs the environment %s" % name)
    return "--environment", path


@pytest.mark.training
@pytest.mark.timeout(300)
def test_gloo_reduces_every_size_as_nccl_tests_prints_it(cli: Cli) -> None:
    pytest.importorskip("torch")
    (found,), out = measured(cli, "allreduce", "-w", "2x2", "--sizes", "8B:64KB", "--factor", "64", "--iterations", "2")
    rows, details = found["details"]["rows"], found["details"]
    assert (details["ranks"], details["backend"]) == (4, "gloo")
    assert [row["size"] for row in rows] == [8, 512, 32768]
    assert all(row["wrong"] == 0 and row["seconds"] > 0 and row["out_seconds"] is None for row in rows)
    log = cli("logs", "--rank", "0", "--raw").out
    assert "# Out of bounds values : 0 OK" in log and "# Avg bus bandwidth    : " in log
    assert log.startswith("# nThread 1 nGpus 1 minBytes 8 maxBytes 32768 step: 64(factor) warmup iters: 5 iters: 2 ")
    assert log.count("#  Rank ") == 4
    assert "virtual" in out


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_mpi_reduces_in_place_and_into_another_buffer(cli: Cli, dtype: str) -> None:
    words = (
        "allreduce",
        "-w",
        "1x2",
        "--backend",
        "mpi",
        "--dtype",
        dtype,
        "--sizes",
        "8B,1MB",
        *environment(".venv-mpi"),
    )
    (found,), _ = measured(cli, *words)
    rows = found["details"]["rows"]
    assert [row["size"] for row in rows] == [8, 1 << 20]
    assert all(row["wrong"] == row["out_wrong"] == 0 and row["out_seconds"] > 0 for row in rows)


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_gloo_reduces_every_type(cli: Cli, dtype: str) -> None:
    (found,), _ = measured(cli, "allreduce", "-w", "1x3", "--dtype", dtype, "--sizes", "8B,1MB", "--iterations", "2")
    assert all(row["wrong"] == 0 for row in found["details"]["rows"])


def times(found: dict[str, Any], rounds: int) -> None:
    details = found["details"]
    for name in ("first", "step", "end", "failure_end"):
        assert len(details[name]) == rounds and all(0 <= each < 60 for each in details[name]), (name, found)
    assert all(first <= step for first, step in zip(details["first"], details["step"], strict=True))
    assert (details["left"], found["failure"]) == (0, "")


def test_worldsize_is_timed_until_nothing_is_left(cli: Cli) -> None:
    (found,), out = measured(cli, "launch", "-w", "1x2", "--rounds", "1", "--launchers", "worldsize")
    times(found, 1)
    assert "worldsize" in out
    assert sorted(os.listdir(cli.project)) == ["found"]
    assert not any(name.startswith(".trials") for name in os.listdir(os.path.join(cli.project, "found")))
    assert cli.json("list") == []
    both, out = measured(cli, "launch", "-w", "1x1,1x2", "--rounds", "1", "--launchers", "worldsize")
    assert both[1] == found and both[0]["world"] != found["world"]


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("place", "launcher"),
    [("", "torchrun"), ("", "mpirun"), (".venv-horovod", "horovodrun"), (".venv-deepspeed", "deepspeed")],
)
def test_every_launcher_is_timed(cli: Cli, place: str, launcher: str) -> None:
    words = ("launch", "-w", "1x2", "--rounds", "1", "--launchers", launcher, "--timeout", "250",
             *(environment(place) if place else ()))  # fmt: skip
    (found,), _ = measured(cli, *words)
    times(found, 1)


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_the_first_step_may_be_an_all_reduce_of_torch(cli: Cli) -> None:
    pytest.importorskip("torch")
    (found,), _ = measured(cli, "launch", "-w", "1x2", "--rounds", "1", "--launchers", "worldsize", "--torch")
    times(found, 1)


def stub(cli: Cli, script: str) -> str:
    """A PATH with an mpirun that does so."""
    folder = os.path.join(cli.root, "bin")
    os.mkdir(folder)
    Path(folder, "mpirun").write_text(
        "#!/bin/sh\n[ $1 = --version ] && echo 'mpirun (Open MPI) 4.0' && exit\n" + script
    )
    os.chmod(os.path.join(folder, "mpirun"), 0o755)
    return folder + os.pathsep + cli.environ["PATH"]


def test_a_launcher_that_cannot_start_ranks_is_told_once_and_the_others_are_timed(cli: Cli) -> None:
    path = stub(cli, "echo started >>%s/started; echo 'mpirun was unable to launch'; exit 1\n" % cli.root)
    words = ("-w", "1x2", "--rounds", "1", "--launchers", "worldsize,mpirun", "--to", "found")
    said = cli("bench", "launch", *words, PATH=path)
    assert said.code == 1, said
    assert "1x2: mpirun: not every rank has started: mpirun was unable to launch." in said.out
    assert re.search(r"1x2: first line: worldsize \d", said.out), said
    assert Path(cli.root, "started").read_text() == "started\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_a_measurement_that_is_interrupted(cli: Cli, number: int) -> None:
    path = stub(cli, "touch %s/up; exec sleep 600\n" % cli.root)
    words = ("bench", "launch", "-w", "1x2", "--launchers", "mpirun", "--to", "found")
    process = cli.start(*words, PATH=path)
    assert wait_for(lambda: os.path.exists(os.path.join(cli.root, "up")))
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert b"Traceback" not in err
    assert not glob.glob(os.path.join(cli.project, "found", ".trials*"))


def test_a_run_of_worldsize_is_ended_with_the_measurement(cli: Cli) -> None:
    process = cli.start("bench", "launch", "-w", "1x2", "--rounds", "9", "--launchers", "worldsize", "--to", "found")
    assert wait_for(lambda: glob.glob(os.path.join(cli.project, "found", ".trials-*", "*", "rank-*")))
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert not glob.glob(os.path.join(cli.project, "found", ".trials*"))


@pytest.mark.exhaustive
def test_the_configuration_of_the_project_holds_wherever_the_result_is_written(cli: Cli) -> None:
    cli.write("worldsize.toml", '[compute.desk]\ntype = "local"\n')
    words = ("-w", "1x1", "--rounds", "1", "--launchers", "worldsize", "--compute", "desk")
    said = cli("bench", "launch", *words, "--to", os.path.join(cli.root, "elsewhere"))
    assert said.code == 0, said
