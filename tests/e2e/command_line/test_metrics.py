"""`worldsize metrics` of real runs whose ranks log values."""

from __future__ import annotations

import csv
import importlib.util
import os
from pathlib import Path

from driver import Cli, wait_for

TRAIN = """\
import os
import sys
import worldsize

rank, lr = int(os.environ["RANK"]), float(sys.argv[1])
for step in range(20):
    worldsize.log(step=step, loss=lr * (20 - step) + rank)
if rank == 0:
    worldsize.log({"val/accuracy": lr, "nothing": "a text"}, step=20)
"""
GOES_ON = """\
import os
import time
import worldsize

worldsize.log(step=7, loss=0.25)
open("outputs/logged", "w").close()
while not os.path.exists("outputs/go"):
    time.sleep(0.02)
"""
SWEEP = """\
code: .
command: python train.py ${{inputs.lr}}
inputs: {lr: 1}
matrix:
  lr: [0.5, 0.25]
"""


def test_values_of_real_ranks(cli: Cli, tmp_path: Path) -> None:
    cli.write("train.py", TRAIN)
    run = cli.run("-w", "2x2", "--", "python", "train.py", "1")
    rows = [line.split() for line in cli.ok("metrics").lines]
    assert [row[:7] for row in rows] == [
        ["NAME", "LAST", "STEP", "LOWEST", "HIGHEST", "RANK", "SOURCE"],
        ["loss", "1", "19", "1", "20", "0", "log"],
        ["val/accuracy", "1", "20", "1", "1", "0", "log"],
    ]
    ranks = cli.json("metrics", run, "--rank", "all", "--name", "loss")
    assert [(row["rank"], row["last"]["value"], row["points"]) for row in ranks] == [(k, 1.0 + k, 20) for k in range(4)]
    rows = list(csv.reader(cli.ok("metrics", run, "--csv").lines))
    assert len(rows) == 1 + 4 * 20 + 1
    assert rows[1][:3] == [run, "loss", "0"] and rows[1][4:] == ["20.0", "0", "log", "0", ""]
    if importlib.util.find_spec("matplotlib"):
        cli.ok("metrics", run, "--rank", "all", "--plot", str(tmp_path / "loss.svg"))
        assert b"rank 3" in (tmp_path / "loss.svg").read_bytes()


def test_status_has_the_values_logged_last_while_the_run_goes_on(cli: Cli) -> None:
    cli.write("train.py", GOES_ON)
    run = cli.submit("-w", "2x1", "--", "python", "train.py")
    wait_for(lambda: os.path.exists(cli.path(run, "outputs", "logged")) and cli.status(run)["state"] == "RUNNING")
    assert wait_for(lambda: "step 7, loss 0.25, " in cli.ok("status", run).out)
    open(cli.path(run, "outputs", "go"), "w").close()
    assert cli("wait", run).code == 0


def test_elements_of_an_array_have_a_row_each(cli: Cli) -> None:
    cli.write("train.py", TRAIN)
    assert cli("run", cli.write("sweep.yml", SWEEP)).code == 0
    lines = cli.ok("metrics").lines
    assert [line.split()[1:] for line in lines] == [
        ["INPUTS", "loss", "val/accuracy"], ["lr=0.5", "0.5", "0.5"], ["lr=0.25", "0.25", "0.25"],
    ]  # fmt: skip
