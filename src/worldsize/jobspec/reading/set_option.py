"""One `--set key=value` applied to a job's tree."""

from __future__ import annotations

from typing import Any

from worldsize.errors import JobError
from worldsize.jobspec.keys.job import JOB
from worldsize.jobspec.keys.key import Keys
from worldsize.jobspec.reading.nearest import did_you_mean
from worldsize.jobspec.reading.tree import MAX_DEPTH, YamlNode

_OPEN_MAPS = ("text_map", "labels")
_DECLARED = ("inputs", "outputs")


def with_setting(root: YamlNode, setting: str) -> YamlNode:
    """A copy of `root` with the setting in it. Raises JobError for what is no setting or has no place in a job."""
    name, equals, text = setting.partition("=")
    name = name.strip()
    if not equals or not name:
        raise JobError(f"{name!r:.60} is not a setting", "--set", "write key=value, such as inputs.lr=0.1")
    where = f"--set {name[:100]}"
    path = _split_key(name, where)
    _check_declared(root, path, where)
    if path[0] == "command" and "argv" in root.value:
        raise JobError("the job has no shell command, but exact words", where, "set argv=[…] instead")
    return _with_leaf(root, path, read_setting(text, where), where)


def _split_key(name: str, where: str) -> list[str]:
    """The steps of a path. Below a mapping of free names everything is one name, dots and all."""
    first, _, rest = name.partition(".")
    if rest and first in JOB and JOB[first].kind in _OPEN_MAPS:
        return [first, rest]
    path = name.split(".")
    if "" in path or len(path) > MAX_DEPTH:
        raise JobError("not a key", where, "write key=value, such as inputs.lr=0.1")
    if first not in JOB:
        keys: Keys = JOB
        raise JobError(f"{first!r:.60} is not a key of a job", where, did_you_mean(first, keys))
    return path


def _check_declared(root: YamlNode, path: list[str], where: str) -> None:
    """Inputs and outputs must exist already: a new one that the command does not use would be a slip."""
    if path[0] not in _DECLARED or len(path) < 2:
        return
    section = root.value.get(path[0])
    names = list(section.value) if section and isinstance(section.value, dict) else []
    if path[1] not in names:
        what = f"the job has no {path[0][:-1]} {path[1]!r:.60}"
        raise JobError(what, where, did_you_mean(path[1], names, "it has"))


def _with_leaf(node: YamlNode, path: list[str], leaf: YamlNode, where: str) -> YamlNode:
    children: dict[str, YamlNode] = node.value if isinstance(node.value, dict) else {}
    if node.value is not None and not isinstance(node.value, dict):
        raise JobError(f"{where[len('--set ') :].rpartition('.')[0]} is {node.kind}, which has no keys", where)
    head, rest = path[0], path[1:]
    child = _with_leaf(children.get(head, leaf._replace(value=None)), rest, leaf, where) if rest else leaf
    return node._replace(value={**children, head: child})


def read_setting(text: str, where: str) -> YamlNode:
    """A value as typed: a quoted scalar, a list or mapping in brackets, or a plain scalar with its YAML type."""
    from worldsize.jobspec.reading.yaml import parse_yaml, plain_scalar

    if text[:1] in ("'", '"', "[", "{"):
        try:
            node = parse_yaml(text, where, loose=True)
        except JobError:
            node = None
        if node is not None:
            quoted = isinstance(node.value, str)
            return node._replace(line=0, text=node.value if quoted else text)
    value: Any = plain_scalar(text, where)
    return YamlNode(value, text, where, 0, True)
