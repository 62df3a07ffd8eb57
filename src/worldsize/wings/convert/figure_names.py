"""The names that a loss is computed from, and the names that statements assign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from worldsize.wings.convert.definitions import target_names
from worldsize.wings.convert.program import SourceFile
from worldsize.wings.convert.syntax import calls_below, code, is_backward, last_name, loss_of, nodes_below

_QUESTIONS = ("isinstance", "hasattr", "type", "is_tensor", "dim", "ndimension", "is_floating_point", "is_complex")


def names_of_losses(file: SourceFile) -> Iterator[str]:
    """Yield the texts of the names and attributes in a file whose `backward` is called, such as "loss"."""
    for call in calls_below(file.module):
        loss = loss_of(call)
        if isinstance(loss, cst.Call) and last_name(loss.func) == "scale" and loss.args:
            loss = loss.args[0].value
        if isinstance(loss, (cst.Name, cst.Attribute)):
            yield code(loss)


def is_question(node: cst.CSTNode) -> bool:
    """Return whether a node is a test with the same result on every rank: `x is None`, `"mask" in batch`,
    `isinstance(x, dict)`."""
    if isinstance(node, cst.Comparison):
        is_key = isinstance(node.left, cst.SimpleString)
        same = (cst.Is, cst.IsNot, cst.In, cst.NotIn) if is_key else (cst.Is, cst.IsNot)
        return all(isinstance(each.operator, same) for each in node.comparisons)
    return isinstance(node, cst.Call) and last_name(node.func) in _QUESTIONS


def names_to_backward(nodes: Sequence[Any]) -> set[str]:
    """Return the names, among these nodes, that a loss is computed from whose `backward` is called, followed through
    assignments."""
    calls = [each for each in nodes if isinstance(each, cst.Call) and is_backward(each)]
    found = {name for call in calls for name in _values_in(call)}
    given = [each for each in nodes if isinstance(each, (cst.Assign, cst.AugAssign))]
    while True:
        before = len(found)
        for node in given:
            targets = [each.target for each in node.targets] if isinstance(node, cst.Assign) else [node.target]
            if {name for target in targets for name in target_names(target)} & found:
                found |= set(_values_in(node.value))
        if len(found) == before:
            return found


def _values_in(node: cst.CSTNode) -> Iterator[str]:
    for each in nodes_below(node):
        if isinstance(each, cst.Name) or (isinstance(each, cst.Attribute) and code(each.value) == "self"):
            yield code(each)


def names_assigned_in(nodes: Sequence[Any] | set[Any]) -> set[str]:
    return {name for each in nodes for target in _targets(each) for name in plain_names(target)}


def _targets(node: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(node, cst.Assign):
        return [each.target for each in node.targets]
    return [node.target] if isinstance(node, (cst.For, cst.AugAssign, cst.AnnAssign, cst.CompFor)) else []


def plain_names(target: cst.CSTNode) -> Iterator[str]:
    return (name for name in target_names(target) if name.isidentifier() or name.startswith("self."))
