"""Who runs where: roles."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worldsize.plan.plan import NodePlan, node_major_layout
from worldsize.wings.frameworks.tensorflow import role_layout


def named(nodes: tuple[NodePlan, ...]) -> list[list[str]]:
    return [["%s%d" % (rank.role, rank.role_index) for rank in node.ranks] for node in nodes]


def test_equal_roles_in_shares_and_the_others_where_there_is_room() -> None:
    assert named(role_layout(2, ("worker",) * 2, ("ps",))) == [["worker0", "ps0"], ["worker1"]]
    assert named(role_layout(2, ("chief", "worker", "worker"), ("ps", "evaluator"))) == [
        ["chief0", "worker0", "evaluator0"],
        ["worker1", "ps0"],
    ]
    assert named(role_layout(3, ("worker",) * 2, ("ps",))) == [["worker0"], ["worker1"], ["ps0"]]
    assert named(role_layout(2, ("worker",) * 5)) == [["worker0", "worker1", "worker2"], ["worker3", "worker4"]]
    assert role_layout(3, ("worker",) * 6) == node_major_layout(3, 2)


@given(st.integers(1, 7), st.integers(1, 20), st.integers(0, 5))
def test_nobody_is_left_out(nodes: int, workers: int, servers: int) -> None:
    placed = role_layout(nodes, ("worker",) * workers, ("ps",) * servers)
    ranks = [rank for node in placed for rank in node.ranks]
    assert [node.node_rank for node in placed] == list(range(nodes))
    assert [rank.rank for rank in ranks] == list(range(workers + servers))
    assert [rank.role_index for rank in ranks if rank.role == "worker"] == list(range(workers))
    assert [rank.role_index for rank in ranks if rank.role == "ps"] == list(range(servers))
    assert all([rank.local_rank for rank in node.ranks] == list(range(len(node.ranks))) for node in placed)
    shares = [sum(rank.role == "worker" for rank in node.ranks) for node in placed]
    assert max(shares) - min(shares) <= 1 and shares == sorted(shares, reverse=True)
    assert workers + servers < nodes or all(node.ranks for node in placed)
