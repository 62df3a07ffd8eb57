"""From `autotune:` of a job to its trials."""

from __future__ import annotations

import pytest

from worldsize.errors import PlanError
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Job, Resources, has_search, is_array_job
from worldsize.wings.trials.job import make_search, trial_settings, with_own_tuning

JOB = Job(command="python t.py", resources=Resources(instance_count=4), autotune={"nodes": 2, "patience": 5})


def test_growing_micro_batches_vary_fastest() -> None:
    found = trial_settings({"micro_batch": (8, 2), "zero_stage": (1, 0), "fp16.enabled": (True,)}, None)
    assert [list(each.items()) for each in found] == [
        [("zero_stage", stage), ("fp16.enabled", True), ("micro_batch", size)] for stage in (1, 0) for size in (2, 8)
    ]


@pytest.mark.parametrize("values", [100, 10**4])
def test_fewer_are_drawn_by_chance_and_the_same_each_time(values: int) -> None:
    """However many there are."""
    space = {name: tuple(range(values)) for name in "abcd"}
    found = trial_settings(space, 7)
    assert len(found) == 7 == len({tuple(each.items()) for each in found}) and found == trial_settings(space, 7)
    assert list(found) == sorted(found, key=lambda each: tuple(each.values()))


@pytest.mark.parametrize(("names", "most"), [("abc", None), ("abcdefghij", 7)])
def test_there_are_too_many(names: str, most: int | None) -> None:
    with pytest.raises(PlanError, match="combinations to try"):
        trial_settings({name: tuple(range(100)) for name in names}, most)


def test_a_trial_is_the_job_without_its_search() -> None:
    found = make_search(JOB)
    assert found.job == JOB._replace(autotune=None, resources=Resources(instance_count=2))
    assert len(found.settings) == 28 and found.at_once == 2 and make_search(JOB._replace(at_once=1)).at_once == 1
    assert found.options == {
        "config": "ds_config.json", "metric": "throughput", "goal": "max", "steps": 10, "reports": 3, "timeout": 600,
        "patience": 5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (JOB._replace(matrix={"a": (1,)}), "cannot be combined with matrix"),
        (JOB._replace(count=2), "cannot be combined with count"),
        (JOB._replace(batch_script="#!/bin/sh"), "cannot be varied"),
        (JOB._replace(autotune={"nodes": 3}), "4 nodes cannot be divided into trials of 3"),
    ],
)
def test_what_no_trials_can_be_made_of(job: Job, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make_search(job)


@pytest.mark.parametrize("name", ["/etc/ds.json", "conf/latest/../ds.json", "../ds.json"])
def test_a_configuration_is_named_within_the_code(name: str) -> None:
    """Found by review: trials wrote theirs to where such a name led, over the user's own."""
    with pytest.raises(PlanError, match="is not in the code"):
        make_search(JOB._replace(autotune={"config": name}))


def test_deepspeeds_own_search_is_one_run() -> None:
    own = JOB._replace(autotune={"by": "deepspeed"})
    assert has_search(JOB) and is_array_job(JOB) and not has_search(own) and not is_array_job(own)
    arranged = PyTorchDistribution(2).arrange(1)._replace(launcher="deepspeed")
    assert with_own_tuning(arranged).options["autotuning"] == "tune"
    for wrong, message in (
        (arranged._replace(launcher="direct"), "a part of its launcher"),
        (PyTorchDistribution(2).arrange(2)._replace(launcher="deepspeed"), "needs ssh and pdsh"),
    ):
        with pytest.raises(PlanError, match=message):
            with_own_tuning(wrong)
