"""The sources of a training's batches: the loops that lead to a backward call, and the expressions that they iterate
over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import (
    GOES_THROUGH,
    code,
    first_name,
    is_counting,
    last_name,
    nodes_below,
    own_nodes,
)

_LOADER = "DataLoader"
_DEEPEST = 6


class BatchSources:
    """The sources of batches in a program. `shared` are the expressions, with their files, whose batches are trained
    with; each may be a loader. `bodies` are the bodies of the loops that train, with the names that get the batch."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self.shared: list[tuple[SourceFile, cst.BaseExpression]] = []
        self.bodies: list[tuple[SourceFile, cst.CSTNode, set[str]]] = []
        self._seen: set[cst.CSTNode] = set()
        for file in program.files:
            for node in nodes_below(file.module):
                if isinstance(node, (cst.For, cst.While)) and program.trains(file, node.body):
                    self._take_loop(file, node)
                elif isinstance(node, (cst.ListComp, cst.GeneratorExp)) and program.trains(file, node.elt):
                    self._take(file, node.for_in.iter, 0)
                    self.bodies.append((file, node.elt, _names(node.for_in.target)))

    def _take_loop(self, file: SourceFile, loop: cst.For | cst.While) -> None:
        if isinstance(loop, cst.For):
            if not is_counting(loop.iter) and not isinstance(loop.iter, (cst.List, cst.Tuple)):
                self.bodies.append((file, loop.body, self._batch_names(file, loop.target, loop.iter)))
            if not self._goes_through_batch(file, loop):
                self._take(file, loop.iter, 0)
        for function_file, body in self._bodies(file, loop.body):
            for call in own_nodes(body, cst.Call):
                if last_name(call.func) == "next" and isinstance(call.func, cst.Name) and call.args:
                    self._take_iterator(function_file, call.args[0].value)
                    names = _assigned_names(function_file, call)
                    if names:
                        self.bodies.append((function_file, body, names))

    def _bodies(self, file: SourceFile, body: cst.CSTNode) -> Iterator[tuple[SourceFile, cst.CSTNode]]:
        """Yield pairs (file, body): the body of a training loop, and the bodies of the functions that it calls directly
        or indirectly."""
        found, pending = set(), [(file, body, 0)]
        while pending:
            file, body, depth = pending.pop()
            yield file, body
            for call in own_nodes(body, cst.Call) if depth < _DEEPEST else ():
                for function in self._program.called(file, call):
                    if function.node not in found:
                        found.add(function.node)
                        pending.append((function.file, function.node.body, depth + 1))

    def _batch_names(
        self, file: SourceFile, target: cst.CSTNode, iterated: cst.BaseExpression, depth: int = 0
    ) -> set[str]:
        """Return the names in the target of a training loop that get a part of the batch, without the numbers that
        `enumerate` and `zip` produce. `iterated` is the expression that the loop iterates over."""
        origins = self._program.origins(file, iterated)
        if isinstance(iterated, (cst.Name, cst.Attribute)) and len(origins) == 1:
            file, iterated = origins[0]
        if is_counting(iterated):
            return set()
        is_call = isinstance(iterated, cst.Call) and last_name(iterated.func) in GOES_THROUGH
        if not isinstance(iterated, cst.Call) or not is_call or not iterated.args or depth > _DEEPEST:
            return _names(target)
        parts = [each.value for each in target.elements] if isinstance(target, cst.Tuple) else []
        given = [each.value for each in iterated.args if each.keyword is None]
        if last_name(iterated.func) == "enumerate" and len(parts) == 2:
            return self._batch_names(file, parts[1], iterated.args[0].value, depth + 1)
        if last_name(iterated.func) == "zip" and len(parts) == len(given):
            pairs = zip(parts, given, strict=True)
            return set().union(*(self._batch_names(file, part, each, depth + 1) for part, each in pairs))
        return self._batch_names(file, target, iterated.args[0].value, depth + 1)

    def _goes_through_batch(self, file: SourceFile, loop: cst.For) -> bool:
        """Return whether a loop of the training iterates over parts of the value that an enclosing loop produces, and
        so over parts of a batch."""
        first = {first_name(value) for value in _iterated(loop.iter)}
        return any(
            isinstance(outer, cst.For) and not _is_of_loaders(outer, loop) and first & _names(outer.target)
            for outer in file.around(loop)
        )

    def _take_iterator(self, file: SourceFile, iterator: cst.BaseExpression) -> None:
        """Record the expressions from which `iterator`, the argument of a call of `next` in a training loop, was
        created as sources of batches."""
        values = [(file, each) for each in self._program.values_of(file, iterator)]
        if isinstance(iterator, (cst.Call, cst.Name, cst.Attribute)):
            values = self._program.origins(file, iterator)
        for home, value in values:
            self._take(home, value, 0)

    def _take(self, file: SourceFile, value: cst.BaseExpression, depth: int) -> None:
        if value in self._seen or depth > _DEEPEST or is_counting(value):
            return
        self._seen.add(value)
        if isinstance(value, (cst.Name, cst.Attribute, cst.Subscript)):
            self._take_name(file, value, depth)
        elif isinstance(value, cst.Call):
            self._take_call(file, value, depth)
        elif isinstance(value, cst.IfExp):
            self._take(file, value.body, depth + 1)
            self._take(file, value.orelse, depth + 1)

    def _take_name(self, file: SourceFile, value: Any, depth: int) -> None:
        """Record a name or attribute as a source of the training's batches. If it was assigned a wrapper such as `tqdm`
        or `iter` of a loader, record the wrapped loader instead."""
        origins = [] if isinstance(value, cst.Subscript) else self._program.origins(file, value)
        given = [each for _, each in origins]
        around = set(file.around(value))  # `loader` in `loader = tqdm(loader)` has its earlier value
        wraps = [
            (home, each)
            for home, each in origins
            if isinstance(each, cst.Call) and self._goes_through(home, each) and each not in around
        ]
        if wraps:
            for home, each in wraps:
                self._take(home, each, depth + 1)
        elif not (given and all(isinstance(each, (cst.List, cst.Tuple, cst.Dict, cst.ListComp)) for each in given)):
            self.shared.append((file, value))

    def _goes_through(self, file: SourceFile, call: cst.Call) -> bool:
        name = last_name(call.func)
        is_generator = any(_yields(each.node) for each in self._program.called(file, call))
        is_loader = self._program.is_kind_of(name, _LOADER) and not self._program.methods(name, "__iter__")
        is_wrapper = name in self._program.classes and not is_loader
        return name in GOES_THROUGH or is_generator or is_wrapper or is_counting(call)

    def _take_call(self, file: SourceFile, call: cst.Call, depth: int) -> None:
        if not self._goes_through(file, call):
            if (
                not isinstance(call.func, cst.Attribute)
                or last_name(call.func) == _LOADER
                or self._program.called(file, call)
            ):
                self.shared.append((file, call))
            return
        generators = [each for each in self._program.called(file, call) if _yields(each.node)]
        generators += [each for each in self._program.methods(last_name(call.func), "__iter__") if _yields(each.node)]
        for each in generators:
            for passed in own_nodes(each.node.body, cst.From):
                self._take(each.file, passed.item, depth + 1)
            for loop in own_nodes(each.node.body, cst.For):
                if any(isinstance(node, cst.Yield) for node in nodes_below(loop.body)):
                    self._take(each.file, loop.iter, depth + 1)
            for inner in own_nodes(each.node.body, cst.Call):
                if code(inner.func) == "next" and inner.args:
                    self._take_iterator(each.file, inner.args[0].value)
        if not generators:
            for arg in call.args:
                if arg.keyword is None or arg.keyword.value in ("iterable", "loader", "dataloader", "sequence"):
                    self._take(file, arg.value, depth + 1)


def _is_of_loaders(outer: cst.For, loop: cst.For) -> bool:
    """Return whether the outer of two nested loops iterates over numbers or a list, or the inner loop over a name of a
    loader. Then the inner loop's values are batches, and not parts of one."""
    if is_counting(outer.iter) or isinstance(outer.iter, (cst.List, cst.Tuple)):
        return True
    return any("load" in last_name(each) for each in _iterated(loop.iter) if isinstance(each, cst.Name))


def _names(node: cst.CSTNode) -> set[str]:
    return {each.value for each in nodes_below(node) if isinstance(each, cst.Name)}


def _assigned_names(file: SourceFile, call: cst.Call) -> set[str]:
    """Return the names that the assignment statement around this call assigns; an empty set if the call is in no
    assignment."""
    for around in file.around(call):
        if isinstance(around, cst.Assign):
            return set().union(*(_names(target.target) for target in around.targets))
        if isinstance(around, cst.BaseSmallStatement):
            break
    return set()


def _iterated(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the expressions that an iteration over `value` reads: the arguments of `enumerate`, `zip` and the like, or
    `value` itself."""
    if isinstance(value, cst.Call) and last_name(value.func) in GOES_THROUGH:
        return [each for arg in value.args if arg.keyword is None for each in _iterated(arg.value)]
    return [value]


def _yields(function: cst.FunctionDef) -> bool:
    return any(isinstance(each, cst.Yield) for each in nodes_below(function.body))
