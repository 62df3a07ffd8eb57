"""accelerate takes the ranks that it finds, on every node, and starts none of its own."""

from __future__ import annotations

import pytest
from driver import Cli
from training import accuracy, example, ranks, trained

pytestmark = pytest.mark.timeout(300)
pytest.importorskip("accelerate")
pytest.importorskip("sklearn")


def test_an_accelerator_is_one_of_the_ranks(place: Cli, world: str) -> None:
    logs = trained(place, example("accelerate-digits"), "-w", world)
    assert accuracy(logs) > 0.9 and "\nprocesses=%d\n" % ranks(world) in logs[0]
