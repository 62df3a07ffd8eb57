"""Flow analysis of a script: the code that is executed, whether it is always executed, and the origins of values. Names
are followed, and nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from worldsize.wings.checks.script.reading.arguments import Arguments
from worldsize.wings.checks.script.reading.calls import argument, has_stars
from worldsize.wings.checks.script.reading.conditions import deciding_tests, earlier_exits
from worldsize.wings.checks.script.reading.index import Binding, Function, Index, Parameter, Scope, Unknown

_DEEPEST = 6
_MOST_STEPS = 500
MOST_CALLS = 100
_IMPLICIT = (
    "forward", "training_step", "main", "setup", "prepare_data", "train_dataloader", "val_dataloader",
    "test_dataloader", "configure_optimizers",
)  # fmt: skip


def reached_scopes(index: Index, more: Iterable[Function] = ()) -> set[Scope]:
    """Return the scopes of a script that may be executed: its modules, the functions in `more`, the functions whose
    names are used in code that is reached, and the methods of used classes that are called without their name
    (`__init__`, `forward`, `training_step`, decorated ones). Some of them may never be called. A function that is
    called by its name is missing only if the call is in a decorator or a default value of a function that is not
    reached."""
    reached: set[Scope] = {*(module.tree for module in index.modules), *more}
    waiting: list[Scope] = list(reached)
    seen: set[str] = set()
    while waiting:
        for name in _with_originals(index, index.uses[waiting.pop()]) - seen:
            seen.add(name)
            found: list[Function] = list(index.functions.get(name, ()))
            for each in index.classes.get(name, ()):
                found += [part for part in each.body if _is_implicit(part)]  # type: ignore[misc]
            waiting += [function for function in found if function not in reached]
            reached.update(found)
    return reached


def _with_originals(index: Index, names: set[str]) -> set[str]:
    return names.union(*(index.originals[name] for name in names if name in index.originals))


def _is_implicit(part: ast.stmt) -> bool:
    """Return whether a statement of a class is a method that may be called without being named, such as `__init__`,
    `forward` or a decorated one."""
    if not isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    return part.name.startswith("__") or part.name in _IMPLICIT or bool(part.decorator_list)


class Flow:
    """The flow analysis of a script, based on its index. `arguments` are the options that the script's parsers
    define."""

    def __init__(self, index: Index, words: tuple[str, ...]) -> None:
        self.index = index
        self.reached = reached_scopes(index)
        self._always: dict[Scope, bool] = {}
        self._steps = 0
        self.arguments = Arguments(index, words)

    def calls(self, *names: str) -> list[ast.Call]:
        """Return the calls, in code of the script that may be executed, of functions with one of these last names, such
        as "init_process_group"; 100 at most."""
        return [call for call in self.index.calls_named(*names) if self.index.scopes[call] in self.reached][:MOST_CALLS]

    def is_reached(self, node: ast.AST) -> bool:
        """Return whether the function or module around a node of the script may be executed."""
        return self.index.scope_of(node) in self.reached

    def conditions(self, node: ast.AST) -> list[ast.AST]:
        """Return the parts of the script that decide, within the function around a node, whether the node is executed:
        tests, and the tests of statements that may leave the function earlier."""
        found: list[ast.AST] = []
        for parent, child in self.index.ancestors(node):
            found += deciding_tests(parent, child)
            found += earlier_exits(parent, child)
        return found

    def is_always(self, node: ast.AST, depth: int = 0) -> bool:
        """Return whether the script executes a node of its syntax tree with any of its options: no condition decides
        about the node, nor about at least one chain of calls that leads to its function."""
        if self.conditions(node) or depth > _DEEPEST:
            return False
        scope = self.index.scope_of(node)
        if scope not in self._always:
            self._always[scope] = isinstance(scope, ast.Module)
            places = () if isinstance(scope, ast.Module) else self.references(scope)[:MOST_CALLS]
            if any(self.is_always(place, depth + 1) for place in places):
                self._always[scope] = True
        return self._always[scope]

    def references(self, function: Function) -> list[ast.expr]:
        """Return the expressions in reached code of the script that name a function, outside the function itself; an
        empty list if several functions have the same name."""
        if len(self.index.functions[function.name]) != 1:
            return []
        names = [function.name, *(name for name, real in self.index.originals.items() if function.name in real)]
        found = [place for name in dict.fromkeys(names) for place in self.index.references[name]]
        return [place for place in found if self.index.scope_of(place) in self.reached - {function}]

    def origins(self, node: ast.expr, depth: int = 0) -> list[ast.expr] | None:
        """Return the expressions that the value of an expression in the script may come from, following names, options
        and parameters; None if some of them are not known."""
        self._steps = self._steps + 1 if depth else 0
        if depth > _DEEPEST or self._steps > _MOST_STEPS:
            return None
        if isinstance(node, ast.Name):
            return self._all_origins(self._bindings(node), depth)
        if isinstance(node, ast.Attribute):
            bindings: list[Binding] = list(self.index.attributes.get(node.attr, ()))
            given = self.arguments.value(node.attr)
            if node.attr in self.arguments.names and not bindings:
                return None if given is None else [given]
            return self._all_origins(bindings, depth)
        if isinstance(node, ast.IfExp):
            return self._all_origins([node.body, node.orelse], depth)
        return [node]

    def _bindings(self, node: ast.Name) -> list[Binding]:
        scope: Scope | None = self.index.scope_of(node)
        while scope is not None:
            if (scope, node.id) in self.index.bindings:
                return self.index.bindings[scope, node.id]
            alias = self.index.aliases.get((scope, node.id))
            if alias is not None:
                return self._module_bindings(alias)
            scope = self.index.enclosing.get(scope)
        return []

    def _module_bindings(self, dotted: str) -> list[Binding]:
        """Return the bindings of a name in another module of the script, given its dotted name, such as
        "config.batch_size"."""
        module, _, name = dotted.lstrip(".").rpartition(".")
        trees = [each.tree for each in self.index.modules if each.name == module or each.name.endswith("." + module)]
        return [value for tree in trees for value in self.index.bindings.get((tree, name), ())]

    def _all_origins(self, bindings: list[Binding], depth: int) -> list[ast.expr] | None:
        if not bindings:
            return None
        found: list[ast.expr] = []
        for binding in bindings:
            some = self._binding_origins(binding, depth)
            if some is None:
                return None
            found += some
        return found

    def _binding_origins(self, binding: Binding, depth: int) -> list[ast.expr] | None:
        if isinstance(binding, Unknown):
            return None
        if isinstance(binding, Parameter):
            values = self.caller_values(binding)
            return None if values is None else self._all_origins(list(values), depth + 1)
        return self.origins(binding, depth + 1)

    def caller_values(self, parameter: Parameter) -> list[ast.expr] | None:
        """Return the expressions that all callers in the script pass for a function's parameter, or its default; None
        if some of them are not known."""
        places = self.references(parameter.function)
        values: list[ast.expr] = []
        for place in places:
            call = self.index.parents[place]
            if not isinstance(call, ast.Call) or call.func is not place or has_stars(call):
                return None
            value = argument(call, parameter.name, self._position(parameter, place))
            value = _default(parameter) if value is None else value
            if value is None:
                return None
            values.append(value)
        return values or None

    def _position(self, parameter: Parameter, place: ast.expr) -> int | None:
        names = [each.arg for each in (*parameter.function.args.posonlyargs, *parameter.function.args.args)]
        if parameter.name not in names:
            return None
        bound = parameter.function in self.index.classes_of and isinstance(place, ast.Attribute)
        return names.index(parameter.name) - bound


def _default(parameter: Parameter) -> ast.expr | None:
    every = parameter.function.args
    plain = [*every.posonlyargs, *every.args]
    pairs = [*zip(reversed(plain), reversed(every.defaults), strict=False)]
    pairs += [(arg, value) for arg, value in zip(every.kwonlyargs, every.kw_defaults, strict=True) if value is not None]
    return next((value for arg, value in pairs if arg.arg == parameter.name), None)
