"""What ranks have logged with worldsize.log, read back: all attempts, whatever else stands in the files."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_metrics import BEGUN, log_values, logged_line, recorded_run, write_lines
from selection import cases

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics import logged_values
from worldsize.wings.metrics.logged_values import newest_names, progress_text, read_logged_values, read_whole_series
from worldsize.wings.metrics.run_files import MAX_LINE, all_attempts, whole_lines
from worldsize.wings.metrics.series import Point, Series, current_points
from worldsize.wings.metrics.thinning import MAX_POINTS


def by_name(paths: RunPaths) -> dict[tuple[str, int | None], Series]:
    return {(each.name, each.rank): each for each in read_logged_values(paths)}


def values(paths: RunPaths, name: str = "loss", rank: int = 0) -> list[float]:
    found = by_name(paths).get((name, rank))
    return [point.value for point in found.points] if found else []


def test_a_whole_series_is_of_the_lowest_rank_and_not_thinned(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path, 1, 3)
    count = MAX_POINTS + 10
    log_values(paths, 0, [(0, {"loss": 1.0})])
    log_values(paths, 1, ((step, {"rate": float(step % 7), "loss": 2.0}) for step in range(count)))
    log_values(paths, 2, [(0, {"rate": 99.0})])
    found = read_whole_series(paths, "rate")
    assert found is not None and (found.source, found.rank) == ("log", 1)
    assert [point.value for point in found.points] == [step % 7 for step in range(count)]
    assert read_whole_series(paths, "lr") is None


def test_each_name_of_each_rank_is_a_series(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path, 1, 2)
    log_values(paths, 0, [(0, {"loss": 1.0, "lr": 0.1}), (1, {"loss": 0.5})])
    log_values(paths, 1, [(None, {"loss": 3})])
    found = by_name(paths)
    assert sorted(found) == [("loss", 0), ("loss", 1), ("lr", 0)]
    assert found["loss", 0].points == (Point(0, BEGUN, 1.0, 0), Point(1, BEGUN + 1, 0.5, 0))
    assert found["loss", 0].source == "log"
    assert found["loss", 1].points == (Point(None, BEGUN, 3.0, 0),)


def test_nan_and_infinities_are_texts_in_the_file(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    log_values(paths, 0, [(k, {"loss": text}) for k, text in enumerate(("nan", "inf", "-inf"))])
    nan, high, low = values(paths)
    assert math.isnan(nan) and (high, low) == (math.inf, -math.inf)


def test_an_attempt_that_goes_on_from_a_checkpoint_repeats_steps(tmp_path: Path) -> None:
    first = recorded_run(tmp_path)
    log_values(first, 0, [(k, {"loss": 1.0 + k}) for k in range(6)])
    log_values(RunPaths(first.root, 1), 0, [(k, {"loss": 100.0 + k}) for k in range(3, 8)])
    points = by_name(first)["loss", 0].points
    assert len(points) == 11, "the series keeps both"
    kept = current_points(points)
    assert [(point.step, point.attempt) for point in kept] == [(0, 0), (1, 0), (2, 0), *((k, 1) for k in range(3, 8))]
    assert [attempt.attempt for attempt in all_attempts(first)] == [0, 1]


def test_points_without_steps_all_count() -> None:
    points = (Point(None, 1.0, 1.0), Point(5, 2.0, 2.0), Point(None, 3.0, 3.0, 1), Point(2, 4.0, 4.0, 2))
    assert current_points(points) == (points[0], points[2], points[3])
    assert current_points(()) == ()


@pytest.mark.parametrize(
    "line",
    [
        "", "null", "[]", "{}", "nonsense", '{"time":1}', '{"time":"x","values":{"loss":1}}', '{"dropped":7}',
        '{"time":1,"values":[1]}', '{"time":1,"step":"3","values":{"loss":1}}', '{"time":-1,"values":{"loss":1}}',
        '{"time":1e300,"values":{"loss":1}}', '{"time":1,"step":%d,"values":{"loss":1}}' % 10**30, "[" * 5000,
        '{"time":1,"values":{"loss":null}}', '{"time":1,"values":{"loss":"1"}}', '{"time":1,"values":{"loss":true}}',
        '{"time":1,"values":{"loss":{"a":1}}}', '{"time":1,"values":{"%s":1}}' % ("n" * 2000), "\udcff\0\x1b[2J",
    ],
)  # fmt: skip
def test_rubbish_between_lines_is_left_out(tmp_path: Path, line: str) -> None:
    paths = recorded_run(tmp_path)
    write_lines(paths.logged_values(0), logged_line(1, {"loss": 1.0}))
    write_lines(paths.logged_values(0), line.encode("utf-8", "surrogateescape") + b"\n")
    write_lines(paths.logged_values(0), logged_line(2, {"loss": 2.0}), logged_line(3, {"loss": 3.0})[:-9])
    assert values(paths) == [1.0, 2.0], "the cut last line is still being written"
    assert progress_text(paths, BEGUN + 5) == "step 2, loss 2, 3.0 s ago"


@settings(max_examples=cases(100))
@given(st.lists(st.one_of(st.binary(max_size=60), st.just(logged_line(1, {"loss": 0.5}).encode())), max_size=8))
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    paths = recorded_run(tmp_path_factory.mktemp("run"))
    write_lines(paths.logged_values(0), *pieces)
    for series in read_logged_values(paths):
        assert series.points and all(isinstance(point.value, float) for point in series.points)
    progress_text(paths)
    newest_names(paths)


def test_what_is_no_regular_file_is_left_out(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    log_values(paths, 3, [(1, {"loss": 1.0})])
    os.mkfifo(paths.logged_values(0))
    os.symlink("/dev/zero", paths.logged_values(1))
    os.mkdir(paths.logged_values(2))
    Path(paths.metrics_dir, "rank-x.jsonl").write_text("x")
    assert list(by_name(paths)) == [("loss", 3)]
    assert progress_text(paths, BEGUN + 2) == "step 1, loss 1, 1.0 s ago"


def test_lines_without_an_end_take_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "long"
    with open(path, "wb") as file:
        file.write(b"first\n")
        file.truncate(20 * MAX_LINE)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast\n")
    assert [bytes(line) for piece in whole_lines(str(path), 1 << 30) for line in piece.split()] == [b"first", b"last"]


def test_of_a_long_file_the_newest_part_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = recorded_run(tmp_path)
    log_values(paths, 0, [(k, {"loss": float(k)}) for k in range(100)])
    monkeypatch.setattr(logged_values, "MAX_BYTES", 300)
    found = values(paths)
    assert 2 < len(found) < 10 and found[-1] == 99.0


def test_progress_of_all_calls_at_the_newest_step(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    assert progress_text(paths) == ""
    log_values(paths, 2, [(7, {"acc": 0.1})])
    assert progress_text(paths, BEGUN + 7) == "step 7, acc 0.1, 0.0 s ago"
    log_values(paths, 0, [(9, {"lr": 1}), (10, {"lr": 0.25, "a": 1, "b": 2, "c": 3}), (10, {"train/loss": 1 / 3})])
    assert progress_text(paths, BEGUN) == "step 10, train/loss 0.3333, lr 0.25, a 1, 0.0 s ago"
    assert newest_names(paths) == ["a", "acc", "b", "c", "lr", "train/loss"]


def test_progress_without_steps(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    log_values(paths, 0, [(None, {"loss": 0.5})])
    assert progress_text(paths, BEGUN + 90) == "loss 0.5, 90 s ago"


def test_ranks_that_log_what_lower_ones_do_need_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = recorded_run(tmp_path, 1, 4)
    for rank in range(4):
        log_values(paths, rank, [(k, {"loss": float(rank)}) for k in range(2000)])
    log_values(paths, 2, [(2000, {"late": 1.0})])
    read: list[str] = []

    def recorded(path: str, most: int) -> Iterator[bytes]:
        read.append(path)
        return whole_lines(path, most)

    monkeypatch.setattr(logged_values, "whole_lines", recorded)
    found = {(each.name, each.rank) for each in read_logged_values(paths, every_rank=False)}
    assert found == {("loss", 0), ("loss", 2), ("late", 2)} and len(read) == 2
    assert {each.rank for each in read_logged_values(paths, ranks=(1, 3))} == {1, 3}


def test_lower_ranks_are_read_whole_before_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = recorded_run(tmp_path, 1, 3)
    for attempt in (first, RunPaths(first.root, 1)):
        for rank in range(3):
            log_values(attempt, rank, [(k, {"loss": 1.0}) for k in range(10)])
    monkeypatch.setattr(logged_values, "MAX_ALL_BYTES", int(2.5 * os.path.getsize(first.logged_values(0))))
    assert [len(values(first, rank=rank)) for rank in range(3)] == [20, 4, 0]
