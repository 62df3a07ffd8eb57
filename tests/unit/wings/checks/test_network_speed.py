"""Which nodes are said to have a slow network, by recorded answers."""

import pytest
from measured_nodes import cluster_of, compute, with_answer

from worldsize.state.check_rows import OK, UNKNOWN, WARNING
from worldsize.wings.checks.agent.stages import second_pairs

SLOW = (1e8, 1e8)


def verdicts(cluster):
    return [(row.node, row.verdict) for row in second_pairs.STAGE.judge(cluster) if row.id == "speed.network"]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 64])
def test_networks_that_are_alike_have_one_row(count):
    assert verdicts(cluster_of(count)) == [("", OK)]


@pytest.mark.parametrize("count", [3, 4, 5, 6, 7, 64])
@pytest.mark.parametrize("rank", [0, 1, 2])
@pytest.mark.parametrize("network", [SLOW, (1e8, 1e9), (1e9, 1e8)])
def test_a_slow_node_is_named_and_its_partners_are_not(count, rank, network):
    """Slow both ways, when it receives, or when it sends."""
    assert verdicts(cluster_of(count, network={rank: network})) == [("node%d" % rank, WARNING)]


def test_two_slow_nodes_are_named_even_where_they_were_a_pair():
    assert verdicts(cluster_of(8, network={0: SLOW, 1: SLOW})) == [("node0", WARNING), ("node1", WARNING)]


def test_of_two_nodes_nobody_is_named():
    assert verdicts(cluster_of(2, network={0: SLOW})) == [("", OK)]


def test_a_rate_above_half_of_the_others_is_no_matter():
    assert verdicts(cluster_of(6, network={0: (6e8, 6e8)})) == [("", OK)]


def test_busy_cores_make_a_slow_network_unknown():
    computes = {rank: compute(waited=0.7) for rank in range(4)}
    assert verdicts(cluster_of(4, computes, network={0: SLOW})) == [("", UNKNOWN)]
    assert verdicts(cluster_of(4, computes)) == [("", OK)]


def test_a_slow_computer_is_not_told_of_its_network_too():
    rows = verdicts(cluster_of(4, {0: compute(share=0.2, throttled=0.8)}, network={0: SLOW}))
    assert rows == [("", UNKNOWN)]


def test_a_node_that_could_not_connect_is_left_to_the_stage_that_looks_at_ports():
    cluster = with_answer(cluster_of(4), 1, "pairs", {"compute": compute(), "network": {"network_error": "refused"}})
    assert verdicts(cluster) == [("", OK)]


@pytest.mark.parametrize("answer", [None, {}, {"network": 3}, {"network": {"received": "x", "sent": None}}])
def test_no_answer_of_the_network_anywhere_gives_no_row(answer):
    cluster = cluster_of(3)
    for rank in range(3):
        cluster = with_answer(cluster, rank, "pairs", answer)
    assert verdicts(cluster) == []
