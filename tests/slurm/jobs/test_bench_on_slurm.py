"""`worldsize bench` on a real cluster: each world is a job of its own; the tables are of its nodes."""

from __future__ import annotations

import glob
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from driver import wait_for
from slurm.login import Login

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(__file__)))), "examples")
FILES = [".worldsize-result", "report.html", "result.csv", "result.json", "scaling.png", "scaling.svg"]


def measured(login: Login, *words: str) -> dict[str, Any]:
    said = login("bench", *words, "--to", "found", timeout=500)
    assert said.code == 0, said.out + said.err
    assert sorted(os.listdir(os.path.join(login.project, "found"))) == FILES
    result: dict[str, Any] = json.loads(Path(login.project, "found", "result.json").read_text())
    assert result["compute"] == "slurm"
    for each in result["measurements"]:
        assert each["rate"] > 0 and each["held"] > 0
        login.nothing_left(each["run"])
    return result


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_job_at_three_worlds(login: Login) -> None:
    pytest.importorskip("torch")
    job = os.path.join(EXAMPLES, "digits", "job.yml")
    result = measured(login, job, "-w", "1x1,1x2,2x2", "--set", "inputs.epochs=1")
    assert [each["details"]["source"] for each in result["measurements"]] == ["the ranks' start to their end"] * 3
    assert dict(result["hardware"])["nodes"].startswith("2")


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_resnet50_and_all_reduce(login: Login) -> None:
    pytest.importorskip("torch")
    tiny = ("--image-size", "32", "--width", "4", "--batch", "2", "--steps", "2", "--warmup", "1")
    result = measured(login, "resnet50", "-w", "1x1,1x2,2x2", *tiny, "--set", "threads=1")
    assert "tiny settings" in result["title"]
    login("bench", "allreduce", "-w", "2x2", "--sizes", "8B,64KB", "--to", "sums", timeout=300)
    sums = json.loads(Path(login.project, "sums", "result.json").read_text())
    assert [row["wrong"] for row in sums["measurements"][0]["details"]["rows"]] == [0, 0]


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_srun_is_timed_beside_worldsize(login: Login) -> None:
    words = ("-w", "2x1", "--rounds", "1", "--launchers", "worldsize,srun", "--to", "times")
    said = login("bench", "launch", *words, timeout=500)
    assert said.code == 0, said.out + said.err
    times = json.loads(Path(login.project, "times", "result.json").read_text())["measurements"]
    assert [each["details"]["launcher"] for each in times] == ["worldsize", "srun"]
    assert all(each["details"]["first"] and each["details"]["failure_end"] for each in times)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("launcher", ["worldsize", "srun"])
def test_ctrl_c_ends_what_a_launcher_has_on_the_nodes(login: Login, launcher: str) -> None:
    words = ("bench", "launch", "-w", "2x1", "--rounds", "99", "--launchers", launcher, "--to", "times")
    process = login.start(*words)
    ranks = os.path.join(login.project, "times", ".trials-*", "*", "rank-1")
    assert wait_for(lambda: glob.glob(ranks), 120)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, (out, err)
    found = login.json("list")
    assert {each["state"] for each in found} <= {"SUCCEEDED", "FAILED", "CANCELLED"}
    for each in found:
        login.nothing_left(each["id"])
    login.cluster.wait_idle(60)
