"""Analysis of the user's source: whether a loop over batches trains, which means that each iteration leads to a
`backward`."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache, partial
from types import FunctionType, MethodType
from typing import Any, Iterable, Sequence

from .rank_state import is_user_code, nearest_user_frame

NEVER, UNKNOWN, ALWAYS = range(3)
"""The verdicts on whether code leads to a backward, from the least to the most certain."""

_MAX_DEPTH = 5
_MAX_LINES = 200_000
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOP = (ast.For, ast.AsyncFor, ast.While)
_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_COMPREHENSION_NAMES = ("<listcomp>", "<setcomp>", "<dictcomp>")
_EXIT = (ast.Continue, ast.Break, ast.Raise, ast.Return)
_NOTHING = object()


def training_verdict(frame: Any) -> int:
    """Return the verdict NEVER, UNKNOWN or ALWAYS on whether the loop that reads a batch in the stack frame `frame`
    runs a backward before it reads the next batch."""
    while frame is not None:
        if frame.f_code.co_name in _COMPREHENSION_NAMES and frame.f_back is not None:
            frame = frame.f_back
        body = loop_body(frame.f_code, frame.f_lineno)
        if not body:
            return UNKNOWN
        if not any(isinstance(node, (ast.Yield, ast.YieldFrom)) for part in body for node in ast.walk(part)):
            try:
                return _BackwardFinder(frame).surest(body, 0)
            except RecursionError:  # an expression of some hundred terms
                return UNKNOWN
        frame = nearest_user_frame(frame.f_back)
    return UNKNOWN


def is_in_training_loop(frame: Any) -> bool:
    """Return whether the innermost loop around the code being executed, in `frame` or in one of its callers, certainly
    leads to a backward. If there is no such loop, return whether a later loop that calls the function of `frame` does.
    Comprehensions and loops that yield are ignored."""
    caller, name = frame, frame.f_code.co_name
    while caller is not None:
        body = statement_loop_body(caller.f_code, caller.f_lineno)
        if body:
            return _trains(caller, body)
        caller = nearest_user_frame(caller.f_back)
    caller = nearest_user_frame(frame.f_back)
    loops = _loops_after(caller.f_code, caller.f_lineno) if caller is not None else []
    return any(_calls(loop, name) and _trains(caller, loop.body) for loop in loops)


def _trains(frame: Any, body: Sequence[ast.AST]) -> bool:
    try:
        return _BackwardFinder(frame).surest(body, 0) == ALWAYS
    except RecursionError:  # an expression of some hundred terms
        return False


def _loops_after(code: Any, line: int) -> list[Any]:
    """Return the syntax nodes of the `for` and `while` loops after line `line` in the function that `code` belongs to,
    or in its module."""
    inside = _definition(code) or _parse_file(code.co_filename)
    nodes = ast.walk(inside) if inside is not None else ()
    return [node for node in nodes if isinstance(node, _LOOP) and node.lineno > line]


def _calls(node: ast.AST, name: str) -> bool:
    """Return whether the syntax node `node` contains a call of a function or method named `name`."""
    functions = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(name in (getattr(function, "id", ""), getattr(function, "attr", "")) for function in functions)


@lru_cache(maxsize=None)
def statement_loop_body(code: Any, line: int) -> Sequence[ast.AST]:
    """Return the statements in the body of the innermost `for` or `while` loop around line `line` of `code`. The list
    is empty if there is no such loop or if that loop contains a `yield`."""
    loops = [loop for loop in _loops_around(code, line) if isinstance(loop, _LOOP)]
    loop = max(reversed(loops), key=lambda node: node.lineno, default=None)
    yields = loop is not None and any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(loop))
    return [] if loop is None or yields else loop.body


@lru_cache(maxsize=None)
def loop_body(code: Any, line: int) -> Sequence[ast.AST]:
    """Return the syntax nodes in the body of the innermost loop or comprehension whose body or head contains line
    `line` of `code`. The list is empty if there is no loop."""
    loop = innermost_loop(code, line)
    if isinstance(loop, _COMPREHENSION):
        return [loop.key, loop.value] if isinstance(loop, ast.DictComp) else [loop.elt]
    return loop.body if loop is not None else []


@lru_cache(maxsize=None)
def innermost_loop(code: Any, line: int) -> Any:
    return max(reversed(_loops_around(code, line)), key=lambda node: node.lineno, default=None)


def _loops_around(code: Any, line: int) -> list[Any]:
    """Return the syntax nodes of all loops and comprehensions around line `line` of the function, or module, that
    `code` belongs to."""
    tree, inside = _parse_file(code.co_filename), _definition(code)
    first = inside.lineno if inside is not None else 0
    nodes = [node for node in ast.walk(tree) if isinstance(node, (*_LOOP, *_COMPREHENSION))] if tree is not None else []
    return [node for node in nodes if first <= node.lineno <= line <= (node.end_lineno or 0)]


@lru_cache(maxsize=None)
def _parse_file(filename: str) -> Any:
    """Return the syntax tree of a Python source file. None if the file is missing, too long or cannot be parsed."""
    lines = linecache.getlines(filename)
    try:
        return ast.parse("".join(lines)) if lines and len(lines) < _MAX_LINES else None
    except (SyntaxError, ValueError, RecursionError):
        return None


@lru_cache(maxsize=None)
def _definition(code: Any) -> Any:
    """Return the syntax node of the function definition that the code object `code` belongs to. None for a module's
    code, and if the definition is not found."""
    tree = _parse_file(code.co_filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, _FUNCTION) and node.name == code.co_name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first <= code.co_firstlineno <= node.lineno:
                return node
    return None


class _BackwardFinder:
    """Finder of backwards in code, and in the functions that it calls by names that `frame` knows."""

    def __init__(self, frame: Any) -> None:
        self._names = {**frame.f_globals, **frame.f_locals}
        self._path: set[Any] = set()

    def surest(self, nodes: Iterable[ast.AST], depth: int) -> int:
        found = NEVER
        for node in nodes:
            found = max(found, self._verdict(node, depth))
            if found == ALWAYS:
                break
        return found

    def _verdict(self, node: ast.AST, depth: int) -> int:
        if isinstance(node, ast.If):
            return self._branches(node, depth)
        if isinstance(node, (ast.ClassDef, ast.ExceptHandler)):
            return NEVER
        own = self._call(node, depth) if isinstance(node, ast.Call) else NEVER
        return max(own, self.surest(ast.iter_child_nodes(node), depth))

    def _branches(self, statement: ast.If, depth: int) -> int:
        known = self._condition_value(statement.test) if depth == 0 else None
        if known is not None:
            return self.surest(statement.body if known else statement.orelse, depth)
        one, other = self.surest(statement.body, depth), self.surest(statement.orelse, depth)
        if one == other or (one == NEVER and isinstance(statement.body[-1], _EXIT)):
            return other
        return UNKNOWN

    def _condition_value(self, test: ast.expr) -> bool | None:
        """Return the present truth value of `test`, the condition of an `if`. None if the value cannot be determined
        without executing code."""
        if isinstance(test, ast.Constant):
            return bool(test.value)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._condition_value(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            return self._boolean_value(test)
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._comparison_value(test.ops[0], test.left, test.comparators[0])
        value = self._value(test)
        return bool(value) if value is None or isinstance(value, (bool, str)) else None

    def _boolean_value(self, test: ast.BoolOp) -> bool | None:
        parts = [self._condition_value(part) for part in test.values]
        decides = isinstance(test.op, ast.Or)
        if decides in parts:
            return decides
        return None if None in parts else not decides

    def _comparison_value(self, operator: ast.cmpop, *sides: ast.expr) -> bool | None:
        left, right = map(self._value, sides)
        if left is _NOTHING or right is _NOTHING:
            return None
        if isinstance(operator, (ast.Is, ast.IsNot)):
            return (left is right) == isinstance(operator, ast.Is)
        if isinstance(operator, (ast.Eq, ast.NotEq)) and isinstance(left, str) and isinstance(right, str):
            return (left == right) == isinstance(operator, ast.Eq)
        return None

    def _value(self, node: ast.expr) -> Any:
        """Return the present value of a syntax node: a constant, a name, or an attribute that is in its object's own
        dictionary or class. Return `_NOTHING` for any other node."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self._names.get(node.id, _NOTHING)
        if not isinstance(node, ast.Attribute):
            return _NOTHING
        owner = self._value(node.value)
        values = getattr(owner, "__dict__", {})
        if node.attr in values:
            return values[node.attr]
        found = getattr(type(owner), node.attr, _NOTHING)
        if isinstance(found, FunctionType):
            return MethodType(found, owner)
        return _NOTHING if isinstance(found, property) else found

    def _call(self, call: ast.Call, depth: int) -> int:
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("backward", "manual_backward"):
            return ALWAYS
        function = _wrapped_function(self._value(call.func))
        code = getattr(function, "__code__", None)
        if code is None or depth >= _MAX_DEPTH or not is_user_code(code.co_filename) or code in self._path:
            return NEVER
        return self._function(function, code, depth)

    def _function(self, function: Any, code: Any, depth: int) -> int:
        node = _definition(code)
        if node is None:
            return UNKNOWN if "backward" in code.co_names else NEVER
        former = self._names
        owner = getattr(function, "__self__", None)
        self._names = {**function.__globals__, **({"self": owner} if owner is not None else {})}
        self._path.add(code)
        try:
            return self.surest(node.body, depth + 1)
        finally:
            self._names = former
            self._path.discard(code)


def _wrapped_function(function: Any) -> Any:
    """Return the function inside a decorator, such as `torch.compile`, or inside a `partial`; a plain function
    unchanged."""
    for _ in range(_MAX_DEPTH):
        inner = getattr(function, "__wrapped__", None) or getattr(function, "_torchdynamo_orig_callable", None)
        if inner is None and isinstance(function, partial):
            inner = function.func
        if inner is None:
            break
        function = inner
    return function
