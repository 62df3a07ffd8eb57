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


def test_it_learns_and_is_resumed_by_other_world_sizes_and_splits(place: Cli, world: str) -> None:
    sharded = trained(place, example("fsdp2-digits"), "-w", world, "--set", "inputs.epochs=4")
    assert accuracy(sharded) > 0.9 and list(losses(sharded)) == [1, 2, 3, 4]
    saved = "inputs.resume.path=" + place.path(place.latest(), "outputs")
    split = trained(place, example("tensor-parallel-digits"), "-w", world, "--set", "inputs.epochs=5", "--set", saved)
    alone = trained(place, example("fsdp2-digits"), "-w", "1x1", "--set", "inputs.epochs=5", "--set", saved)
    for logs in (split, alone):
        assert "resumed after epoch 4, accuracy %.4f\n" % accuracy(sharded) in logs[0]
        assert list(losses(logs)) == [5]
    assert abs(losses(split)[5] - losses(alone)[5]) < 0.002 and losses(alone)[5] < losses(sharded)[4]
    assert accuracy(split) > 0.9
