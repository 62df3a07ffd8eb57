"""MLflow's file store, read without MLflow: what it holds, and what hostile files can do to the reader."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics import mlflow_store
from worldsize.wings.metrics.mlflow_store import read_mlflow, read_parameters
from worldsize.wings.metrics.series import Point

META = "artifact_uri: x\nlifecycle_stage: active\nrun_id: x\n"


class Store:
    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(str(root))
        self.root = root

    def run(self, run_id: str, name: str = "fit", experiment: str = "0", meta: str = META) -> Path:
        path = self.root / "mlruns" / experiment / run_id
        for folder in ("metrics", "params", "tags"):
            (path / folder).mkdir(parents=True)
        (path / "meta.yaml").write_text(meta)
        (path / "tags" / "mlflow.runName").write_text(name)
        return path

    def claim(self, attempt: int, run_id: str, time: str) -> None:
        folder = self.root / ("attempt-%d" % attempt) / "metrics"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ("mlflow-%s-%d" % (run_id, attempt))).write_text(time)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_metrics_of_a_run(store: Store) -> None:
    metrics = store.run("a1") / "metrics"
    (metrics / "train").mkdir()
    (metrics / "train" / "loss").write_text("1764224000000 0.5 0\n1764224001500 nan 1\n1764224002000 0.25 2 data abc\n")
    (metrics / "rate").write_text("1764224000000 1e-3 0\n")
    rate, loss = read_mlflow(store.paths)
    assert (rate.name, rate.source, rate.rank, rate.place) == ("rate", "mlflow", None, "fit")
    assert rate.points == (Point(0, 1764224000.0, 0.001, 0),)
    assert [(point.step, point.time) for point in loss.points] == [(0, 1764224000), (1, 1764224001.5), (2, 1764224002)]
    assert (loss.name, math.isnan(loss.points[1].value)) == ("train/loss", True)


def test_no_store(store: Store) -> None:
    assert (read_mlflow(store.paths), read_parameters(store.paths)) == ([], {})


def test_a_store_among_the_outputs(store: Store, tmp_path: Path) -> None:
    """As runs have it whose nodes have no run directory in common."""
    (store.run("a1") / "metrics" / "loss").write_text("1764224000000 0.5 0\n")
    (tmp_path / "outputs").mkdir()
    (tmp_path / "mlruns").rename(tmp_path / "outputs" / "mlruns")
    assert [series.name for series in read_mlflow(store.paths)] == ["loss"]
    (tmp_path / "outputs").rename(tmp_path / "elsewhere")
    (tmp_path / "outputs").symlink_to("elsewhere")
    assert read_mlflow(store.paths) == []


def test_runs_of_equal_names_and_of_several_experiments_are_told_apart(store: Store) -> None:
    for run_id, name, experiment in (("aa" * 16, "fit", "0"), ("bb" * 16, "fit", "1"), ("cc" * 16, "test", "1")):
        path = store.run(run_id, name, experiment)
        (path / "metrics" / "loss").write_text("1 1 1\n")
        (path / "params" / "lr").write_text(experiment)
    assert [series.place for series in read_mlflow(store.paths)] == ["fit (aaaaaaaa)", "fit (bbbbbbbb)", "test"]
    assert read_parameters(store.paths) == {
        "fit (aaaaaaaa)": {"lr": "0"},
        "fit (bbbbbbbb)": {"lr": "1"},
        "test": {"lr": "1"},
    }


def test_points_belong_to_the_attempt_that_opened_the_run_before_them(store: Store) -> None:
    (store.run("a1") / "metrics" / "loss").write_text("10000 1 0\n20000 2 1\n30000 3 1\n5000 0 0\n")
    store.claim(0, "a1", "10.000\n")
    store.claim(1, "a1", "20.0005\n")
    (series,) = read_mlflow(store.paths)
    assert [(point.value, point.attempt) for point in series.points] == [(0, 0), (1, 0), (2, 1), (3, 1)]
    for text in ("nan", "inf", "x", ""):
        store.claim(1, "a1", text)
        (series,) = read_mlflow(store.paths)
        assert {point.attempt for point in series.points} == {0}


def test_deleted_runs_and_what_is_no_run_are_left_out(store: Store) -> None:
    for name, meta in (("a1", META.replace("active", "deleted")), ("models", META), ("traces", META)):
        (store.run(name, meta=meta) / "metrics" / "loss").write_text("1 1 1\n")
    (store.run("a3", experiment=".trash") / "metrics" / "loss").write_text("1 1 1\n")
    assert read_mlflow(store.paths) == []


def test_of_a_long_metric_the_newest_points(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    path = store.run("a1") / "metrics" / "loss"
    path.write_text("".join("%d 0.5 %d\n" % (1764224000000 + step, step) for step in range(1000)))
    monkeypatch.setattr(mlflow_store, "MOST_BYTES", 1000)
    steps = [point.step for point in read_mlflow(store.paths)[0].points]
    assert steps == list(range(1000 - len(steps), 1000))
    assert 30 < len(steps) < 60


def test_a_store_that_is_too_large_is_read_in_part(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abcdef":
        (store.run(name, name) / "metrics" / "loss").write_text("1764224000000 0.5 1\n" * 10)
        (store.root / "mlruns" / "0" / name / "params" / "lr").write_text("1")
    monkeypatch.setattr(mlflow_store, "MOST_BYTES_OF_ALL", 500)
    assert [len(series.points) for series in read_mlflow(store.paths)] == [10, 10, 4]
    monkeypatch.setattr(mlflow_store, "MOST_BYTES_OF_ALL", 10**6)
    monkeypatch.setattr(mlflow_store, "MOST_FILES", 2)
    assert (len(read_mlflow(store.paths)), len(read_parameters(store.paths))) == (2, 2)
    monkeypatch.setattr(mlflow_store, "MOST_RUNS", 1)
    assert len(read_mlflow(store.paths)) == 1


def test_links_and_pipes_are_not_followed(store: Store, tmp_path: Path) -> None:
    path, secret = store.run("a1"), tmp_path / "secret"
    secret.write_text("1 1 1\n")
    os.symlink(secret, path / "metrics" / "link")
    os.symlink(secret, path / "params" / "link")
    os.mkfifo(path / "metrics" / "pipe")
    os.symlink("..", path / "metrics" / "circle")
    other = store.run("a2", "other")
    (other / "tags" / "mlflow.runName").unlink()
    os.symlink(secret, other / "tags" / "mlflow.runName")
    (other / "metrics" / "loss").write_text("1 1 1\n")
    os.symlink(path, store.root / "mlruns" / "0" / "a3")
    assert [(series.name, series.place) for series in read_mlflow(store.paths)] == [("loss", "a2")]
    assert read_parameters(store.paths) == {}
    os.rename(store.root / "mlruns", store.root / "elsewhere")
    os.symlink("elsewhere", store.root / "mlruns")
    assert read_mlflow(store.paths) == []


def test_names_that_are_no_text_and_nest_too_deep(store: Store) -> None:
    metrics = store.run("a1", "x" * 5000 + "\x1b[31m") / "metrics"
    with open(os.path.join(os.fsencode(metrics), b"\xff\n\x1b"), "w") as file:
        file.write("1 1 1\n")
    (metrics / "/".join("abcdefghijk")).mkdir(parents=True)
    (metrics / "/".join("abcdefghijk") / "loss").write_text("1 1 1\n")
    (series,) = read_mlflow(store.paths)
    assert (series.name, len(series.place)) == ("\ufffd\n\x1b", 256)


@given(st.binary(max_size=200))
def test_lines_of_any_bytes_raise_nothing(data: bytes) -> None:
    for point in mlflow_store._points(data.split(b"\n"), [(1.0, 2)]):
        assert isinstance(point.step, int)
        assert point.attempt == 2


@pytest.mark.parametrize("line", [b"1" * 31 + b" 1 1", b"1 1", b"x 1 1", b"1 x 1", b"1 1 1.5", b"1.5 1 1", b"\xff 1 1"])
def test_lines_that_are_none(line: bytes) -> None:
    assert list(mlflow_store._points([line], [])) == []
