"""The conditions, within a function, that decide whether a statement or an expression is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.wings.checks.script.reading.calls import is_main_guard

_RANK = r"(?i)rank|proc|main|master|first"
_EXITS = ("exit", "_exit", "quit")
_MOST_BEFORE = 400


def deciding_tests(parent: ast.AST, child: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of the syntax-tree node `parent`, such as the test of an `if`, that decide whether its part
    `child` is executed."""
    if isinstance(parent, ast.If | ast.While | ast.IfExp):
        if child is not parent.test and not _is_certain(parent):
            yield parent.test
    elif isinstance(parent, ast.BoolOp):
        yield from parent.values[: parent.values.index(child)] if isinstance(child, ast.expr) else ()
    elif isinstance(parent, ast.match_case | ast.ExceptHandler | ast.Lambda) or _is_else(parent, child):
        yield parent


def _is_certain(parent: ast.If | ast.While | ast.IfExp) -> bool:
    if isinstance(parent, ast.If):
        return is_main_guard(parent)
    return isinstance(parent, ast.While) and isinstance(parent.test, ast.Constant)


def _is_else(parent: ast.AST, child: ast.AST) -> bool:
    return isinstance(parent, ast.Try) and child in parent.orelse


def earlier_exits(parent: ast.AST, child: ast.AST) -> Iterator[ast.AST]:
    """Yield the tests of `if` and `assert` statements before `child`, in the same block of `parent`, by which the
    function or the loop may be left. A test before a `raise` or in an `assert` counts only if it is about the rank."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if not isinstance(block, list) or child not in block:
            continue
        place = block.index(child)
        for statement in block[max(0, place - _MOST_BEFORE) : place]:
            if isinstance(statement, ast.Assert):
                yield from _about_ranks(statement.test)
            elif isinstance(statement, ast.If) and not is_main_guard(statement):
                yield from _tests_of_exit(statement)


def exits_before(parent: ast.AST, child: ast.AST) -> Iterator[ast.If]:
    """Yield the `if` statements before `child`, in the same block of `parent`, that may leave the function or the
    loop."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, None)
        if isinstance(block, list) and child in block:
            place = block.index(child)
            for statement in block[max(0, place - _MOST_BEFORE) : place]:
                if isinstance(statement, ast.If) and not is_main_guard(statement) and _may_leave(statement):
                    yield statement


def _may_leave(statement: ast.If) -> bool:
    return any(map(_leaves, ast.walk(statement)))


def _tests_of_exit(statement: ast.If) -> Iterator[ast.AST]:
    """Yield the test of an `if` statement that may leave the function or the loop. A statement that may only raise
    counts only if its test is about the rank."""
    parts = list(ast.walk(statement))
    if any(map(_leaves, parts)):
        yield statement.test
    elif any(isinstance(part, ast.Raise) for part in parts):
        yield from _about_ranks(statement.test)


def _about_ranks(test: ast.expr) -> Iterator[ast.AST]:
    if any(re.search(_RANK, getattr(part, "id", getattr(part, "attr", ""))) for part in ast.walk(test)):
        yield test


def _leaves(node: ast.AST) -> bool:
    if isinstance(node, ast.Return | ast.Continue | ast.Break):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in _EXITS
