"""Which values of a run count, and what rate they are."""

from __future__ import annotations

import re
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worldsize.errors import NotFound, UsageError
from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.state.records import ExitRecord, RankExit
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.training.benchmark import Measure, _measure_of, _spaced, _title, sentences
from worldsize.wings.bench.training.measured_value import (
    compiled_pattern,
    logged_values,
    printed_values,
    settled_values,
    work_seconds,
)
from worldsize.wings.bench.worlds import World


def run_of(root: Path, *logs: bytes) -> Run:
    paths = RunPaths(str(root))
    Path(paths.logs_dir).mkdir(parents=True)
    for rank, log in enumerate(logs):
        Path(paths.rank_log(rank)).write_bytes(log)
    return cast(Run, SimpleNamespace(paths=paths, id="a-run", plan=SimpleNamespace(world_size=len(logs))))


@pytest.mark.parametrize(
    ("log", "values"),
    [
        (b"rate 10\nrate 11.5\n", (10.0, 11.5)),
        (b"epoch 1\rrate 10\rrate 12", (10.0, 12.0)),
        (b"\xff\xfe rate 3 \xff\n", (3.0,)),
        (b"rate nan\nrate 2e1\nrate inf\n", (20.0,)),
        (b"rate 5\nrate 10\nrate 11\n", (10.0, 11.0)),
        (b"rate .\nrate 7\n", (7.0,)),
    ],
)
def test_numbers_are_found_in_output(tmp_path: Path, log: bytes, values: tuple[float, ...]) -> None:
    found = printed_values(run_of(tmp_path, log), re.compile(r"rate ([\w.+]+)"))
    assert found.values == values
    assert found.source == "output of rank 0"


def test_the_lowest_rank_that_has_a_number_counts(tmp_path: Path) -> None:
    run = run_of(tmp_path, b"nothing\n", b"rate 4\n", b"rate 5\n")
    assert printed_values(run, re.compile(r"rate (\d)")) == ((4.0,), "output of rank 1")


def test_a_group_called_value_wins(tmp_path: Path) -> None:
    found = printed_values(run_of(tmp_path, b"step 3 rate 4\n"), re.compile(r"step (\d) rate (?P<value>\d)"))
    assert found.values == (4.0,)


@pytest.mark.parametrize("log", [b"", b"none\n", b"rate 0\nrate -3\n"])
def test_output_without_a_speed_is_said(tmp_path: Path, log: bytes) -> None:
    with pytest.raises(NotFound):
        printed_values(run_of(tmp_path, log), re.compile(r"rate (-?\d)"))


@pytest.mark.parametrize("text", ["(", "no group", "*", "[a"])
def test_a_pattern_without_a_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        compiled_pattern(text)


@pytest.mark.parametrize(("count", "left_out"), [(1, 0), (2, 0), (3, 1), (10, 1), (40, 4), (100, 10)])
def test_the_first_tenth_is_warm_up(count: int, left_out: int) -> None:
    assert settled_values(list(range(count))) == tuple(range(left_out, count))


class _Metrics:
    """What a run has logged: by worldsize.log, and otherwise."""

    def __init__(self, whole: Any = None, *others: Any) -> None:
        self._whole, self._others = whole, others

    def read_whole_series(self, _: RunPaths, name: str) -> Any:
        return self._whole if self._whole is not None and self._whole.name == name else None

    def read_series(self, _: RunPaths, every_rank: bool) -> Any:
        return [each for each in (self._whole, *self._others) if each is not None]

    def current_points(self, points: Any) -> Any:
        return points


def series(name: str, source: str, rank: int | None, *values: float) -> Any:
    return SimpleNamespace(name=name, source=source, rank=rank, points=[SimpleNamespace(value=each) for each in values])


@pytest.mark.parametrize(
    ("metrics", "values", "source"),
    [
        (_Metrics(series("rate", "log", 2, 5, 7, 8)), (7, 8), "rate of rank 2, by log"),
        (_Metrics(None, series("rate", "mlflow", None, 3)), (3,), "rate, by mlflow"),
        (
            _Metrics(series("loss", "log", 0, 1), series("rate", "tensorboard", None, 0, float("nan"), 4)), (4,),
            "rate, by tensorboard",
        ),
    ],
)  # fmt: skip
def test_logged_values_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, metrics: _Metrics, values: tuple[float, ...], source: str
) -> None:
    monkeypatch.setattr("worldsize.wings.bench.training.measured_value.provider", lambda _: metrics)
    assert logged_values(run_of(tmp_path), "rate") == (values, source)


def test_names_that_there_are_are_said_where_one_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    metrics = _Metrics(series("loss", "log", 0, 1), *(series("m%02d" % n, "mlflow", None, 1) for n in range(15)))
    monkeypatch.setattr("worldsize.wings.bench.training.measured_value.provider", lambda _: metrics)
    with pytest.raises(NotFound) as raised:
        logged_values(run_of(tmp_path), "rate")
    assert raised.value.hint == "it has logged: loss, %s, …" % ", ".join("m%02d" % n for n in range(11))


@pytest.mark.parametrize(
    ("threads", "gpus", "said"),
    [
        ((2, 1), 0, "Threads of each rank: 2 in 1x1, 1 in 1x2."),
        ((1, 1), 0, ""), ((2, 1), 1, ""), ((2, None), 0, ""), ((None, None), 0, ""), (("2", [1]), 0, ""),
    ],
)  # fmt: skip
def test_other_threads_in_another_world_are_told(threads: tuple[Any, Any], gpus: int, said: str) -> None:
    worlds = [
        Measurement(World(1, ranks), "r", 100.0 * ranks, gpus=gpus, details={"threads": count})
        for ranks, count in zip((1, 2), threads, strict=True)
    ]
    told = sentences(BenchResult("job", "x", "runs/h", "strong", "local", 1.0, "1", measurements=tuple(worlds)))
    assert [each.startswith(said) for each in told if "Threads" in each] == [True] * bool(said)


def measure(**said: Any) -> Measure:
    options = {"metric": None, "pattern": None, "seconds": False, "per_rank": False, "unit": None, "scaling": None}
    return _measure_of(Namespace(**{**options, **said}))


@pytest.mark.parametrize(
    ("said", "value", "ranks", "rate", "unit"),
    [
        ({}, 36.0, 4, 100.0, "runs/h"),
        ({"scaling": "weak"}, 36.0, 4, 400.0, "runs of one rank/h"),
        ({"metric": "images_per_s"}, 50.0, 4, 50.0, "images_per_s"),
        ({"metric": "images", "per_rank": True, "unit": "images/s"}, 50.0, 4, 200.0, "images/s"),
        ({"pattern": "(.)", "seconds": True}, 0.5, 4, 2.0, "1/(value)"),
        ({"metric": "step", "seconds": True, "scaling": "weak"}, 0.5, 4, 8.0, "1/(step)"),
    ],
)
def test_a_value_becomes_what_all_ranks_do(
    said: dict[str, Any], value: float, ranks: int, rate: float, unit: str
) -> None:
    asked = measure(**said)
    assert (asked.rate(value, ranks), asked.unit) == (rate, unit)


@pytest.mark.parametrize(
    "said",
    [
        {"metric": "a", "pattern": "(b)"}, {"seconds": True}, {"per_rank": True}, {"unit": "images/s"},
        {"metric": "a", "seconds": True, "per_rank": True},
    ],
)  # fmt: skip
def test_words_that_contradict_each_other_are_refused(said: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        measure(**said)


def record(node: int, *ranks: tuple[float, float]) -> ExitRecord:
    exits = tuple(RankExit(rank, 0, *times) for rank, times in enumerate(ranks))
    return ExitRecord(node, "n", 0, 0.0, 99.0, exits, None, None, 0)


def test_the_time_is_that_of_the_slowest_node_by_its_own_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exits = [record(0, (10.0, 14.0), (11.0, 16.0)), record(1, (500.0, 507.0)), record(2)]
    monkeypatch.setattr("worldsize.wings.bench.training.measured_value.read_exits", lambda *_: exits)
    plan = SimpleNamespace(nodes=(None,) * 3)
    run = cast(Run, SimpleNamespace(paths=RunPaths(str(tmp_path)), plan=plan))
    assert work_seconds(run) == 7.0
    restarted = cast(Run, SimpleNamespace(paths=RunPaths(str(tmp_path), 1), plan=plan))
    assert work_seconds(restarted) is None
    del exits[:2]
    with pytest.raises(NotFound):
        work_seconds(run)


def test_a_secret_in_a_command_is_not_in_the_title() -> None:
    job = Job("python train.py --api-key hunter2222", source="command line")
    assert _title(job, None) == "python train.py --api-key ***"


@pytest.mark.parametrize(("count", "kept"), [(0, 0), (3, 3), (1000, 1000), (1001, 501), (5000, 1000)])
def test_of_many_rates_some_of_the_whole_run_are_kept(count: int, kept: int) -> None:
    rates = tuple(map(float, range(count)))
    assert len(_spaced(rates)) == kept
    assert count < 1001 or _spaced(rates)[-1] > 0.99 * (count - 1)
