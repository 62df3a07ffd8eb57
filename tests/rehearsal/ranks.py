"""Ranks of rehearsals: what those of a run printed, and what a process says that finds what a run's ranks find."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from driver import Cli

from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.rank_packages import write_packages

PATIENCE = 240.0


def rehearsed(cli: Cli, *words: str) -> list[str]:
    """What each rank printed, once the rehearsal has succeeded."""
    result = cli(*words, timeout=PATIENCE)
    assert result.code == 0, result
    assert "SUCCEEDED" in result.err and ", a rehearsal with 2 virtual GPUs per node" in result.err
    run = cli.latest()
    return [cli.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(cli.status(run)["ranks"])]


def said_by_a_rank(root: Path, script: str) -> Any:
    """The JSON that a script prints as a rank with two virtual GPUs, without a run."""
    write_packages(("virtual_gpu",), RunPaths(str(root)), str(root / "cache"))
    environ = {
        **os.environ,
        "PYTHONPATH": str(root / "inrank"),
        "WORLDSIZE_INRANK": "virtual_gpu",
        "WORLDSIZE_VIRTUAL_GPUS": "2",
        "OMP_NUM_THREADS": "1",
    }
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-W", "ignore", script]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=200)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)
