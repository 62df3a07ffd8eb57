"""Figures that a training computes from its batches: those that are reduced over all ranks, and those that remain rank
0's and get a remark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import libcst as cst

from worldsize.wings.convert.figure_names import (
    is_question,
    names_assigned_in,
    names_of_losses,
    names_to_backward,
    plain_names,
)
from worldsize.wings.convert.kinds import MEAN, SIZE, SUM, is_same, kind_of_several
from worldsize.wings.convert.loss_kinds import LossKinds
from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import (
    children,
    code,
    is_backward,
    last_name,
    nodes_below,
    own_nodes,
)
from worldsize.wings.convert.value_origins import elements

_TOLD = (
    "print", "append", "update", "add_scalar", "add_scalars", "set_postfix", "set_description", "log", "info", "write",
    "add", "extend", "step", "isnan", "isfinite", "isinf",
)  # fmt: skip
_NOT_TOLD = ("backward", "manual_backward", "zero_grad", "train", "eval", "unscale_", "save", "main_only")
_LEAVES = (cst.Break, cst.Continue, cst.Return, cst.Raise)
_REMARK = "{} {} rank 0's part of the batch: {}.mean or {}.total gives the whole batch's"
_PARTED = (
    "{} {} each rank's part of the batch: the ranks may take different branches here; decide it once for all ranks"
)

Place = tuple[SourceFile, int, str]


class Figures:
    """The figures that a training computes from its batches. `means` and `totals` are the expressions of a rank's part
    whose mean or total over all ranks is needed. `remarks` are (file, line, text) of those that are not known to be
    either."""

    def __init__(self, program: Program, kinds: LossKinds, module: str) -> None:
        self._program = program
        self._kinds = kinds
        self._module = module
        self.means: dict[cst.CSTNode, None] = {}
        self.totals: dict[cst.CSTNode, None] = {}
        self.remarks: list[Place] = []
        self._parting: list[tuple[SourceFile, cst.If | cst.While, str]] = []
        self._seen: set[cst.CSTNode] = set()
        self._objects: set[str] = set()  # objects that may keep a batch, in the current code
        self._trained: set[str] = set()  # names that a loss is computed from, in the current code
        self._losses = {file.path: set(names_of_losses(file)) for file in program.files}

    def read(self, file: SourceFile, body: cst.CSTNode, given: set[str]) -> None:
        """Analyse a body of code that trains with the batch in the names `given`, and record the figures that it
        computes in `means`, `totals` and `remarks`."""
        if body in self._seen:
            return
        self._seen.add(body)
        nodes = list(self._own_nodes(file, body))
        kept = {name for each in nodes if isinstance(each, cst.Call) for name in self._kept(file, each, given)}
        nodes += self._nodes_after(file, body, given, kept)
        trained = names_to_backward(nodes)
        batch = self._names_from(file, nodes, given, trained)
        for node in nodes:
            if isinstance(node, cst.Call):
                self._read_number(file, node, batch)
        batch = self._names_from(file, nodes, given, trained)
        for node in nodes:
            if isinstance(node, cst.Call):
                self._read_function(file, node, batch)
        self._objects, self._trained = kept, trained
        for node in nodes:
            self._read_node(file, node, batch, trained)

    def _read_node(self, file: SourceFile, node: Any, batch: set[str], trained: set[str]) -> None:
        if isinstance(node, cst.AugAssign) and code(node.target) not in trained:
            self._read_told(file, node, [node.value], batch)
        elif isinstance(node, cst.Call) and self._tells(file, node, trained):
            self._read_told(file, node, [arg.value for arg in node.args], batch)
        elif isinstance(node, (cst.If, cst.While)):
            self._read_condition(file, node, batch)
        elif isinstance(node, cst.Return) and node.value is not None and self._is_closure(file, node):
            self._read_told(file, node, [node.value], batch)

    def _tells(self, file: SourceFile, call: cst.Call, trained: set[str]) -> bool:
        """Return whether a call in the training prints or stores its arguments, such as `print(loss)` or
        `losses.append(loss)`. `trained` are names that a loss is computed from."""
        name = last_name(call.func)
        if name in _NOT_TOLD or is_backward(call):
            return False
        if isinstance(call.func, cst.Attribute) and code(call.func.value) in trained:
            return False
        if any(self._program.trains(each.file, each.node.body) for each in self._program.called(file, call)):
            return False
        is_statement = isinstance(next(file.around(call), None), cst.Expr)
        if isinstance(call.func, cst.Attribute) and self._program.class_trains(file, call.func.value):
            return False
        return name in _TOLD or (is_statement and not name.endswith("_"))

    def _is_closure(self, file: SourceFile, node: cst.Return) -> bool:
        """Return whether the function around a return statement is an optimizer's closure, according to its name."""
        inner = file.function_around(node)
        return isinstance(inner, cst.FunctionDef) and "closure" in inner.name.value

    def _nodes_after(self, file: SourceFile, body: cst.CSTNode, given: set[str], kept: set[str]) -> Iterator[Any]:
        """Yield the nodes of statements after the loop with this body, in the loop's function, that use names which
        only the loop assigns, or which keep its last batch."""
        loop = next(file.around(body), None)
        if not isinstance(loop, (cst.For, cst.While)) or loop.body is not body:
            return
        inside = set(nodes_below(loop))
        function = file.function_around(loop)
        outer = function.body if isinstance(function, cst.FunctionDef) else function
        outside = [each for each in own_nodes(outer, cst.CSTNode) if each not in inside]
        lost = ((given | names_assigned_in(inside)) - names_assigned_in(outside)) | kept
        later = [
            each for each in outside if isinstance(each, cst.BaseSmallStatement) and file.line(each) > file.line(loop)
        ]
        for statement in later:
            if {each.value for each in nodes_below(statement) if isinstance(each, cst.Name)} & lost:
                lost |= names_assigned_in([statement])
                yield from nodes_below(statement)

    def _own_nodes(self, file: SourceFile, node: cst.CSTNode) -> Iterator[Any]:
        """Yield a node and the nodes below it, without inner loops and functions that do not train: these evaluate.
        Loops over a `range` are included."""
        yield node
        for child in children(node):
            is_inner = isinstance(child, (cst.For, cst.While, cst.FunctionDef))
            if not is_inner or self._program.trains(file, child) or self._is_of_batch(child):
                yield from self._own_nodes(file, child)

    def _is_of_batch(self, loop: cst.CSTNode) -> bool:
        """Return whether a node is a `for` loop that counts over a `range`, like a loop over the steps of a
        sequence."""
        return isinstance(loop, cst.For) and isinstance(loop.iter, cst.Call) and code(loop.iter.func) == "range"

    def _read_number(self, file: SourceFile, call: cst.Call, batch: set[str]) -> None:
        """Record the value of `value.item()` or `float(value)` as a figure to reduce over all ranks, if it depends on
        the batch and is a loss, a mean or a sum."""
        if last_name(call.func) == "item" and isinstance(call.func, cst.Attribute):
            value = call.func.value
        elif code(call.func) in ("float", "int") and len(call.args) == 1:
            value = call.args[0].value
        else:
            return
        if self._names(value) & batch:
            self._settle(file, value, batch)

    def _read_function(self, file: SourceFile, call: cst.Call, batch: set[str]) -> None:
        """Analyse the function that a call in the training calls, if the function trains. The parameters that get a
        part of the batch are treated as the batch."""
        for function in self._program.called(file, call):
            if self._program.trains(function.file, function.node.body):
                params = [param.name.value for param in function.node.params.params]
                plain = params[1:] if params[:1] == ["self"] else params
                given = {name for name, arg in zip(plain, call.args, strict=False) if self._names(arg.value) & batch}
                given |= {arg.keyword.value for arg in call.args if arg.keyword and self._names(arg.value) & batch}
                self.read(function.file, function.node.body, given)

    def _names(self, node: cst.CSTNode) -> set[str]:
        """Return the names in a node, without those in expressions that are reduced over all ranks."""
        if node in self.means or node in self.totals:
            return set()
        if isinstance(node, cst.Name):
            return {node.value}
        if isinstance(node, cst.Attribute):
            return self._names(node.value) | ({code(node)} if code(node).startswith("self.") else set())
        return set().union(*(self._names(child) for child in children(node)))

    def _names_from(self, file: SourceFile, nodes: Sequence[Any], given: set[str], trained: set[str]) -> set[str]:
        """Return the names that get a part of the batch by these nodes (assignments, calls and loops), starting from
        the names `given`."""
        found = set(given)
        while True:
            before = len(found)
            for node in nodes:
                if isinstance(node, cst.Assign) and self._names(node.value) & found:
                    found |= {name for target in node.targets for name in plain_names(target.target)}
                elif isinstance(node, (cst.AugAssign, cst.AnnAssign)) and node.value is not None:
                    is_kept = isinstance(node, cst.AnnAssign) or code(node.target) in trained
                    found |= {code(node.target)} if is_kept and self._names(node.value) & found else set()
                elif isinstance(node, cst.Call):
                    found |= self._kept(file, node, found)
                elif isinstance(node, (cst.For, cst.CompFor)) and self._names(node.iter) & found:
                    found |= set(plain_names(node.target))
            if len(found) == before:
                return found

    def _kept(self, file: SourceFile, call: cst.Call, batch: set[str]) -> set[str]:
        """Return a set with the name of the object whose method is called, if the object's class trains and the method,
        which may store its arguments, gets a part of the batch; an empty set otherwise."""
        if not isinstance(call.func, cst.Attribute) or not isinstance(call.func.value, cst.Name):
            return set()
        is_given = any(self._names(arg.value) & batch for arg in call.args)
        return {call.func.value.value} if is_given and self._program.class_trains(file, call.func.value) else set()

    def _settle(self, file: SourceFile, value: cst.CSTNode, batch: set[str]) -> bool:
        """Return whether the kind of a figure over all ranks is known, and record the figure in `means` or `totals`. A
        loss that is trained with counts as a mean. If that is not visible, there is a remark on the loss."""
        kind = self._kinds.kind(file, value)
        if self._is_done(file, value, batch):
            return True
        if self._kinds.origins.is_container(file, value):
            return False
        if kind in (SUM, SIZE):
            self.totals[value] = None
        elif kind == MEAN or (not is_same(kind) and code(value) in self._losses.get(file.path, ())):
            self.means[value] = None
        else:
            return False
        return True

    def _is_settled_where_defined(self, file: SourceFile, name: cst.Name, batch: set[str]) -> bool:
        """Return whether all parts of the batch in the value of a name are reduced over all ranks in the statement that
        defines the name, as in `seen = step * size + len(x)`. Return False for names that a loss is computed from."""
        found, is_sure = self._kinds.origins.definitions(file, name, file.function_around(name))
        if not is_sure or len(found) != 1 or name.value in self._trained or found[0].place is not None:
            return False
        if found[0].is_loop or name.value in self._names(found[0].value) or name.value in self._objects:
            return False
        left: dict[str, None] = {}
        means, totals = dict(self.means), dict(self.totals)
        self._read_value(file, found[0].value, batch, left)
        if left:
            self.means, self.totals = means, totals
        return not left

    def _is_done(self, file: SourceFile, value: cst.CSTNode, batch: set[str]) -> bool:
        """Return whether a figure was already reduced over all ranks where it was computed. A value that was computed
        in the same function counts only if all of its parts that depend on the batch were reduced."""
        origins = [(home, each) for home, each in self._kinds.origins.origins(file, value) if each is not value]
        done = [(home, each) for home, each in origins if any(map(self._is_shared, nodes_below(each)))]
        inner = file.function_around(value)
        for home, each in done:
            is_here = home is file and file.function_around(each) is inner
            if self._names(each) & batch if is_here else self._is_partly_shared(home, each):
                return False
        return bool(done)

    def _is_partly_shared(self, file: SourceFile, value: cst.CSTNode) -> bool:
        """Return whether a value is a dictionary, a tuple or a list of which an element belongs to a rank's part of the
        batch and is not reduced over all ranks."""
        for each in (elements(value) or {}).values():
            if not any(map(self._is_shared, nodes_below(each))) and not is_same(self._kinds.kind(file, each)):
                return True
        return False

    def _is_part_settled(self, file: SourceFile, node: cst.Subscript) -> bool:
        """Return whether the value over all ranks of `out["n"]` is known, where a function has returned `out`, and
        record it in `means` or `totals`."""
        parts = self._kinds.origins.parts(file, node)
        left = [(home, value) for home, value in parts if not any(map(self._is_shared, nodes_below(value)))]
        if len(left) < len(parts):
            return not left
        kind = kind_of_several(self._kinds.kind(home, value) for home, value in left)
        if kind in (SUM, SIZE):
            self.totals[node] = None
        elif kind == MEAN:
            self.means[node] = None
        return kind is not None and (is_same(kind) or self._is_shared(node))

    def _is_shared(self, node: cst.CSTNode) -> bool:
        return node in self.means or node in self.totals

    def _has_shared_part(self, file: SourceFile, node: cst.CSTNode, seen: set[cst.CSTNode]) -> bool:
        """Return whether a part of the expression `node`, or of the values of its names in the same function, is
        already reduced over all ranks. A mean or a sum of the whole would reduce that part again. `seen` are the nodes
        already examined."""
        inner = file.function_around(node)
        for home, origin in self._kinds.origins.origins(file, node):
            if origin in seen or home is not file or file.function_around(origin) is not inner:
                continue
            seen.add(origin)
            for each in nodes_below(origin):
                if self._is_shared(each):
                    return True
                if isinstance(each, cst.Name) and each is not node and self._has_shared_part(file, each, seen):
                    return True
        return False

    def _read_told(self, file: SourceFile, node: cst.CSTNode, values: Sequence[cst.CSTNode], batch: set[str]) -> None:
        """Analyse values of the training that the statement `node` prints, counts or collects. Add a remark on those
        that belong to rank 0's part of the batch."""
        left: dict[str, None] = {}
        for value in values:
            self._read_value(file, value, batch, left)
        if left:
            verb = "is of" if len(left) == 1 else "are of"
            text = _REMARK.format(", ".join(left), verb, self._module, self._module)
            self.remarks.append((file, file.line(node), text))

    def _read_condition(self, file: SourceFile, node: cst.If | cst.While, batch: set[str]) -> None:
        left: dict[str, None] = {}
        self._read_value(file, node.test, batch, left)
        if left:
            self._parting.append((file, node, _PARTED.format(", ".join(left), "is of" if len(left) == 1 else "are of")))

    @property
    def errors(self) -> list[Place]:
        """The conditions of the training by which the ranks would take different branches, as (file, line, text)."""
        return [(file, file.line(node), text) for file, node, text in self._parting if self.is_for_all(file, node)]

    def is_for_all(self, file: SourceFile, node: cst.If | cst.While) -> bool:
        """Return whether all ranks must take the same branch at this `if` or `while`, because the code inside trains,
        leaves the loop or function, or uses figures of all ranks."""
        inner = [*nodes_below(node.body), *(nodes_below(node.orelse) if node.orelse is not None else ())]
        is_shared = any(each in self.means or each in self.totals or isinstance(each, _LEAVES) for each in inner)
        return is_shared or self._program.trains(file, node)

    def _read_value(self, file: SourceFile, node: cst.CSTNode, batch: set[str], left: dict[str, None]) -> None:
        if not self._names(node) & batch or is_question(node):
            return
        is_value = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BinaryOperation))
        if isinstance(node, cst.Name) and self._is_done(file, node, batch):
            return
        is_done = is_value and self._has_shared_part(file, node, set())
        is_object = isinstance(node, cst.Name) and node.value in self._objects
        if (
            is_value
            and not is_done
            and not is_object
            and (self._settle(file, node, batch) or is_same(self._kinds.kind(file, node)))
        ):
            return
        if isinstance(node, cst.Subscript) and self._is_part_settled(file, node):
            return
        if isinstance(node, cst.Name):
            if not self._is_settled_where_defined(file, node, batch):
                left[node.value] = None
        elif isinstance(node, cst.Attribute):
            self._read_value(file, node.value, batch, left)
            if code(node) in batch:
                left[code(node)] = None
        else:
            for child in children(node):
                if isinstance(child, cst.CompFor):
                    continue  # the iterated expression; its values are in the element
                is_method = isinstance(child, cst.Attribute) and child is getattr(node, "func", None)
                self._read_value(file, child.value if is_method else child, batch, left)
