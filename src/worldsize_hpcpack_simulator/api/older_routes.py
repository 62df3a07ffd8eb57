"""Answers about nodes as HPC Pack 2016 gives them: lists of properties."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize_hpcpack_simulator.api.head import Answer, Call, Head
from worldsize_hpcpack_simulator.api.node_routes import STATES
from worldsize_hpcpack_simulator.api.paging import clauses, ordered, truth
from worldsize_hpcpack_simulator.catalog import canonical
from worldsize_hpcpack_simulator.scheduler.cluster import Node
from worldsize_hpcpack_simulator.wire import Refused, date, listed, names_in, objects


def _listed(node: Node, head: Head) -> dict[str, str]:
    return {
        "Id": str(node.number),
        "Name": node.name,
        "State": node.state,
        "Reachable": str(node.up),
        "Availability": "AlwaysOn",
        "Location": "OnPremise",
        "NumberOfCores": str(node.cores),
        "NumberOfSockets": str(node.sockets),
        "MemorySize": str(node.memory),
        "CpuSpeed": "2000",
        "NodeGroups": ",".join(sorted(node.groups)),
        "JobTypes": "Batch",
        "IsBusy": str(head.scheduler.busy(node)),
        "OnlineTime": date(node.since if node.state == "Online" else None),
        "OfflineTime": date(node.since if node.state == "Offline" else None),
    }


def _some(shown: dict[str, str], wanted: Sequence[str]) -> dict[str, str]:
    names = [canonical(name, shown) for name in wanted]
    if None in names:
        raise Refused(400, "There is no property %s." % wanted[names.index(None)])
    return {str(name): shown[str(name)] for name in names} if wanted else shown


def list_nodes(head: Head, call: Call) -> Answer:
    nodes = {node.number: node for node in head.cluster.nodes.values()}
    wanted = names_in(call.query.get("properties"))
    for node in nodes.values():
        _some(_listed(node, head), wanted)
    page = head.pages.page("nodes", call.query, lambda: [(node.number,) for node in _chosen(head, call)])
    return Answer(objects(_some(_listed(nodes[number], head), wanted) for (number,) in page.keys), headers=page.headers)


def _chosen(head: Head, call: Call) -> Sequence[Node]:
    nodes = list(head.cluster.nodes.values())
    filters = clauses(call.query.get("$filter"), ("NodeState", "NodeGroup"))
    if "NodeState" in filters:
        state = canonical(filters["NodeState"], STATES)
        if state is None:
            raise Refused(400, "There is no node state %s." % filters["NodeState"])
        nodes = [node for node in nodes if node.state == state]
    if "NodeGroup" in filters:
        nodes = [node for node in nodes if filters["NodeGroup"].lower() in map(str.lower, node.groups)]
    by = canonical(call.query.get("sortnodesby", ""), _listed(nodes[0], head)) if nodes else None
    return ordered(nodes, lambda node: _listed(node, head)[by or "Id"], truth(call.query, "asc", True))


def read_node(head: Head, call: Call) -> Answer:
    return Answer(listed(_some(_listed(head.node(call), head), names_in(call.query.get("properties")))))


def list_groups(head: Head, call: Call) -> Answer:
    return Answer(objects({"Name": name, "Description": text} for name, (text, _) in head.cluster.groups.items()))
