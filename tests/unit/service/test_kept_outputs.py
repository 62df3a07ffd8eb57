"""Whether a path means what a former run has left at its service."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.kept_outputs import is_fetched, run_that_keeps


def test_a_file_makes_the_difference(tmp_path: Path) -> None:
    assert not is_fetched(str(tmp_path / "missing"))
    (tmp_path / "model" / "a").mkdir(parents=True)
    assert not is_fetched(str(tmp_path))
    (tmp_path / "model" / "a" / "w").write_text("")
    assert is_fetched(str(tmp_path)) and is_fetched(str(tmp_path / "model" / "a" / "w"))


@pytest.mark.parametrize("kind", ["local", "azureml", "none"])
def test_paths_that_no_service_keeps(tmp_path: Path, kind: str) -> None:
    """Of a run on this machine, of one that nobody here has started, and of none."""
    root = tmp_path / "outputs" / "run-1"
    (root / "outputs" / "model").mkdir(parents=True)
    if kind != "none":
        Path(RunPaths(str(root)).handle).write_text(json.dumps({"type": kind, "run_id": "run-1"}))
    for path in ("outputs/model", "outputs", "code", "outputs-of-mine/x"):
        assert run_that_keeps(os.path.join(root, path), {"HOME": str(tmp_path)}) is None
    assert run_that_keeps("https://example.org/outputs/x", {}) is None
