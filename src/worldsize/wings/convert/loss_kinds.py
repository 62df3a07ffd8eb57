"""Analysis of expressions: whether a loss, or another figure, is a mean or a sum over the batch's samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import libcst as cst

from worldsize.wings.convert.call_kinds import CallKinds
from worldsize.wings.convert.definitions import Definition, target_names
from worldsize.wings.convert.kinds import (
    MIXED,
    NUMBER,
    SAME,
    SAMPLES,
    SIZE,
    Kind,
    first_mixed,
    is_same,
    kind_of_product,
    kind_of_ratio,
    kind_of_several,
    kind_of_sum,
)
from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import GOES_THROUGH, code, is_counting, is_transposed, last_name, nodes_below
from worldsize.wings.convert.value_origins import ValueOrigins

_OF_WEIGHTS = ("parameters", "named_parameters", "modules", "named_modules", "children", "param_groups", "buffers")
_OF_DICTIONARY = ("items", "values", "keys")
_DEEPEST = 60
_MOST_CUTS = 2_000


class LossKinds:
    def __init__(self, program: Program) -> None:
        self._program = program
        self.origins = ValueOrigins(program)
        self._calls = CallKinds(program, self)
        self._known: dict[cst.CSTNode, Kind] = {}
        self._open: dict[cst.CSTNode, int] = {}
        self._cut = 0  # depth of the outermost open value that a value used; a value is cached if that is itself
        self._cuts = 0

    def kind(self, file: SourceFile, value: cst.CSTNode) -> Kind:
        if value in self._known:
            return self._known[value]
        depth = len(self._open)
        if value in self._open or depth > _DEEPEST:
            self._cut = min(self._cut, self._open.get(value, 0))
            self._cuts += 1
            return NUMBER
        before, self._cut = self._cut, depth
        self._open[value] = depth
        found = self._kind(file, value)
        del self._open[value]
        if self._cut == depth or self._cuts > _MOST_CUTS:
            self._known[value] = found
            self._cut = before
        self._cut = min(before, self._cut)
        return found

    def mixed(self, file: SourceFile, node: cst.CSTNode, reason: str) -> Kind:
        return Kind(MIXED, file.path, file.line(node), reason)

    def _kind(self, file: SourceFile, value: cst.CSTNode) -> Kind:
        if isinstance(value, cst.BinaryOperation):
            return self._operation(file, value)
        if isinstance(value, cst.UnaryOperation):
            return self.kind(file, value.expression)
        if isinstance(value, cst.Call):
            return self._calls.kind(file, value)
        if isinstance(value, cst.Subscript):
            return self._subscript(file, value)
        if isinstance(value, cst.Attribute):
            return self._attribute(file, value)
        if isinstance(value, cst.Name):
            return self._name(file, value)
        if isinstance(value, cst.IfExp):
            return self.of_several(file, [value.body, value.orelse])
        if isinstance(value, (cst.ListComp, cst.GeneratorExp)):
            return self.kind(file, value.elt)
        if isinstance(value, (cst.NamedExpr, cst.DictComp)):
            return self.kind(file, value.value)
        if isinstance(value, (cst.Tuple, cst.List, cst.Dict)):
            return self.of_several(file, [each.value for each in value.elements])
        if isinstance(value, (cst.Comparison, cst.BooleanOperation)):
            return self._comparison(file, value)
        return NUMBER

    def of_several(self, file: SourceFile, values: list[cst.BaseExpression]) -> Kind:
        kinds = [self.kind(file, each) for each in values]
        return (kind_of_several(kinds) or SAMPLES) if kinds else NUMBER

    def _operation(self, file: SourceFile, value: cst.BinaryOperation) -> Kind:
        left, right = self.kind(file, value.left), self.kind(file, value.right)
        return self._combined(file, value, left, right, value.operator)

    def _combined(self, file: SourceFile, node: cst.CSTNode, left: Kind, right: Kind, operator: cst.CSTNode) -> Kind:
        mixed = first_mixed((left, right))
        if mixed is not None:
            return mixed
        if isinstance(operator, (cst.Add, cst.Subtract, cst.AddAssign, cst.SubtractAssign)):
            found = kind_of_sum(left, right)
        elif isinstance(operator, (cst.Multiply, cst.MultiplyAssign)):
            found = kind_of_product(left, right)
        elif isinstance(operator, (cst.Divide, cst.DivideAssign)):
            found = kind_of_ratio(left, right)
        elif isinstance(operator, cst.MatrixMultiply):
            return self._matrix_product(file, node, left, right)
        else:
            found = _kind_of_values((left, right))
        if found is not None:
            return found
        words = {"mean": "a mean", "sum": "a sum", "size": "the size", "samples": "values"}
        parts = " and ".join(dict.fromkeys(words.get(each.word, "a number") for each in (left, right)))
        return self.mixed(file, node, f"{parts} of the batch, combined")

    def _matrix_product(self, file: SourceFile, node: cst.CSTNode, left: Kind, right: Kind) -> Kind:
        if left == right == SAMPLES and is_transposed(node.right if isinstance(node, cst.BinaryOperation) else node):
            return self.mixed(file, node, "each sample is compared with the others of its batch")
        return _kind_of_values((left, right)) or SAMPLES

    def _comparison(self, file: SourceFile, value: cst.Comparison | cst.BooleanOperation) -> Kind:
        others = [each.comparator for each in value.comparisons] if isinstance(value, cst.Comparison) else [value.right]
        kinds = [self.kind(file, each) for each in (value.left, *others)]
        return (
            first_mixed(kinds) or _kind_of_values(kinds) or self.mixed(file, value, "a comparison of a whole batch's")
        )

    def _subscript(self, file: SourceFile, value: cst.Subscript) -> Kind:
        if code(value).endswith((".shape[0]", ".size()[0]")):
            return self.size(file, value.value)
        if code(value.value).endswith((".shape", ".size()")):
            return NUMBER
        inner = self.kind(file, value.value)
        if inner != SAMPLES:
            return inner
        first = value.slice[0].slice
        is_part = False
        if isinstance(first, cst.Slice):
            limits = [each for each in (first.lower, first.upper) if each is not None and code(each) != "0"]
            is_part = bool(limits) and not self._is_transposed(file, value.value)
        elif isinstance(first, cst.Index):
            is_part = self.kind(file, first.value) == SAMPLES and not isinstance(first.value, cst.Tuple)
        return self.mixed(file, value, "some rows of the batch are taken") if is_part else SAMPLES

    def _is_transposed(self, file: SourceFile, value: cst.BaseExpression) -> bool:
        """Return whether the first dimension of an expression's value is not that of the samples, because it was
        transposed, as in `pred.t().eq(target)`."""
        if is_transposed(value):
            return True
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
            return self._is_transposed(file, value.func.value)
        if not isinstance(value, cst.Name):
            return False
        found, _ = self.origins.definitions(file, value, file.function_around(value))
        return bool(found) and all(self._is_transposed(file, each.value) for each in found)

    def size(self, file: SourceFile, value: cst.BaseExpression) -> Kind:
        """Return the Kind of the first size (`shape[0]`) of an expression's value: SIZE if the value has a row for each
        sample, MIXED if the value is mixed, NUMBER otherwise."""
        if isinstance(value, (cst.Attribute, cst.Call)) and code(value).endswith((".shape", ".size()")):
            value = value.func.value if isinstance(value, cst.Call) else value.value  # type: ignore[attr-defined]
        inner = self.kind(file, value)
        return SIZE if inner == SAMPLES else inner if inner.word == MIXED else NUMBER

    def _attribute(self, file: SourceFile, value: cst.Attribute) -> Kind:
        given = self.origins.of_attribute(file, value)
        if given or code(value.value) in ("self", "cls"):
            return self._of_definitions(given[0][0] if given else file, [each for _, each in given])
        inner = self.kind(file, value.value)
        if inner == SAMPLES and value.attr.value == "grad":
            return self.mixed(file, value, "a gradient by the samples")
        if inner.word == MIXED or value.attr.value in ("data", "T", "mT", "real"):
            return inner
        if value.attr.value in ("dtype", "device", "ndim", "is_cuda", "requires_grad"):
            return NUMBER
        return SAMPLES if inner == SAMPLES else SAME

    def _name(self, file: SourceFile, value: cst.Name) -> Kind:
        if value.value in ("True", "False", "None"):
            return NUMBER
        scopes = []
        for around in file.around(value):
            if isinstance(around, (cst.ListComp, cst.GeneratorExp, cst.DictComp, cst.SetComp)):
                names = list(target_names(around.for_in.target))
                if value.value in names:
                    return self._element(file, around.for_in.iter, names.index(value.value))
            elif isinstance(around, cst.Lambda) and value.value in [each.name.value for each in around.params.params]:
                return SAMPLES
            elif isinstance(around, (cst.FunctionDef, cst.Module)):
                scopes.append(around)
        for scope in scopes:
            found, is_sure = self.origins.definitions(file, value, scope)
            is_parameter = isinstance(scope, cst.FunctionDef) and value.value in parameters(scope)
            given = [self._parameter(file, scope, value.value)] if is_parameter and not is_sure else []
            if found or given:
                return self._of_definitions(file, found, given)
        return NUMBER

    def _parameter(self, file: SourceFile, function: Any, name: str) -> Kind:
        if name in ("self", "cls"):
            return NUMBER
        given = self._program.given(function, name)
        if given:
            kinds = [self.kind(given_file, each) for given_file, each in given]
            return kind_of_several(kinds) or SAMPLES
        default = parameters(function)[name]
        return SAMPLES if default is None else self.kind(file, default)

    def _of_definitions(self, file: SourceFile, found: list[Definition], given: Sequence[Kind] = ()) -> Kind:
        kinds = list(given)
        for each in found:
            kind = self._of_definition(file, each)
            if each.operator is None:
                kinds.append(kind)
            else:
                before = kind_of_several(kinds) or NUMBER
                is_first = before == NUMBER and isinstance(each.operator, cst.AddAssign)  # a sum that began with 0
                kinds = [kind if is_first else self._combined(file, each.node, before, kind, each.operator)]
        return (kind_of_several(kinds) or SAMPLES) if kinds else NUMBER

    def _of_definition(self, file: SourceFile, definition: Definition) -> Kind:
        if definition.is_loop:
            return self._element(file, definition.value, definition.place or 0)
        if definition.place is None:
            appended = self._appended(file, definition) if isinstance(definition.value, cst.List) else []
            return kind_of_several([self.kind(file, definition.value), *appended]) or SAMPLES
        return self.part(file, definition.value, definition.place)

    def _appended(self, file: SourceFile, definition: Definition) -> list[Kind]:
        """Return the Kinds of the values that the function appends to the list which the definition creates; an empty
        list if the definition is no assignment."""
        if not isinstance(definition.node, cst.Assign):
            return []
        name = code(definition.node.targets[0].target) + ".append"
        calls = [each for each in nodes_below(file.function_around(definition.node)) if isinstance(each, cst.Call)]
        return [self.kind(file, each.args[0].value) for each in calls if each.args and code(each.func) == name]

    def part(self, file: SourceFile, value: cst.BaseExpression, place: int) -> Kind:
        """Return the Kind of the element at position `place` of a value that is unpacked, such as a shape or the result
        of a function."""
        if code(value).endswith((".shape", ".size()")):
            return self.size(file, value) if place == 0 else NUMBER
        returned = self._calls.returned(file, value, place) if isinstance(value, cst.Call) else None
        return returned if returned is not None else self.kind(file, value)

    def _element(self, file: SourceFile, iterated: cst.BaseExpression, place: int, depth: int = 0) -> Kind:
        """Return the Kind of an element of the expression `iterated`, which a loop iterates over. `place` is the
        position of the loop's variable if the element is unpacked."""
        if is_counting(iterated):
            return NUMBER
        name = last_name(iterated.func) if isinstance(iterated, cst.Call) else last_name(iterated)
        if name in _OF_WEIGHTS:
            return SAME
        if isinstance(iterated, cst.Call) and name == "enumerate":
            value = iterated.args[0].value if iterated.args else None
            return NUMBER if place == 0 or value is None else self._element(file, value, place - 1, depth + 1)
        if isinstance(iterated, (cst.List, cst.Tuple, cst.ListComp, cst.GeneratorExp)):
            return self.kind(file, iterated)
        if isinstance(iterated, cst.Call) and isinstance(iterated.func, cst.Attribute) and name in _OF_DICTIONARY:
            is_key = name == "keys" or (name == "items" and place == 0)
            return NUMBER if is_key else self.kind(file, iterated.func.value)
        if depth > _DEEPEST:  # `loader = tqdm(loader)`
            return SAMPLES
        if isinstance(iterated, cst.Call) and name in GOES_THROUGH and name not in ("zip", "chain") and iterated.args:
            return self._element(file, iterated.args[0].value, place, depth + 1)
        origins = self._program.origins(file, iterated) if isinstance(iterated, (cst.Name, cst.Attribute)) else []
        if len(origins) == 1 and isinstance(origins[0][1], cst.Call) and last_name(origins[0][1].func) in GOES_THROUGH:
            return self._element(*origins[0], place, depth + 1)
        given = self._program.values_of(file, iterated) if isinstance(iterated, (cst.Name, cst.Attribute)) else []
        if given and all(isinstance(each, (cst.List, cst.Tuple, cst.ListComp, cst.Dict)) for each in given):
            return self.kind(file, iterated)
        return SAMPLES


def parameters(function: cst.FunctionDef) -> dict[str, cst.BaseExpression | None]:
    """Return a mapping of the names of a function's parameters to their default expressions; None for a parameter
    without a default."""
    params = function.params
    found = [*params.posonly_params, *params.params, *params.kwonly_params]
    found += [each for each in (params.star_arg, params.star_kwarg) if isinstance(each, cst.Param)]
    return {each.name.value: each.default for each in found}


def _kind_of_values(kinds: tuple[Kind, ...] | list[Kind]) -> Kind | None:
    """Return the Kind of a value that is computed element by element from values of the given kinds: NUMBER, SAME or
    SAMPLES. None if one of these is a mean, a sum or another kind."""
    if all(is_same(each) for each in kinds):
        return NUMBER if all(each == NUMBER for each in kinds) else SAME
    return SAMPLES if all(is_same(each) or each == SAMPLES for each in kinds) else None
