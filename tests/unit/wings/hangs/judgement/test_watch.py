"""When a silent run is looked at, and again, and when it counts as one that goes on: by a clock of the test's own."""

from __future__ import annotations

import pytest

from worldsize.wings.hangs.judgement.watch import (
    ANSWER_TIME,
    FIRST_FACTOR,
    LONGEST_DOUBT,
    LONGEST_FACTOR,
    LONGEST_GAP,
    NodeSigns,
    Step,
    Watch,
    signs_of,
)

LIMIT = 300.0
NODES = (0, 1)


def signs(silent: float, spoke: bool = True) -> dict[int, NodeSigns]:
    return {0: NodeSigns(silent, spoke, (0, 1)), 1: NodeSigns(silent + 1.0, spoke, (2, 3))}


def looked_at(watch: Watch, now: float, stuck: bool) -> None:
    """A whole look that begins now: two samples, which all nodes answer at once, and the judgement."""
    for number in (watch.number + 1, watch.number + 2):
        last = number % 2 == 0
        step = watch.step(signs(now), NODES, now)
        assert step == Step("sample", number, is_last=last)
        for node in NODES:
            watch.note_answer(node, number)
        if not last:
            assert watch.step(signs(now), NODES, now) is None, "the gap"
            now += LONGEST_GAP
    assert watch.step(signs(now), NODES, now) == Step("judge", numbers=(watch.number - 1, watch.number))
    assert watch.step(signs(now), NODES, now) is None, "until it is judged"
    watch.note_judgement(stuck, now)


def test_a_run_is_looked_at_after_the_limit() -> None:
    watch = Watch(LIMIT, 0.0)
    assert watch.step(signs(LIMIT - 1.0), NODES, LIMIT - 1.0) is None
    looked_at(watch, LIMIT, stuck=True)
    assert watch.step(signs(2 * LIMIT), NODES, 2 * LIMIT) is None, "it is told once"


def test_before_the_first_line_it_has_longer() -> None:
    watch = Watch(LIMIT, 0.0)
    assert watch.step(signs(FIRST_FACTOR * LIMIT - 1.0, spoke=False), NODES, FIRST_FACTOR * LIMIT - 1.0) is None
    assert watch.step(signs(FIRST_FACTOR * LIMIT, spoke=False), NODES, FIRST_FACTOR * LIMIT) is not None


@pytest.mark.parametrize(
    "told",
    [
        {0: NodeSigns(1e6, True, (0,))},
        {0: NodeSigns(1e6, True, ()), 1: NodeSigns(1e6, True, ())},
        {0: NodeSigns(1e6, True, (0,)), 1: NodeSigns(0.0, True, (1,))},
    ],
)
def test_no_run_is_looked_at_of_which_a_node_has_not_told_no_rank_lives_or_one_does_something(
    told: dict[int, NodeSigns],
) -> None:
    assert Watch(LIMIT, 0.0).step(told, NODES, 1e6) is None


def test_a_run_that_works_is_looked_at_later_each_time_and_then_once_in_a_limit() -> None:
    watch, now = Watch(LIMIT, 0.0), LIMIT
    for later in (
        2 * LIMIT + LONGEST_GAP,
        4 * LIMIT,
        LONGEST_FACTOR * LIMIT,
        (LONGEST_FACTOR + 1) * LIMIT + LONGEST_GAP,
    ):
        looked_at(watch, now, stuck=False)
        assert watch.step(signs(later - 1.0), NODES, later - 1.0) is None
        now = later
    looked_at(watch, now, stuck=True)


def test_signs_of_life_end_a_look_that_has_begun() -> None:
    watch = Watch(LIMIT, 0.0)
    assert watch.step(signs(LIMIT), NODES, LIMIT) == Step("sample", 1)
    assert watch.step(signs(1.0), NODES, LIMIT + 1.0) is None
    assert watch.step(signs(LIMIT), NODES, 2 * LIMIT + 1.0) == Step("sample", 2), "and the next begins anew"


def test_a_node_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    watch = Watch(LIMIT, 0.0)
    watch.step(signs(LIMIT), NODES, LIMIT)
    watch.note_answer(0, 1)
    watch.note_answer(1, 7)
    assert watch.step(signs(LIMIT), NODES, LIMIT + ANSWER_TIME - 1.0) is None
    now = LIMIT + ANSWER_TIME
    assert watch.step(signs(LIMIT), NODES, now) is None
    assert watch.step(signs(LIMIT), NODES, now + LONGEST_GAP) == Step("sample", 2, is_last=True)


def test_a_run_that_was_called_stuck_goes_on_once_it_does_so_for_a_while() -> None:
    watch = Watch(LIMIT, 0.0)
    looked_at(watch, LIMIT, stuck=True)
    assert watch.step(signs(0.0), NODES, 1000.0) is None, "a traceback, perhaps"
    assert watch.step(signs(0.0), NODES, 1000.0 + LONGEST_DOUBT) == Step("resumed")
    assert watch.step(signs(LIMIT), NODES, 2000.0) == Step("sample", 3), "and may be looked at again"


def test_a_run_that_was_called_stuck_and_says_one_thing_more_does_not_go_on() -> None:
    watch = Watch(LIMIT, 0.0)
    looked_at(watch, LIMIT, stuck=True)
    assert watch.step(signs(0.0), NODES, 1000.0) is None
    assert watch.step(signs(LIMIT), NODES, 1000.0 + LIMIT) is None
    assert watch.step(signs(0.0), NODES, 2000.0) is None


def test_a_short_limit_has_short_gaps() -> None:
    watch = Watch(2.0, 0.0)
    assert watch.step(signs(2.0), NODES, 2.0) == Step("sample", 1)
    for node in NODES:
        watch.note_answer(node, 1)
    watch.step(signs(2.0), NODES, 2.0)
    assert watch.step(signs(2.2), NODES, 2.2) == Step("sample", 2, is_last=True)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"silent": 2, "spoke": True, "ranks": [0, 1]}, NodeSigns(2.0, True, (0, 1))),
        ({"silent": 2.5, "spoke": False, "ranks": ()}, NodeSigns(2.5, False, ())),
        ({"silent": float("nan"), "spoke": True, "ranks": []}, None),
        ({"silent": "2", "spoke": True, "ranks": []}, None),
        ({"silent": 2, "spoke": 1, "ranks": []}, None),
        ({"silent": 2, "spoke": True, "ranks": ["0"]}, None),
        ({"silent": 2, "spoke": True}, None),
        ([], None),
        (None, None),
    ],
)
def test_what_a_node_tells_may_be_anything(value: object, found: NodeSigns | None) -> None:
    assert signs_of(value) == found
