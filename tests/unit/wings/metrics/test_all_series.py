"""What is joined from worldsize.log, TensorBoard and MLflow, and shown in one table."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from in_process import InProcess
from recorded_metrics import BEGUN, log_values, recorded_run

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics import all_series
from worldsize.wings.metrics.all_series import read_all_series
from worldsize.wings.metrics.series import Point, Series

POINTS = (Point(1, BEGUN, 5.0), Point(2, BEGUN + 1, 4.0))
MLFLOW = Series("acc", "mlflow", None, POINTS, "a run")
MODULES = {
    "wings.metrics.tensorboard": SimpleNamespace(
        read_tensorboard=lambda paths: [
            Series("loss", "tensorboard", 1, POINTS, "runs/a"),
            Series("loss", "tensorboard", 0, POINTS, "runs/b"),
            Series("loss", "tensorboard", 0, POINTS, "runs/c"),
            Series("empty", "tensorboard", None, ()),
        ],
        unreadable_files=lambda paths: ["rank 1 writes /tmp/tb on n2 only"],
    ),
    "wings.metrics.mlflow_store": SimpleNamespace(
        read_mlflow=lambda paths: [Series("acc", "mlflow", None, POINTS, "a run")]
    ),
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    monkeypatch.setattr(all_series, "find_module", MODULES.get)
    paths = recorded_run(tmp_path / "runs", 1, 2)
    log_values(paths, 0, [(1, {"loss": 3})])
    return paths


def test_series_of_all_sources_in_their_order(run: RunPaths) -> None:
    assert [(each.name, each.source, each.place, each.rank) for each in read_all_series(run)] == [
        ("acc", "mlflow", "a run", None), ("loss", "log", "", 0), ("loss", "tensorboard", "runs/a", 1),
        ("loss", "tensorboard", "runs/b", 0), ("loss", "tensorboard", "runs/c", 0),
    ]  # fmt: skip


def test_an_installation_without_readers_has_what_was_logged(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_series, "find_module", lambda name: None)
    assert [each.source for each in read_all_series(run)] == ["log"]
    assert all_series.unreadable_files(run) == []


def test_the_table_tells_sources_apart(run: RunPaths, tmp_path: Path) -> None:
    cli = InProcess(str(tmp_path))
    shown = cli.ok("metrics", run.root)
    assert "notice: rank 1 writes /tmp/tb on n2 only" in shown.err
    cells = [[cell for cell in line.split("  ") if cell] for line in shown.lines[1:]]
    assert [[cell.strip() for cell in row[5:7]] for row in cells] == [
        ["-", "mlflow a run"], ["0", "log"], ["0", "tensorboard runs/b"], ["0", "tensorboard runs/c"],
    ]  # fmt: skip
    rows = cli.json("metrics", run.root, "--rank", "1")
    assert [row["source"] for row in rows] == ["mlflow", "tensorboard"]
    beside = cli.ok("metrics", run.root, run.root).lines
    assert [line.split("  ")[0] for line in beside[1:]] == [
        "acc", "loss (log)", "loss (tensorboard runs/b)", "loss (tensorboard runs/c)",
    ]  # fmt: skip
    last = cli.ok("metrics", run.root, "--csv").lines[-1]
    assert last.split(",")[1:] == ["acc", "2", str(BEGUN + 1), "4.0", "", "mlflow", "0", "a run"]


def test_completion_and_progress_read_no_other_sources(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    from worldsize.wings.metrics import provider

    def refused(name: str) -> Any:
        raise AssertionError(name)

    monkeypatch.setattr(all_series, "find_module", refused)
    assert provider.progress_text(run).startswith("step 1, loss 3, ")
