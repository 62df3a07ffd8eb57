"""Which attempt of a run is the latest."""

from __future__ import annotations

from pathlib import Path

from worldsize.plan.run_paths import RunPaths, latest_attempt


def test_the_attempt_with_the_highest_number_is_the_latest(tmp_path: Path) -> None:
    for name in ("attempt-0", "attempt-2", "attempt-10", "attempt-x", "attempt-", "attempt-\u00b2", "logs"):
        (tmp_path / name).mkdir()
    assert latest_attempt(RunPaths(str(tmp_path))).attempt == 10
    assert latest_attempt(RunPaths(str(tmp_path), 10)).attempt == 10


def test_without_a_later_attempt_the_paths_stay(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path), 3)
    (tmp_path / "attempt-2").mkdir()
    assert latest_attempt(paths) is paths
    gone = RunPaths(str(tmp_path / "gone"))
    assert latest_attempt(gone) is gone
