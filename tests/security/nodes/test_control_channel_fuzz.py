"""A part of `make fuzz`, which sends more."""

from __future__ import annotations

from security.fuzz import Fuzz


def test_strangers_are_not_heard_and_nodes_are() -> None:
    fuzz = Fuzz(seed=14)
    fuzz.run(10_000)
    assert fuzz.heard == fuzz.sent > 0
