"""Each node looks for others: by their names, at their ports, and asks the head for its time.

Every node connects to the head, and to the nodes before and after it, so that each is reached from two others. Of up to
16 nodes each looks up the names of all; of more those of the head, its neighbours and a few.

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
"""Names that a node looks up of many nodes, beside those of the nodes that it connects to."""


class ReachStage:
    """What nodes can reach of each other. Nothing of virtual nodes, which are one machine, nor of a single node."""

    name = "reach"
    limit = 13.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """For each node: its `peers`, and of which the `latency` and the `clock` are asked, by their ranks.

        A peer has `rank`, `host`, the `address`, `port`, `second_port` and `token` of its listener, and says by `link`
        and `name` what it is for.
        """
        if not are_real_nodes(cluster):
            return {}
        listeners = [listener_of(node) for node in cluster.nodes]
        return {node.node_rank: _order(cluster.nodes, index, listeners) for index, node in enumerate(cluster.nodes)}

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows of ports, names, latency, interfaces and clocks."""
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
    """Others whose names this node looks up: all of few nodes; of many, some that are spread evenly."""
    if count <= _ALL_NAMES_UP_TO:
        return [each for each in range(count) if each != index]
    step = count // (_MORE_NAMES + 1)
    return [(index + step * number) % count for number in range(1, _MORE_NAMES + 1)]


STAGE = ReachStage()
