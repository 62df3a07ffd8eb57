"""The calls that create optimizers, and the models whose parameters they get."""

from __future__ import annotations

from typing import Any, NamedTuple

import libcst as cst

from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import calls_below, code, last_name, nodes_below

OPTIMIZERS = (
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
    "SparseAdam", "Adafactor", "Muon", "AdamP", "Lamb", "LARS", "Lion", "NovoGrad", "Ranger", "AdaBelief", "AdaBound",
)  # fmt: skip
_GIVES_WEIGHTS = ("parameters", "named_parameters")


class Optimizer(NamedTuple):
    """A call that creates an optimizer. `models` are the expressions whose parameters it gets, as far as they are
    known."""

    file: SourceFile
    call: cst.Call
    models: tuple[str, ...]


def find_optimizers(program: Program) -> list[Optimizer]:
    found = []
    for file in program.files:
        for call in calls_below(file.module):
            if _makes_optimizer(program, file, call) and not _is_base_init(call):
                found.append(Optimizer(file, call, _models(program, file, call)))
    return found


def _is_base_init(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Call)


def _makes_optimizer(program: Program, file: SourceFile, call: cst.Call) -> bool:
    name = last_name(call.func)
    if name in OPTIMIZERS:
        return bool(call.args)
    if name in program.classes:
        return any(
            "Optimizer" in last_name(base.value) or last_name(base.value) in OPTIMIZERS
            for base in program.classes[name].bases
        )
    if program.called(file, call):
        return False
    looked_up = code(call.func)
    if isinstance(call.func, (cst.Call, cst.Subscript)) and ("optim" in looked_up.lower()) and call.args:
        return True  # getattr(torch.optim, name)(…), optim.__dict__[name](…)
    return name in ("create_optimizer", "create_optimizer_v2") or _is_stepped(program, file, call)


def _is_stepped(program: Program, file: SourceFile, call: cst.Call) -> bool:
    """Return whether a call creates an optimizer, according to its use: the call gets a model's parameters, and assigns
    a name on which `step` and `zero_grad` are called."""
    if not any(last_name(inner.func) in _GIVES_WEIGHTS for arg in call.args for inner in calls_below(arg.value)):
        return False
    around = next(file.around(call), None)
    if not isinstance(around, cst.Assign):
        return False
    name = code(around.targets[0].target)
    methods = {
        last_name(each.func)
        for each in calls_below(file.module)
        if isinstance(each.func, cst.Attribute) and code(each.func.value) == name
    }
    return {"step", "zero_grad"} <= methods


def _models(program: Program, file: SourceFile, call: cst.Call) -> tuple[str, ...]:
    """Return the names of the models whose `parameters()` the call that creates an optimizer gets, directly or through
    a name that is assigned in the same function."""
    inner = file.function_around(call)
    found: dict[str, None] = {}
    pending: list[Any] = [arg.value for arg in call.args]
    for value in pending:
        for node in nodes_below(value):
            if (
                isinstance(node, cst.Call)
                and last_name(node.func) in _GIVES_WEIGHTS
                and isinstance(node.func, cst.Attribute)
            ):
                model = node.func.value
                if all(isinstance(each, (cst.Name, cst.Attribute)) for each in _parts(model)):
                    found.update(dict.fromkeys(_names_outside(file, model)))
            elif isinstance(node, cst.Name) and len(pending) < 20:
                pending += [
                    each
                    for each in program.values_of(file, node)
                    if each not in pending and file.function_around(each) is inner
                ]
    return tuple(found)


def _names_outside(file: SourceFile, model: cst.BaseExpression) -> list[str]:
    """Return the names of the models that an expression denotes outside of a comprehension: `a` and `b` for `m` in `for
    m in (a, b)`; an empty list if the comprehension does not list the models."""
    for around in file.around(model):
        if isinstance(around, (cst.ListComp, cst.GeneratorExp)) and code(around.for_in.target) in code(model).split(
            "."
        ):
            models = around.for_in.iter
            is_listed = isinstance(models, (cst.List, cst.Tuple)) and code(around.for_in.target) == code(model)
            return [code(each.value) for each in models.elements] if is_listed else []  # type: ignore[attr-defined]
    return [code(model).replace(".module", "")]


def _parts(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return an expression and the objects of its attributes, from the outside in: `a.b.c`, `a.b` and `a`."""
    parts = [value]
    while isinstance(parts[-1], cst.Attribute):
        parts.append(parts[-1].value)
    return parts
