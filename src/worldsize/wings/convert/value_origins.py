"""The expressions that a value comes from, followed through names, attributes, parts of tuples, and results of
functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile

import libcst as cst

from worldsize.wings.convert.definitions import Definition, Definitions
from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import code, own_nodes

_CONTAINERS = (cst.Dict, cst.List, cst.Tuple, cst.Set, cst.ListComp, cst.DictComp, cst.GeneratorExp)

Value = tuple[SourceFile, cst.CSTNode]


def elements(value: cst.CSTNode) -> dict[object, cst.BaseExpression] | None:
    """Return the expressions of the elements of a dictionary by its constant keys, or of a tuple or a list by their
    positions; None for any other node."""
    if isinstance(value, (cst.Tuple, cst.List)):
        plain = takewhile(lambda each: not isinstance(each, cst.StarredElement), value.elements)
        return {place: each.value for place, each in enumerate(plain)}
    if isinstance(value, cst.Dict):
        pairs = [each for each in value.elements if isinstance(each, cst.DictElement)]
        return {each.key.evaluated_value: each.value for each in pairs if isinstance(each.key, cst.SimpleString)}
    if isinstance(value, cst.Call) and code(value.func) == "dict":
        return {each.keyword.value: each.value for each in value.args if each.keyword is not None}
    return None


class ValueOrigins:
    def __init__(self, program: Program) -> None:
        self._program = program
        self._definitions = {file.path: Definitions(file) for file in program.files}

    def definitions(self, file: SourceFile, value: cst.CSTNode, scope: cst.CSTNode) -> tuple[list[Definition], bool]:
        return self._definitions[file.path].reaching(value, scope)

    def of_attribute(self, file: SourceFile, value: cst.Attribute) -> list[tuple[SourceFile, Definition]]:
        """Return pairs (file, Definition) for the definitions of an attribute of `self`, or of an object whose class is
        in the training's files; an empty list for other attributes."""
        owner = self._program.class_of(file, value.value)
        name = f"self.{value.attr.value}"
        if code(value) == name:
            near, is_sure = self._definitions[file.path].reaching(value, file.function_around(value))
            if is_sure:
                return [(file, each) for each in near]
        elif owner not in self._program.classes:
            return []
        home = file if code(value) == name else self._program.class_files[owner]
        return [(home, each) for each in self._definitions[home.path].anywhere(name)]

    def origins(self, file: SourceFile, value: cst.CSTNode) -> list[Value]:
        """Return pairs (file, expression): the expression `value` itself, followed by the expressions that its value
        comes from."""
        found: dict[cst.CSTNode, SourceFile] = {}
        pending = [(file, value)]
        while pending:
            file, value = pending.pop()
            if value not in found:
                found[value] = file
                pending += self._next(file, value)
        return [(file, value) for value, file in found.items()]

    def is_container(self, file: SourceFile, value: cst.CSTNode) -> bool:
        return any(isinstance(each, _CONTAINERS) for _, each in self.origins(file, value))

    def parts(self, file: SourceFile, value: cst.Subscript) -> list[Value]:
        """Return pairs (file, expression) for the values that `out["n"]` or `out[2]` selects from dictionaries, tuples
        or lists that functions create and return; an empty list if one of them is not known."""
        key = value.slice[0].slice if len(value.slice) == 1 else None
        index = key.value if isinstance(key, cst.Index) else None
        if not isinstance(index, (cst.SimpleString, cst.Integer)):
            return []
        inner = file.function_around(value)
        found: list[Value] = []
        for home, each in self.origins(file, value.value):
            if home is file and home.function_around(each) is inner:
                continue
            values = elements(each)
            if values is not None and index.evaluated_value not in values:
                return []
            found += [(home, values[index.evaluated_value])] if values is not None else []
        return found

    def _next(self, file: SourceFile, value: cst.CSTNode) -> Iterator[Value]:
        if isinstance(value, cst.Attribute):
            for home, definition in self.of_attribute(file, value):
                yield from self._of_definition(home, definition)
        elif isinstance(value, cst.Name):
            found, _ = self._definitions[file.path].reaching(value, file.function_around(value))
            for definition in found:
                yield from self._of_definition(file, definition)
        elif isinstance(value, cst.Call):
            yield from self._returned(file, value, None)

    def _of_definition(self, file: SourceFile, definition: Definition) -> Iterator[Value]:
        if definition.is_loop or definition.operator is not None:
            return
        if definition.place is None:
            yield file, definition.value
        elif isinstance(definition.value, cst.Call):
            yield from self._returned(file, definition.value, definition.place)

    def _returned(self, file: SourceFile, call: cst.Call, place: int | None) -> Iterator[Value]:
        for function in self._program.called(file, call) or self._program.forwards(file, call):
            for node in own_nodes(function.node.body, cst.Return):
                if place is None and node.value is not None:
                    yield function.file, node.value
                elif isinstance(node.value, cst.Tuple) and place is not None and place < len(node.value.elements):
                    yield function.file, node.value.elements[place].value
