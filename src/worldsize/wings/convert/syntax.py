"""Common queries on syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import libcst as cst

COUNTING = ("range", "trange", "count", "arange", "linspace")
GOES_THROUGH = (
    "enumerate", "zip", "tqdm", "iter", "islice", "cycle", "chain", "tqdm_notebook", "track", "progress_bar",
    "reversed",
)  # fmt: skip
"""Functions that iterate over their arguments and yield the same elements. The iterated expressions are searched for
among their arguments."""


@lru_cache(maxsize=1 << 16)
def code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node).strip()


def last_name(function: cst.CSTNode) -> str:
    """Return the last part of the name of a function in a syntax tree: Adam for `optim.Adam` and for `Adam`; "" if the
    expression is no name."""
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def argument(call: cst.Call, name: str, place: int | None = None) -> cst.BaseExpression | None:
    """Return the expression of a call's argument by its keyword `name`, or by its position `place` among the positional
    arguments; None if it is not passed."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    return plain[place] if place is not None and place < len(plain) else None


@lru_cache(maxsize=1 << 18)
def children(node: cst.CSTNode) -> tuple[Any, ...]:
    """Return the children of a node of a syntax tree, without the names of arguments and parameters, which have no
    value there. The result is cached, because libcst computes it each time, which is slow."""
    name = node.keyword if isinstance(node, cst.Arg) else node.name if isinstance(node, cst.Param) else None
    return tuple(each for each in node.children if each is not name)


@lru_cache(maxsize=1 << 16)
def nodes_below(node: cst.CSTNode) -> tuple[Any, ...]:
    """Return a node of a syntax tree and all nodes below it, in the order of the text."""
    found = [node]
    for child in children(node):
        found += nodes_below(child) if children(child) else (child,)
    return tuple(found)


@lru_cache(maxsize=1 << 16)
def calls_below(node: cst.CSTNode) -> tuple[cst.Call, ...]:
    return tuple(each for each in nodes_below(node) if isinstance(each, cst.Call))


def is_backward(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value in ("backward", "manual_backward")


def is_transposed(value: cst.CSTNode) -> bool:
    """Return whether an expression transposes a matrix: `x.T`, `x.t()`, `x.transpose(0, 1)`."""
    if isinstance(value, cst.Attribute):
        return value.attr.value == "T"
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        is_whole = [code(each.value) for each in value.args] in (["0", "1"], ["1", "0"])
        return value.func.attr.value == "t" or (value.func.attr.value in ("transpose", "permute") and is_whole)
    return False


def first_name(value: cst.CSTNode) -> str:
    """Return the first name of an expression: `batch` for `batch["x"].split(4)`; "" if it has none."""
    while isinstance(value, (cst.Attribute, cst.Subscript, cst.Call)):
        value = value.func if isinstance(value, cst.Call) else value.value
    return value.value if isinstance(value, cst.Name) else ""


def own_nodes(node: cst.CSTNode, kind: type) -> Iterator[Any]:
    """Yield the nodes of the type `kind` at or below a node of a syntax tree, without those inside nested functions."""
    if isinstance(node, kind):
        yield node
    for child in children(node):
        if not isinstance(child, (cst.FunctionDef, cst.Lambda)):
            yield from own_nodes(child, kind)


def is_counting(value: cst.CSTNode) -> bool:
    """Return whether a `for` loop over this expression iterates over numbers, as with `range` or `tqdm(range(n))`."""
    if not isinstance(value, cst.Call):
        return False
    plain = [arg.value for arg in value.args if arg.keyword is None]
    is_wrapped = last_name(value.func) in GOES_THROUGH and bool(plain)
    return last_name(value.func) in COUNTING or (is_wrapped and all(is_counting(each) for each in plain))


def loss_of(call: cst.Call) -> cst.BaseExpression | None:
    """Return the expression whose backward is computed: `loss` for `loss.backward()`, `self.manual_backward(loss)` and
    the like; None for any other call."""
    if not is_backward(call) or not isinstance(call.func, cst.Attribute):
        return None
    is_given = last_name(call.func) == "manual_backward" or code(call.func.value) in ("torch.autograd", "autograd")
    return call.args[0].value if is_given and call.args else call.func.value


def assigned(node: cst.CSTNode, text: str) -> list[cst.BaseExpression]:
    """Return the expressions that assignments at or below a node of a syntax tree assign to targets with the text
    `text`, such as "self.loss"."""
    return list(_assignments(node).get(text, ()))


@lru_cache(maxsize=1 << 14)
def _assignments(node: cst.CSTNode) -> dict[str, list[cst.BaseExpression]]:
    found: dict[str, list[cst.BaseExpression]] = {}
    for each in nodes_below(node):
        pairs: list[tuple[cst.CSTNode, cst.BaseExpression]] = []
        if isinstance(each, cst.Assign):
            pairs += _pairs(each)
        elif isinstance(each, (cst.AnnAssign, cst.NamedExpr)) and each.value is not None:
            pairs.append((each.target, each.value))
        elif isinstance(each, cst.WithItem) and each.asname is not None:
            pairs.append((each.asname.name, each.item))
        for target, value in pairs:
            found.setdefault(code(target), []).append(value)
    return found


def _pairs(node: cst.Assign) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Yield each target of an assignment with its value, also for `a, b = c, d`."""
    for target in node.targets:
        if isinstance(target.target, cst.Tuple) and isinstance(node.value, cst.Tuple):
            for one, other in zip(target.target.elements, node.value.elements, strict=False):
                yield one.value, other.value
        else:
            yield target.target, node.value
