"""check on this machine: what real nodes say, exit codes, and what follows from them."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest
from driver import Cli, wait_for

ALONE = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    loss = model(torch.randn(4, 8)).sum()
    loss.backward()
    optimizer.step()
"""


def rows_of(cli: Cli, *words: str) -> list[dict[str, str]]:
    done = cli("check", *words, "-o", "json")
    data = json.loads(done.out)
    assert done.code == (1 if data["verdict"] == "bad" else 0), done
    rows: list[dict[str, str]] = data["rows"]
    return rows


def rows_told(status: dict[str, Any]) -> list[str]:
    """The rows of a check of which a status tells, by their ids."""
    return [notice["id"] for notice in status["notices"] if "." in notice["id"]]


def test_rows_that_are_asked_for(cli: Cli) -> None:
    rows = rows_of(cli, "-w", "2x1", "--only", "files.space", "--only", "limits", "--skip", "limits.memlock")
    assert {row["id"] for row in rows} == {"files.space", "limits.open_files", "limits.processes"}
    assert {row["verdict"] for row in rows} <= {"ok", "warning"}
    listed = cli.json("list")
    assert [row["name"] for row in listed] == ["check of nodes"] and listed[0]["nodes"] == 2
    assert not rows_told(cli.json("status"))


def test_text_ends_with_one_line_about_all(cli: Cli) -> None:
    done = cli.ok("check", "--only", "files.space")
    first, last = done.lines
    assert first.split()[:2] == ["ok", "files.space"] and last.startswith("1 row: 1 ok (") and "on 1 node)" in last


def test_what_is_bad_has_its_own_exit_code_and_tells_the_run_that_goes_on(cli: Cli) -> None:
    cli.write("job.yml", "command: echo trained\nslurm: {gpus_per_node: '512'}\n")
    done = cli("check", "job.yml", "--only", "gpu.count")
    assert done.code == 1 and done.out.startswith("bad") and "512" in done.out
    assert done.lines[-1].split(":")[0] in done.out.splitlines()[0], "the node is named"
    followed = cli.ok("run", "job.yml")
    assert "notice: " in followed.err and "512" in followed.err and "trained" in followed.out
    run = cli.json("list")[0]["id"]
    texts = [notice["text"] for notice in cli.status(run)["notices"]]
    assert "notice: " in cli.ok("status", run).out and "512" in " ".join(texts)
    assert not rows_told(cli.status(cli.run("job.yml", "--no-check")))


def test_a_missing_input_is_named_before_anything_starts(cli: Cli) -> None:
    cli.write("job.yml", "command: 'true'\ninputs: {data: {type: uri_file, path: gone.txt}}\n")
    done = cli("check", "job.yml")
    assert done.code == 2 and "job.yml:2: inputs.data" in done.err and "gone.txt" in done.err
    assert cli.json("list") == []


def test_a_script_that_does_not_distribute_itself(cli: Cli) -> None:
    cli.write("train.py", ALONE)
    rows = rows_of(cli, "train.py", "-w", "2x2", "--only", "script")
    assert [row["id"] for row in rows] == ["script.not_distributed"] and "4 separate trainings" in rows[0]["value"]
    assert rows_of(cli, "train.py", "-w", "1x1", "--only", "script") == [] == cli.json("list")
    words = ("run", "--dry-run", "-w", "1x2")
    assert "notice: train.py:" in cli(*words, "--", "python", "train.py").err
    assert "separate trainings" not in cli(*words, "--no-check", "--", "python", "train.py").err
    assert "separate trainings" not in cli(*words, "--data-parallel", "--", "python", "train.py").err
    assert "separate trainings" not in cli("run", "--dry-run", "--", "python", "train.py").err


@pytest.mark.parametrize("words", [("--only", "gpus"), ("--exclude-bad",), ("-w", "0x1"), ("gone.yml",), ("gone.py",)])
def test_words_that_are_wrong(cli: Cli, words: tuple[str, ...]) -> None:
    done = cli("check", *words)
    assert done.code == 2 and done.out == "" and "Traceback" not in done.err


def test_an_environment_that_fails_is_the_checks_failure(cli: Cli) -> None:
    cli.write("job.yml", "command: 'true'\nsetup: ['exit 7']\n")
    done = cli("check", "job.yml", "--only", "files.space")
    assert done.code == 1 and "FAILED" in done.err and done.out == ""


def test_ctrl_c_cancels(cli: Cli) -> None:
    cli.write("job.yml", "command: 'true'\nsetup: ['sleep 60']\n")
    with cli.start("check", "job.yml") as process:
        wait_for(lambda: cli.json("list") and cli.status(cli.json("list")[0]["id"])["state"] in ("STARTING", "RUNNING"))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    assert cli.json("list")[0]["state"] == "CANCELLED"


def test_no_time_is_left(cli: Cli) -> None:
    cli.write("job.yml", "command: 'true'\nsetup: ['sleep 60']\n")
    done = cli("check", "job.yml", "--timeout", "0.5")
    assert done.code == 124 and "no answer within 0.5 s" in done.err
    assert cli.json("list")[0]["state"] == "CANCELLED"
