"""The collective over all ranks, by recorded reports."""

import pytest

from worldsize.state.check_rows import BAD, OK, UNKNOWN
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.stages.collective import STAGE

LISTENS = {"port": 2000, "second_port": 30000, "token": "t"}
ASKED = {"framework": "pytorch", "python": "python3", "ranks": 2}
DONE = {"stage": "done", "port": 41000, "seconds": 0.3, "joining": 0.1}
TORCH = {"version": "2.13.0", "cuda": "12.8", "nccl": "2.27", "gloo": True}
GLOO_TIMEOUT = "DistStoreError: wait timeout after 12000ms, keys: /0//cpu//0/1"
NO_INTERFACE = "RuntimeError: ifa != nullptr. Unable to find address for: nonesuch0"


def cluster_of(count, asked=None, facts=None, reports=None):
    """`reports`: those of some ranks; all others are done."""
    nodes = [
        CheckedNode(rank, "host", "node%d" % rank, "10.0.0.1", facts or {}, {"listen": LISTENS})
        for rank in range(count)
    ]
    cluster = Cluster(nodes, ASKED if asked is None else asked)
    orders = STAGE.orders(cluster)
    nodes = [_with_ranks(node, orders[node.node_rank], reports or {}) if orders else node for node in nodes]
    return cluster._replace(nodes=nodes)


def _with_ranks(node, order, reports):
    ranks = range(order["first"], order["first"] + order["count"])
    found = {str(rank): reports.get(rank, dict(DONE)) for rank in ranks}
    return node._replace(answers={**node.answers, "collective": {"ranks": found}})


def judged(reports, count=3):
    return [(row.node, row.verdict) for row in STAGE.judge(cluster_of(count, reports=reports))]


def row_of(reports, count=3):
    (row,) = STAGE.judge(cluster_of(count, reports=reports))
    return row


def all_ranks(report, count=6):
    return {rank: dict(report) for rank in range(count)}


def test_right_results_are_one_row():
    row = row_of({})
    assert (row.node, row.verdict, row.value) == ("", OK, "right on 6 ranks of 3 nodes by gloo, in 0.30 s")


def test_a_wrong_result_is_bad_and_names_its_node():
    row = row_of({3: {**DONE, "wrong": "the sum of all ranks is 20 to 20 instead of 21"}})
    assert (row.node, row.verdict) == ("node1", BAD)
    assert "20 instead of 21" in row.value


def test_an_environment_without_torch_is_unknown():
    row = row_of({4: {"stage": "started", "error": "ModuleNotFoundError: No module named 'torch'"},
                  0: {"stage": "connected", "port": 1, "silent": 25.0}})  # fmt: skip
    assert (row.node, row.verdict) == ("node2", UNKNOWN)
    assert "No module named 'torch'" in row.value


def test_an_environment_that_loads_slowly_is_unknown_even_if_others_wait_in_vain():
    waiting = {rank: {"stage": "connected", "port": 1, "silent": 25.0} for rank in range(6)}
    row = row_of({**waiting, 5: {"stage": "started", "silent": 29.0}})
    assert (row.node, row.verdict) == ("node2", UNKNOWN)


def test_a_node_that_cannot_reach_the_head_is_bad():
    waiting = {rank: {"stage": "connected", "port": 41000, "silent": 20.0} for rank in range(6)}
    refused = {"stage": "imported", "port": 41000, "error": "DistNetworkError: connect timed out", "silent": 9.0}
    row = row_of({**waiting, 4: refused, 5: refused})
    assert (row.node, row.verdict) == ("node2", BAD)
    assert "port 41000: DistNetworkError" in row.value


def test_a_head_that_nobody_reaches_is_named_itself():
    refused = {"stage": "imported", "port": 41000, "error": "DistNetworkError: connect timed out"}
    waiting = {rank: {"stage": "connected", "port": 41000, "silent": 20.0} for rank in (0, 1)}
    row = row_of({**all_ranks(refused), **waiting})
    assert (row.node, row.verdict) == ("node0", BAD)


def test_without_a_port_of_rank_0_nothing_is_known():
    failed = {"stage": "imported", "error": "DistNetworkError: Address already in use"}
    assert {verdict for _, verdict in judged({**all_ranks({"stage": "imported"}), 0: failed})} == {UNKNOWN}


def test_the_rank_that_fails_by_itself_is_named_and_those_that_waited_for_it_are_not():
    late = {"stage": "gathered", "port": 1, "error": GLOO_TIMEOUT, "lasted": 12.0}
    row = row_of({**all_ranks(late), 2: {"stage": "gathered", "port": 1, "error": NO_INTERFACE, "lasted": 0.1}})
    assert (row.node, row.verdict) == ("node1", BAD)
    assert "gloo fails on rank 2" in row.value and "nonesuch0" in row.value


def test_a_failure_of_all_is_of_no_node():
    row = row_of(all_ranks({"stage": "gathered", "port": 1, "error": NO_INTERFACE, "lasted": 0.1}))
    assert (row.node, row.verdict) == ("", BAD)
    assert "6 of 6 ranks" in row.value


def test_ranks_that_hang_are_bad_and_the_one_that_is_behind_is_named():
    hanging = {"stage": "joined", "port": 1, "silent": 16.0}
    row = row_of({**all_ranks(hanging), 5: {"stage": "gathered", "port": 1, "silent": 16.0}})
    assert (row.node, row.verdict) == ("node2", BAD)
    row = row_of(all_ranks(hanging))
    assert (row.node, row.verdict) == ("", BAD)


def test_ranks_that_had_little_time_are_unknown():
    assert judged(all_ranks({"stage": "joined", "port": 1, "silent": 3.0})) == [("", UNKNOWN)]


@pytest.mark.parametrize(
    "answer", [None, {}, [], {"error": "FileNotFoundError: python"}, {"ranks": 3}, {"ranks": {"x": 3}}]
)
def test_a_node_without_reports_is_unknown(answer):
    cluster = cluster_of(3)
    nodes = list(cluster.nodes)
    nodes[1] = nodes[1]._replace(answers={} if answer is None else {"collective": answer})
    (row,) = STAGE.judge(cluster._replace(nodes=nodes))
    assert (row.node, row.verdict) == ("node1", UNKNOWN)


STRANGE = [
    {},
    {"stage": 3},
    {"stage": ["x"]},
    {"stage": "done", "seconds": "x"},
    {"error": None},
    {"silent": float("nan")},
]
STRANGE += [{"stage": "gathered", "lasted": "x", "error": 5}]


@pytest.mark.parametrize("report", STRANGE)
def test_strange_reports_end_no_check(report):
    assert STAGE.judge(cluster_of(3, reports={2: report}))
    assert STAGE.judge(cluster_of(3, reports=all_ranks(report)))


@pytest.mark.parametrize("asked", [{}, {"framework": "tensorflow"}, {**ASKED, "backend": "mpi"}, {"framework": "none"}])
def test_other_jobs_have_no_collective(asked):
    cluster = cluster_of(3, asked)
    assert not STAGE.orders(cluster)
    assert not STAGE.judge(cluster)


def test_a_script_that_names_a_backend_of_torch_has_a_collective_whatever_its_type():
    assert STAGE.orders(cluster_of(2, {"framework": "none", "backend": "gloo"}))
    assert not STAGE.orders(cluster_of(2, {"framework": "horovod", "backend": "gloo"}))


def test_one_rank_alone_has_no_collective_and_two_of_one_node_have():
    assert not STAGE.orders(cluster_of(1, {**ASKED, "ranks": 1}))
    (order,) = STAGE.orders(cluster_of(1)).values()
    assert (order["world"], order["count"], order["store"]) == (2, 2, None)


def test_orders_number_the_ranks_and_tell_all_but_the_head_where_the_store_is():
    orders = STAGE.orders(cluster_of(3))
    assert [order["first"] for order in orders.values()] == [0, 2, 4]
    assert [bool(order["store"]) for order in orders.values()] == [False, True, True]
    assert orders[0]["readers"] == 2


def test_the_backend_is_nccl_where_all_nodes_have_gpus_that_torch_can_use():
    gpus = {"gpus": [{"index": 0}, {"index": 1}], "torch": TORCH}
    assert STAGE.orders(cluster_of(2, {**ASKED, "ranks": 8}, gpus))[0] == {
        **STAGE.orders(cluster_of(2))[0], "backend": "nccl", "count": 2, "world": 4, "together": 25
    }  # fmt: skip
    for facts in ({**gpus, "torch": {"cuda": ""}}, {**gpus, "gpus": []}, {**gpus, "torch": None}, {"gpus": "x"}):
        assert STAGE.orders(cluster_of(2, None, facts))[0]["backend"] == "gloo"
    assert STAGE.orders(cluster_of(2, {**ASKED, "backend": "gloo"}, gpus))[0]["backend"] == "gloo"


def test_many_ranks_on_cpus_are_one_of_each_node():
    assert STAGE.orders(cluster_of(64, {**ASKED, "ranks": 8}))[0]["world"] == 64
    assert STAGE.orders(cluster_of(2, {**ASKED, "ranks": 48}))[0]["world"] == 2


def test_a_head_without_a_listener_has_no_collective():
    cluster = cluster_of(2)
    nodes = [node._replace(answers={}) for node in cluster.nodes]
    assert not STAGE.orders(cluster._replace(nodes=nodes))
