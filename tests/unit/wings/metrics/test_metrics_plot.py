"""Which charts `worldsize metrics --plot` draws; the pictures themselves are another wing's."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from recorded_metrics import log_values, recorded_run

from worldsize.errors import StorageError, UsageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.wings.metrics import plot
from worldsize.wings.metrics.plot import make_charts, picture_format, write_picture
from worldsize.wings.metrics.selection import ChosenRun, RunValues, Wanted, read_values
from worldsize.wings.pictures.provider import Chart, Line

PICTURES = SimpleNamespace(Chart=Chart, Line=Line, draw_charts=lambda charts, format: repr((charts, format)).encode())


def values(paths: RunPaths, ranks: str | None = None) -> RunValues:
    return read_values(ChosenRun(Run(paths, os.environ), {}), Wanted(ranks=ranks))


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = recorded_run(tmp_path / "runs", 1, 2)
    log_values(paths, 0, [(1, {"loss": 3}), (2, {"loss": 2, "acc": 0.5})])
    log_values(paths, 1, [(1, {"loss": 5})])
    return paths


def charts(*runs: RunValues) -> list[Any]:
    return make_charts(runs, PICTURES)


def test_a_chart_for_each_name(run: RunPaths) -> None:
    acc, loss = charts(values(run))
    assert (acc.title, loss.title, loss.x_label) == ("acc", "loss", "step")
    assert loss.lines == (Line("loss", [1.0, 2.0], [3.0, 2.0]),)


def test_a_line_for_each_rank_and_run(run: RunPaths, tmp_path: Path) -> None:
    _, loss = charts(values(run, "all"))
    assert [line.label for line in loss.lines] == ["rank 0", "rank 1"]
    other = recorded_run(tmp_path / "runs", name="20261127-060001-bbbbbb")
    log_values(other, 0, [(4, {"loss": 1})])
    _, loss = charts(values(run), values(other))
    assert [line.label for line in loss.lines] == [run.run_id, other.run_id]


def test_values_without_steps_are_drawn_over_time(run: RunPaths) -> None:
    log_values(run, 0, [(None, {"acc": 1})])
    acc, loss = charts(values(run))
    assert (acc.x_label, loss.x_label) == ("seconds", "step")
    assert acc.lines[0].xs == [0.0, -2.0], "clocks may be set back"


def test_the_file_and_what_has_no_place_in_it(run: RunPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plot, "provider", lambda kind: PICTURES)
    monkeypatch.setattr(plot, "MAX_CHARTS", 1)
    path = tmp_path / "picture.SVG"
    assert write_picture(str(path), [values(run)]) == 1
    assert "'acc'" in path.read_text() and "'loss'" not in path.read_text() and path.read_text().endswith("'svg')")
    with pytest.raises(StorageError, match="picture"):
        write_picture(str(tmp_path / "none" / "picture.png"), [values(run)])


@pytest.mark.parametrize("name", ["picture", "picture.pdf", ".png"])
def test_a_name_that_ends_with_neither_png_nor_svg(name: str) -> None:
    with pytest.raises(UsageError):
        picture_format(name)
