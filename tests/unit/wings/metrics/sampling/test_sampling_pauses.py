"""How often samples are taken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.metrics.agent.intervals import LONGEST, SHORTEST, next_pause

WEEK = 7 * 86400.0


@pytest.mark.parametrize(
    ("elapsed", "pause"), [(0.0, 2.0), (2.0, 2.0), (40.0, 2.0), (100.0, 5.0), (600.0, 30.0), (WEEK, 30.0)]
)
def test_pauses_grow_with_the_run(elapsed: float, pause: float) -> None:
    assert next_pause(elapsed, 0.0) == pause


@pytest.mark.parametrize(("cost", "agents", "pause"), [(0.002, 1, 2.0), (0.02, 1, 5.0), (0.02, 4, 20.0), (1.0, 1, 250)])
def test_what_costs_much_is_done_seldom(cost: float, agents: int, pause: float) -> None:
    assert next_pause(10.0, cost, agents) == pause


@given(st.floats(0, 10 * WEEK), st.floats(0, 60), st.integers(1, 1000), st.integers(0, 1 << 40))
def test_all_agents_of_a_machine_stay_below_half_a_percent(elapsed: float, cost: float, agents: int, size: int) -> None:
    pause = next_pause(elapsed, cost, agents, size)
    assert pause >= SHORTEST
    assert agents * cost / pause < 0.005


def test_there_are_ten_samples_before_a_minute_has_passed() -> None:
    elapsed, samples = 2.0, 0
    while elapsed < 60:
        samples, elapsed = samples + 1, elapsed + next_pause(elapsed, 0.002)
    assert samples > 10


@pytest.mark.parametrize(("line", "most"), [(700, 15e6), (12_000, 90e6), (100_000, 150e6)])
def test_a_week_of_samples_has_a_bounded_size(line: int, most: float) -> None:
    elapsed, size = 2.0, 0
    while elapsed < WEEK:
        size, elapsed = size + line, elapsed + next_pause(elapsed, 0.001, written=size)
    assert size < most
    assert next_pause(WEEK, 0.0, written=1 << 60) < 24 * WEEK
    assert next_pause(WEEK, 0.0) >= LONGEST
