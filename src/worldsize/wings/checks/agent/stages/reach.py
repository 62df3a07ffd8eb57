"""The stage in which each node looks up the names of other nodes, connects to their ports, and requests the time of the
head.

Every node connects to the head and to the nodes before and after it, so that each node is reached from two others. With
up to 16 nodes, each looks up the names of all others. With more, it looks up those of the head, its neighbours and a
few others.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.answers import are_real_nodes
from worldsize.wings.checks.agent.judgement.clocks import ClockOffset, clock_rows
from worldsize.wings.checks.agent.judgement.interfaces import interface_rows
from worldsize.wings.checks.agent.judgement.latency import latency_rows
from worldsize.wings.checks.agent.judgement.names import name_rows
from worldsize.wings.checks.agent.judgement.ports import port_rows
from worldsize.wings.checks.agent.judgement.reach_answers import reach_answer_of
from worldsize.wings.checks.agent.stages.listen import listener_of

_ALL_NAMES_UP_TO = 16

_MORE_NAMES = 4
"""The number of names that a node looks up if there are many nodes, in addition to those of the nodes that it connects
to."""


class ReachStage:
    """The stage `reach`, which measures the connections between nodes. It does nothing on virtual nodes, which are one
    machine, and on a single node."""

    name = "reach"
    limit = 13.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return a mapping of node rank to the node's order for the connection test: its `peers`, and the ranks of the
        peers with which it measures the `latency` and the `clock`. Return an empty mapping for virtual nodes and for a
        single node.

        A peer has `rank`, `host`, and the `address`, `port`, `second_port` and `token` of its listener. `link` and
        `name` state whether to connect to it and whether to look up its name.
        """
        if not are_real_nodes(cluster):
            return {}
        listeners = [listener_of(node) for node in cluster.nodes]
        return {node.node_rank: _order(cluster.nodes, index, listeners) for index, node in enumerate(cluster.nodes)}

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the node check's rows about the names, ports, latency, interfaces and clocks of the nodes, from their
        answers in the stage `reach`. Return no rows for virtual nodes and for a single node."""
        nodes = cluster.nodes
        if not are_real_nodes(cluster):
            return ()
        answers = {node.node_rank: reach_answer_of(node.answers.get(self.name)) for node in nodes}
        offsets = {rank: answer.clock for rank, answer in answers.items() if answer and answer.clock}
        offsets[nodes[0].node_rank] = ClockOffset(0.0, 0.0)
        return (
            *name_rows(nodes, answers, cluster.asked),
            *port_rows(nodes, answers),
            *latency_rows(nodes, answers),
            *interface_rows(nodes, answers, cluster.asked),
            *clock_rows(nodes, offsets),
        )


def _order(
    nodes: Sequence[CheckedNode], index: int, listeners: Sequence[Mapping[str, Any] | None]
) -> Mapping[str, Any]:
    count = len(nodes)
    linked = [each for each in dict.fromkeys((0, (index + 1) % count, (index - 1) % count)) if each != index]
    named = set(linked) | set(_more_names(index, count))
    peers = []
    for each in [*linked, *sorted(named.difference(linked))]:
        listener = listeners[each]
        if listener is not None:
            who = {"rank": nodes[each].node_rank, "host": nodes[each].host}
            peers.append({**who, **listener, "link": each in linked, "name": each in named})
    clock = nodes[0].node_rank if index else None
    return {"peers": peers, "latency": nodes[(index + 1) % count].node_rank, "clock": clock}


def _more_names(index: int, count: int) -> Sequence[int]:
    """Return the indices of further nodes whose names the node with this `index` of `count` nodes looks up. Up to 16
    nodes, these are all others; with more, a few that are spread evenly."""
    if count <= _ALL_NAMES_UP_TO:
        return [each for each in range(count) if each != index]
    step = count // (_MORE_NAMES + 1)
    return [(index + step * number) % count for number in range(1, _MORE_NAMES + 1)]


STAGE = ReachStage()
