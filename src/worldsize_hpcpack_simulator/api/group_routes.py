"""The answers about node groups."""

from __future__ import annotations

from worldsize_hpcpack_simulator.api.auth import check_administrator
from worldsize_hpcpack_simulator.api.head import DONE, Answer, Call, HeadNode
from worldsize_hpcpack_simulator.wire import RequestRefused


def _group_object(head: HeadNode, name: str) -> dict[str, object]:
    text, managed = head.cluster.groups[name]
    return {"Name": name, "Description": text, "Managed": managed}


def list_groups(head: HeadNode, call: Call) -> Answer:
    return Answer([_group_object(head, name) for name in head.cluster.groups])


def read_group(head: HeadNode, call: Call) -> Answer:
    return Answer(_group_object(head, head.group(call)))


def _body_fields(body: object) -> dict[str, object]:
    """Return the fields of a request's JSON body by lower-case name. Raise RequestRefused if the body is no object."""
    if not isinstance(body, dict):
        raise RequestRefused(400, "The request body is not an object.")
    return {str(name).lower(): value for name, value in body.items()}


def _text_field(words: dict[str, object], name: str, default: str = "") -> str:
    value = words.get(name.lower(), default)
    if not isinstance(value, str):
        raise RequestRefused(400, f"{name} is not a string.")
    return value


def create_group(head: HeadNode, call: Call) -> Answer:
    check_administrator(call.user)
    words = _body_fields(call.body)
    name, text = _text_field(words, "Name").strip(), _text_field(words, "Description")
    if not name or set(name) & set(",/\\\0"):
        raise RequestRefused(400, f"{name!r} is not a node group name.")
    if name.lower() in map(str.lower, head.cluster.groups):
        raise RequestRefused(409, f"There is a node group {name} already.")
    _check_managed(words)
    head.cluster.groups[name] = (text, False)
    head.log(f"Create node group {name}", call.user.name, "(cluster)", "The group was created.")
    return Answer(_group_object(head, name))


def _check_managed(words: dict[str, object]) -> None:
    if not isinstance(words.get("managed", False), bool):
        raise RequestRefused(400, "Managed is true or false.")


def _changeable_group(head: HeadNode, call: Call) -> str:
    """Return the name of the node group in the request's path. Raise RequestRefused if the cluster itself manages the
    group, if it does not exist, or if the user is no administrator."""
    check_administrator(call.user)
    name = head.group(call)
    if head.cluster.groups[name][1]:
        raise RequestRefused(400, f"The node group {name} is managed by the cluster and cannot be changed.")
    return name


def change_group(head: HeadNode, call: Call) -> Answer:
    name, words = _changeable_group(head, call), _body_fields(call.body)
    renamed, text = (
        _text_field(words, "Name", name).strip() or name,
        _text_field(words, "Description", head.cluster.groups[name][0]),
    )
    _check_managed(words)
    if renamed.lower() != name.lower() and renamed.lower() in map(str.lower, head.cluster.groups):
        raise RequestRefused(409, f"There is a node group {renamed} already.")
    head.cluster.groups = {
        renamed if each == name else each: (text, False) if each == name else value
        for each, value in head.cluster.groups.items()
    }
    for node in head.cluster.nodes.values():
        node.groups = {renamed if each == name else each for each in node.groups}
    return Answer(_group_object(head, renamed))


def delete_group(head: HeadNode, call: Call) -> Answer:
    name = _changeable_group(head, call)
    del head.cluster.groups[name]
    for node in head.cluster.nodes.values():
        node.groups.discard(name)
    head.log(f"Delete node group {name}", call.user.name, "(cluster)", "The group was deleted.")
    return DONE


def list_members(head: HeadNode, call: Call) -> Answer:
    return Answer(_member_names(head, head.group(call)))


def _member_names(head: HeadNode, name: str) -> list[str]:
    return [node.name for node in head.cluster.nodes.values() if name in node.groups]


def change_members(head: HeadNode, call: Call) -> Answer:
    """Add the nodes that the request's body names to a node group, or remove them from it. Answer with the names of the
    group's members. Raise RequestRefused if the body is not valid."""
    name, words = _changeable_group(head, call), _body_fields(call.body)
    operation, names = _text_field(words, "Operation").lower(), words.get("nodenames", [])
    if operation not in ("add", "remove"):
        raise RequestRefused(400, "Operation is add or remove.")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise RequestRefused(400, "NodeNames is not a list of names.")
    if _text_field(words, "GroupName", name).lower() != name.lower():
        raise RequestRefused(400, "GroupName is not the group of the path.")
    nodes = [head.cluster.node(each) for each in names]
    if None in nodes:
        raise RequestRefused(400, f"The node {names[nodes.index(None)]} does not exist.")
    for node in nodes:
        if node is not None:
            (node.groups.add if operation == "add" else node.groups.discard)(name)
    return Answer(_member_names(head, name))
