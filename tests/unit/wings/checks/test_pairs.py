"""Which nodes measure together in the two rounds of pairs."""

import statistics
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.checks.agent.judgement.pairs import (
    against_others,
    first_groups,
    next_of,
    previous_of,
    second_groups,
)

SIZES = [*range(2, 20), 63, 64, 65]


def pairs_of(groups):
    return {frozenset(pair) for pair in previous_of(groups).items()}


@pytest.mark.parametrize("count", SIZES)
def test_every_node_is_in_one_group_of_two_or_three_in_both_rounds(count):
    nodes = list(range(count))
    first = first_groups(nodes)
    second = second_groups({node: float(node * 7 % 5) for node in nodes}, first)
    for groups in (first, second):
        assert sorted(node for group in groups for node in group) == nodes
        assert all(len(group) in (2, 3) for group in groups)
        assert sum(len(group) == 3 for group in groups) == count % 2


def test_neighbours_are_pairs_and_the_last_three_of_an_odd_number_a_ring():
    assert first_groups([0, 1, 2, 3]) == [(0, 1), (2, 3)]
    assert first_groups([0, 1, 2, 3, 4]) == [(0, 1), (2, 3, 4)]
    assert first_groups([7]) == first_groups([]) == []


@pytest.mark.parametrize("count", [4, *range(6, 20), 64])
@pytest.mark.parametrize("slow", [0, 1, 3])
def test_nobody_has_the_same_partner_twice_from_four_nodes_on(count, slow):
    """Of five, the slow pair and the ring of three cannot always be divided."""
    scores = {node: 0.1 if node in (slow, slow ^ 1) else 1.0 for node in range(count)}
    first = first_groups(range(count))
    second = second_groups(scores, first)
    in_pairs = [group for group in second if len(group) == 2]
    assert not {frozenset(group) for group in in_pairs} & pairs_of(first)


@pytest.mark.parametrize("count", range(4, 20))
def test_a_slow_pair_is_divided_and_each_is_with_a_fast_node(count):
    scores = {node: 0.1 if node < 2 else 1.0 for node in range(count)}
    groups = second_groups(scores, first_groups(range(count)))
    assert not any({0, 1} <= set(group) for group in groups if len(group) == 2)
    assert all(max(scores[node] for node in group) == 1.0 for group in groups)


def test_three_nodes_send_the_other_way_round_in_the_second_round():
    for slow in range(3):
        first = first_groups([0, 1, 2])
        second = second_groups({node: 0.1 if node == slow else 1.0 for node in range(3)}, first)
        assert not set(previous_of(first).items()) & set(previous_of(second).items())


def test_nodes_without_a_score_are_left_out_of_the_second_round():
    assert second_groups({0: 1.0, 1: 0.5, 3: 0.7}, first_groups(range(4)))[0] in {(1, 0, 3), (3, 0, 1), (1, 3, 0)}
    assert second_groups({2: 1.0}, first_groups(range(4))) == second_groups({}, []) == []


def test_what_a_node_sends_to_is_what_receives_from_it():
    assert next_of([(0, 1), (2, 3, 4)]) == {0: 1, 1: 0, 2: 3, 3: 4, 4: 2}
    assert previous_of([(2, 3, 4)]) == {2: 4, 3: 2, 4: 3}


@given(st.lists(st.floats(0, 1e12), min_size=2, max_size=30))
def test_a_value_is_measured_against_the_median_of_the_others(values):
    found = against_others(dict(enumerate(values)))
    for at, value in enumerate(values):
        middle = statistics.median(values[:at] + values[at + 1 :])
        assert found[at] == pytest.approx(value / middle if middle else 1.0)


def test_a_single_value_has_no_others():
    assert against_others({5: 3.0}) == {5: 1.0}
    assert against_others({5: 0.0}) == {5: 1.0}
    assert against_others({}) == {}


def test_a_thousand_nodes_take_a_moment():
    began = time.process_time()
    scores = {node: 1.0 + node % 13 for node in range(1001)}
    assert len(second_groups(scores, first_groups(range(1001)))) == 500
    assert len(against_others(scores)) == 1001
    assert time.process_time() - began < 1.0
