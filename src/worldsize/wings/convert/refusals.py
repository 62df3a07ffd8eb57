"""Reasons to refuse a training: code by which every rank would do all of the work, or by which the ranks would
diverge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from worldsize.wings.convert.batches import BatchSources
from worldsize.wings.convert.optimizers import Optimizer
from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import calls_below, code, is_backward, last_name, nodes_below, own_nodes

_NO_BACKWARD = "no backward pass was found: add the file with the training"
_NO_OPTIMIZER = "no optimizer was found: add the file that creates it"
_BY_HAND = "the weights are changed directly: every rank would train differently; let an optimizer of torch.optim do it"
_GRADIENTS = (
    "gradients by torch.autograd.grad are computed from each rank's part: let a backward and an "
    "optimizer train these weights"
)
_ALL_OF_IT = "every rank would do all of the work; make it a Dataset, and use a DataLoader"
_NO_LOADER = f"no loader was found whose batches are trained with: {_ALL_OF_IT}"
_PROCESSES = "it trains in processes that it starts: those of each rank would do all of the work; train in this process"
_STREAM = "the samples of an IterableDataset cannot be divided by their indices: make it a Dataset with __getitem__"

Place = tuple[SourceFile, int, str]


def find_refusals(program: Program, optimizers: Sequence[Optimizer], sources: BatchSources) -> list[Place]:
    backwards = [(file, call) for file in program.files for call in calls_below(file.module) if is_backward(call)]
    by_hand = [each for file in program.files for each in _changes_by_hand(file)]
    if not backwards:
        return by_hand or [(program.files[0], 1, _NO_BACKWARD)]
    found = list(by_hand)
    file, call = backwards[0]
    if not optimizers and not by_hand:
        found.append((file, file.line(call), _NO_OPTIMIZER))
    if not sources.shared:
        found.append(next(_own_batches(program), (file, file.line(call), _NO_LOADER)))
    for file in program.files:
        for node in nodes_below(file.module):
            if isinstance(node, cst.Call) and last_name(node.func) in ("Process", "spawn", "start_processes"):
                targets = [each.value for each in node.args if isinstance(each.value, cst.Name)]
                functions = [function for target in targets for function in program.named(target.value)]
                if any(program.trains(function.file, function.node.body) for function in functions):
                    found.append((file, file.line(node), _PROCESSES))
            if isinstance(node, cst.ClassDef) and any("IterableDataset" in code(base.value) for base in node.bases):
                found.append((file, file.line(node), _STREAM))
    return found


def _changes_by_hand(file: SourceFile) -> Iterator[Place]:
    """Yield (file, line, text) for the code of a file that changes weights by their gradient without an optimizer: `p
    -= lr * p.grad`, `p.data.add_(p.grad, alpha=-lr)`."""
    for node in nodes_below(file.module):
        if any("step" in code(each.name) for each in file.around(node) if isinstance(each, cst.FunctionDef)):
            continue  # the script's own optimizer
        if isinstance(node, (cst.AugAssign, cst.Assign)):
            target = node.target if isinstance(node, cst.AugAssign) else node.targets[0].target
            text = code(target).removesuffix(".data").removesuffix("[:]")
            if f"{text}.grad" in code(node.value) and isinstance(target, (cst.Name, cst.Attribute)):
                yield file, file.line(node), _BY_HAND
        elif isinstance(node, cst.Call) and code(node.func) in ("torch.autograd.grad", "autograd.grad", "grad"):
            if any(mark in code(each.value) for each in node.args[1:2] for mark in ("param", "weight")):
                yield file, file.line(node), _GRADIENTS
        elif isinstance(node, cst.Call) and last_name(node.func) in ("add_", "sub_", "copy_"):
            text = code(node.func.value) if isinstance(node.func, cst.Attribute) else ""
            if any(f"{text.removesuffix('.data')}.grad" in code(each.value) for each in node.args):
                yield file, file.line(node), _BY_HAND


def _own_batches(program: Program) -> Iterator[Place]:
    """Yield (file, line, text) for the code that cuts batches out of tensors, in loops that train or in functions that
    these loops call."""
    for file in program.files:
        for loop in nodes_below(file.module):
            if not isinstance(loop, (cst.For, cst.While)) or not program.trains(file, loop.body):
                continue
            bodies = [(file, loop.body)]
            bodies += [
                (each.file, each.node.body) for call in calls_below(loop.body) for each in program.called(file, call)
            ]
            for inner, body in bodies:
                for node in own_nodes(body, cst.Subscript):
                    if _is_cut(node):
                        yield inner, inner.line(node), f"batches are cut out of {code(node.value)} here: {_ALL_OF_IT}"


def _is_cut(node: cst.Subscript) -> bool:
    """Return whether an index of a tensor cuts out a batch, according to its form: `X[i : i + size]`, `X[rows]`."""
    first = node.slice[0].slice
    if isinstance(first, cst.Slice):
        return first.lower is not None and first.upper is not None and not isinstance(first.lower, cst.Integer)
    return isinstance(first, cst.Index) and any(
        mark in code(first.value) for mark in ("idx", "ind", "perm", "batch", "rows", "ix")
    )
