"""The head's knowledge of all nodes during a check.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple, Protocol
from worldsize.state.check_rows import CheckRow


class CheckedNode(NamedTuple):
    """A node, as the head knows it.

    address  the IP address under which the other nodes reach it, as the head sees it; "" if it is not known
    facts    the facts of all its probes, by their names
    answers  its answer in each stage that is over, by the stage's name
    """

    node_rank: int
    host: str
    label: str
    address: str = ""
    facts: Mapping[str, Any] = {}
    answers: Mapping[str, Mapping[str, Any]] = {}


class Cluster(NamedTuple):
    """All nodes, in the order of their ranks. `asked` and `mode` are as in NodeContext."""

    nodes: Sequence[CheckedNode]
    asked: Mapping[str, Any] = {}
    mode: str = "full"


class Stage(Protocol):
    """A part of a check that several nodes do at the same time, and that the head judges. Both methods are pure.

    name   the module of `measure/` whose `run(context, order)` each node executes, and the key of its answers
    limit  seconds from the orders to the answers: a node that is later has no answer
    """

    name: str
    limit: float

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return the order that each node receives in this stage of the node check, by the node's rank. A node without
        an order does nothing. A stage without any orders is judged at once."""

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows of the node check's table that follow from the answers of this stage, once these are in
        `cluster.nodes[…].answers[name]`. A node that is late has no answer, and a node on which `run` raised an
        exception has only `error` (a text)."""
