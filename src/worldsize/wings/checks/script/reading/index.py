"""Index of the modules of a script: calls, names and their bindings, found in one pass over each tree."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.checks.script.reading.calls import is_main_guard, is_starred
from worldsize.wings.checks.script.reading.sources import SourceModule

Function = ast.FunctionDef | ast.AsyncFunctionDef
Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef
_SKIPPED = frozenset(("ctx", "op", "ops", "type_comment", "type_ignores", "type_params", "annotation", "returns"))


class Parameter(NamedTuple):
    """A name that is a parameter of a function. Its value comes from the callers."""

    function: Function
    name: str


class Unknown(NamedTuple):
    """The value that a name gets from an expression in a way that is not followed: as an element of it, or as the value
    of a context manager."""

    of: ast.expr


Binding = ast.expr | Parameter | Unknown


class Index:
    """The positions of calls, names and bindings in all modules of a script.

    parents     the parent of each node; `scopes`: the function or module that contains a call or name
    bindings    the values bound to each name of a scope; `named`: those bound to names and attributes in all scopes
    references  the places where the value of a name or an attribute is used
    complete    False if the time limit was reached before all modules were read
    """

    def __init__(self, modules: Iterable[SourceModule], is_late: Callable[[], bool]) -> None:
        self.modules = tuple(modules)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self.module_of: dict[Scope, SourceModule] = {}
        self.enclosing: dict[Scope, Scope] = {}
        self.classes_of: dict[Function, ast.ClassDef] = {}
        self.calls: list[ast.Call] = []
        self._by_name: dict[str, list[ast.Call]] = defaultdict(list)
        self.stores: list[ast.Assign] = []
        self.strings: list[ast.Constant] = []
        self.functions: dict[str, list[Function]] = defaultdict(list)
        self.classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self.bindings: dict[tuple[Scope, str], list[Binding]] = defaultdict(list)
        self.named: dict[str, list[Binding]] = defaultdict(list)
        self.attributes: dict[str, list[Binding]] = defaultdict(list)
        self.references: dict[str, list[ast.expr]] = defaultdict(list)
        self.aliases: dict[tuple[Scope, str], str] = {}
        self.originals: dict[str, set[str]] = defaultdict(set)
        self.imported: set[str] = set()
        self.uses: dict[Scope, set[str]] = defaultdict(set)
        self.keywords: set[str] = set()
        self.complete = True
        for number, module in enumerate(self.modules):
            if is_late():
                self.complete = False
                return
            self._walk(module, entry=number == 0)

    def _walk(self, module: SourceModule, entry: bool) -> None:
        tree, parents = module.tree, self.parents
        self.module_of[tree] = module
        stack: list[tuple[ast.AST, Scope]] = [(tree, tree)]
        visitors = _VISITORS
        while stack:
            node, scope = stack.pop()
            visit = visitors.get(type(node))
            if visit is not None:
                visit(self, node, scope)
            if isinstance(node, ast.If) and not entry and is_main_guard(node):
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.module_of[node] = module
                scope = node
            for field in node._fields:
                if field in _SKIPPED:
                    continue
                value = getattr(node, field, None)
                if isinstance(value, ast.AST):
                    parents[value] = node
                    stack.append((value, scope))
                elif type(value) is list:
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            stack.append((item, scope))

    def bind(self, target: ast.AST, value: Binding, scope: Scope) -> None:
        """Record `value` as a binding of the target of an assignment in `scope`: of a name, an attribute, an item, or
        each name of a tuple."""
        if isinstance(target, ast.Name):
            self.bindings[scope, target.id].append(value)
            self.named[target.id].append(value)
        elif isinstance(target, ast.Attribute):
            self.attributes[target.attr].append(value)
            self.named[target.attr].append(value)
        elif isinstance(target, ast.Starred):
            self.bind(target.value, _inside(value), scope)
        elif isinstance(target, ast.Tuple | ast.List):
            self._bind_each(target.elts, value, scope)
        elif isinstance(target, ast.Subscript):
            self._bind_item(target, value)

    def _bind_each(self, targets: list[ast.expr], value: Binding, scope: Scope) -> None:
        values = value.elts if isinstance(value, ast.Tuple | ast.List) else None
        same = values is not None and len(values) == len(targets) and not any(map(is_starred, [*values, *targets]))
        for number, target in enumerate(targets):
            self.bind(target, values[number] if values is not None and same else _inside(value), scope)

    def _bind_item(self, target: ast.Subscript, value: Binding) -> None:
        """Record the value assigned to an item of a dictionary as a binding of an attribute: `config["rank"]` may be
        read as `config.rank`."""
        if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
            self.attributes[target.slice.value].append(_inside(value))
            self.named[target.slice.value].append(value)
        elif isinstance(target.value, ast.Name):
            self.named[target.value.id].append(value)

    def scope_of(self, node: ast.AST) -> Scope:
        """Return the function or the module of the script that contains a node; the module itself for a module."""
        if isinstance(node, ast.Module):
            return node
        while node not in self.scopes:
            node = self.parents[node]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                return node
        return self.scopes[node]

    def file_of(self, node: ast.AST) -> str:
        """Return the path, relative to the code's directory, of the script's file that contains a node."""
        return self.module_of[self.scope_of(node)].path

    def ancestors(self, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
        """Yield the pairs (parent, child) of the syntax tree from a node up to the function or module that contains
        it."""
        while node in self.parents:
            parent = self.parents[node]
            yield parent, node
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
                return
            node = parent

    def alias(self, name: str, scope: Scope) -> str | None:
        """Return the dotted name that an import in this scope, or in an enclosing one, binds to a name; None if there
        is none."""
        place: Scope | None = scope
        while place is not None:
            if (place, name) in self.aliases:
                return self.aliases[place, name]
            place = self.enclosing.get(place)
        return None

    def full_name(self, node: ast.AST) -> str:
        """Return the full name of a function or value: "torch.distributed.get_rank" for `dist.get_rank`, "?.x" for an
        attribute of an expression without a name, and "" for a node that is not a name."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ".".join(["?", *reversed(parts)]) if parts else ""
        head = self.alias(node.id, self.scopes.get(node) or self.scope_of(node)) or node.id
        return ".".join([head, *reversed(parts)])

    def last_name(self, node: ast.AST) -> str:
        """Return the last part of the full name of a function or value: "get_rank" for `dist.get_rank`; "" for a node
        that is not a name."""
        return self.full_name(node).rpartition(".")[2]

    def calls_named(self, *names: str) -> list[ast.Call]:
        """Return the calls in all modules of the script of functions whose last name is in `names`."""
        if not self._by_name:
            for call in self.calls:
                self._by_name[self.last_name(call.func)].append(call)
        return [call for name in names for call in self._by_name.get(name, ())]


def _inside(value: Binding) -> Binding:
    return Unknown(value) if isinstance(value, ast.expr) else value


def _visit_name(index: Index, node: ast.Name, scope: Scope) -> None:
    index.scopes[node] = scope
    if isinstance(node.ctx, ast.Load):
        index.uses[scope].add(node.id)
        index.references[node.id].append(node)


def _visit_attribute(index: Index, node: ast.Attribute, scope: Scope) -> None:
    index.scopes[node] = scope
    index.uses[scope].add(node.attr)
    if isinstance(node.ctx, ast.Load):
        index.references[node.attr].append(node)


def _visit_call(index: Index, node: ast.Call, scope: Scope) -> None:
    index.scopes[node] = scope
    index.calls.append(node)
    index.keywords |= {keyword.arg for keyword in node.keywords if keyword.arg}


def _visit_constant(index: Index, node: ast.Constant, scope: Scope) -> None:
    if isinstance(node.value, str) and not isinstance(index.parents.get(node), ast.Expr):
        index.scopes[node] = scope
        index.strings.append(node)


def _visit_function(index: Index, node: Function, scope: Scope) -> None:
    index.enclosing[node] = scope
    index.functions[node.name].append(node)
    parent = index.parents.get(node)
    if isinstance(parent, ast.ClassDef):
        index.classes_of[node] = parent
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    for each in [*every, *filter(None, (node.args.vararg, node.args.kwarg))]:
        index.bindings[node, each.arg].append(Parameter(node, each.arg))
        index.named[each.arg].append(Parameter(node, each.arg))


def _visit_class(index: Index, node: ast.ClassDef, scope: Scope) -> None:
    index.scopes[node] = scope
    index.classes[node.name].append(node)


def _visit_assign(index: Index, node: ast.Assign, scope: Scope) -> None:
    index.scopes[node] = scope
    index.stores.append(node)
    for target in node.targets:
        index.bind(target, node.value, scope)


def _visit_value(index: Index, node: ast.AnnAssign | ast.NamedExpr, scope: Scope) -> None:
    if node.value is not None:
        index.bind(node.target, node.value, scope)


def _visit_addition(index: Index, node: ast.AugAssign, scope: Scope) -> None:
    index.bind(node.target, Unknown(node.value), scope)


def _visit_loop(index: Index, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
    index.bind(node.target, Unknown(node.iter), scope)


def _visit_context(index: Index, node: ast.withitem, scope: Scope) -> None:
    if node.optional_vars is not None:
        index.bind(node.optional_vars, Unknown(node.context_expr), scope)


def _visit_lambda(index: Index, node: ast.Lambda, scope: Scope) -> None:
    for each in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        index.bind(ast.Name(each.arg, ast.Store()), Unknown(node.body), scope)


def _visit_import(index: Index, node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        index.imported.add(alias.name)
        name = alias.asname or alias.name.partition(".")[0]
        index.aliases[scope, name] = alias.name if alias.asname else name


def _visit_import_from(index: Index, node: ast.ImportFrom, scope: Scope) -> None:
    base = "." * node.level + (node.module or "")
    for alias in node.names:
        dotted = f"{base}.{alias.name}"
        index.imported.add(dotted)
        index.aliases[scope, alias.asname or alias.name] = dotted
        index.originals[alias.asname or alias.name].add(alias.name)


_VISITORS: dict[type, Callable[..., None]] = {
    ast.Name: _visit_name,
    ast.Attribute: _visit_attribute,
    ast.Call: _visit_call,
    ast.Constant: _visit_constant,
    ast.FunctionDef: _visit_function,
    ast.AsyncFunctionDef: _visit_function,
    ast.ClassDef: _visit_class,
    ast.Assign: _visit_assign,
    ast.AnnAssign: _visit_value,
    ast.NamedExpr: _visit_value,
    ast.AugAssign: _visit_addition,
    ast.For: _visit_loop,
    ast.AsyncFor: _visit_loop,
    ast.comprehension: _visit_loop,
    ast.withitem: _visit_context,
    ast.Lambda: _visit_lambda,
    ast.Import: _visit_import,
    ast.ImportFrom: _visit_import_from,
}
