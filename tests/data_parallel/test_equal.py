"""Scripts for one process, in the styles that people use, are the same training on many ranks: every loss and every
weight, and nobody does everybody's work."""

from __future__ import annotations

from statistics import mean, stdev

import pytest

pytest.importorskip("torch")

from trainings import Trainings, assert_near, numbers

pytestmark = pytest.mark.timeout(600)

# Samples of all epochs; those in batches that go whole to every rank, as they do not divide by 2 and by 4 ranks.
SCRIPTS = {
    "plain_loop": (3 * 70, 0, 3 * 6),
    "trainer_class": (3 * 48, 0, 0),
    "functions": (3 * 72, 0, 0),
    "lstm": (3 * 40, 0, 0),
    "vae": (3 * 64, 0, 0),
    "gan": (3 * 40, 0, 0),
    "resnet": (2 * 36, 0, 0),
    "transformer": (14 * 10, 0, 14 * 10),
    "resume": (2 * 40, 0, 0),
    "streaming": (6 * 44, 0, 0),
    "crops": (25 * 8, 0, 0),
    "counting": (4 * 44, 0, 0),
    "mixture": (2 * 64, 0, 0),
    "phases": (4 * 40, 0, 0),
    "noise": (2 * 32, 0, 0),
}
RELATIVE = 1e-9


@pytest.mark.exhaustive(unless=["plain_loop-1x2"])
@pytest.mark.parametrize("world", ["1x2", "2x2"])
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_same_training_on_one_two_and_four_ranks(trainings: Trainings, name: str, world: str) -> None:
    script = trainings.add(name)
    expected = numbers(trainings.plain(script))
    total, *undivided = SCRIPTS[name]
    ranks, whole = {"1x2": (2, undivided[0]), "2x2": (4, undivided[1])}[world]
    run = trainings.parallel(world, script)
    assert_near(numbers(trainings.log(run)), expected, RELATIVE)
    seen = [report["samples"] for report in trainings.reports(run)]
    assert seen == [(total - whole) // ranks + whole] * ranks


@pytest.mark.exhaustive
def test_one_rank_is_the_plain_script(trainings: Trainings) -> None:
    script = trainings.add("gan")
    assert numbers(trainings.log(trainings.parallel("1x1", script))) == numbers(trainings.plain(script))


@pytest.mark.exhaustive
def test_on_virtual_gpus_it_is_the_same_training_too(trainings: Trainings) -> None:
    script = trainings.add("vae")
    expected = numbers(trainings.plain(script))
    run = trainings.parallel("1x2", script, options=("--virtual-gpus", "2"))
    assert_near(numbers(trainings.log(run)), expected, RELATIVE)


@pytest.mark.exhaustive
def test_mixed_precision_differs_by_its_own_precision(trainings: Trainings) -> None:
    script = trainings.add("amp")
    expected = numbers(trainings.plain(script))
    for world in ("1x2", "2x2"):
        assert_near(numbers(trainings.log(trainings.parallel(world, script))), expected, 5e-3)


@pytest.mark.exhaustive
def test_batch_statistics_of_the_whole_batch_where_they_are_asked_for(trainings: Trainings) -> None:
    script = trainings.add("batchnorm")
    expected = numbers(trainings.plain(script))
    asked = ("--set", "environment_variables.WORLDSIZE_SYNC_BATCHNORM=1")
    assert_near(numbers(trainings.log(trainings.parallel("2x2", script, options=asked))), expected, RELATIVE)


@pytest.mark.exhaustive
def test_a_checkpoint_of_many_ranks_goes_on_with_one_and_with_many(trainings: Trainings) -> None:
    script = trainings.add("resume")
    trainings.plain(script)
    expected = numbers(trainings.plain(script, "4"))
    run = trainings.parallel("1x2", script)
    with open(trainings.cli.path(run, "code", "checkpoint.pt"), "rb") as file:
        saved = file.read()
    with open(trainings.cli.write("checkpoint.pt", ""), "wb") as file:
        file.write(saved)
    again = trainings.parallel("2x2", script, "4")
    assert_near(numbers(trainings.log(again)), expected, RELATIVE)
    # Those of the two plain lives, which lay there, and rank 0's alone.
    assert trainings.cli.read(run, "code", "losses.txt").count("\n") == 4 + 2


@pytest.mark.exhaustive
def test_with_dropout_and_batch_statistics_the_mean_over_seeds_is_the_same(trainings: Trainings) -> None:
    script = trainings.add("seeds")
    alone = [row[1] for _, row in numbers(trainings.plain(script))]
    run = trainings.parallel("1x2", script)
    together = [row[1] for _, row in numbers(trainings.log(run))]
    assert len(alone) == len(together) == 12 and alone != together
    differences = [ours - theirs for ours, theirs in zip(together, alone, strict=True)]
    error = stdev(differences) / len(differences) ** 0.5
    assert abs(mean(differences)) < 3 * error + 0.01 * mean(alone)
    assert [report["samples"] for report in trainings.reports(run)] == [12 * 6 * 96] * 2
