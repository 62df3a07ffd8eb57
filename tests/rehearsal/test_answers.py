"""Virtual GPUs answer as the table says that real ones do (scripts/compare_virtual_gpu.py asks those)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import answers
import pytest

from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.rank_packages import write_packages

pytest.importorskip("torch")


def answers_of_a_rank(root: Path) -> dict[str, Any]:
    """All answers, of processes that find what a run's ranks find."""
    write_packages(("virtual_gpu",), RunPaths(str(root)), str(root / "cache"))
    environ = {
        **os.environ,
        "PYTHONPATH": str(root / "inrank"),
        "WORLDSIZE_INRANK": "virtual_gpu",
        "WORLDSIZE_VIRTUAL_GPUS": "2",
        "OMP_NUM_THREADS": "1",
    }
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    command = [sys.executable, "-W", "ignore", answers.__file__]
    said = subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=100)
    result: dict[str, Any] = json.loads(said.stdout)
    return result


@pytest.mark.exhaustive
def test_virtual_gpus_answer_as_real_ones_do(tmp_path: Path) -> None:
    found = answers_of_a_rank(tmp_path)
    assert found.keys() == answers.CASES.keys()
    expected = {name: case[1] for name, case in answers.CASES.items()}
    assert {
        name: (found[name], expected[name]) for name in found if not answers.agrees(found[name], expected[name])
    } == {}
