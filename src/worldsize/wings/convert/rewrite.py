"""The explicit DistributedDataParallel version of a script for one process, with its formatting kept."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import libcst as cst

from worldsize.wings.convert.survey import (
    Survey,
    argument,
    code,
    has_sampler,
    is_main,
    is_training_loader,
    last_name,
    survey,
    trained_models,
)

_HEAD = """\
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data.distributed import DistributedSampler

RANK = int(os.environ.get("RANK", 0))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", 1))
"""
_BEGIN = """\
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
if torch.cuda.is_available():
    torch.cuda.set_device(LOCAL_RANK)
"""
_END = "dist.destroy_process_group()\n"
_WRAP = "%s = DistributedDataParallel(%s, device_ids=[LOCAL_RANK] if torch.cuda.is_available() else None)\n"
_WRAPPER_ATTRIBUTES = (
    "train", "eval", "parameters", "named_parameters", "zero_grad", "to", "cuda", "cpu", "apply", "modules",
    "named_modules", "children", "buffers", "named_buffers", "requires_grad_", "forward", "training", "module", "half",
    "float", "double", "bfloat16", "share_memory", "register_forward_hook",
)  # fmt: skip
_STATE_METHODS = ("state_dict", "load_state_dict")


class Conversion(NamedTuple):
    """A script after conversion. `remarks`: what was left alone, as (line, text); `reason`: why nothing was changed, or
    None."""

    text: str
    remarks: tuple[tuple[int, str], ...]
    reason: str | None = None


def convert_source(source: str) -> Conversion:
    """Rewrite a script. Raises cst.ParserSyntaxError for what is no Python."""
    found = survey(source)
    if found.own is not None:
        return Conversion(source, (), f"it distributes itself already ({found.own})")
    if not found.models:
        return Conversion(
            source, tuple(sorted(found.remarks)), "no optimizer was found that holds a model's parameters"
        )
    rewriter = _Rewriter(found)
    changed = cst.parse_module(source).visit(rewriter)
    remarks = [*found.remarks, *rewriter.remarks(source)]
    return Conversion(changed.code, tuple(sorted(set(remarks))))


def _statements(text: str) -> list[Any]:
    return list(cst.parse_module(text).body)


class _Rewriter(cst.CSTTransformer):
    """One pass from the inside out; `_wrapped` are the models that are wrapped by now, in the order of the text."""

    def __init__(self, found: Survey) -> None:
        super().__init__()
        self._found = found
        self._wrapped: list[str] = []
        self._set_epochs: set[str] = set()
        self._loops = 0
        self._saved = False

    def remarks(self, source: str) -> list[tuple[int, str]]:
        missing = [name for name in self._found.loaders if name not in self._set_epochs]
        lines = source.split("\n")  # as Python counts them: str.splitlines ends them at form feeds, too
        notes = []
        for name in missing:
            line = next((number for number, text in enumerate(lines, 1) if name + " =" in text), 1)
            notes.append((line, f"call {name}.sampler.set_epoch(epoch) at the beginning of each epoch"))
        for model in self._found.models:
            past = f"{model}.{{}} goes past DDP, which averages after {model}(…) only"
            called = [(line, word) for line, text in enumerate(lines, 1) for word in _methods(text, model)]
            notes += [(line, past.format(word)) for line, word in called]
        return notes

    # expressions

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        name = last_name(updated_node.func)
        if name == "DataParallel" and updated_node.args:
            return updated_node.args[0].value
        if name in ("tqdm", "trange") and argument(updated_node, "disable") is None:
            return updated_node.with_changes(args=[*_with_commas(updated_node.args), _keyword("disable", "RANK != 0")])
        if is_training_loader(original_node) and not has_sampler(updated_node):
            return _with_sampler(updated_node)
        return updated_node

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> Any:
        if updated_node.raw_value == "cuda:0":
            return cst.parse_expression('f"cuda:{LOCAL_RANK}"')
        return updated_node

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        model, attribute = code(updated_node.value), updated_node.attr.value
        known = model in self._wrapped or (
            self._wrapped and attribute in _STATE_METHODS and model in self._found.models
        )
        if known and attribute not in _WRAPPER_ATTRIBUTES:
            return updated_node.with_changes(value=cst.Attribute(updated_node.value, cst.Name("module")))
        return updated_node

    # statements

    def leave_SimpleStatementLine(self, original_node: Any, updated_node: Any) -> Any:
        first = original_node.body[0]
        called = code(first.value.func) if isinstance(first, cst.Expr) and isinstance(first.value, cst.Call) else ""
        if called in ("print", "torch.save"):
            self._saved = self._saved or called == "torch.save"
            return _with_rank_guard(updated_node)
        if self._saved and "torch.load(" in code(original_node):
            barrier = _statements("dist.barrier()\n")[0].with_changes(leading_lines=updated_node.leading_lines)
            return cst.FlattenSentinel([barrier, updated_node.with_changes(leading_lines=[])])
        if isinstance(first, (cst.Assign, cst.AnnAssign)) and isinstance(first.value, cst.Call):
            models = [model for model in trained_models(first.value) if model not in self._wrapped]
            self._wrapped += models
            wraps = [statement for model in models for statement in _statements(self._wrap(model))]
            if not models and is_training_loader(first.value):
                return _with_named_dataset(updated_node)
            if wraps:
                wraps[0] = wraps[0].with_changes(leading_lines=updated_node.leading_lines)
                return cst.FlattenSentinel([*wraps, updated_node.with_changes(leading_lines=[])])
        return updated_node

    def _wrap(self, model: str) -> str:
        """The line that wraps the model, with the names that it was given before."""
        aliases = [alias for alias in self._found.aliases.get(model, ()) if alias.startswith("self.")]
        return _WRAP % (model, model) + "".join(f"{alias} = {model}\n" for alias in aliases)

    def visit_For(self, node: cst.For) -> None:
        self._loops += _is_counting(node)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> cst.For:
        counting = _is_counting(original_node)
        self._loops -= counting
        if not counting or self._loops or not isinstance(updated_node.body, cst.IndentedBlock):
            return updated_node
        text = code(original_node.body)
        names = [name for name in self._found.loaders if name in text]
        if not names:
            return updated_node
        self._set_epochs.update(names)
        target = code(updated_node.target)
        if target == "_":
            target = "epoch"
            updated_node = updated_node.with_changes(target=cst.Name(target))
        calls = [each for name in names for each in _statements(f"{name}.sampler.set_epoch({target})\n")]
        return updated_node.with_changes(body=updated_node.body.with_changes(body=[*calls, *updated_node.body.body]))

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        if not is_main(original_node) or not isinstance(updated_node.body, cst.IndentedBlock):
            return updated_node
        body = [*_statements(_BEGIN), *updated_node.body.body, *_statements(_END)]
        return updated_node.with_changes(body=updated_node.body.with_changes(body=body))

    def leave_Module(self, original_node: cst.Module, updated_node: cst.Module) -> cst.Module:
        body = list(updated_node.body)
        cut = _imports_end(body)
        present = [code(each).strip() for each in body[:cut]]
        head = [each for each in _statements(_HEAD) if code(each).strip() not in present]
        begin, end = ([], []) if self._found.has_main else (_statements(_BEGIN), _statements(_END))
        return updated_node.with_changes(body=[*body[:cut], *head, *begin, *body[cut:], *end])


def _imports_end(body: Sequence[Any]) -> int:
    """The place after the last import at the beginning, or after the documentation."""
    last = 0
    for place, statement in enumerate(body):
        line = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(line, (cst.Import, cst.ImportFrom)) or (place == 0 and isinstance(line, cst.Expr)):
            last = place + 1
        elif not isinstance(statement, (cst.Try, cst.SimpleStatementLine)):
            break
    return last


def _is_counting(node: cst.For) -> bool:
    return isinstance(node.iter, cst.Call) and last_name(node.iter.func) in ("range", "trange", "tqdm", "count")


def _with_named_dataset(statement: Any) -> Any:
    """The statement, with a name for a data set that the loader and the sampler both need."""
    assign = statement.body[0]
    dataset = argument(assign.value, "dataset", 0)
    if not isinstance(dataset, cst.Call):
        return statement
    name = last_name(assign.targets[0].target) + "_dataset"
    parts = _statements(f"{name} = {code(dataset)}\n")
    named = statement.deep_replace(dataset, cst.Name(name))
    again = f"DistributedSampler({code(dataset)},"
    text = code(named).replace(again, f"DistributedSampler({name},").strip()
    after = _statements(text + "\n")[0].with_changes(trailing_whitespace=statement.trailing_whitespace)
    return cst.FlattenSentinel([parts[0].with_changes(leading_lines=statement.leading_lines), after])


def _with_rank_guard(statement: Any) -> cst.If:
    return cst.If(
        cst.parse_expression("RANK == 0"),
        cst.IndentedBlock([statement.with_changes(leading_lines=[])]),
        leading_lines=statement.leading_lines,
    )


def _keyword(name: str, value: str) -> cst.Arg:
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return cst.Arg(cst.parse_expression(value), cst.Name(name), equal=equal)


def _with_commas(args: Sequence[cst.Arg]) -> list[cst.Arg]:
    """The arguments, with a comma after each."""
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    return [arg if isinstance(arg.comma, cst.Comma) else arg.with_changes(comma=comma) for arg in args]


def _with_sampler(call: cst.Call) -> cst.Call:
    """The call that makes a loader, with a sampler: each rank loads its part of the same global batch."""
    dataset, batch = argument(call, "dataset", 0), argument(call, "batch_size", 1)
    shuffle, drop = argument(call, "shuffle", 2), argument(call, "drop_last")
    if dataset is None or shuffle is None:
        return call
    kept = [arg for place, arg in enumerate(call.args) if not _is_argument(arg, "shuffle", place, 2)]
    changed = [
        arg.with_changes(value=cst.parse_expression(f"{_parenthesize(batch)} // WORLD_SIZE"))
        if batch is not None and arg.value is batch
        else arg
        for arg in kept
    ]
    words = "{}, shuffle={}{}".format(code(dataset), code(shuffle), "" if drop is None else ", drop_last=" + code(drop))
    return call.with_changes(args=[*_with_commas(changed), _keyword("sampler", f"DistributedSampler({words})")])


def _is_argument(arg: cst.Arg, name: str, place: int, expected: int) -> bool:
    return arg.keyword.value == name if arg.keyword is not None else place == expected


def _parenthesize(value: cst.BaseExpression) -> str:
    text = code(value)
    return text if isinstance(value, (cst.Name, cst.Attribute, cst.Integer, cst.Subscript, cst.Call)) else f"({text})"


def _methods(text: str, model: str) -> list[str]:
    """The model's own methods that a line calls."""
    words = re.findall(rf"(?<![\w.]){re.escape(model)}\.(\w+)\(", text)
    return [word for word in words if word not in (*_WRAPPER_ATTRIBUTES, *_STATE_METHODS)]
