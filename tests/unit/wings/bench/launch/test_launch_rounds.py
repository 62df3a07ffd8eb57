"""The turns of launchers, and what becomes of one that fails."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from worldsize.jobspec.config.config import Config
from worldsize.wings.bench.launch import rounds
from worldsize.wings.bench.launch.benchmark import is_measured
from worldsize.wings.bench.launch.launchers import LAUNCHERS, FoundLauncher
from worldsize.wings.bench.launch.rounds import Place, Turns, start_of, take_rounds, trial_environ
from worldsize.wings.bench.launch.trial import Trial
from worldsize.wings.bench.result import Measurement
from worldsize.wings.bench.session import Session
from worldsize.wings.bench.worlds import World

BY_NAME = {each.name: FoundLauncher(each, "/bin/" + each.name, "1.0") for each in LAUNCHERS}
WORLD = World(2, 2)
BROKEN = Trial(failure="not every rank has started")


def place(tmp_path: Path, *names: str, environ: dict[str, str] | None = None, **more: Any) -> Place:
    settings = more.pop("settings", ())
    session = Session(Config(), more.pop("compute", None), environ or {}, "/project", "/to", (WORLD,), settings)
    values = {"torch": False, "is_local": True, **more}
    return Place(session, [BY_NAME[name] for name in names], "/env/python", "/env:/bin", str(tmp_path), **values)


def turned(*trials: Trial | tuple[Trial, Trial]) -> tuple[dict[str, Any], str, int]:
    """The details of a launcher whose trials are these, how it failed, and how often it was started; a pair is the one
    that ends and the one that fails."""
    turns, started = Turns(BY_NAME["mpirun"]), 0
    for each in trials:
        pair = each if isinstance(each[0], Trial) else (each, each)

        def run(fails: bool, pair: Any = pair) -> Trial:
            nonlocal started
            started += 1
            found: Trial = pair[fails]
            return found

        turns.take(run)
    measured = turns.measurement(WORLD)
    return dict(measured.details), measured.failure, started


def test_the_first_trials_do_not_count() -> None:
    found, failure, started = turned(
        Trial(9.0, 9.0, 9.0), Trial(1.0, 2.0, 0.1), (Trial(1.1, 2.1, 0.2), Trial(over=3.0))
    )
    assert (found["first"], found["step"], found["end"]) == ([1.0, 1.1], [2.0, 2.1], [0.1, 0.2])
    assert found["failure_end"] == [0.1, 3.0]
    assert (failure, found["failures"], found["nodes"], started) == ("", 0, 1, 6)


def test_a_launcher_that_fails_at_first_is_not_started_again() -> None:
    found, failure, started = turned(BROKEN, BROKEN, BROKEN)
    assert (failure, started, found["first"], found["failures"]) == (BROKEN.failure, 1, [], 1)


def test_one_that_never_ends_after_a_failure_is_asked_once() -> None:
    """Each of those trials would take a minute."""
    endless = Trial(1.0, 2.0, endless=60.0)
    found, failure, started = turned(*[(Trial(1.0, 2.0, 0.1), endless)] * 4)
    assert (failure, started, found["endless"]) == ("", 5, 60.0)
    assert found["first"] == [1.0] * 3 and found["failure_end"] == []


def test_a_failure_later_on_is_told_and_the_others_count() -> None:
    found, failure, started = turned(Trial(1.0, 2.0, 0.1), BROKEN, Trial(1.0, 2.0, 0.1))
    assert (failure, found["failures"], found["first"], started) == (BROKEN.failure, 2, [1.0], 6)


def test_processes_that_were_left_are_counted_and_are_no_failure() -> None:
    found, failure, _ = turned(Trial(1.0, 2.0, left=2), Trial(1.0, 2.0, left=1))
    assert (found["left"], failure) == (2, "")


MEASURED = Measurement(WORLD, details={"launcher": "worldsize", "end": [0.1, 0.2]})


@pytest.mark.parametrize(
    ("measurement", "rounds", "is_kept"),
    [
        (MEASURED, 2, True),
        (MEASURED, 3, False),
        (MEASURED._replace(failure="the ranks have not met"), 2, False),
        (MEASURED._replace(world=World(1, 4)), 2, False),
        (MEASURED._replace(details={"launcher": "srun", "end": [0.1, 0.2]}), 2, False),
        (MEASURED._replace(details={"launcher": "worldsize", "end": "0.1"}), 2, False),
    ],
)
def test_a_world_is_kept_where_all_rounds_were_done_without_a_failure(
    measurement: Measurement, rounds: int, is_kept: bool
) -> None:
    assert is_measured([measurement], WORLD, ["worldsize"], rounds) is is_kept


def test_every_other_round_runs_backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order, kept = [], []

    def run(found: FoundLauncher, world: World, place: Place, fails: bool) -> Trial:
        order.append((found.launcher.name, fails))
        return Trial(1.0, 2.0, 0.1)

    monkeypatch.setattr(rounds, "_run", run)
    where = place(tmp_path, "worldsize", "torchrun")
    take_rounds(WORLD, where, [Turns(each) for each in where.found], 2, lambda: kept.append(len(order)))
    names = [name for name, fails in order if not fails]
    assert names == ["worldsize", "torchrun", "torchrun", "worldsize", "worldsize", "torchrun"]
    assert [fails for _, fails in order] == [False, True] * 6
    assert kept == [8, 12]


def taking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[..., Trial], name: str, **more: Any) -> Trial:
    monkeypatch.setattr(rounds, "run_trial", act)
    return rounds._run(BY_NAME[name], WORLD, place(tmp_path, name, **more), False)


@pytest.mark.parametrize(("name", "where"), [("worldsize", "/project"), ("mpirun", None)])
def test_worldsize_is_started_where_its_configuration_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, where: str | None
) -> None:
    def act(words: list[str], environ: dict[str, str], cwd: str, ranks: int, *more: Any) -> Trial:
        assert (os.stat(tmp_path / os.listdir(tmp_path)[0]).st_mode & 0o777, ranks) == (0o700, 4)
        return Trial(failure=cwd)

    cwd = taking(tmp_path, monkeypatch, act, name).failure
    assert cwd == where if where else os.path.dirname(cwd) == str(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_trial_that_is_interrupted_leaves_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def act(*words: Any) -> Trial:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        taking(tmp_path, monkeypatch, act, "mpirun")
    assert os.listdir(tmp_path) == []


OUTER = {"RANK": "0", "MASTER_ADDR": "n1", "SLURM_NTASKS": "8", "OMPI_COMM_WORLD_RANK": "0", "HOME": "/home/ada"}


@pytest.mark.parametrize("name", ["torchrun", "mpirun"])
def test_an_outer_launcher_and_an_allocation_are_not_those_of_the_ranks(tmp_path: Path, name: str) -> None:
    """mpirun would start its ranks on all nodes of an allocation."""
    found = trial_environ(place(tmp_path, environ=OUTER), BY_NAME[name])
    assert found == {"HOME": "/home/ada", "PATH": "/env:/bin", "OMP_NUM_THREADS": "1"}


def test_srun_and_worldsize_keep_the_allocation(tmp_path: Path) -> None:
    for name in ("srun", "worldsize"):
        found = trial_environ(place(tmp_path, environ=OUTER), BY_NAME[name])
        assert found["SLURM_NTASKS"] == "8" and "RANK" not in found


def test_runs_on_this_machine_are_not_kept_among_the_persons(tmp_path: Path) -> None:
    environ = {"WORLDSIZE_HOME": "/home/ada/runs", "OMP_NUM_THREADS": "3"}
    found = trial_environ(place(tmp_path, environ=environ), BY_NAME["worldsize"])
    assert found["WORLDSIZE_HOME"] == str(tmp_path / "home") and found["OMP_NUM_THREADS"] == "3"
    far = trial_environ(place(tmp_path, environ=environ, is_local=False), BY_NAME["worldsize"])
    assert far["WORLDSIZE_HOME"] == "/home/ada/runs"


def test_the_words_of_a_rank(tmp_path: Path) -> None:
    where = place(tmp_path, torch=True, compute="lab", settings=("environment=/env", "queue=long"))
    start = start_of(WORLD, where, True, "/dir")
    assert start.program == ("/env/python", rounds.PROBE, "failing", "4", "/dir", "torch")
    assert (start.world, start.compute, start.settings) == (WORLD, "lab", ("queue=long",))
