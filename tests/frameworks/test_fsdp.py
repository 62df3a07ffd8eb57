"""A model that no rank holds whole: sharded, and split by layers; its checkpoints know no world size."""

from __future__ import annotations

import re

import pytest
from driver import Cli
from training import accuracy, example, trained

pytestmark = pytest.mark.timeout(300)
pytest.importorskip("torch")
pytest.importorskip("sklearn")


def losses(logs: list[str]) -> dict[int, float]:
    return {int(epoch): float(loss) for epoch, loss in re.findall(r"^epoch +(\d+)/\d+  loss=([\d.]+)$", logs[0], re.M)}


def test_it_learns_and_is_resumed_split_by_layers(place: Cli, world: str) -> None:
    sharded, saved = saved_after_four_epochs(place, world)
    split = resumed(place, "tensor-parallel-digits", world, sharded, saved)
    assert losses(split)[5] < losses(sharded)[4] and accuracy(split) > 0.9


@pytest.mark.exhaustive
def test_one_rank_resumes_as_many_do(cli: Cli) -> None:
    sharded, saved = saved_after_four_epochs(cli, "2x2")
    split = resumed(cli, "tensor-parallel-digits", "2x2", sharded, saved)
    alone = resumed(cli, "fsdp2-digits", "1x1", sharded, saved)
    assert abs(losses(split)[5] - losses(alone)[5]) < 0.002 and losses(alone)[5] < losses(sharded)[4]


def saved_after_four_epochs(place: Cli, world: str) -> tuple[list[str], str]:
    """The ranks' logs, and the folder with the checkpoint."""
    logs = trained(place, example("fsdp2-digits"), "-w", world, "--set", "inputs.epochs=4")
    assert accuracy(logs) > 0.9 and list(losses(logs)) == [1, 2, 3, 4]
    return logs, place.path(place.latest(), "outputs")


def resumed(place: Cli, name: str, world: str, earlier: list[str], saved: str) -> list[str]:
    """The ranks' logs of the fifth epoch."""
    words = ("--set", "inputs.epochs=5", "--set", "inputs.resume.path=" + saved)
    logs = trained(place, example(name), "-w", world, *words)
    assert "resumed after epoch 4, accuracy %.4f\n" % accuracy(earlier) in logs[0]
    assert list(losses(logs)) == [5]
    return logs
