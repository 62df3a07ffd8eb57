"""Training scripts as others write them, converted: on two ranks each prints what it prints by itself, or it is said
why it does not, with the line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("libcst")

sys.path.insert(0, os.path.dirname(__file__))

from forked_ranks import run_alone, run_launched

from worldsize.wings.convert import rewrite
from worldsize.wings.convert.rewrite import Conversion, Remark, convert_files

FOLDER = os.path.join(os.path.dirname(__file__), "convert_scripts")
HELPERS = os.path.join(os.path.dirname(rewrite.__file__), "template", "ddp.py")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")

EQUAL = (
    "figures/conditions.py", "figures/early_stopping.py", "figures/files.py", "figures/meters.py",
    "figures/simple_accuracy.py", "figures/step_function.py", "figures/tensorboard.py", "figures/two_steps.py",
    "loaders/cached_samples.py", "loaders/mnist.py", "loaders/quickstart.py", "losses/two_backwards.py",
    "loaders/next_loops.py", "loaders/other_loaders.py", "loaders/package", "loaders/phases_dict.py",
    "loaders/samplers.py", "loaders/shared_function.py", "loaders/trainer.py", "loaders/two_files",
    "loaders/two_loaders.py", "losses/accumulation.py", "losses/bfgs.py", "losses/dictionary.py",
    "losses/fixed_noise_gan.py", "losses/own_classes.py", "losses/perplexity.py", "losses/positive_weights.py",
    "losses/sum_divided.py", "losses/sums.py", "models/actor_critic.py", "models/data_parallel.py",
    "models/own_methods.py", "models/penalty.py", "models/self_attributes.py",
)  # fmt: skip
"""Nothing is said of them."""
QUICK = ("loaders/mnist.py", "losses/sums.py", "figures/meters.py")
SAID = {
    "figures/own_answers.py": {18: "each rank draws its own random numbers"},
    "figures/after_loop.py": {31: "prediction is of rank 0's part of the batch"},
    "figures/unknown_figures.py": {21: "out is of rank 0's part", 24: "out is of rank 0's part"},
    "losses/attributes.py": {68: "model is of rank 0's part"},
    "losses/class_weights.py": {11: "a mean over weights of each class"},
    "losses/contrastive.py": {16: "each sample is compared with the others of its batch"},
    "losses/dice.py": {13: "it is computed across the samples of a batch"},
    "losses/micro_batches.py": {41: "some rows of the batch are taken"},
    "losses/gan.py": {21: "each rank draws its own random numbers"},
    "losses/padded.py": {14: "each rank pads its part of a batch", 30: "a mean over the targets that count"},
    "losses/rooted.py": {13: "sqrt() of a mean over the batch"},
    "models/amp.py": {10: "every rank has its own"},
    "models/batchnorm_dropout.py": {11: "nn.SyncBatchNorm", 13: "each rank draws its own random numbers"},
    "models/vae.py": {18: "each rank draws its own random numbers"},
}
"""What is remarked, by its line: their trainings run all the same."""
REFUSED = {
    "refused/autograd_grad.py": {11: "gradients by torch.autograd.grad"},
    "refused/by_hand.py": {15: "the weights are changed directly"},
    "refused/hand_add.py": {11: "the weights are changed directly"},
    "refused/lists.py": {14: "no loader was found"},
    "refused/mean_and_sum.py": {13: "this loss is a sum over a batch, another one is a mean"},
    "refused/no_optimizer_known.py": {11: "no optimizer was found"},
    "refused/own_crops.py": {13: "batches are cut out of data here"},
    "refused/parted.py": {11: "y is of each rank's part of the batch"},
    "refused/reinforcement.py": {25: "no loader was found"},
    "refused/slices.py": {12: "batches are cut out of permutation here"},
    "refused/stream.py": {8: "the samples of an IterableDataset cannot be divided"},
    "refused/whole_data.py": {12: "no loader was found"},
}


def sources_of(name: str) -> dict[str, str]:
    """The files of a script, by their paths beside it, that first which is started."""
    place = os.path.join(FOLDER, name)
    if os.path.isfile(place):
        paths, place = [os.path.basename(name)], os.path.dirname(place)
    else:
        found = (os.path.relpath(path, place) for path in Path(place).rglob("*.py"))
        paths = sorted(found, key=lambda path: (path != "train.py", path))
    return {path: Path(place, path).read_text() for path in paths}


def write_files(directory: Path, texts: Mapping[str, str]) -> None:
    for path, text in texts.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)


def numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]


def outputs(name: str, tmp_path: Path) -> tuple[Conversion, str, str]:
    """The conversion, what the script prints by itself, and what its conversion prints on two ranks."""
    sources = sources_of(name)
    first = next(iter(sources))
    converted = convert_files(sources)
    write_files(tmp_path / "alone", sources)
    write_files(tmp_path / "ranks", {**sources, **converted.texts})
    shutil.copy(HELPERS, tmp_path / "ranks")
    alone = run_alone(str(tmp_path / "alone" / first))
    ranks = run_launched(str(tmp_path / "ranks" / first), 2)
    assert not alone.error, alone.error
    assert not any(rank.error for rank in ranks), [rank.error for rank in ranks]
    assert not ranks[1].printed
    return converted, alone.printed, ranks[0].printed


def assert_said(said: tuple[Remark, ...], expected: Mapping[int, str]) -> None:
    assert [remark.line for remark in said] == sorted(expected), said
    assert all(expected[remark.line] in remark.text for remark in said), said


def test_each_script_is_in_one_table() -> None:
    found = {os.path.relpath(path, FOLDER) for path in Path(FOLDER).rglob("*.py")}
    scripts = {"/".join(path.split("/")[:2]) for path in found}
    assert sorted([*EQUAL, *SAID, *REFUSED]) == sorted(scripts)


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.exhaustive) for name in EQUAL]
)
def test_a_converted_script_prints_what_the_script_prints(tmp_path: Path, name: str) -> None:
    converted, alone, ranks = outputs(name, tmp_path)
    assert converted.errors == converted.remarks == ()
    assert numbers(alone) and numbers(ranks) == pytest.approx(numbers(alone), rel=1e-6, abs=1e-12)


@pytest.mark.exhaustive
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", SAID)
def test_what_differs_is_said_with_its_line(tmp_path: Path, name: str) -> None:
    converted, alone, ranks = outputs(name, tmp_path)
    assert converted.errors == ()
    assert_said(converted.remarks, SAID[name])
    assert len(numbers(alone)) == len(numbers(ranks)) > 0 or name == "figures/unknown_figures.py"


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_shared_is_refused_with_its_line(name: str) -> None:
    assert_said(convert_files(sources_of(name)).errors, REFUSED[name])


SPAWNING = """\
import ddp, multiprocessing, os, sys

def show():
    os.write(1, b"%d" % ddp.RANK)

if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=show)
    child.start()
    child.join()
"""


@pytest.mark.exhaustive
@pytest.mark.timeout(120)
def test_a_process_that_a_rank_spawns_is_no_rank(tmp_path: Path) -> None:
    shutil.copy(HELPERS, tmp_path)
    (tmp_path / "train.py").write_text(SPAWNING)
    environ = {**os.environ, "RANK": "1", "WORLD_SIZE": "1"}
    result = subprocess.run([sys.executable, "train.py"], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert (result.stdout, result.returncode) == ("0", 0), result.stderr
