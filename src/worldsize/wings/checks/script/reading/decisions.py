"""Decisions whether some rank executes a statement. Some ranks pass a test about ranks, and the options' values decide
a test about options. All other tests leave the result in doubt."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.wings.checks.script.reading.calls import is_main_guard
from worldsize.wings.checks.script.reading.conditions import exits_before
from worldsize.wings.checks.script.reading.flow import reached_scopes
from worldsize.wings.checks.script.reading.index import Function, Scope
from worldsize.wings.checks.script.reading.program import Program
from worldsize.wings.checks.script.reading.words import names_rank, plain_words

_DISTRIBUTED = r"(?i)distributed|is_initialized|^dist$|ddp"
_FILES = r"(?i)exist|is_?file|is_?dir|glob|listdir|scandir|stat$|getsize|cache|offline|local_files"
_NOT_OF_NETWORKS = frozenset((
    "ImportError", "ModuleNotFoundError", "AttributeError", "KeyError", "TypeError", "IndexError", "NameError",
    "FileNotFoundError", "FileExistsError", "PermissionError", "KeyboardInterrupt", "NotImplementedError",
))  # fmt: skip
_LOOKS_UP = ("globals", "locals", "vars", "getattr", "Fire", "eval", "modules", "instantiate")
_EXITS = frozenset(("exit", "_exit", "quit", "abort", "fail"))
_DEEPEST = 8
Test = tuple[ast.AST, bool | None]


class Decisions:
    """The decisions whether some rank executes a statement of a script. The results for the script's functions are
    cached."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.reached = reached_scopes(program.index, _functions_by_name(program))
        self._known: dict[Scope, bool] = {}

    def is_executed(self, node: ast.AST, depth: int = 0) -> bool:
        """Return whether some rank certainly executes a node of the script's syntax tree. Return False if a test might
        keep all ranks from it. The callers of the function around the node are followed as far as they are known."""
        program = self.program
        if program.index.scope_of(node) not in self.reached or depth > _DEEPEST:
            return False
        if not all(self._passes(*test) for test in _tests(program, node)):
            return False
        scope = program.index.scope_of(node)
        if isinstance(scope, ast.Module):
            return True
        if scope not in self._known:
            self._known[scope] = False
            places = program.flow.references(scope)[:50]
            self._known[scope] = not places or any(self.is_executed(place, depth + 1) for place in places)
        return self._known[scope]

    def _passes(self, test: ast.AST, wanted: bool | None) -> bool:
        """Return whether a test in the script has the result `wanted` on some rank. A test about ranks has either
        result on some rank. Return False if that is not known."""
        if wanted is None or not isinstance(test, ast.expr):
            return False
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self._passes(test.operand, not wanted)
        if isinstance(test, ast.BoolOp):
            passed = [self._passes(part, wanted) for part in test.values]
            return all(passed) if isinstance(test.op, ast.And) == wanted else any(passed)
        value = self._truth(test)
        if value is not None:
            return value == wanted
        words = list(plain_words(test))
        return any(names_rank(word) or re.search(_DISTRIBUTED, word) for word in words) and not any(
            re.search(_FILES, word) for word in words
        )

    def _truth(self, test: ast.expr) -> bool | None:
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison(test)
        values = constants(self.program, test)
        found = {bool(value) for value in values or ()}
        return found.pop() if len(found) == 1 else None

    def _comparison(self, test: ast.Compare) -> bool | None:
        left, right = constants(self.program, test.left), constants(self.program, test.comparators[0])
        if left is None or len(left) != 1:
            return None
        if isinstance(test.ops[0], ast.In | ast.NotIn):
            return self._membership(left[0], test)
        if right is None or len(right) != 1:
            return None
        equal = isinstance(test.ops[0], ast.Eq | ast.Is)
        return (left[0] == right[0]) == equal if equal or isinstance(test.ops[0], ast.NotEq | ast.IsNot) else None

    def _membership(self, value: object, test: ast.Compare) -> bool | None:
        group = test.comparators[0]
        parts = group.elts if isinstance(group, ast.Tuple | ast.List | ast.Set) else None
        if parts is None or not all(isinstance(part, ast.Constant) for part in parts):
            return None
        inside = value in [part.value for part in parts if isinstance(part, ast.Constant)]
        return inside == isinstance(test.ops[0], ast.In)


def _functions_by_name(program: Program) -> list[Function]:
    """Return the functions of the script that may be called by other means than their names: by a decorator, or by a
    lookup of a name from the command or from a text."""
    index = program.index
    every = [function for functions in index.functions.values() for function in functions]
    found = [function for function in every if function.decorator_list and function not in index.classes_of]
    if any(name in index.references for name in _LOOKS_UP):
        names = {word.replace("-", "_") for word in program.command.words} | {str(each.value) for each in index.strings}
        found += [function for function in every if function.name in names]
    return found


def constants(program: Program, node: ast.expr) -> list[object] | None:
    """Return a list of the values that an expression in the script may have, if all of them are literals; None
    otherwise."""
    origins = program.flow.origins(node)
    if not origins or not all(isinstance(origin, ast.Constant) for origin in origins):
        return None
    return list(dict.fromkeys(origin.value for origin in origins if isinstance(origin, ast.Constant)))


def _tests(program: Program, node: ast.AST) -> Iterator[Test]:
    """Yield pairs (test, result) that decide, within the function around a node, whether the node is executed: the test
    must have this result. The result is None if it is not known."""
    for parent, child in program.index.ancestors(node):
        yield from _tests_of(program, parent, child)
        for statement in exits_before(parent, child):
            yield statement.test, not _leaves_by_body(statement)


def _tests_of(program: Program, parent: ast.AST, child: ast.AST) -> Iterator[Test]:
    if isinstance(parent, ast.If | ast.While | ast.IfExp):
        if child is not parent.test and not (isinstance(parent, ast.If) and is_main_guard(parent)):
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            yield parent.test, child in body
    elif isinstance(parent, ast.BoolOp) and isinstance(child, ast.expr):
        for value in parent.values[: parent.values.index(child)]:
            yield value, isinstance(parent.op, ast.And)
    elif isinstance(parent, ast.match_case | ast.ExceptHandler | ast.Lambda) or _forgives(program, parent, child):
        yield parent, None


def _forgives(program: Program, parent: ast.AST, child: ast.AST) -> bool:
    """Return whether the script continues after a network failure in `child`, because `parent` is a `try` with a
    suitable handler or a `with suppress(…)` around it."""
    if isinstance(parent, ast.Try):
        return child in parent.body and any(map(_is_forgiving, parent.handlers))
    return isinstance(parent, ast.With) and any(_suppresses(program, item.context_expr) for item in parent.items)


def _suppresses(program: Program, context: ast.expr) -> bool:
    return isinstance(context, ast.Call) and program.index.last_name(context.func) == "suppress"


def _is_forgiving(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(kind, "attr", getattr(kind, "id", "")) for kind in kinds}
    return not names <= _NOT_OF_NETWORKS and not any(map(_ends, ast.walk(handler)))


def _ends(part: ast.AST) -> bool:
    if isinstance(part, ast.Call):
        return getattr(part.func, "attr", getattr(part.func, "id", "")) in _EXITS
    return isinstance(part, ast.Raise)


def _leaves_by_body(statement: ast.If) -> bool:
    leaves = (ast.Return, ast.Continue, ast.Break)
    return any(isinstance(part, leaves) or _ends(part) for each in statement.body for part in ast.walk(each))
