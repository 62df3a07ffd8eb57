"""Rule for checkpoints that every rank writes to the same file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.state.check_rows import WARNING
from worldsize.wings.checks.script.reading.arguments import NAMESPACES
from worldsize.wings.checks.script.reading.calls import argument, is_main_guard
from worldsize.wings.checks.script.reading.program import Program
from worldsize.wings.checks.script.reading.words import names_rank, plain_words, words_behind
from worldsize.wings.checks.script.request import ScriptFinding

_FILE = r"\.(pt|pth|bin|ckpt|tar|pkl|model|pyt|checkpoint)$"
_OWN_FILES = r"(?i)BytesIO|tempfile|mkdtemp|mkstemp|uuid|getpid|hostname|strftime|time|now$|random"
_SHARDED = r"(?i)fsdp|FullySharded|fully_shard|DTensor|checkpoint_id|^dcp$|pipeline|tensor_parallel|ZeroRed"
_PLAIN_DECORATORS = ("record", "main", "command", "option", "argument", "no_grad", "enable_grad")
_DEEPEST = 5
_MOST_CALLERS = 5


def saves_by_all(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding for a call of torch.save that all ranks execute at the same time with the same path."""
    if not _is_plain(program):
        return
    for call in program.flow.calls("save"):
        if (
            program.index.full_name(call.func) == "torch.save"
            and _to_one_file(program, call)
            and _by_all(program, call, 0)
        ):
            what = f"all {program.world_size} ranks would write the same file at the same time"
            hint = "save only where dist.get_rank() == 0"
            yield program.finding("script.saving", call, what, WARNING, hint)
            return


def _is_plain(program: Program) -> bool:
    """Return whether each rank of the script has the whole model: the script uses plain data parallelism, and nothing
    in it names sharding."""
    names = (*program.index.named, *program.index.references, *program.index.imported)
    return program.is_plain_data_parallel() and not any(re.search(_SHARDED, word) for word in names)


def _to_one_file(program: Program, call: ast.Call) -> bool:
    """Return whether the path of a call of torch.save has the suffix of a checkpoint, and depends on nothing that
    differs between ranks."""
    path = argument(call, "f", 1)
    if path is None or not any(re.search(_FILE, word) for word in _words_of_path(program, path)):
        return False
    return not any(names_rank(word) or re.search(_OWN_FILES, word) for word in words_behind(program.flow, path))


def _words_of_path(program: Program, path: ast.expr) -> Iterator[str]:
    for origin in program.flow.origins(path) or [path]:
        yield from plain_words(origin)


def _by_all(program: Program, node: ast.AST, depth: int) -> bool:
    """Return whether all ranks execute a node of the script: all paths of execution to the node are free of tests that
    might be about the rank."""
    if depth > _DEEPEST or not _asks_nothing(program, node):
        return False
    scope = program.index.scope_of(node)
    if isinstance(scope, ast.Module):
        return True
    if not _is_plainly_decorated(program, scope) or len(program.index.functions[scope.name]) != 1:
        return False
    places = program.flow.references(scope)
    if not 0 < len(places) <= _MOST_CALLERS or not all(_is_call(program, place) for place in places):
        return False
    return all(_by_all(program, place, depth + 1) for place in places)


def _asks_nothing(program: Program, node: ast.AST) -> bool:
    """Return whether no test and no context manager within the function around a node restricts the node to some
    ranks."""
    if any(_may_ask_rank(program, test) for test in program.flow.conditions(node)):
        return False
    return not any(isinstance(parent, ast.With) and _in_context(parent) for parent, _ in program.index.ancestors(node))


def _is_plainly_decorated(program: Program, scope: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [each.func if isinstance(each, ast.Call) else each for each in scope.decorator_list]
    return all(program.index.last_name(name) in _PLAIN_DECORATORS for name in names)


def _is_call(program: Program, place: ast.expr) -> bool:
    parent = program.index.parents.get(place)
    return isinstance(parent, ast.Call) and parent.func is place


def _in_context(parent: ast.With) -> bool:
    return any(names_rank(word) for item in parent.items for word in plain_words(item.context_expr))


def _may_ask_rank(program: Program, test: ast.AST) -> bool:
    if isinstance(test, ast.If) and is_main_guard(test):
        return False
    if not isinstance(test, ast.expr):
        return True
    if any(names_rank(word) for word in plain_words(test)):
        return True
    return any(_part_asks(program, part) for part in _parts(test))


def _parts(test: ast.expr) -> Iterator[ast.expr]:
    """Yield the operands of a test that `and`, `or` and `not` combine."""
    waiting = [test]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.BoolOp):
            waiting += part.values
        elif isinstance(part, ast.UnaryOp):
            waiting.append(part.operand)
        else:
            yield part


def _part_asks(program: Program, part: ast.expr) -> bool:
    """Return whether an operand of a test in the script may be about the rank. Names are followed to their bindings.
    Any call may be."""
    if isinstance(part, ast.Call):
        return True
    if isinstance(part, ast.Compare):
        return any(map(names_rank, _near_words(program, part)))
    if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id in NAMESPACES:
        return any(map(names_rank, _near_words(program, part)))
    origins = program.flow.origins(part)
    return not origins or any(map(names_rank, _near_words(program, part)))


def _near_words(program: Program, node: ast.AST) -> Iterator[str]:
    """Yield the words of an expression in the script, and the words of the values that its names are directly bound
    to."""
    for word in plain_words(node):
        yield word
        for binding in program.index.named.get(word, ())[:50]:
            if isinstance(binding, ast.Call):
                yield program.index.last_name(binding.func)
            elif isinstance(binding, ast.expr):
                yield from plain_words(binding)
