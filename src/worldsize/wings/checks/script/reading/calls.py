"""Functions that read single nodes of a syntax tree."""

from __future__ import annotations

import ast


def is_starred(node: ast.expr) -> bool:
    """Return whether the node of a syntax tree is a starred expression, `*values`."""
    return isinstance(node, ast.Starred)


def is_main_guard(node: ast.If) -> bool:
    """Return whether the `if` statement tests the variable `__name__`, as in `if __name__ == "__main__"`."""
    test = node.test
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)


def argument(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """Return the expression of a call's argument by its keyword `name` or its position `place`; None if it is not
    passed, or if starred arguments hide the position."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if place is not None and place < len(call.args) and not any(map(is_starred, call.args[: place + 1])):
        return call.args[place]
    return None


def has_stars(call: ast.Call) -> bool:
    """Return whether a call has arguments that are not listed one by one: `*args`, `**options`."""
    return any(map(is_starred, call.args)) or any(keyword.arg is None for keyword in call.keywords)


def literal(node: ast.AST | None) -> object:
    """Return the value of a syntax-tree node that is a constant, or a negative number; None for every other node."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) else None
    return node.value if isinstance(node, ast.Constant) else None


def integer(node: ast.AST | None) -> int | None:
    """Return the value of an integer literal; None for every other node, including True and False."""
    value = literal(node)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(node: ast.AST | None) -> str | None:
    """Return the value of a string literal; None for every other node."""
    value = literal(node)
    return value if isinstance(value, str) else None
