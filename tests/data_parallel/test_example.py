"""The example: one script by itself, unchanged on 2 × 2 ranks, and converted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
from driver import SOURCE

pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("libcst")

from trainings import Trainings

EXAMPLE = os.path.join(os.path.dirname(SOURCE), "examples", "data-parallel")
PACKAGE = os.path.join(SOURCE, "worldsize", "wings", "data_parallel", "inrank")


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_the_same_script_three_ways_ends_alike(trainings: Trainings) -> None:
    command = [sys.executable, os.path.join(EXAMPLE, "compare.py"), "2x2"]
    environ = {**trainings.cli.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=trainings.cli.project, env=environ, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    rows = [line.replace("epoch ", "epoch-").replace("  loss", "-loss").split() for line in done.stdout.splitlines()]
    assert rows[0] == ["python", "--data-parallel", "convert"] and len(rows) == 7
    assert all(alone == unchanged == converted for alone, unchanged, converted in rows[1:])
    assert float(rows[-1][0].partition("=")[2]) > 0.85


def test_scripts_find_shard_where_worldsize_is_not_installed(trainings: Trainings) -> None:
    copy = os.path.join(trainings.cli.project, "worldsize_inrank")
    shutil.copytree(PACKAGE, os.path.join(copy, "data_parallel"))
    shutil.copy(os.path.join(SOURCE, "worldsize", "inrank", "import_hook.py"), copy)
    script = (
        """
import sys
sys.path.insert(0, %r)
import worldsize_inrank.import_hook
worldsize_inrank.import_hook.load("data_parallel")
from worldsize import shard
print(shard(1), shard(2, 3))
"""
        % trainings.cli.project
    )
    command = [sys._base_executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "1 (2, 3)\n", done.stderr


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_mnist_by_itself_unchanged_and_converted_ends_alike(trainings: Trainings) -> None:
    cli, mnist = trainings.cli, os.path.join(os.path.dirname(EXAMPLE), "mnist")
    data = os.path.join(cli.root, "data")
    trainings.plain(os.path.join(mnist, "make_digits.py"), data)
    for name in ("idx.py", "train_single.py"):
        shutil.copy(os.path.join(mnist, "src", name), os.path.join(cli.project, name))
    words = ("train_single.py", "--data", data, "--epochs", "2", "--batch-size", "32", "--lr", "0.5")
    logs = [trainings.plain(*words), trainings.log(trainings.parallel("2x2", *words))]
    cli.ok("convert", "train_single.py", "--write")
    result = cli("run", "-q", "-w", "2x2", "--", "python", *words, timeout=240, OMP_NUM_THREADS="1")
    assert result.code == 0, result
    logs.append(trainings.log(cli.latest()))
    right = [int(re.findall(r"Accuracy: (\d+)/360", log)[-1]) for log in logs]
    assert min(right) > 0.85 * 360 and max(right) - min(right) < 0.05 * 360, right
