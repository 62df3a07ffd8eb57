"""The answers about nodes and node groups, in both generations of paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from worldsize_hpcpack_simulator.api.auth import check_administrator
from worldsize_hpcpack_simulator.api.head import Answer, Call, HeadNode
from worldsize_hpcpack_simulator.api.power import OPERATIONS, operate
from worldsize_hpcpack_simulator.catalog import canonical_name
from worldsize_hpcpack_simulator.scheduler.cluster import SimulatedNode
from worldsize_hpcpack_simulator.wire import RequestRefused, names_in

STATES = (
    *("Unknown", "Provisioning", "Offline", "Starting", "Online", "Draining", "Rejected", "Removing"),
    *("NotDeployed", "Stopping"),
)
HEALTH = ("OK", "Warning", "Error", "Transitional", "Unapproved")


def _node_object(node: SimulatedNode, head: HeadNode) -> dict[str, object]:
    return {
        "Name": node.name,
        "State": node.state,
        "Health": node.health,
        "Template": "LinuxNode Template",
        "Location": "",
        "MemorySize": node.memory,
        "Cores": node.cores,
        "Sockets": node.sockets,
        "HpcPackVersion": head.options.version,
        "OnAzure": False,
        "Groups": sorted(node.groups),
        "Roles": ["LinuxNode"],
        "InstalledServiceRoles": ["LinuxNode"],
        "ActiveServiceRoles": ["LinuxNode"],
    }


def list_nodes(head: HeadNode, call: Call) -> Answer:
    nodes = list(head.cluster.nodes.values())
    if call.query.get("names"):
        wanted = [name.lower() for name in names_in(call.query["names"])]
        nodes = [node for node in nodes if node.name.lower() in wanted]
    if call.query.get("jobs"):
        ids = set(names_in(call.query["jobs"]))
        used = {name for each in ids for name in _nodes_of_job(head, each)}
        nodes = [node for node in nodes if node.name in used]
    if call.query.get("group"):
        nodes = [node for node in nodes if call.query["group"].lower() in map(str.lower, node.groups)]
    state, health = _parse_choice(call, "state", STATES), _parse_choice(call, "health", HEALTH)
    nodes = [node for node in nodes if state in (None, node.state) and health in (None, node.health)]
    return Answer([_node_object(node, head) for node in nodes])


def _nodes_of_job(head: HeadNode, text: str) -> list[str]:
    job = head.scheduler.jobs.get(int(text)) if text.isascii() and text.isdigit() and len(text) < 11 else None
    return job.nodes if job is not None else []


def _parse_choice(call: Call, name: str, known: Sequence[str]) -> str | None:
    if name not in call.query:
        return None
    found = canonical_name(call.query[name], known)
    if found is None:
        raise RequestRefused(400, f"There is no node {name} {call.query[name]!r}.")
    return found


def read_node(head: HeadNode, call: Call) -> Answer:
    return Answer(_node_object(head.node(call), head))


def operate_node(head: HeadNode, call: Call) -> Answer:
    """Start the operation in the request's path (such as reboot or takeOffline) on a node. It is accepted at once
    (202); the node's state shows the result later. Raise RequestRefused if the operation is unknown, or the user is no
    administrator."""
    node = head.node(call)
    check_administrator(call.user)
    operation = canonical_name(call.path["operation"], OPERATIONS)
    if operation is None:
        raise RequestRefused(400, f"There is no operation {call.path['operation']}; there are {', '.join(OPERATIONS)}.")
    operate(head.cluster, node, operation)
    head.log(f"{operation} node {node.name}", call.user.name, node.name, "The operation was accepted.")
    return Answer(status=202)


def count_states(head: HeadNode, call: Call) -> Answer:
    counts = Counter(node.state for node in head.cluster.nodes.values())
    return Answer([{"Name": name, "Value": counts[name]} for name in STATES if counts[name]])


def count_health(head: HeadNode, call: Call) -> Answer:
    counts = Counter(node.health for node in head.cluster.nodes.values())
    return Answer([{"Name": name, "Value": counts[name]} for name in HEALTH if counts[name]])
