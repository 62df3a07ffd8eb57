"""The answers about nodes in the form of HPC Pack 2016: lists of properties."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize_hpcpack_simulator.api.head import Answer, Call, HeadNode
from worldsize_hpcpack_simulator.api.node_routes import STATES
from worldsize_hpcpack_simulator.api.paging import parse_filter, parse_flag, sort_by_property
from worldsize_hpcpack_simulator.catalog import canonical_name
from worldsize_hpcpack_simulator.scheduler.cluster import SimulatedNode
from worldsize_hpcpack_simulator.wire import RequestRefused, date_text, names_in, to_objects, to_property_list


def _node_properties(node: SimulatedNode, head: HeadNode) -> dict[str, str]:
    return {
        "Id": str(node.number),
        "Name": node.name,
        "State": node.state,
        "Reachable": str(node.is_up),
        "Availability": "AlwaysOn",
        "Location": "OnPremise",
        "NumberOfCores": str(node.cores),
        "NumberOfSockets": str(node.sockets),
        "MemorySize": str(node.memory),
        "CpuSpeed": "2000",
        "NodeGroups": ",".join(sorted(node.groups)),
        "JobTypes": "Batch",
        "IsBusy": str(head.scheduler.is_busy(node)),
        "OnlineTime": date_text(node.since if node.state == "Online" else None),
        "OfflineTime": date_text(node.since if node.state == "Offline" else None),
    }


def _select_properties(shown: dict[str, str], wanted: Sequence[str]) -> dict[str, str]:
    names = [canonical_name(name, shown) for name in wanted]
    if None in names:
        raise RequestRefused(400, f"There is no property {wanted[names.index(None)]}.")
    return {str(name): shown[str(name)] for name in names} if wanted else shown


def list_nodes(head: HeadNode, call: Call) -> Answer:
    nodes = {node.number: node for node in head.cluster.nodes.values()}
    wanted = names_in(call.query.get("properties"))
    for node in nodes.values():
        _select_properties(_node_properties(node, head), wanted)
    page = head.pages.page("nodes", call.query, lambda: [(node.number,) for node in _select_nodes(head, call)])
    return Answer(
        to_objects(_select_properties(_node_properties(nodes[number], head), wanted) for (number,) in page.keys),
        headers=page.headers,
    )


def _select_nodes(head: HeadNode, call: Call) -> Sequence[SimulatedNode]:
    nodes = list(head.cluster.nodes.values())
    filters = parse_filter(call.query.get("$filter"), ("NodeState", "NodeGroup"))
    if "NodeState" in filters:
        state = canonical_name(filters["NodeState"], STATES)
        if state is None:
            raise RequestRefused(400, f"There is no node state {filters['NodeState']}.")
        nodes = [node for node in nodes if node.state == state]
    if "NodeGroup" in filters:
        nodes = [node for node in nodes if filters["NodeGroup"].lower() in map(str.lower, node.groups)]
    by = canonical_name(call.query.get("sortnodesby", ""), _node_properties(nodes[0], head)) if nodes else None
    return sort_by_property(
        nodes, lambda node: _node_properties(node, head)[by or "Id"], parse_flag(call.query, "asc", True)
    )


def read_node(head: HeadNode, call: Call) -> Answer:
    return Answer(
        to_property_list(
            _select_properties(_node_properties(head.node(call), head), names_in(call.query.get("properties")))
        )
    )


def list_groups(head: HeadNode, call: Call) -> Answer:
    return Answer(to_objects({"Name": name, "Description": text} for name, (text, _) in head.cluster.groups.items()))
