"""The files of a training as one program: their functions and classes, and which of them lead to a backward call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

from worldsize.wings.convert.syntax import argument, assigned, calls_below, code, is_backward, last_name, nodes_below

_SAME_OBJECT = (
    "to", "cuda", "cpu", "double", "float", "half", "train", "eval", "compile", "DataParallel", "requires_grad_",
)  # fmt: skip
"""Methods and functions that return the object that they get, or a wrapper of it."""
_DEFINITION = (cst.FunctionDef, cst.ClassDef)


class SourceFile:
    """A file of a training and its syntax tree. The constructor raises cst.ParserSyntaxError if the text is not
    Python."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._wrapper = MetadataWrapper(cst.parse_module(text))
        self.module = self._wrapper.module

    @cached_property
    def _positions(self) -> Mapping[Any, Any]:
        return self._wrapper.resolve(PositionProvider)

    @cached_property
    def _parents(self) -> Mapping[Any, Any]:
        return self._wrapper.resolve(ParentNodeProvider)

    @cached_property
    def _imported(self) -> dict[str, str]:
        """The full names that imports bind to names: `torch` for `t`, after `import torch as t`."""
        found: dict[str, str] = {}
        for node in nodes_below(self.module):
            if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar):
                base = f"{code(node.module)}." if isinstance(node, cst.ImportFrom) and node.module is not None else ""
                for each in node.names:
                    if each.asname is not None or base:
                        name = each.asname.name if each.asname is not None else each.name
                        found[code(name)] = base + code(each.name)
        return found

    def full_name(self, value: cst.CSTNode) -> str:
        """Return the full name of an expression: `torch.save` for `t.save`, after `import torch as t`."""
        first, dot, rest = code(value).partition(".")
        return self._imported.get(first, first) + dot + rest

    def line(self, node: cst.CSTNode) -> int:
        return int(self._positions[node].start.line)

    def last_line(self, node: cst.CSTNode) -> int:
        return int(self._positions[node].end.line)

    def around(self, node: cst.CSTNode) -> Iterator[Any]:
        """Yield the nodes of the file's syntax tree that enclose a node, from the inside out."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def function_around(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the innermost function of the file that contains a node, or the module if there is none."""
        return next((each for each in self.around(node) if isinstance(each, cst.FunctionDef)), self.module)

    def owner(self, function: cst.CSTNode) -> str:
        """Return the name of the class that a function is a method of; "" if it is no method."""
        for each in self.around(function):
            if isinstance(each, _DEFINITION):
                return each.name.value if isinstance(each, cst.ClassDef) else ""
        return ""


class Function(NamedTuple):
    file: SourceFile
    node: cst.FunctionDef
    owner: str


class Program:
    def __init__(self, files: Sequence[SourceFile]) -> None:
        self.files = files
        self._functions: dict[str, list[Function]] = {}
        self.classes: dict[str, cst.ClassDef] = {}
        self.class_files: dict[str, SourceFile] = {}
        self._owners: dict[cst.FunctionDef, str] = {}
        self._callers: dict[cst.FunctionDef, list[tuple[SourceFile, cst.Call]]] = {}
        self._origins: dict[cst.CSTNode, list[tuple[SourceFile, cst.BaseExpression]]] = {}
        self._calls = {file.path: list(calls_below(file.module)) for file in files}
        for file in files:
            for node in nodes_below(file.module):
                if isinstance(node, cst.FunctionDef):
                    self._owners[node] = file.owner(node)
                    self._functions.setdefault(node.name.value, []).append(Function(file, node, file.owner(node)))
                elif isinstance(node, cst.ClassDef):
                    self.classes[node.name.value] = node
                    self.class_files[node.name.value] = file
        self._training = self._find_training()

    def _find_training(self) -> set[Function]:
        """Return the functions and methods of the training's files whose code leads to a backward call, directly or
        through other such functions."""
        found: set[Function] = set()
        everything = [each for group in self._functions.values() for each in group]
        while True:
            more = {each for each in everything if each not in found and self._trains(each.file, each.node.body, found)}
            if not more:
                return found
            found |= more

    def class_trains(self, file: SourceFile, value: cst.BaseExpression) -> bool:
        """Return whether the class of the object `value`, or a base of it, has a method that leads to a backward
        call."""
        owners = self._with_bases(self.class_of(file, value))
        return any(each.owner in owners for each in self._training if each.owner)

    def trains(self, file: SourceFile, node: cst.CSTNode) -> bool:
        """Return whether the code below a node of the file leads to a backward call, directly or through the functions
        that it calls."""
        return self._trains(file, node, self._training)

    def _trains(self, file: SourceFile, node: cst.CSTNode, found: set[Function]) -> bool:
        return any(
            is_backward(call) or any(each in found for each in self.called(file, call)) for call in calls_below(node)
        )

    def called(self, file: SourceFile, call: cst.Call) -> list[Function]:
        """Return the functions of the training's files that a call may refer to. A method counts if its class is known,
        or if no other class has a method of that name."""
        named = self._functions.get(last_name(call.func), [])
        if isinstance(call.func, cst.Name):
            return [each for each in named if not each.owner] or self.methods(call.func.value, "__call__")
        if not isinstance(call.func, cst.Attribute):
            return []
        owner = self.class_of(file, call.func.value)
        methods = [each for each in named if each.owner]
        if owner in self.classes:
            return [each for each in methods if each.owner in self._with_bases(owner)]
        if len({each.owner for each in methods}) == 1 and not owner:
            return methods
        return [each for each in named if not each.owner]

    def named(self, name: str) -> list[Function]:
        return self._functions.get(name, [])

    def forwards(self, file: SourceFile, call: cst.Call) -> list[Function]:
        """Return the `forward` methods of those models of the training's files that a call such as `net(x)` may
        call."""
        if code(call.func) in ("self", "cls"):
            owners = {self.class_of(file, call.func)}
        else:
            made = [each for _, each in self.origins(file, call.func)]
            owners = {last_name(each.func) for each in made if isinstance(each, cst.Call)}
        return [each for owner in sorted(owners & set(self.classes)) for each in self.methods(owner, "forward")]

    @staticmethod
    def unwrapped(value: cst.BaseExpression) -> cst.BaseExpression:
        """Return the expression of the object inside its wrappers, such as `compile` and `to`: `Net()` for
        `nn.DataParallel(Net()).to(device)`."""
        while isinstance(value, cst.Call) and last_name(value.func) in _SAME_OBJECT:
            if isinstance(value.func, cst.Attribute) and isinstance(value.func.value, cst.Call):
                value = value.func.value
            elif value.args and last_name(value.func) in ("compile", "DataParallel"):
                value = value.args[0].value
            else:
                break
        return value

    def methods(self, owner: str, name: str) -> list[Function]:
        return [each for each in self._functions.get(name, []) if each.owner == owner]

    def is_kind_of(self, name: str, base: str) -> bool:
        """Return whether `name` is a class of the training's files that has a direct or indirect base of the name
        `base`."""
        return name in self.classes and base in self._with_bases(name)

    def _with_bases(self, name: str) -> set[str]:
        found: set[str] = set()
        pending = [name]
        while pending:
            name = pending.pop()
            if name not in found and name in self.classes:
                pending += [last_name(base.value) for base in self.classes[name].bases]
            found.add(name)
        return found

    def class_of(self, file: SourceFile, value: cst.BaseExpression) -> str:
        """Return the name of an object's class, if only one class is assigned to it; "" if that is not known."""
        if isinstance(value, cst.Name) and value.value in ("self", "cls"):
            around = next((each for each in file.around(value) if isinstance(each, cst.ClassDef)), None)
            return around.name.value if around is not None else ""
        origins = [given for _, given in self.origins(file, value)]
        made = {last_name(given.func) for given in origins if isinstance(given, cst.Call)}
        return made.pop() if len(made) == 1 else ""

    def values_of(self, file: SourceFile, target: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return the expressions that are assigned to a name or an attribute. For a name, those in its function count,
        or else those that callers pass for a parameter of this name, or else those anywhere in the file. For an
        attribute, those anywhere in the file count."""
        text = code(target)
        if not isinstance(target, cst.Name):
            return assigned(file.module, text)
        inner = file.function_around(target)
        given = assigned(inner, text)
        if isinstance(inner, cst.FunctionDef):
            given = given or [value for _, value in self.given(inner, text)]
        return given or assigned(file.module, text)

    def origins(self, file: SourceFile, value: cst.BaseExpression) -> list[tuple[SourceFile, cst.BaseExpression]]:
        """Return pairs (file, expression) for the expressions that a name, an attribute or a parameter comes from,
        followed through other names and without wrappers."""
        if value not in self._origins:
            found: list[tuple[SourceFile, cst.BaseExpression]] = []
            pending, seen = [(file, value)], set()
            while pending:
                home, each = pending.pop()
                each = self.unwrapped(each)
                if each in seen:
                    continue
                seen.add(each)
                if isinstance(each, (cst.Name, cst.Attribute)):
                    pending += reversed(self._given_to(home, each))
                else:
                    found.append((home, each))
            self._origins[value] = found
        return self._origins[value]

    def _given_to(
        self, file: SourceFile, value: cst.Name | cst.Attribute
    ) -> list[tuple[SourceFile, cst.BaseExpression]]:
        """Return pairs (file, expression) for the values that a name or an attribute gets: in its function, or else
        from the calls of that function, or else elsewhere in the file."""
        inner = file.function_around(value)
        local = assigned(inner, code(value)) if isinstance(value, cst.Name) else []
        given = [(file, each) for each in local]
        if not given and isinstance(value, cst.Name) and isinstance(inner, cst.FunctionDef):
            given = self.given(inner, value.value)
        return given or [(file, each) for each in assigned(file.module, code(value))]

    def given(self, function: cst.FunctionDef, name: str) -> list[tuple[SourceFile, cst.BaseExpression]]:
        """Return pairs (file, expression) for the values that the calls in the training's files pass for the parameter
        `name` of a function."""
        names = [param.name.value for param in function.params.params]
        if name not in names or name in ("self", "cls"):
            return []
        place = names.index(name) - (names[0] in ("self", "cls"))
        values = [(file, argument(call, name, place)) for file, call in self._calls_of(function)]
        return [(file, value) for file, value in values if value is not None]

    def _calls_of(self, function: cst.FunctionDef) -> list[tuple[SourceFile, cst.Call]]:
        if function not in self._callers:
            named, owner = function.name.value, self._owners[function]
            self._callers[function] = [
                (file, call)
                for file in self.files
                for call in self._calls[file.path]
                if (last_name(call.func) == (owner if named == "__init__" else named))
                or (named in ("forward", "__call__") and owner and self.class_of(file, call.func) == owner)
            ]
        return self._callers[function]
