"""What the head says of the nodes' clocks."""

import time

import pytest
from tests.unit.wings.checks.nodes import brief, nodes_of

from worldsize.wings.checks.agent.judgement.clocks import ClockOffset, best_offset, clock_rows
from worldsize.wings.checks.agent.judgement.numbers import duration_text, median_of, number_of


def rows(*seconds, uncertainty=0.0001):
    nodes = nodes_of(*[{}] * len(seconds))
    return clock_rows(
        nodes, {rank: ClockOffset(each, uncertainty) for rank, each in enumerate(seconds) if each is not None}
    )


def test_clocks_that_agree_have_one_row():
    assert brief(rows(0, 0.0001, -0.0002, 0)) == [("", "ok", "4 nodes, within 0.4 ms")]


@pytest.mark.parametrize(
    "seconds, verdict", [(0.9, "ok"), (1.1, "warning"), (299, "warning"), (301, "bad"), (-301, "bad")]
)
def test_how_far_a_clock_may_be_off(seconds, verdict):
    assert [row.verdict for row in rows(0, 0, 0, seconds)] == [verdict]


def test_a_clock_that_is_off_is_named_with_its_side():
    assert brief(rows(0, 3.5, 0, -7200)) == [
        ("node1", "warning", "3.5 s ahead of most others'"),
        ("node3", "bad", "2 h behind most others'"),
    ]


def test_the_heads_clock_is_named_where_it_is_the_one_that_is_off():
    assert brief(rows(0, 400, 400)) == [("node0", "bad", "6.7 min behind most others'")]


def test_of_two_nodes_the_second_is_compared_with_the_head():
    assert brief(rows(0, 5)) == [("node1", "warning", "5 s ahead of node0's")]


def test_an_offset_that_may_be_the_networks_is_no_alarm():
    assert [row.verdict for row in rows(0, 0, 2.0, uncertainty=1.5)] == ["ok"]


def test_a_node_that_did_not_tell_is_unknown_and_a_single_one_has_no_row():
    assert brief(rows(0, None, 0)) == brief(rows(0, None)) == [("node1", "unknown", "not compared")]
    assert rows(0) == []


def test_the_exchange_of_the_shortest_round_trip_tells_the_offset():
    exchanges = [(0, 10_000_000_000, 4_000_000_000), (1_000_000_000, 0, 1_002_000_000)]
    assert best_offset(exchanges) == ClockOffset(1.001, 0.001)


def test_a_clock_that_was_set_back_meanwhile_tells_none():
    assert best_offset([(5, 5, 4)]) is None
    assert best_offset([]) is None


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0, "0 ms"),
        (0.00021, "0.21 ms"),
        (0.35, "350 ms"),
        (3.5, "3.5 s"),
        (600, "10 min"),
        (10800, "3 h"),
        (1e9, "11574 days"),
    ],
)
def test_durations_in_words(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize("value", [None, "1", True, [], float("nan"), float("inf"), 10**400])
def test_what_is_no_number(value):
    assert number_of(value) is None


def test_medians():
    assert [median_of([3.0]), median_of([4.0, 1.0]), median_of([9.0, 1.0, 5.0])] == [3.0, 1.0, 5.0]


def test_1000_clocks_are_compared_at_once():
    started = time.process_time()
    assert len(rows(*[0.0] * 999, 5.0)) == 1
    assert time.process_time() - started < 0.5
