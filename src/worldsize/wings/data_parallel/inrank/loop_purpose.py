"""Reads in the user's source what a loop over batches is for: it trains where each turn leads to a `backward`."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any, Sequence

from .rank_state import is_user_code

ALWAYS, SOMETIMES, NEVER, UNKNOWN = "always", "sometimes", "never", "unknown"
"""How surely the code leads to a backward."""

_MAX_DEPTH = 5
_MAX_LINES = 200_000
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOP = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_OUTPUT_CALLS = ("print", "format", "info", "debug", "write", "set_description", "set_postfix", "update")
_COMPREHENSION_NAMES = ("<listcomp>", "<setcomp>", "<dictcomp>")


def training_verdict(frame: Any) -> str:
    """Whether the loop that takes a batch in `frame` leads to a backward before it takes the next one."""
    while frame is not None and is_user_code(frame.f_code.co_filename):
        if frame.f_code.co_name in _COMPREHENSION_NAMES and frame.f_back is not None:
            frame = frame.f_back
        loop = _loop_body(frame.f_code, frame.f_lineno)
        if loop is None:
            return UNKNOWN
        if not _has_yield(frame.f_code, frame.f_lineno):
            return _BackwardFinder(frame).block(loop, 0)
        frame = frame.f_back
        while frame is not None and not is_user_code(frame.f_code.co_filename):
            frame = frame.f_back
    return UNKNOWN


@lru_cache(maxsize=None)
def printed_sizes(code: Any, line: int) -> list[str]:
    """What the loop around a line says, as it goes on, with the size of a batch that it has taken."""
    loop = _innermost_loop(code, line)
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return []
    taken = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    sayings = [node for statement in loop.body for node in ast.walk(statement) if _is_output(node)]
    sizes: list[Any] = [node for saying in sayings for node in ast.walk(saying) if is_size(node)]
    found = [(node, name.id) for node in sizes for name in ast.walk(node) if isinstance(name, ast.Name)]
    return list(dict.fromkeys(f"size of {name} (line {node.lineno})" for node, name in found if name in taken))


@lru_cache(maxsize=None)
def _has_yield(code: Any, line: int) -> bool:
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in loop_nodes(code, line))


def loop_nodes(code: Any, line: int) -> list[ast.AST]:
    return [node for statement in _loop_body(code, line) or () for node in ast.walk(statement)]


def _is_output(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or called_name(node) in _OUTPUT_CALLS


def is_size(node: ast.AST) -> bool:
    return called_name(node) in ("len", "size") or (isinstance(node, ast.Attribute) and node.attr == "shape")


def called_name(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


@lru_cache(maxsize=None)
def _parse_file(filename: str) -> Any:
    lines = linecache.getlines(filename)
    try:
        return ast.parse("".join(lines)) if lines and len(lines) < _MAX_LINES else None
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=None)
def _loop_body(code: Any, line: int) -> Sequence[ast.stmt] | None:
    """Of the innermost loop around the line that is being executed, or whose head it is."""
    found = _innermost_loop(code, line)
    if found is None or isinstance(found, _LOOP):
        return found.body if found is not None else None
    parts = [found.key, found.value] if isinstance(found, ast.DictComp) else [found.elt]
    return [ast.copy_location(ast.Expr(part), part) for part in parts]


@lru_cache(maxsize=None)
def _innermost_loop(code: Any, line: int) -> Any:
    tree, inside = _parse_file(code.co_filename), _definition(code)
    first = inside.lineno if inside is not None else 0
    nodes = [node for node in ast.walk(tree) if isinstance(node, (*_LOOP, *_COMPREHENSION))] if tree is not None else []
    around = [node for node in nodes if first <= node.lineno <= line <= (node.end_lineno or 0)]
    return max(reversed(around), key=lambda node: node.lineno, default=None)


class _BackwardFinder:
    """Follows calls by the names that `frame` knows."""

    def __init__(self, frame: Any) -> None:
        self._names = {**frame.f_globals, **frame.f_locals}
        self._path: set[Any] = set()

    def block(self, statements: Sequence[ast.stmt], depth: int) -> str:
        found = NEVER
        for statement in statements:
            verdict = self._statement(statement, depth)
            if verdict == ALWAYS:
                return ALWAYS
            if verdict == SOMETIMES:
                found = SOMETIMES
        return found

    def _statement(self, statement: ast.stmt, depth: int) -> str:
        if isinstance(statement, ast.If):
            return self._branches(statement, depth)
        if isinstance(statement, (ast.With, ast.AsyncWith)):
            return _strongest_verdict(
                [
                    *(self._calls(item.context_expr, depth) for item in statement.items),
                    self.block(statement.body, depth),
                ]
            )
        if isinstance(statement, ast.Try):
            return self.block([*statement.body, *statement.orelse, *statement.finalbody], depth)
        if isinstance(statement, _LOOP):
            return self.block(statement.body, depth)
        if isinstance(statement, _FUNCTION):
            return self.block(statement.body, depth)
        if isinstance(statement, ast.ClassDef):
            return NEVER
        return self._calls(statement, depth)

    def _branches(self, statement: ast.If, depth: int) -> str:
        known = self._condition_value(statement.test) if depth == 0 else None
        if known is not None:
            return self.block(statement.body if known else statement.orelse, depth)
        one, other = self.block(statement.body, depth), self.block(statement.orelse, depth)
        if one == other:
            return one
        if one == NEVER and _has_exit(statement.body):
            return other
        return SOMETIMES

    def _condition_value(self, test: ast.expr) -> bool | None:
        """What a condition of plain names is now; None where it cannot be told without executing anything."""
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._condition_value(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            return self._boolean_value(test)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison_value(test)
        found, value = self._value(test)
        if found and (value is None or isinstance(value, (bool, str))):
            return bool(value)
        return None

    def _boolean_value(self, test: ast.BoolOp) -> bool | None:
        parts = [self._condition_value(part) for part in test.values]
        decides = isinstance(test.op, ast.Or)
        if decides in parts:
            return decides
        return None if None in parts else not decides

    def _comparison_value(self, test: ast.Compare) -> bool | None:
        (left_found, left), (right_found, right) = self._value(test.left), self._value(test.comparators[0])
        operator = test.ops[0]
        if not (left_found and right_found):
            return None
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return (left is right) == isinstance(operator, ast.Is)
        if isinstance(operator, (ast.Eq, ast.NotEq)) and isinstance(left, str) and isinstance(right, str):
            return (left == right) == isinstance(operator, ast.Eq)
        return None

    def _value(self, node: ast.expr) -> tuple[bool, Any]:
        """A name, or an attribute that lies in its object's own dictionary."""
        if isinstance(node, ast.Constant):
            return True, node.value
        if isinstance(node, ast.Name):
            return node.id in self._names, self._names.get(node.id)
        if isinstance(node, ast.Attribute):
            found, owner = self._value(node.value)
            values = getattr(owner, "__dict__", {}) if found else {}
            if node.attr in values:
                return True, values[node.attr]
            kind = getattr(type(owner), node.attr, None) if found else None
            if isinstance(kind, FunctionType):
                return True, MethodType(kind, owner)
            return kind is not None and not isinstance(kind, property), kind
        return False, None

    def _calls(self, tree: ast.AST, depth: int) -> str:
        """The surest of all calls in an expression or a plain statement."""
        found = NEVER
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                found = _strongest_verdict([found, self._call(node, depth)])
                if found == ALWAYS:
                    break
        return found

    def _call(self, call: ast.Call, depth: int) -> str:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "manual_backward"):
            return ALWAYS
        found, function = self._value(call.func)
        function = _wrapped_function(function)
        code = getattr(function, "__code__", None)
        if not found or code is None or depth >= _MAX_DEPTH or not is_user_code(code.co_filename) or code in self._path:
            return NEVER
        return self._function(function, code, depth)

    def _function(self, function: Any, code: Any, depth: int) -> str:
        node = _definition(code)
        if node is None:
            return SOMETIMES if "backward" in code.co_names else NEVER
        former = self._names
        owner = getattr(function, "__self__", None)
        self._names = {**function.__globals__, **({"self": owner} if owner is not None else {})}
        self._path.add(code)
        try:
            return self.block(node.body, depth + 1)
        finally:
            self._names = former
            self._path.discard(code)


@lru_cache(maxsize=None)
def _definition(code: Any) -> Any:
    """The function that `code` is of; None for a module's."""
    tree = _parse_file(code.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, _FUNCTION) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first <= code.co_firstlineno <= node.lineno:
                return node
    return None


def _wrapped_function(function: Any) -> Any:
    """What a decorator, such as `torch.compile`, or a `partial` stands around."""
    for _ in range(_MAX_DEPTH):
        inner = getattr(function, "__wrapped__", None) or getattr(function, "_torchdynamo_orig_callable", None)
        if inner is None and type(function).__name__ == "partial":
            inner = function.func
        if inner is None:
            break
        function = inner
    return function


def _strongest_verdict(verdicts: Sequence[str]) -> str:
    for verdict in (ALWAYS, SOMETIMES):
        if verdict in verdicts:
            return verdict
    return NEVER


def _has_exit(statements: Sequence[ast.stmt]) -> bool:
    return bool(statements) and isinstance(statements[-1], (ast.Continue, ast.Break, ast.Raise, ast.Return))
