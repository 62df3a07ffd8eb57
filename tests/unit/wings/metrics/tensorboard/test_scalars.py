from __future__ import annotations

import math
import os
import struct
from pathlib import Path

import pytest
from event_file_bytes import VERSION, event, field, losses, record, scalar, tensor, write_events
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.metrics.series import Point, Series
from worldsize.wings.metrics.tensorboard import scalars
from worldsize.wings.metrics.tensorboard.scalars import EventFile, ScalarReader, read_files


def read(*files: EventFile) -> list[Series]:
    return read_files(files).series()


def test_a_file_of_torch(tmp_path: Path) -> None:
    path = write_events(tmp_path / "f", VERSION + losses(2) + losses(1, "accuracy", 2e9))
    assert read(EventFile(path, "code/runs", 3)) == [
        Series("accuracy", "tensorboard", 3, (Point(0, 2e9, 1.0),), "code/runs"),
        Series("loss", "tensorboard", 3, (Point(0, 1e9, 1.0), Point(1, 1e9 + 1, 0.5)), "code/runs"),
    ]


def test_tensors_are_declared_once_in_each_file(tmp_path: Path) -> None:
    def number(tag: str, value: float, plugin: str | None) -> bytes:
        return record(event(1e9 + value, 1, tensor(tag, field(4, struct.pack("<f", value)), 1, plugin)))

    data = number("loss", 1.0, "scalars") + number("loss", 2.0, None) + number("other", 3.0, None)
    (found,) = read(EventFile(write_events(tmp_path / "f", VERSION + data), "x"))
    assert [point.value for point in found.points] == [1.0, 2.0]
    assert read(EventFile(write_events(tmp_path / "g", VERSION + number("loss", 2.0, None)), "x")) == []


def test_files_of_one_directory_join_whatever_the_order_of_reading(tmp_path: Path) -> None:
    first = write_events(tmp_path / "1", losses(3))
    second = write_events(tmp_path / "2", losses(3, start=2e9))
    third = write_events(tmp_path / "3", losses(1, start=5e8))
    files = [EventFile(third, "x", 0, 1), EventFile(second, "x", 0, 0), EventFile(first, "x", 0, 0)]
    (found,) = read(*files)
    assert [(point.attempt, point.time) for point in found.points] == [
        *((0, 1e9 + step) for step in range(3)),
        *((0, 2e9 + step) for step in range(3)),
        (1, 5e8),
    ]


def test_ranks_and_places_are_kept_apart(tmp_path: Path) -> None:
    path = write_events(tmp_path / "f", losses(1))
    found = read(EventFile(path, "a", 0), EventFile(path, "a", 1), EventFile(path, "a"), EventFile(path, "b"))
    assert [(each.place, each.rank) for each in found] == [("a", None), ("a", 0), ("a", 1), ("b", None)]


def test_a_damaged_file_gives_what_is_before_the_damage(tmp_path: Path) -> None:
    data = losses(3)
    bad = write_events(tmp_path / "bad", data[:-20] + b"\xff" + data[-19:])
    reader = read_files([EventFile(bad, "a"), EventFile(write_events(tmp_path / "good", losses(2)), "b")])
    assert [len(each.points) for each in reader.series()] == [2, 2]
    assert reader.damaged == {bad: 2}


def test_a_record_that_is_no_event_is_damage(tmp_path: Path) -> None:
    path = write_events(tmp_path / "f", losses(1) + record(bytes(30)) + losses(1))
    reader = read_files([EventFile(path, "a")])
    assert reader.damaged == {path: 1} and len(reader.series()[0].points) == 1


def test_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    paths = [str(tmp_path / name) for name in ("pipe", "folder", "missing")]
    assert read(*(EventFile(path, "a") for path in paths)) == []


def test_hostile_names_and_times(tmp_path: Path) -> None:
    odd = field(1, b"\xff\x1b[31m" + b"x" * 5000) + field(2, 1.0)
    data = record(event(1e9, 1, odd)) + record(event(math.nan, 1, scalar("no time", 1.0)))
    (found,) = read(EventFile(write_events(tmp_path / "f", data), "x"))
    assert found.name.startswith("\ufffd\x1b[31mxxx") and len(found.name) == 300


def test_the_number_of_names_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars, "_MOST_TAGS", 5)
    data = b"".join(record(event(1e9, 1, scalar("t%d" % each, 1.0))) for each in range(9))
    assert len(read(EventFile(write_events(tmp_path / "f", data), "x"))) == 5
    monkeypatch.setattr(scalars, "MOST_SERIES", 3)
    assert len(read(EventFile(write_events(tmp_path / "f", data), "x"))) == 3


def test_the_number_of_points_is_bounded(tmp_path: Path) -> None:
    data = losses(100, "a") + losses(100, "b") + losses(10, "c")
    reader = ScalarReader(most_points=50, most_of_all=40)
    reader.read(EventFile(write_events(tmp_path / "f", data), "x"))
    found = {each.name: [point.step for point in each.points] for each in reader.series()}
    assert sum(map(len, found.values())) <= 50
    assert all(steps[0] == 0 for steps in found.values()) and found["a"][-1] == 99 and found["c"][-1] == 9


@pytest.mark.parametrize(("bound", "value"), [("MOST_VALUES", 2), ("MOST_BYTES", 10)])
def test_what_is_newest_is_read_where_there_is_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, value: int
) -> None:
    monkeypatch.setattr(scalars, bound, value)
    new = write_events(tmp_path / "new", losses(2, start=2e9))
    old = write_events(tmp_path / "old", losses(2))
    reader = read_files([EventFile(new, "x"), EventFile(old, "x")])
    assert reader.left_out == 2
    assert {point.time // 1e9 for each in reader.series() for point in each.points} == {2.0}


@given(st.data())
def test_no_damage_raises_or_invents(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    whole = bytearray(VERSION + losses(4))
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    found = read(EventFile(write_events(tmp_path_factory.getbasetemp() / "damaged", cut), "x"))
    expected = [1.0 / (step + 1) for step in range(4)]
    for each in found:
        values = [point.value for point in each.points]
        assert values == pytest.approx(expected[: len(values)])


def test_time_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalars, "_LOOK_EVERY", 1)
    times = iter([0.0, 1.0, 2.0, 100.0, 101.0])
    reader = ScalarReader(clock=lambda: next(times))
    reader.read(EventFile(write_events(tmp_path / "f", losses(5)), "x"))
    reader.read(EventFile(write_events(tmp_path / "g", losses(5)), "x"))
    assert reader.left_out == 2 and [len(each.points) for each in reader.series()] == [2]
