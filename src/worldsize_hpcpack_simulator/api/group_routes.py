"""Answers about node groups."""

from __future__ import annotations

from worldsize_hpcpack_simulator.api.auth import administers
from worldsize_hpcpack_simulator.api.head import DONE, Answer, Call, Head
from worldsize_hpcpack_simulator.wire import Refused


def _group(head: Head, name: str) -> dict[str, object]:
    text, managed = head.cluster.groups[name]
    return {"Name": name, "Description": text, "Managed": managed}


def list_groups(head: Head, call: Call) -> Answer:
    return Answer([_group(head, name) for name in head.cluster.groups])


def read_group(head: Head, call: Call) -> Answer:
    return Answer(_group(head, head.group(call)))


def _words(body: object) -> dict[str, object]:
    """Refused: the body is no object."""
    if not isinstance(body, dict):
        raise Refused(400, "The request body is no object.")
    return {str(name).lower(): value for name, value in body.items()}


def _text(words: dict[str, object], name: str, default: str = "") -> str:
    value = words.get(name.lower(), default)
    if not isinstance(value, str):
        raise Refused(400, "%s is not a string." % name)
    return value


def create_group(head: Head, call: Call) -> Answer:
    administers(call.user)
    words = _words(call.body)
    name, text = _text(words, "Name").strip(), _text(words, "Description")
    if not name or set(name) & set(",/\\\0"):
        raise Refused(400, "%r is no name of a node group." % name)
    if name.lower() in map(str.lower, head.cluster.groups):
        raise Refused(409, "There is a node group %s already." % name)
    _managed(words)
    head.cluster.groups[name] = (text, False)
    head.log("Create node group %s" % name, call.user.name, "(cluster)", "The group was created.")
    return Answer(_group(head, name))


def _managed(words: dict[str, object]) -> None:
    if not isinstance(words.get("managed", False), bool):
        raise Refused(400, "Managed is true or false.")


def _own_group(head: Head, call: Call) -> str:
    """Refused: it is one of the cluster's own."""
    administers(call.user)
    name = head.group(call)
    if head.cluster.groups[name][1]:
        raise Refused(400, "The node group %s is managed by the cluster and cannot be changed." % name)
    return name


def change_group(head: Head, call: Call) -> Answer:
    name, words = _own_group(head, call), _words(call.body)
    renamed, text = (
        _text(words, "Name", name).strip() or name,
        _text(words, "Description", head.cluster.groups[name][0]),
    )
    _managed(words)
    if renamed.lower() != name.lower() and renamed.lower() in map(str.lower, head.cluster.groups):
        raise Refused(409, "There is a node group %s already." % renamed)
    head.cluster.groups = {
        renamed if each == name else each: (text, False) if each == name else value
        for each, value in head.cluster.groups.items()
    }
    for node in head.cluster.nodes.values():
        node.groups = {renamed if each == name else each for each in node.groups}
    return Answer(_group(head, renamed))


def delete_group(head: Head, call: Call) -> Answer:
    name = _own_group(head, call)
    del head.cluster.groups[name]
    for node in head.cluster.nodes.values():
        node.groups.discard(name)
    head.log("Delete node group %s" % name, call.user.name, "(cluster)", "The group was deleted.")
    return DONE


def members(head: Head, call: Call) -> Answer:
    return Answer(_members(head, head.group(call)))


def _members(head: Head, name: str) -> list[str]:
    return [node.name for node in head.cluster.nodes.values() if name in node.groups]


def move(head: Head, call: Call) -> Answer:
    """Adds nodes to a group, or removes them from it."""
    name, words = _own_group(head, call), _words(call.body)
    operation, names = _text(words, "Operation").lower(), words.get("nodenames", [])
    if operation not in ("add", "remove"):
        raise Refused(400, "Operation is add or remove.")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise Refused(400, "NodeNames is not a list of names.")
    if _text(words, "GroupName", name).lower() != name.lower():
        raise Refused(400, "GroupName is not the group of the path.")
    nodes = [head.cluster.node(each) for each in names]
    if None in nodes:
        raise Refused(400, "The node %s does not exist." % names[nodes.index(None)])
    for node in nodes:
        if node is not None:
            (node.groups.add if operation == "add" else node.groups.discard)(name)
    return Answer(_members(head, name))
