"""What the head knows of all nodes of a check while it goes on.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple, Protocol
from worldsize.state.check_rows import CheckRow


class CheckedNode(NamedTuple):
    """One node, as the head knows it.

    address  the IP address under which the other nodes reach it, in the head's view; "" where it is not known
    facts    of all its probes, by the facts' names
    answers  what it said in each stage that is over, by the stage's name
    """

    node_rank: int
    host: str
    label: str
    address: str = ""
    facts: Mapping[str, Any] = {}
    answers: Mapping[str, Mapping[str, Any]] = {}


class Cluster(NamedTuple):
    """All nodes, in the order of their ranks; `asked` and `mode` as in NodeContext."""

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
        """What each node, by its rank, is to do. A node without an order does nothing; a stage without any is judged at
        once."""

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows, once the answers are in `cluster.nodes[…].answers[name]`: none of a node that is late, and
        only `error` (a text) of one on which `run` raised."""
