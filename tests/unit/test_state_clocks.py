"""How far two clocks are apart, by one question and its answer."""

from __future__ import annotations

import random

from worldsize.state.clocks import clock_offset


def test_the_truth_is_within_the_uncertainty_whatever_the_ways_take() -> None:
    chance = random.Random(20261129)
    for _ in range(2000):
        ahead = chance.uniform(-1e4, 1e4)
        there, pause, back = (chance.expovariate(1 / chance.choice((1e-4, 0.1, 5.0))) for _ in range(3))
        asked = 1e9 + chance.uniform(0, 1e3)
        read = asked - ahead + there
        answered = read + pause
        found = clock_offset(asked, read, answered, answered + back + ahead)
        assert abs(found.seconds - ahead) <= found.uncertainty + 1e-5
        assert abs(found.uncertainty - (there + back) / 2) < 1e-5


def test_equal_ways_give_the_exact_offset() -> None:
    assert clock_offset(107.0, 101.0, 103.0, 111.0).seconds == 7.0
