"""The kinds of the values that calls return, as seen from the batch: reductions, losses, functions and models of the
training's files."""

from __future__ import annotations

from typing import Protocol

import libcst as cst

from worldsize.wings.convert.kinds import (
    MEAN,
    NUMBER,
    PER_SIZE,
    SAME,
    SAMPLES,
    SIZE,
    SUM,
    Kind,
    first_mixed,
    is_same,
    kind_of_several,
)  # fmt: skip
from worldsize.wings.convert.program import Function, Program, SourceFile
from worldsize.wings.convert.syntax import argument, code, is_transposed, last_name, nodes_below, own_nodes

MODULES = ("torch", "F", "nn", "np", "numpy", "functional", "math", "th", "optim", "random", "einops")
LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "hinge_embedding_loss",
    "margin_ranking_loss", "multi_margin_loss", "soft_margin_loss", "triplet_margin_loss", "cosine_embedding_loss",
    "ctc_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "sigmoid_focal_loss",
    "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "NLLLoss",
    "KLDivLoss", "PoissonNLLLoss", "GaussianNLLLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "MultiMarginLoss",
    "SoftMarginLoss", "TripletMarginLoss", "CosineEmbeddingLoss", "CTCLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
)  # fmt: skip
_WEIGHTED = ("cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss")
_SAME_VALUE = (
    "item", "detach", "cpu", "float", "double", "half", "to", "cuda", "clone", "numpy", "tolist", "type", "contiguous",
    "squeeze", "view", "reshape", "requires_grad_", "long", "int", "values", "type_as", "abs_", "round", "unsqueeze",
)  # fmt: skip
_SAME_ARGUMENT = (
    "float",
    "int",
    "round",
    "scale",
    "stack",
    "cat",
    "Variable",
    "squeeze",
    "list",
    "as_tensor",
    "tensor",
)
_MEANS, _SUMS = ("mean", "nanmean", "average"), ("sum", "nansum", "count_nonzero")
_STATISTICS = (
    "max", "min", "median", "std", "var", "norm", "prod", "amax", "amin", "argmax", "argmin", "logsumexp", "quantile",
    "std_mean", "var_mean", "mode", "softmax", "log_softmax", "cumsum", "topk", "sort", "argsort", "kthvalue",
)  # fmt: skip
"""Functions that compute along a dimension."""
_WITH_NUMBER = ("topk", "kthvalue", "norm", "quantile")
"""Functions whose dimension comes after a number."""
_COMPARE = ("cdist", "pdist", "cov", "corrcoef", "unique", "bincount", "roll")
_LOSS_MEANS = {"mean": MEAN, "True": MEAN, "batchmean": MEAN, "elementwise_mean": MEAN, "sum": SUM, "False": SUM}
_ACROSS = "it is computed across the samples of a batch"


class Values(Protocol):
    def kind(self, file: SourceFile, value: cst.CSTNode) -> Kind: ...

    def mixed(self, file: SourceFile, node: cst.CSTNode, reason: str) -> Kind: ...

    def size(self, file: SourceFile, value: cst.BaseExpression) -> Kind: ...

    def part(self, file: SourceFile, value: cst.BaseExpression, place: int) -> Kind: ...


class CallKinds:
    def __init__(self, program: Program, values: Values) -> None:
        self._program = program
        self._values = values

    def kind(self, file: SourceFile, call: cst.Call) -> Kind:
        returned = self.returned(file, call)
        if returned is not None:
            return returned
        functions = self._program.origins(file, call.func)
        if functions and all(isinstance(each, cst.Lambda) for _, each in functions):
            home, function = functions[0]
            return self._values.kind(home, function.body)  # type: ignore[attr-defined]
        name = last_name(call.func)
        loss = self._loss_made(file, call)
        if loss is not None:
            return self._loss(file, call, *loss)
        if name in LOSSES and name.islower():
            return self._loss(file, call, file, call)
        if name in ("size", "len", "numel"):
            return self._size(file, call)
        is_method = isinstance(call.func, cst.Attribute) and not _is_of_module(file, call.func)
        value = call.func.value if is_method and isinstance(call.func, cst.Attribute) else None
        if name == "scale" or value is None:
            value = next((each.value for each in call.args if each.keyword is None), None)
        if value is not None and (is_method or isinstance(call.func, cst.Attribute) or name in _SAME_ARGUMENT):
            found = self._of_value(file, call, value, is_method and name != "scale")
            if found is not None:
                return found
        return self._of_arguments(file, call, is_method)

    def returned(self, file: SourceFile, call: cst.Call, place: int | None = None) -> Kind | None:
        """Return the Kind of the value that a call of a function or model of the training's files returns; None if the
        called function is in none of the files. `place` selects an element of a tuple."""
        whole, parts = [], []
        for function in self._functions(file, call):
            for node in own_nodes(function.node.body, cst.Return):
                if isinstance(node.value, cst.Tuple) and place is not None and place < len(node.value.elements):
                    parts.append(self._values.kind(function.file, node.value.elements[place].value))
                elif node.value is not None and place is not None:
                    whole.append(self._values.part(function.file, node.value, place))
                elif node.value is not None:
                    whole.append(self._values.kind(function.file, node.value))
        kinds = parts or whole
        return (kind_of_several(kinds) or SAMPLES) if kinds else None

    def _functions(self, file: SourceFile, call: cst.Call) -> list[Function]:
        return self._program.called(file, call) or self._program.forwards(file, call)

    def _loss_made(self, file: SourceFile, call: cst.Call) -> tuple[SourceFile, cst.Call] | None:
        """Return the call that created the called loss, such as `nn.MSELoss()` for the call `criterion(out, y)`, and
        the file of that call; None if no loss was created."""
        made = [(home, each) for home, each in self._program.origins(file, call.func) if code(each) != "None"]
        losses = [(home, each) for home, each in made if isinstance(each, cst.Call) and last_name(each.func) in LOSSES]
        return losses[0] if losses and len(losses) == len(made) else None

    def _loss(self, file: SourceFile, call: cst.Call, home: SourceFile, made: cst.Call) -> Kind:
        """Return the Kind of the value of a call of a loss function, such as MEAN or SUM. The loss was created by the
        call `made` in the file `home`."""
        kinds = [self._values.kind(file, each.value) for each in call.args if each.keyword is None]
        mixed = first_mixed(kinds)
        if mixed is not None:
            return mixed
        if all(is_same(each) for each in kinds):
            return SAME
        if MEAN in kinds or SUM in kinds:
            return self._values.mixed(file, call, _ACROSS)
        name = last_name(made.func)
        found = _reduction(made)
        ignored, weights = argument(made, "ignore_index"), argument(made, "weight")
        if name in _WEIGHTED and found == MEAN and (ignored is not None or weights is not None or _has_place(made)):
            what = "the targets that count" if ignored is not None else "weights of each class"
            return self._values.mixed(home, made, f"a mean over {what}, which differ in each rank's part")
        return found if found is not None else SAMPLES

    def _size(self, file: SourceFile, call: cst.Call) -> Kind:
        if last_name(call.func) == "len" and call.args:
            value = call.args[0].value
            return NUMBER if _is_taken_apart(file, value) else self._values.size(file, value)
        if not isinstance(call.func, cst.Attribute):
            return NUMBER
        if last_name(call.func) == "size" and call.args:
            return self._values.size(file, call.func.value) if code(call.args[0].value) == "0" else NUMBER
        inner = self._values.kind(file, call.func.value)
        return SIZE if inner == SAMPLES and last_name(call.func) == "numel" else inner

    def _of_value(self, file: SourceFile, call: cst.Call, value: cst.BaseExpression, is_method: bool) -> Kind | None:
        """Return the Kind of the result of a method, or of a function of torch, derived from `value`, which it is
        applied to; None if that does not determine the Kind."""
        name, inner = last_name(call.func), self._values.kind(file, value)
        others = [self._values.kind(file, each.value) for each in (call.args if is_method else call.args[1:])]
        mixed = first_mixed([inner, *others])
        if mixed is not None or is_same(inner):
            return mixed
        if name in (_SAME_VALUE if is_method else _SAME_ARGUMENT):
            return inner
        place = int(not is_method) + (name in _WITH_NUMBER)
        dims = argument(call, "dim", place) or argument(call, "axis")
        if name in ("mul", "mul_", "div", "div_") and is_method and call.args:
            return self._scaled(inner, others[0], name.startswith("div"))
        if name in _MEANS or name in _SUMS:
            return self._reduced(file, call, inner, dims, name in _MEANS)
        if inner == SAMPLES:
            return self._of_samples(file, call, name, dims, others)
        if name == "grad" and inner == SUM:
            return SAMPLES  # the gradient of each sample by itself
        if inner in (MEAN, SUM):
            return self._values.mixed(file, call, f"{name}() of a {inner.word} over the batch")
        return None

    def _scaled(self, inner: Kind, factor: Kind, is_ratio: bool) -> Kind | None:
        if is_same(factor):
            return inner
        is_mean = inner == SUM and factor == (SIZE if is_ratio else PER_SIZE)
        return MEAN if is_mean else SAMPLES if inner == SAMPLES else None

    def _reduced(
        self, file: SourceFile, call: cst.Call, inner: Kind, dims: cst.BaseExpression | None, is_mean: bool
    ) -> Kind | None:
        if inner != SAMPLES:
            return inner
        if dims is None:
            return MEAN if is_mean else SUM
        if is_first(dims):
            return MEAN if is_mean else SUM
        if self._may_be_first(file, dims):
            return self._values.mixed(file, call, _ACROSS)
        return SAMPLES

    def _may_be_first(self, file: SourceFile, dims: cst.BaseExpression) -> bool:
        """Return whether a reduction over the dimensions `dims` may reduce over the samples of the batch: over the
        first dimension, or over the last three."""
        given = [each for _, each in self._program.origins(file, dims)]
        given += [part for each in given if isinstance(each, cst.IfExp) for part in (each.body, each.orelse)]
        return any(is_first(each) or (each is not dims and _is_long(each)) for each in given)

    def _of_samples(
        self, file: SourceFile, call: cst.Call, name: str, dims: cst.BaseExpression | None, others: list[Kind]
    ) -> Kind | None:
        if name in _COMPARE:
            return self._values.mixed(file, call, _ACROSS)
        if name in ("mm", "matmul") and SAMPLES in others and is_transposed(call.args[-1].value):
            return self._values.mixed(file, call, "each sample is compared with the others of its batch")
        is_pair = name in ("max", "min") and SAMPLES in others
        is_across = (dims is not None and is_first(dims)) or (dims is None and name not in ("softmax", "log_softmax"))
        if name in _STATISTICS and not is_pair and is_across:
            return self._values.mixed(file, call, _ACROSS)
        return None

    def _of_arguments(self, file: SourceFile, call: cst.Call, is_method: bool) -> Kind:
        """Return the Kind of the value of a call of an unknown function, derived from its arguments. It is SAMPLES if
        an argument depends on the samples."""
        values: list[cst.BaseExpression] = [each.value for each in call.args]
        if isinstance(call.func, cst.Attribute) and is_method:
            values.append(call.func.value)
        kinds = [self._values.kind(file, each) for each in values]
        mixed = first_mixed(kinds)
        if mixed is not None:
            return mixed
        if last_name(call.func) == "sum" and kinds and kinds[0] in (MEAN, SUM):
            return kinds[0]
        if is_method and last_name(call.func) not in ("step",) and (MEAN in kinds or SUM in kinds):
            return self._values.mixed(file, call, _ACROSS)
        if last_name(call.func) in ("next", "getattr") or any(not is_same(each) for each in kinds):
            return SAMPLES
        return NUMBER if kinds and all(each == NUMBER for each in kinds) else SAME


def _is_of_module(file: SourceFile, function: cst.BaseExpression) -> bool:
    """Return whether a function belongs to a module, such as `torch.exp` and `torch.nn.functional.mse_loss`, and is not
    a method, as in `torch.exp(x).item`."""
    while isinstance(function, cst.Attribute):
        function = function.value
    names = (code(function), file.full_name(function).partition(".")[0])
    return isinstance(function, cst.Name) and any(name in MODULES for name in names)


def _is_taken_apart(file: SourceFile, value: cst.BaseExpression) -> bool:
    """Return whether the function around `value`, a name of a batch, unpacks its value as a tuple or a dictionary: by
    `x, y = batch` or `batch["x"]`, or by `batch[0]` if it passes the whole batch to no other function."""
    nodes = nodes_below(file.function_around(value)) if isinstance(value, cst.Name) else ()
    parts: list[cst.CSTNode] = []
    is_given = False
    for node in nodes:
        if isinstance(node, cst.Assign) and code(node.value) == code(value):
            parts += [each.target for each in node.targets if isinstance(each.target, (cst.Tuple, cst.List))]
        elif isinstance(node, cst.Subscript) and code(node.value) == code(value):
            parts += [each.slice.value for each in node.slice[:1] if isinstance(each.slice, cst.Index)]
        elif isinstance(node, cst.Call) and last_name(node.func) not in ("len", "isinstance", "type"):
            is_given = is_given or code(value) in [code(each.value) for each in node.args]
    sure = (cst.Tuple, cst.List, cst.SimpleString) if is_given else (cst.Tuple, cst.List, cst.SimpleString, cst.Integer)
    return any(isinstance(each, sure) for each in parts)


def _is_long(dims: cst.BaseExpression) -> bool:
    return (
        isinstance(dims, cst.Tuple) and len(dims.elements) > 2 and "-3" in [code(each.value) for each in dims.elements]
    )


def is_first(dims: cst.BaseExpression) -> bool:
    """Return whether the dimensions of a reduction include the first one, 0, that of the samples."""
    elements = [each.value for each in dims.elements] if isinstance(dims, (cst.Tuple, cst.List)) else [dims]
    return any(code(each) == "0" for each in elements)


def _has_place(made: cst.Call) -> bool:
    """Return whether a call that creates CrossEntropyLoss or NLLLoss passes the weights of the classes as its first
    positional argument."""
    plain = [each for each in made.args if each.keyword is None]
    return bool(plain) and last_name(made.func) in ("CrossEntropyLoss", "NLLLoss") and code(plain[0].value) != "None"


def _reduction(call: cst.Call) -> Kind | None:
    """Return the Kind of the reduction of a loss function, MEAN or SUM, from the arguments of its call; None if it has
    none, or if it is not known."""
    if argument(call, "reduce") is not None:
        return None
    given = argument(call, "reduction") or argument(call, "size_average")
    return _LOSS_MEANS.get(code(given).strip("\"'") if given is not None else "mean")
