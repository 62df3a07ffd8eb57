"""Remarks, with their lines, on code by which the figures of a distributed training differ from those of a single
process, although the training is right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import libcst as cst

from worldsize.wings.convert.kinds import is_same
from worldsize.wings.convert.loss_kinds import LossKinds
from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import argument, calls_below, children, code, first_name, last_name

_NORMS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LazyBatchNorm1d", "LazyBatchNorm2d", "batch_norm", "BatchNorm")
_WITH_NORMS = (
    "resnet", "resnext", "wide_resnet", "densenet", "mobilenet", "efficientnet", "inception", "googlenet", "shufflenet",
    "mnasnet", "regnet",
)  # fmt: skip
_DROPOUTS = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "dropout", "dropout2d", "alpha_dropout")
_DRAWS = (
    "rand", "randn", "randint", "randn_like", "rand_like", "randint_like", "randperm", "normal", "bernoulli",
    "multinomial", "normal_", "uniform_", "bernoulli_", "rsample", "sample", "beta", "random", "uniform", "choice",
    "gumbel_softmax", "exponential_", "shuffle", "standard_normal", "poisson", "permutation", "sample_n",
)  # fmt: skip
_PADS = ("pad_sequence", "pad_packed_sequence", "DataCollatorWithPadding", "DataCollatorForLanguageModeling")
_SIZES = ("batch_size", "batchsize", "bs", "bsz")
_NORM_TEXT = (
    "BatchNorm computes its statistics from each rank's part of a batch; on GPUs, nn.SyncBatchNorm uses the whole batch"
)
_DRAW_TEXT = "each rank draws its own random numbers: results differ as with another seed"
_PAD_TEXT = "each rank pads its part of a batch to its own length: a mean over padded places is not the whole batch's"
_STATE_TEXT = "{} is updated from each rank's part of the batch: after each pass, all ranks get rank 0's"
_QUOTES = "\"'"
_SIZE_TEXT = "{} is the whole batch's size: a rank's part has fewer samples"

Place = tuple[SourceFile, int, str]


class Doubts:
    """The remarks on code of a training by which its figures differ from those of a single process, although the
    training is right. `remarks` are (file, line, text). `norm` is the place of a BatchNorm."""

    def __init__(
        self, program: Program, kinds: LossKinds, bodies: list[tuple[SourceFile, cst.CSTNode, set[str]]]
    ) -> None:
        self._program = program
        self._kinds = kinds
        self.remarks: list[Place] = []
        trained = self._trained(bodies)
        self.norm = self._first(program.files, _is_norm)
        self._say(self.norm, _NORM_TEXT)
        dropout = self._first(program.files, _is_dropout)
        self._say(dropout or next(((file, node) for file, node in trained if _is_draw(node)), None), _DRAW_TEXT)
        self._say(self._first(program.files, _is_padding), _PAD_TEXT)
        self._say_sizes(trained)
        self._say_states(trained)

    def _say(self, place: tuple[SourceFile, cst.CSTNode] | None, text: str) -> None:
        if place is not None:
            self.remarks.append((place[0], place[0].line(place[1]), text))

    def _first(self, files: Any, test: Any) -> tuple[SourceFile, cst.CSTNode] | None:
        return next(((file, call) for file in files for call in calls_below(file.module) if test(call)), None)

    def _trained(self, bodies: list[tuple[SourceFile, cst.CSTNode, set[str]]]) -> list[tuple[SourceFile, cst.CSTNode]]:
        """Return pairs (file, node) for all nodes of the code that trains: the `bodies` of the loops over batches, and
        the functions and models that they call."""
        found: list[tuple[SourceFile, cst.CSTNode]] = []
        pending = [(file, body) for file, body, _ in bodies]
        seen: set[cst.CSTNode] = set()
        while pending:
            file, body = pending.pop(0)
            if body in seen:
                continue
            seen.add(body)
            for node in _without_evaluation(self._program, file, body):
                found.append((file, node))
                if isinstance(node, cst.Call):
                    functions = self._program.called(file, node) or self._program.forwards(file, node)
                    pending += [(each.file, each.node.body) for each in functions]
        return found

    def _say_sizes(self, trained: list[tuple[SourceFile, cst.CSTNode]]) -> None:
        """Add remarks on names of the whole batch's size, such as `batch_size`, that are used in code that trains,
        where a rank works on a part of the batch."""
        said: set[str] = set()
        for file, node in trained:
            is_name = isinstance(node, (cst.Name, cst.Attribute)) and last_name(node).lower() in _SIZES
            if is_name and code(node) not in said and _is_used(file, node) and not self._is_measured(file, node):
                said.add(code(node))
                self._say((file, node), _SIZE_TEXT.format(code(node)))

    def _say_states(self, trained: list[tuple[SourceFile, cst.CSTNode]]) -> None:
        """Add remarks on buffers of models that the code that trains updates with values of a rank's part of the
        batch."""
        buffers = {
            f"self.{code(call.args[0].value).strip(_QUOTES)}"
            for file in self._program.files
            for call in calls_below(file.module)
            if last_name(call.func) == "register_buffer" and call.args
        }
        said: set[str] = set()
        for file, node in trained:
            name, values = _updated(node)
            kinds = [self._kinds.kind(file, each) for each in values]
            if name in buffers - said and any(not is_same(each) for each in kinds):
                said.add(name)
                self._say((file, node), _STATE_TEXT.format(name))

    def _is_measured(self, file: SourceFile, node: Any) -> bool:
        """Return whether the name of a batch size was assigned the size of actual data, such as `len(x)`, or has no
        known value. Return False for an attribute."""
        if isinstance(node, cst.Attribute):
            return False
        texts = [code(each) for each in self._program.values_of(file, node)]
        return any(mark in text for text in texts for mark in ("size(", "shape", "len(")) or not texts


def _updated(node: cst.CSTNode) -> tuple[str, list[cst.BaseExpression]]:
    """Return the text of the target that a statement or call changes in place or assigns, and the values: `self.mean`
    for `self.mean.mul_(0.9).add_(x)`. Return ("", []) for other nodes."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value.endswith("_"):
        target: cst.BaseExpression = node.func.value
        values = [each.value for each in node.args]
    elif isinstance(node, (cst.Assign, cst.AugAssign)):
        target = node.target if isinstance(node, cst.AugAssign) else node.targets[0].target
        values = [node.value]
    else:
        return "", []
    while isinstance(target, (cst.Attribute, cst.Subscript, cst.Call)) and code(target).count(".") != 1:
        target = target.func if isinstance(target, cst.Call) else target.value
    if isinstance(target, cst.Subscript):
        target = target.value
    return code(target), values


def _is_used(file: SourceFile, node: cst.CSTNode) -> bool:
    """Return whether the name of a batch size is passed to a function other than a loader, or is an element of a tuple
    or list, such as a shape."""
    parent, outer = list(file.around(node))[:2]
    if isinstance(parent, cst.Arg):
        return parent.keyword is not node and not (isinstance(outer, cst.Call) and "Loader" in last_name(outer.func))
    return isinstance(parent, cst.Element)


def _without_evaluation(program: Program, file: SourceFile, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield a node and the nodes below it, without loops over loaders that do not train: these evaluate."""
    yield node
    for child in children(node):
        is_other = isinstance(child, cst.For) and isinstance(child.iter, (cst.Name, cst.Attribute))
        if not is_other or program.trains(file, child) or "load" not in code(child.iter):
            yield from _without_evaluation(program, file, child)


def _is_norm(call: cst.Call) -> bool:
    name = last_name(call.func)
    if name in _NORMS or code(call.func).endswith("nn.BatchNorm2d"):
        return True
    return first_name(call.func) in ("models", "torchvision") and (name.startswith(_WITH_NORMS) or name.endswith("_bn"))


def _is_dropout(call: cst.Call) -> bool:
    if last_name(call.func) in _DROPOUTS:
        given = argument(call, "p", int(last_name(call.func).islower()))
        return given is None or code(given) not in ("0", "0.0")
    given = argument(call, "dropout")
    if given is not None and last_name(call.func) != "add_argument":
        return code(given) not in ("0", "0.0")
    return last_name(call.func) in ("TransformerEncoderLayer", "TransformerDecoderLayer", "Transformer")


def _is_draw(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and last_name(node.func) in _DRAWS


def _is_padding(call: cst.Call) -> bool:
    padding = argument(call, "padding")
    return last_name(call.func) in _PADS or (padding is not None and code(padding).strip("\"'") in ("True", "longest"))
