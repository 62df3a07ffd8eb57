"""What the head says where nodes have other variables of NCCL than most."""

import time

import pytest
from tests.unit.wings.checks.nodes import brief, nodes_of

from worldsize.wings.checks.agent.judgement.variables import OF_ONE_NODE, variable_rows

ACTIVE = [{"device": "mlx5_0", "port": 1, "state": "4: ACTIVE"}]


def facts(**variables):
    return {"nccl_variables": variables}


def rows(*given, **asked):
    return variable_rows(nodes_of(*given), asked)


def test_nodes_with_the_same_variables_have_one_row():
    assert brief(rows(facts(NCCL_DEBUG="INFO"), facts(NCCL_DEBUG="INFO"))) == [("", "ok", "2 nodes, 1 variables")]


def test_a_single_node_and_nodes_whose_variables_are_not_known_have_none():
    assert rows(facts()) == rows({}, {}) == rows() == []


def test_a_node_with_another_algorithm_is_bad():
    found = rows(facts(NCCL_ALGO="Ring"), facts(NCCL_ALGO="Ring"), facts(NCCL_ALGO="Tree"))
    assert brief(found) == [("node2", "bad", "NCCL_ALGO=TREE, the other 2 have RING")]
    assert "hangs" in found[0].hint


@pytest.mark.parametrize(
    "name, value, usual, verdict",
    [
        ("NCCL_ALGO", None, "Ring", "bad"),
        ("NCCL_ALGO", "ring", "Ring", "ok"),
        ("NCCL_PROTO", "LL", "Simple", "bad"),
        ("NCCL_NET", "Socket", "IB", "bad"),
        ("NCCL_NET", None, "IB", "warning"),
        ("NCCL_IB_DISABLE", "1", None, "warning"),
        ("NCCL_IB_DISABLE", "0", None, "ok"),
        ("NCCL_SOCKET_IFNAME", "eth1", "eth0", "ok"),
        ("NCCL_SOCKET_IFNAME", None, "eth0", "warning"),
        ("NCCL_NTHREADS", "256", "512", "warning"),
        *((name, "a", "b", "ok") for name in sorted(OF_ONE_NODE)),
    ],
)
def test_what_a_difference_means(name, value, usual, verdict):
    same, other = (facts(**({name: each} if each is not None else {})) for each in (usual, value))
    found = rows(same, same, other)
    assert [row.verdict for row in found] == [verdict]
    assert found[0].node == ("" if verdict == "ok" else "node2")


def test_a_node_with_infiniband_disabled_is_bad_where_there_is_infiniband():
    same = {**facts(), "fabric": ACTIVE}
    assert rows(same, same, facts(NCCL_IB_DISABLE="1"))[0].verdict == "bad"
    down = {**facts(), "fabric": [{"state": "1: DOWN"}, 5]}
    assert rows(down, down, facts(NCCL_IB_DISABLE="1"))[0].verdict == "warning"


@pytest.mark.parametrize("asked", [{"gpus": 0}, {"backend": "gloo"}, {"framework": "mpi"}])
def test_without_nccl_no_difference_is_bad(asked):
    assert rows(facts(NCCL_ALGO="Ring"), facts(NCCL_ALGO="Tree"), **asked)[0].verdict == "warning"


def test_other_libraries_variables_are_compared_too_and_all_is_one_row():
    same = {**facts(NCCL_ALGO="Ring"), "variables": {"UCX_TLS": "rc"}}
    other = {**facts(), "variables": {"UCX_TLS": "tcp"}}
    assert brief(rows(same, same, other)) == [
        ("node2", "bad", "NCCL_ALGO is not set, the other 2 have RING; UCX_TLS=tcp, the other 2 have rc")
    ]


def test_the_file_that_a_value_is_of_is_named():
    other = {**facts(NCCL_IB_DISABLE="1"), "nccl_files": {"NCCL_IB_DISABLE": "/etc/nccl.conf"}}
    assert rows(facts(), facts(), other)[0].value == "NCCL_IB_DISABLE=1 (of /etc/nccl.conf), the other 2 have none"


def test_a_node_whose_variables_are_not_known_is_unknown():
    assert brief(rows(facts(), {}, facts())) == [("node1", "unknown", "unknown")]


@pytest.mark.parametrize("strange", [[], "x", 5, None, {"NCCL_ALGO": ["\x1b\n"] * 500}, {1: 2}])
def test_strange_facts_never_raise(strange):
    given = {"nccl_variables": strange, "variables": strange, "nccl_files": strange, "fabric": strange}
    for row in rows(given, facts(NCCL_ALGO="Ring"), facts(NCCL_ALGO="Ring")):
        assert "\x1b" not in row.value and len(row.value) < 1000


def test_1000_nodes_are_compared_at_once():
    started = time.process_time()
    many = {"NCCL_%d" % index: "1" for index in range(50)}
    assert len(rows(*[facts(**many)] * 999, facts(**many, NCCL_ALGO="Ring"))) == 1
    assert time.process_time() - started < 1.0
