"""Adds up what a training loop counts of its batches: samples, hits, a loss times a batch's size.

Each rank counts its slices. When the loop has taken all of its batches, what it has added to its variables since the
beginning is added up over the ranks, so that the accuracy or the loss that the script computes from them afterwards is
the whole epoch's. What the script reads before the loop's end is of the slices.
"""

from __future__ import annotations

import ast
import ctypes
import sys
from functools import lru_cache
from typing import Any

import torch

from .loop_purpose import innermost_loop, loop_body
from .process_group import Communicator

_OUTPUT_CALLS = ("print", "format", "info", "debug", "write", "set_description", "set_postfix", "update")
_WRITES_THROUGH = sys.version_info >= (3, 13)
"""Since Python 3.13 a frame's variables can be changed without a call to the interpreter."""


class LoopCounts:
    """The variables of one pass, from the frame that its loop stands in."""

    def __init__(self, frame: Any) -> None:
        self.code = frame.f_code
        found = counted_variables(frame.f_code, frame.f_lineno)
        self.lines = [f"{name} (line {line})" for name, line, _ in found]
        self._means = {name for name, _, mean in found if mean}
        self._last = {name: value for name, _, _ in found for value in (_read(frame, name),) if value is not None}
        self._added: dict[str, Any] = dict.fromkeys(self._last, 0)

    def record_batch(self, frame: Any, sliced: bool) -> None:
        """Record, after a batch, what the loop has added for it."""
        if frame is None or frame.f_code is not self.code:
            return
        for name, last in self._last.items():
            now = _read(frame, name)
            if now is not None:
                if sliced:
                    self._added[name] = self._added[name] + (now - last)
                self._last[name] = now

    def add_up(self, frame: Any, world: Communicator) -> None:
        """Add the counts up over the ranks at the loop's end; all ranks must call this."""
        if not self._last:
            return
        mine = [float(self._added[name]) for name in self._last]
        totals = world.add_values(mine)
        if frame is None or frame.f_code is not self.code:
            return
        for name, own, total in zip(self._last, mine, totals):
            whole = total / world.size if name in self._means else total
            if whole != own:
                _write(frame, name, self._last[name], whole - own)


def _read(frame: Any, name: str) -> Any:
    """The value of a variable that is a number, or a tensor of one; None for anything else."""
    first, _, attribute = name.partition(".")
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    if attribute:
        value = getattr(value, "__dict__", {}).get(attribute)
    if isinstance(value, torch.Tensor):
        return value.detach().clone() if value.numel() == 1 else None
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _write(frame: Any, name: str, value: Any, more: float) -> None:
    changed: Any = value + more
    if isinstance(value, int):
        changed = round(changed)
    elif isinstance(value, torch.Tensor):
        changed = changed if value.is_floating_point() else changed.round().to(value.dtype)
    first, _, attribute = name.partition(".")
    values = frame.f_locals  # read once: each time, it is made anew from what the interpreter has
    if attribute:
        setattr(values.get(first, frame.f_globals.get(first)), attribute, changed)
    elif values is frame.f_globals or first not in values:
        frame.f_globals[first] = changed
    else:
        values[first] = changed
        if not _WRITES_THROUGH:
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


@lru_cache(maxsize=None)
def counted_variables(code: Any, line: int) -> list[tuple[str, int, bool]]:
    """The variables in which the loop around a line adds up its batches' sizes or hits, in its order: (name, line,
    whether each value added is a mean over the batch)."""
    nodes = [node for part in loop_body(code, line) for node in ast.walk(part) if isinstance(node, ast.AugAssign)]
    sums = [node for node in nodes if isinstance(node.op, ast.Add) and _is_count(node.value)]
    found = [(_dotted_name(node.target), node.lineno, _is_mean(node.value)) for node in sums]
    return [row for row in found if row[0]]


def _is_count(tree: ast.expr) -> bool:
    """Whether an expression counts: `len(x)`, `x.size(0)`, `x.shape[0]`, `(a == b).sum()`, `a.eq(b)…`"""
    return any(
        _is_size(node) or _called_name(node) in ("eq", "numel") or isinstance(node, ast.Compare)
        for node in ast.walk(tree)
    )


def _is_mean(tree: ast.expr) -> bool:
    """Whether an expression is a mean: `….mean()`, `… / len(x)`"""
    for node in ast.walk(tree):
        if _called_name(node) == "mean":
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and any(map(_is_size, ast.walk(node.right))):
            return True
    return False


@lru_cache(maxsize=None)
def printed_sizes(code: Any, line: int) -> list[str]:
    """What the loop around a line prints, while it runs, with the size of a batch that it has taken."""
    loop = innermost_loop(code, line)
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return []
    taken = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    sayings = [node for statement in loop.body for node in ast.walk(statement) if _is_output(node)]
    sizes: list[Any] = [node for saying in sayings for node in ast.walk(saying) if _is_size(node)]
    found = [(node, name.id) for node in sizes for name in ast.walk(node) if isinstance(name, ast.Name)]
    return list(dict.fromkeys(f"size of {name} (line {node.lineno})" for node, name in found if name in taken))


def _is_output(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or _called_name(node) in _OUTPUT_CALLS


def _is_size(node: ast.AST) -> bool:
    return _called_name(node) in ("len", "size") or (isinstance(node, ast.Attribute) and node.attr == "shape")


def _called_name(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _dotted_name(node: ast.expr) -> str:
    """The text of a name, or of an attribute of one; "" for anything else."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
