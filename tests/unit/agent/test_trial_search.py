"""A search without processes: the order of trials, what is left out, configurations, what a log tells, the table."""

from __future__ import annotations

import csv
import json
import os
import re

import pytest

from worldsize.agent.trials.search import (
    FAILED,
    GIVEN_UP,
    MEASURED,
    Result,
    Search,
    metric_pattern,
    metric_values,
    results_csv,
    with_settings,
)
from worldsize.agent.trials.search_node import base_config
from worldsize.agent.trials.trial import trial_paths, trial_plan, write_trial_directory
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.horovod import HorovodDistribution
from worldsize.jobspec.reading.autotune import trial_settings, with_trials
from worldsize.plan.plan import Plan
from worldsize.plan.rank_layout import node_major_layout
from worldsize.plan.run_paths import RunPaths

MICRO, STAGE = "train_micro_batch_size_per_gpu", "zero_optimization.stage"


def test_growing_micro_batches_vary_fastest() -> None:
    found = trial_settings({"micro_batch": (8, 2), "zero_stage": (1, 0), "fp16.enabled": (True,)}, None)
    assert [(each[STAGE], each["fp16.enabled"], each[MICRO]) for each in found] == [
        (1, True, 2),
        (1, True, 8),
        (0, True, 2),
        (0, True, 8),
    ]


def test_fewer_are_drawn_by_chance_and_the_same_each_time() -> None:
    space = {"a": tuple(range(100)), "b": tuple(range(100))}
    found = trial_settings(space, 7)
    assert len(found) == 7 == len({tuple(each.items()) for each in found}) and found == trial_settings(space, 7)


def search(trials: list[dict[str, int]], goal: str = "max", patience: int | None = None) -> Search:
    return Search(trials, goal, patience)


def result(search: Search, state: str, value: float | None, why: str = "") -> None:
    taken = search.take_trial()
    assert taken is not None
    search.record(Result(*taken, state, value, 1.0, why))


@pytest.mark.parametrize(("goal", "best"), [("max", 3), ("min", 2)])
def test_the_best_is_measured(goal: str, best: int) -> None:
    tried = search([{"x": number} for number in range(4)], goal)
    for state, value in (
        (MEASURED, 5.0),
        (MEASURED, 4.0),
        (MEASURED, 9.0),
        (GIVEN_UP, 100.0 if goal == "max" else 0.1),
    ):
        result(tried, state, value)
    assert tried.take_trial() is None and tried.best is not None and tried.best.number == best
    assert tried.is_hopeless(4.4 if goal == "max" else 8.1) and not tried.is_hopeless(4.6 if goal == "max" else 7.9)


def test_what_did_not_fit_into_memory_tells_of_larger_ones() -> None:
    tried = search([{STAGE: stage, MICRO: micro} for stage in (0, 1) for micro in (1, 2, 4, 8)])
    result(tried, MEASURED, 1.0)
    result(tried, FAILED, None, "OUT_OF_MEMORY: rank 1 was killed")
    taken = tried.take_trial()
    assert taken == (5, {STAGE: 1, MICRO: 1})
    assert [(each.number, each.state) for each in tried.results[2:]] == [(3, "left out"), (4, "left out")]


def test_another_failure_says_nothing_of_the_others() -> None:
    tried = search([{MICRO: 1}, {MICRO: 2}])
    result(tried, FAILED, None, "EXIT_CODE: rank 1 exited with code 3")
    assert tried.take_trial() == (2, {MICRO: 2})


def test_patience_ends_the_search_but_not_before_something_was_measured() -> None:
    tried = search([{"x": number} for number in range(9)], patience=2)
    for state, value in (
        (FAILED, None),
        (FAILED, None),
        (FAILED, None),
        (MEASURED, 5.0),
        (MEASURED, 4.0),
        (FAILED, None),
    ):
        result(tried, state, value)
    assert tried.take_trial() is None and [each.state for each in tried.results[6:]] == ["left out"] * 3


def test_settings_are_put_where_their_names_lead() -> None:
    base = {"zero_optimization": {"stage": 0, "overlap_comm": True}, "fp16": None}
    found = with_settings(base, {STAGE: 2, "fp16.enabled": True, MICRO: 4})
    assert found == {"zero_optimization": {"stage": 2, "overlap_comm": True}, "fp16": {"enabled": True}, MICRO: 4}
    assert base["zero_optimization"] == {"stage": 0, "overlap_comm": True}


@pytest.mark.parametrize(
    ("base", "given", "accumulation"),
    [
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, {MICRO: 4}, None),
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, {STAGE: 1}, 2),
        ({"train_batch_size": 64}, {MICRO: 4, "gradient_accumulation_steps": 8}, 8),
        ({"gradient_accumulation_steps": 2}, {MICRO: 4}, 2),
    ],
)
def test_steps_to_accumulate_follow_from_the_whole_batch(base: dict, given: dict, accumulation: int | None) -> None:
    assert with_settings(base, given).get("gradient_accumulation_steps") == accumulation


DEEPSPEED = (
    "[2026-11-21 19:00:00,000] [INFO] [timer.py:264:stop] epoch=0/micro_step=20/global_step=20, "
    "RunningAvgSamplesPerSec=1234.5678, CurrSamplesPerSec=99.5, MemAllocated=0.0GB, MaxMemAllocated=0.0GB"
)


@pytest.mark.parametrize(
    ("metric", "line", "values"),
    [
        ("throughput", DEEPSPEED, [1234.5678]),
        ("throughput", "throughput=3", []),
        ("loss", "epoch 1/4  loss=0.25", [0.25]),
        ("loss", "loss = 1e-3, loss=2.", [0.001, 2.0]),
        ("loss", "val_loss=1 my.loss=2 loss=nan loss=1.2.3", []),
        ("tokens/s", "tokens/s=12", [12.0]),
    ],
)
def test_what_rank_0_tells(metric: str, line: str, values: list[float]) -> None:
    assert metric_values(metric_pattern(metric), [line]) == values


def test_the_table_has_a_row_for_each_trial_in_order() -> None:
    rows = [
        Result(2, {MICRO: 8, "a": "x,y"}, FAILED, None, 2.0, 'said "no"'),
        Result(1, {MICRO: 4, "a": True}, MEASURED, 1234567.8, 12.34),
    ]
    head, *lines = csv.reader(results_csv(rows, "throughput").splitlines())
    assert head == ["trial", MICRO, "a", "throughput", "state", "seconds", "why"]
    assert lines == [
        ["1", "4", "true", "1.23457e+06", "measured", "12.3", ""],
        ["2", "8", "x,y", "", "failed", "2.0", 'said "no"'],
    ]


def tuned_plan() -> Plan:
    arranged = with_trials(HorovodDistribution(2).arrange(4), {"nodes": 2, "search": {"micro_batch": (1,)}})
    fields = {"launcher": arranged.launcher, "options": arranged.options, "ports": arranged.ports}
    return Plan("run-7", "t", "lab", 1.0, 0, node_major_layout(4, 2), ("python", "t.py"), {}, "horovod", **fields)


def test_a_trial_starts_what_would_be_started_without_a_search_on_its_nodes() -> None:
    plan = tuned_plan()
    assert (plan.launcher, plan.ports) == ("autotune", "node")
    found = trial_plan(Plan.from_json(plan.to_json()), 3)
    assert (found.launcher, found.ports, len(found.nodes), found.world_size) == ("direct", "node", 2, 4)
    assert found.run_id == "run-7.trial-3" and found.timeout == 600 and found.options == {}


@pytest.mark.parametrize("name", ["/etc/ds.json", "conf/latest/../ds.json", "../ds.json"])
def test_a_configuration_is_named_within_the_code(name: str) -> None:
    """Found by review: trials wrote theirs to where such a name led, over the user's own."""
    with pytest.raises(PlanError, match="does not lie in the code"):
        with_trials(HorovodDistribution(2).arrange(4), {"config": name})


def test_the_configuration_is_read_from_the_snapshot_alone(tmp_path) -> None:
    """Found by review: one behind another user's link was read where that led, and trials showed it to a group."""
    run = RunPaths(str(tmp_path / "run"))
    os.makedirs(run.code + "/conf")
    os.makedirs(tmp_path / "elsewhere")
    for path in (run.code + "/conf/real.json", str(tmp_path / "elsewhere" / "ds.json")):
        with open(path, "w") as file:
            file.write('{"a": 1}')
    os.symlink("real.json", run.code + "/conf/ours.json")
    os.symlink("real.json", run.code + "/conf/theirs.json")
    os.symlink(tmp_path / "elsewhere" / "ds.json", run.code + "/conf/away.json")
    os.symlink(tmp_path / "elsewhere", run.code + "/away")
    assert base_config(run, "conf/real.json") == base_config(run, "conf/ours.json") == {"a": 1}
    for name in ("conf/away.json", "away/ds.json"):
        with pytest.raises(OSError, match=re.escape(name) + " is not in the snapshot of the code: it leads out of"):
            base_config(run, name)
    with pytest.raises(OSError, match="there is no conf/none"):
        base_config(run, "conf/none.json")
    if os.geteuid() == 0:
        os.chown(run.code + "/conf/theirs.json", 61002, 61002, follow_symlinks=False)
        with pytest.raises(OSError, match="the link belongs to uid 61002"):
            base_config(run, "conf/theirs.json")


def test_a_trials_code_is_the_runs_but_for_the_configuration(tmp_path) -> None:
    run = RunPaths(str(tmp_path))
    trial = trial_paths(run, 1)
    for directory in (run.inrank, run.outputs, run.user_logs, run.code + "/conf/more"):
        os.makedirs(directory)
    for name in ("outputs", "logs"):
        os.symlink("../" + name, os.path.join(run.code, name))
    for name in ("t.py", "conf/ds.json", "conf/other.json", "conf/more/x"):
        (tmp_path / "code" / name).write_text(name)
    write_trial_directory(run, trial, "conf/ds.json", {"a": 1})
    code = os.path.join(trial.root, "code")
    with open(os.path.join(code, "conf", "ds.json")) as file:
        assert json.load(file) == {"a": 1}
    for name in ("t.py", "conf/other.json", "conf/more/x"):
        with open(os.path.join(code, name)) as file:
            assert file.read() == name
    assert os.path.realpath(os.path.join(code, "outputs")) == os.path.realpath(trial.outputs)
    assert (tmp_path / "code" / "conf" / "ds.json").read_text() == "conf/ds.json"
