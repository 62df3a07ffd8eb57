"""The statements that may have assigned the value which a name has at some place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from worldsize.wings.convert.program import SourceFile
from worldsize.wings.convert.syntax import code, nodes_below


class Definition(NamedTuple):
    """A definition of a name. `node` is the statement or loop. `value` is the expression that is assigned, added or
    iterated over. `place` is the index of the element, if the value is unpacked. `operator` is that of `name += value`.
    """

    node: cst.CSTNode
    value: cst.BaseExpression
    place: int | None = None
    operator: cst.BaseAugOp | None = None
    is_loop: bool = False


class Definitions:
    """The definitions of names in one file of the training."""

    def __init__(self, file: SourceFile) -> None:
        self._file = file
        self._by_scope: dict[cst.CSTNode, dict[str, list[Definition]]] = {}
        for node in nodes_below(file.module):
            for text, definition in _definitions(node):
                scope = self._by_scope.setdefault(file.function_around(node), {})
                scope.setdefault(text, []).append(definition)

    def reaching(self, use: cst.CSTNode, scope: cst.CSTNode) -> tuple[list[Definition], bool]:
        """Return the definitions, in the order of the text, that the value of `use`, a name or attribute in the
        function `scope`, may come from, and whether the first of them is certainly executed before `use`. Definitions
        are found by the text of their target."""
        found = self._by_scope.get(scope, {}).get(code(use), [])
        around = {use, *self._file.around(use)}
        line = self._file.line(use)
        before = [
            each
            for each in found
            if self._file.line(each.node) <= line and (each.node not in around or _gives_inside(each, around))
        ]
        for place in reversed(range(len(before))):
            if before[place].operator is None and self._is_sure(before[place], around):
                return before[place:], True
        return before or [each for each in found if each.node not in around], False

    def anywhere(self, text: str) -> list[Definition]:
        """Return the definitions of a name or attribute, such as "self.loader", in all functions of the file."""
        return [each for scope in self._by_scope.values() for each in scope.get(text, ())]

    def _is_sure(self, definition: Definition, around: set[cst.CSTNode]) -> bool:
        if definition.is_loop or isinstance(definition.node, cst.With):
            return definition.node in around
        for each in self._file.around(definition.node):
            if isinstance(each, (cst.BaseSuite, cst.Module)) and not isinstance(
                self._parent(each), (cst.With, cst.Try)
            ):
                return each in around
        return False

    def _parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return next(self._file.around(node), None)


def _gives_inside(definition: Definition, around: set[cst.CSTNode]) -> bool:
    node = definition.node
    return isinstance(node, (cst.For, cst.With)) and node.body in around


def _definitions(node: cst.CSTNode) -> Iterator[tuple[str, Definition]]:
    if isinstance(node, cst.Assign):
        for target in node.targets:
            yield from _parts(target.target, node.value, node)
    elif isinstance(node, cst.AnnAssign) and node.value is not None:
        yield code(node.target), Definition(node, node.value)
    elif isinstance(node, cst.AugAssign):
        yield code(node.target), Definition(node, node.value, operator=node.operator)
    elif isinstance(node, cst.NamedExpr):
        yield code(node.target), Definition(node, node.value)
    elif isinstance(node, cst.For):
        for place, name in enumerate(target_names(node.target)):
            yield name, Definition(node, node.iter, place, is_loop=True)
    elif isinstance(node, cst.With):
        for item in node.items:
            if item.asname is not None:
                yield code(item.asname.name), Definition(node, item.item)


def _parts(
    target: cst.BaseExpression, value: cst.BaseExpression, node: cst.CSTNode
) -> Iterator[tuple[str, Definition]]:
    """Yield pairs (text of the target, Definition) for the targets of an assignment such as `a, b = c, d` or `a, b =
    pair`."""
    if not isinstance(target, (cst.Tuple, cst.List)):
        yield code(target), Definition(node, value)
    elif isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements):
        for one, other in zip(target.elements, value.elements, strict=True):
            yield from _parts(one.value, other.value, node)
    else:
        for place, element in enumerate(target.elements):
            inner = element.value
            if isinstance(inner, (cst.Tuple, cst.List)):
                for name in target_names(inner):
                    yield name, Definition(node, value, place)
            else:
                yield code(inner), Definition(node, value, place)


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """Yield the texts of the single targets of an assignment, such as "a" and "self.b" for `a, self.b = …`."""
    if isinstance(target, cst.StarredElement):
        target = target.value
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)
    else:
        yield code(target)
