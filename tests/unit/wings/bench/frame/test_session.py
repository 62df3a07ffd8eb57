"""The worlds of one benchmark, one after the other, with runs that are told beforehand how they end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from worldsize.errors import NotFound, WorldsizeError
from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import SubmissionRequest
from worldsize.service.runs.run import Run
from worldsize.state.node_facts import NodeFacts
from worldsize.state.records import ExitRecord, RunState, RunWarning, Status
from worldsize.wings.bench import session as module
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.result_file import read_result, write_result
from worldsize.wings.bench.session import Interrupted, Session
from worldsize.wings.bench.world_run import RunEnd
from worldsize.wings.bench.worlds import World, parse_worlds

SUCCEEDED = Status(RunState.SUCCEEDED, exit_code=0, started=10.0, ended=14.0)
EMPTY = BenchResult("job", "train.py", "images/s", "strong", "local", 1.7e9, "1.0")


def run_of(root: Path, world: World) -> Run:
    plan = SimpleNamespace(nodes=(None,) * world.nodes, world_size=world.ranks, compute="local")
    return cast(Run, SimpleNamespace(id=f"run-{world}", paths=RunPaths(str(root / str(world))), plan=plan))


def usual(run: Run, status: Status, world: World) -> Measurement:
    return Measurement(world, rate=100.0 * world.ranks)


class Bench:
    """A session whose runs end as `ends` says, and otherwise well."""

    def __init__(self, root: Path, worlds: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.started: list[str] = []
        self.ends: dict[str, Callable[[RunEnd], RunEnd]] = {}
        config: Any = SimpleNamespace(computes={"local": SimpleNamespace(type="local")}, home=str(root))
        self.session = Session(config, None, {}, str(root), str(root), parse_worlds(worlds))
        monkeypatch.setattr(module, "WorldRun", self._world_run)
        monkeypatch.setattr(module, "_check_plans", lambda _: None)
        monkeypatch.setattr(module, "find_provider", lambda _: None)

    def _world_run(self, world: World, request: SubmissionRequest, timeout: float | None) -> Any:
        def follow(former: Run | None, began: Callable[[Run], None]) -> RunEnd:
            run = run_of(self.root, world)
            self.started.append(str(world))
            began(run)
            assert measured(read_result(str(self.root)))[str(world)] is None
            end = RunEnd(world, run, SUCCEEDED)
            change = self.ends.get(str(world))
            return change(end) if change is not None else end

        return SimpleNamespace(follow=follow)

    def __call__(self, read: Any = None) -> BenchResult:
        return self.session.measure_worlds(EMPTY, lambda _: Job("true"), read or usual)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, "1,2,4", monkeypatch)


def measured(result: BenchResult) -> dict[str, float | None]:
    return {str(each.world): each.rate for each in result.measurements}


def failed(words: str, **more: Any) -> Callable[[RunEnd], RunEnd]:
    return lambda end: end._replace(failure=words, **more)


def test_each_world_is_kept_as_soon_as_it_is_known(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    result = bench()
    assert measured(result) == {"1x1": 100.0, "1x2": 200.0, "1x4": 400.0}
    assert [each.held for each in result.measurements] == [4.0] * 3
    assert read_result(str(bench.root)) == result
    assert "1x4: 400 images/s (run run-1x4, 4.0 s)" in capsys.readouterr().err
    assert bench() == result
    assert bench.started == ["1x1", "1x2", "1x4"]


def test_a_world_that_fails_is_measured_again_and_others_are_not(bench: Bench) -> None:
    bench.ends["1x1"] = failed("rank 0 was killed")
    result = bench()
    assert measured(result) == {"1x1": None, "1x2": 200.0, "1x4": 400.0}
    assert result.measurements[0].failure == "rank 0 was killed"
    del bench.ends["1x1"]
    assert measured(bench()) == {"1x1": 100.0, "1x2": 200.0, "1x4": 400.0}
    assert bench.started == ["1x1", "1x2", "1x4", "1x1"]


@pytest.mark.parametrize(
    ("name", "known", "is_taken"),
    [
        ("run-1x2", Measurement(World(1, 2), "run-1x2"), True),
        ("run-1x2", Measurement(World(1, 2), "run-"), False),  # part of a name
        ("run-1x2", Measurement(World(2, 2), "run-1x2"), False),  # a run of another size
        ("run-1x2", Measurement(World(1, 2), "run-1x2", failure="it was cancelled"), False),
        ("run-1x2", Measurement(World(1, 2)), False),
        ("", Measurement(World(1, 2), "run-1x2"), False),  # it was removed
    ],
)
def test_a_run_that_was_left_is_taken_up(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, known: Measurement, is_taken: bool
) -> None:
    def find(home: str, asked: str) -> RunPaths:
        if not name.startswith(asked):
            raise NotFound("no such run")
        return RunPaths(str(bench.root / name))

    def made(paths: RunPaths, environ: Mapping[str, str]) -> Any:
        return SimpleNamespace(id=name, plan=run_of(bench.root, World(1, 2)).plan)

    monkeypatch.setattr(module, "find_run_paths", find if name else lambda *_: find("", "?"))
    monkeypatch.setattr(module, "Run", made)
    found = bench.session._former_run(known)
    assert (found is not None) == is_taken


def test_what_the_first_run_does_not_say_is_asked_of_no_other(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in --metric costs one run, and not those of all worlds."""

    def read(*_: Any) -> Measurement:
        raise NotFound("no value named 'lss'", "--metric", "it has logged: loss")

    with pytest.raises(Interrupted) as raised:
        bench(read)
    assert raised.value.code == 1
    assert bench.started == ["1x1"]
    assert [each.failure for each in raised.value.result.measurements] == [
        "--metric: no value named 'lss' → it has logged: loss"
    ]
    assert "the worlds after it are not run" in capsys.readouterr().err


def test_what_one_run_does_not_say_others_may(bench: Bench) -> None:
    def read(run: Run, status: Status, world: World) -> Measurement:
        if world.ranks == 2:
            raise NotFound("no value")
        if world.ranks == 1:
            raise WorldsizeError("it was restarted")
        return Measurement(world, rate=1.0)

    with pytest.raises(Interrupted):
        bench(read)
    write_result(EMPTY._replace(measurements=(Measurement(World(1, 1), rate=2.0),)), str(bench.root))
    assert measured(bench(read)) == {"1x1": 2.0, "1x2": None, "1x4": 1.0}


def test_a_person_who_leaves_has_what_was_measured(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.ends["1x2"] = lambda end: end._replace(status=None, interrupted=0)
    with pytest.raises(Interrupted) as raised:
        bench()
    assert (raised.value.code, measured(raised.value.result)) == (0, {"1x1": 100.0, "1x2": None})
    assert read_result(str(bench.root)) == raised.value.result
    assert "1x2" not in capsys.readouterr().err


def test_a_ctrl_c_between_two_runs_ends_with_what_was_measured(bench: Bench) -> None:
    def interrupt(_: RunEnd) -> RunEnd:
        raise KeyboardInterrupt

    bench.ends["1x2"] = interrupt
    with pytest.raises(Interrupted) as raised:
        bench()
    assert (raised.value.code, measured(raised.value.result)) == (130, {"1x1": 100.0})
    assert measured(read_result(str(bench.root))) == {"1x1": 100.0, "1x2": None}  # it may be there: it is looked for


def test_a_success_with_a_warning_says_so(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    warned = SUCCEEDED._replace(warnings=(RunWarning("exception", "rank 0 left an uncaught ValueError"),))
    bench.ends["1x1"] = lambda end: end._replace(status=warned)
    bench()
    assert ", 4.0 s), but rank 0 left an uncaught ValueError" in capsys.readouterr().err


def test_a_run_that_went_on_without_a_node_is_no_measurement_of_its_world(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exits(paths: RunPaths, nodes: int) -> tuple[ExitRecord, ...]:
        lost = (1,) if paths.root.endswith("1x2") else ()
        return (ExitRecord(0, "n1", 0, 0.0, 1.0, (), None, None, 0, lost),)

    monkeypatch.setattr(module, "read_exits", exits)
    result = bench()
    assert measured(result) == {"1x1": 100.0, "1x2": None, "1x4": 400.0}
    assert result.measurements[1].failure == "it continued without node 1: this is another world"


@pytest.mark.parametrize(
    ("machines", "is_local", "ranks", "gpus"),
    [
        (["a"], True, 1, 1),  # the others of this machine are nobody's
        (["a", "a"], True, 4, 4),
        (["a"], True, 8, 4),
        (["a"], False, 1, 4),  # a cluster's are held
        (["a", "b"], False, 8, 8),
        (["", ""], False, 8, 8),
    ],
)
def test_gpus_that_a_world_has(machines: Sequence[str], is_local: bool, ranks: int, gpus: int) -> None:
    nodes = [NodeFacts(place, "n", gpus=4, machine=name) for place, name in enumerate(machines)]
    found = Measurement(World(len(nodes), ranks // len(nodes)))
    assert module._with_shares(found, nodes, is_local).gpus == gpus
    assert module._with_shares(found._replace(gpus=3), nodes, is_local).gpus == 3


@pytest.mark.parametrize(
    ("said", "found", "cores", "ranks"),
    [(None, 0, 4, [1, 2, 4]), (None, 2, 64, [1, 2]), (4, 2, 64, [1, 2, 4]), (0, 2, 3, [1, 2, 3]), (None, 0, 1, [1])],
)
def test_usual_worlds_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, said: int | None, found: int, cores: int, ranks: list[int]
) -> None:
    monkeypatch.setattr("worldsize.compute.local.reports.gpu_count", lambda: found)
    monkeypatch.setattr(module, "allowed_cores", lambda: cores)
    config: Any = SimpleNamespace(computes={"here": SimpleNamespace(type="local", gpus_per_node=said)})
    assert [world.ranks for world in module.usual_worlds(config, "here")] == ranks


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({}, None), ({"count": 2}, "an array"), ({"matrix": {"lr": [1]}}, "an array"),
        ({"autotune": {}}, "a search (autotune)"), ({"autotune": {"by": "deepspeed"}}, "a search (autotune)"),
    ],
)  # fmt: skip
def test_what_is_no_single_training(fields: Mapping[str, Any], what: str | None) -> None:
    assert module._not_one_training(Job("true", **fields)) == what
