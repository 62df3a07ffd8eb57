"""The stage that compares the nodes' facts."""

from tests.unit.wings.checks.nodes import nodes_of

from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.stages.same import STAGE

FACTS = {"python": "3.11.2", "nccl_variables": {}}


def ids(facts, **asked):
    return {row.id for row in STAGE.judge(Cluster(nodes_of(*facts), asked))}


def test_versions_and_variables_are_compared_without_any_order():
    assert STAGE.orders(Cluster(nodes_of(FACTS, FACTS))) == {}
    assert ids([FACTS, FACTS]) >= {"same.versions", "same.variables"}


def test_virtual_nodes_and_a_single_one_are_not_compared():
    assert ids([FACTS, FACTS], virtual=True) == ids([FACTS]) == set()
