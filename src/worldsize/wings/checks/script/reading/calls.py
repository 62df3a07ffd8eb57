"""What is read off single nodes of a tree."""

from __future__ import annotations

import ast


def is_starred(node: ast.expr) -> bool:
    """Return whether this is `*values`."""
    return isinstance(node, ast.Starred)


def is_main_guard(node: ast.If) -> bool:
    """Return whether this is `if __name__ == "__main__"`."""
    test = node.test
    sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
    return any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)


def argument(call: ast.Call, name: str, place: int | None = None) -> ast.expr | None:
    """Return an argument by its name or its place; None where it is not given."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    if place is not None and place < len(call.args) and not any(map(is_starred, call.args[: place + 1])):
        return call.args[place]
    return None


def has_stars(call: ast.Call) -> bool:
    """Return whether a call has arguments that are not written out: `*args`, `**options`."""
    return any(map(is_starred, call.args)) or any(keyword.arg is None for keyword in call.keywords)


def literal(node: ast.AST | None) -> object:
    """Return the value of a constant, of a negative number, too; None for everything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        return -value if isinstance(value, int | float) else None
    return node.value if isinstance(node, ast.Constant) else None


def integer(node: ast.AST | None) -> int | None:
    """Return a whole number that is written out; None for everything else, True and False, too."""
    value = literal(node)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def text(node: ast.AST | None) -> str | None:
    """Return a text that is written out."""
    value = literal(node)
    return value if isinstance(value, str) else None
