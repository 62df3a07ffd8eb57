"""Which nodes are said to compute slowly, by recorded answers."""

import random
import time

import pytest
from measured_nodes import cluster_of, compute, with_answer

from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING
from worldsize.wings.checks.agent.stages import pairs, second_pairs

STRANGE = {"kernel": None, "rate": float("nan"), "running": float("inf"), "waited": -1}
JUNK = [None, {}, [], "x", {"error": 3}, {"network": {"received": True}}]
JUNK += [{"compute": each} for each in (None, [], {"rate": "fast"}, STRANGE)]


def verdicts(cluster):
    return [(row.node, row.verdict) for row in second_pairs.STAGE.judge(cluster) if row.id == "speed.compute"]


def only_row(cluster):
    (row,) = [row for row in second_pairs.STAGE.judge(cluster) if row.id == "speed.compute"]
    return row


@pytest.mark.parametrize("count", [2, 3, 4, 5, 64])
def test_nodes_that_compute_alike_have_one_row(count):
    assert verdicts(cluster_of(count)) == [("", OK)]


@pytest.mark.parametrize("count", [3, 4, 5, 64])
@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_throttled_node_is_named_with_its_share(count, rank):
    row = only_row(cluster_of(count, {rank: compute(share=0.2, throttled=0.8)}))
    assert (row.node, row.verdict) == ("node%d" % rank, BAD)
    assert "20% of the other nodes' speed, twice" in row.value
    assert "throttled for 80% of the time" in row.value
    assert "control group" in row.hint


def test_a_node_whose_processes_are_stopped_is_named():
    row = only_row(cluster_of(4, {3: compute(share=0.2, stopped=0.8)}))
    assert (row.node, row.verdict) == ("node3", BAD)
    assert "stopped for 80% of the time" in row.value
    assert "cpulimit" in row.hint


@pytest.mark.parametrize("clock, verdict", [(0.35, BAD), (0.45, WARNING), (0.55, OK), (0.9, OK)])
def test_a_slow_clock_is_bad_below_two_fifths_and_a_warning_below_half(clock, verdict):
    row = only_row(cluster_of(4, {2: compute(clock=clock)}))
    assert (row.node, row.verdict) == ("" if verdict == OK else "node2", verdict)


def test_figures_of_a_stopped_node_that_were_recorded_on_slurm():
    """Stopped for 80 of 100 ms, by a busy machine less; of the others' counters, the one that was most wrong."""
    computes = {
        0: {"kernel": "md5", "rate": 418.5e6, "running": 587.4e6, "waited": 0.801, "throttled": 0.0, "stopped": 0.057},
        1: {"kernel": "md5", "rate": 567.0e6, "running": 631.5e6, "waited": 0.825, "throttled": 0.0, "stopped": 0.018},
        2: {"kernel": "md5", "rate": 297.9e6, "running": 633.3e6, "waited": 0.727, "throttled": 0.0, "stopped": 0.145},
        3: {"kernel": "md5", "rate": 606.3e6, "running": 631.7e6, "waited": 0.821, "throttled": 0.0, "stopped": 0.007},
    }
    assert verdicts(cluster_of(4, computes)) == [("node2", WARNING)]


def test_processors_of_another_model_are_a_warning():
    facts = {rank: {"cpu_model": "Old" if rank == 1 else "New"} for rank in range(4)}
    row = only_row(cluster_of(4, {1: compute(clock=0.3)}, facts=facts))
    assert (row.node, row.verdict) == ("node1", WARNING)
    assert "model" in row.hint


def test_once_is_not_twice():
    cluster = with_answer(cluster_of(4), 2, "pairs", {"compute": compute(clock=0.2)})
    assert verdicts(cluster) == [("", OK)]
    cluster = with_answer(cluster_of(4), 2, "second_pairs", {"compute": compute(share=0.1, throttled=0.9)})
    assert verdicts(cluster) == [("", OK)]


def test_of_two_nodes_only_one_that_is_kept_from_running_is_named_as_a_warning():
    assert verdicts(cluster_of(2, {1: compute(clock=0.3)})) == [("", OK)]
    assert verdicts(cluster_of(2, {1: compute(share=0.2, stopped=0.8)})) == [("node1", WARNING)]


def test_a_busy_node_among_quiet_ones_is_a_warning():
    row = only_row(cluster_of(4, {0: compute(waited=0.6)}))
    assert (row.node, row.verdict) == ("node0", WARNING)
    assert "60% of the time" in row.value


def test_nothing_is_said_where_all_are_busy():
    """Four nodes of one machine, whose figures were recorded on two cores with seven other users."""
    recorded = {0: 0.95, 1: 0.89, 2: 0.94, 3: 0.92}
    computes = {
        rank: compute(waited=waited, share=1 - 0.01 / (1 - waited), stopped=0.01) for rank, waited in recorded.items()
    }
    assert verdicts(cluster_of(4, computes)) == [("", OK)]


def test_a_node_that_gets_much_less_time_than_busy_others_is_a_warning():
    """A limit that its namespace does not show: the kernel counts the time as waiting."""
    computes = {rank: compute(waited=0.74 if rank != 2 else 0.95) for rank in range(4)}
    row = only_row(cluster_of(4, computes))
    assert (row.node, row.verdict) == ("node2", WARNING)
    assert "gets 19% of the other nodes' CPU time" in row.value


def test_clocks_and_counters_that_differ_on_a_busy_machine_make_nobody_slow():
    """At 98 % waiting, a hundredth of the time is half of what is left."""
    computes = {
        rank: compute(waited=0.98, share=random.Random(rank).uniform(0.3, 1.0), stopped=0.012) for rank in range(4)
    }
    assert verdicts(cluster_of(4, computes)) == [("", OK)]


def test_kernels_of_different_names_are_not_compared():
    """SHA-512 is slower than MD5: a machine in FIPS mode is not."""
    assert verdicts(cluster_of(4, {1: compute(kernel="sha512", clock=0.3)})) == [("", OK)]


@pytest.mark.parametrize("stage", ["pairs", "second_pairs"])
@pytest.mark.parametrize("answer", JUNK)
def test_an_answer_that_says_nothing_is_an_unknown_row_of_its_node(stage, answer):
    rows = verdicts(with_answer(cluster_of(4), 1, stage, answer))
    assert rows == [("node1", UNKNOWN), ("", OK)]


def test_an_error_is_told_in_one_short_line():
    cluster = with_answer(cluster_of(4), 1, "pairs", {"error": "OSError: a\n" * 1000})
    row = second_pairs.STAGE.judge(cluster)[0]
    assert row.value.startswith("OSError: a OSError") and len(row.value) <= 200


def test_virtual_nodes_and_single_ones_neither_measure_nor_are_judged():
    for cluster in (cluster_of(4, asked={"virtual": True}), cluster_of(1)):
        for stage in (pairs.STAGE, second_pairs.STAGE):
            assert not stage.orders(cluster)
            assert not stage.judge(cluster)


def test_a_node_that_did_not_answer_in_the_first_round_has_no_order_for_the_second():
    cluster = with_answer(cluster_of(4, first_only=True), 1, "pairs", None)
    assert sorted(second_pairs.STAGE.orders(cluster)) == [0, 2, 3]


def test_orders_name_the_listener_of_the_next_node():
    orders = pairs.STAGE.orders(cluster_of(3))
    assert [order["next"]["address"] for order in orders.values()] == ["10.0.0.1", "10.0.0.2", "10.0.0.0"]


def test_a_node_without_a_listener_lets_its_group_only_compute():
    orders = pairs.STAGE.orders(with_answer(cluster_of(4), 1, "listen", None))
    assert [bool(order.get("next")) for order in orders.values()] == [False, False, True, True]


@pytest.mark.heavy
def test_a_thousand_nodes_take_a_moment():
    began = time.process_time()
    cluster = cluster_of(1000, {7: compute(share=0.1, throttled=0.9)})
    assert verdicts(cluster) == [("node7", BAD)]
    assert len(second_pairs.STAGE.orders(cluster)) == 1000
    assert time.process_time() - began < 2.0
