"""Analysis of the graph that autograd has recorded: how a loss reduces its batch, to a mean, a sum or a weighted mean.

A mean over the whole batch is the mean of the slices' means. A sum is the sum of the slices' sums. A mean over the
samples that are not ignored must be weighted by the number of such samples on each rank. Another loss, such as a root
of a mean, cannot be composed from the slices' gradients. Each rank's backward begins with its share of the whole
batch's loss, so that gradients need only be added.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .gradient_buckets import BackwardPass
from .rank_state import Training, refusal

IS_SUM = "worldsize-sum"
"""The mark, in a node's metadata, for a sum over the batch whose divisors belong to the whole batch."""

IS_WHOLE = "worldsize-whole"
"""The mark for a value of the whole batch that every rank computes equally. No node below it belongs to a slice
alone."""

_MAX_NODES = 5000
_MAX_WEIGHT_NODES = 500
_THROUGH = (
    "Add", "Sub", "Neg", "Clone", "Alias", "ToCopy", "View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Expand",
    "Stack", "Cat", "Select", "Index", "Slice", "Copy", "Contiguous", "Detach", "Where", "Mul", "Div", "NanToNum",
    "Maximum", "Minimum", "Permute", "T", "Rsub",
)  # fmt: skip
_NONLINEAR = (
    "Sqrt", "Rsqrt", "Pow", "Exp", "Log", "LinalgVectorNorm", "Norm", "Sigmoid", "Tanh", "Var", "Std", "Logsumexp",
)  # fmt: skip
_WEIGHT_OPERATIONS = (*_THROUGH, *_NONLINEAR, "Sum", "Mean", "Abs", "Square", "Reciprocal", "Softplus", "Relu")


class LossReading:
    """The way in which a loss reduces its batch. `sums` are nodes that sum over the batch. `weighted` are nodes that
    are means over a counted part of the batch, each with its count. `means` is the number of plain means. `bent` are
    the names of functions of the batch that are no sum of its parts. `opaque` are names of nodes that could not be
    examined. `has_whole` is true if a part of the loss belongs to the whole batch."""

    def __init__(self, root: Any, local: int, total: int) -> None:
        """Read the graph of a loss. `root` is the loss's grad_fn, `local` the number of samples of this rank, `total`
        that of all ranks."""
        self._local = max(local, 1)
        self._total = total
        self.sums: list[Any] = []
        self.weighted: list[tuple[Any, Any]] = []
        self.means = 0
        self.has_whole = False
        self.bent: list[str] = []
        self.opaque: list[str] = []
        self._read(root)

    @property
    def kind(self) -> str:
        alone = len(self.weighted) == 1 and not self.means and not self.has_whole
        return "sum" if self.sums else "weighted" if alone else "mean"

    @property
    def is_of_weights(self) -> bool:
        """True if no part of the loss depends on a batch."""
        return not (self.sums or self.weighted or self.means or self.bent or self.opaque or self.has_whole)

    def _read(self, root: Any) -> None:
        """Read the autograd graph of a loss from `root` down to the operations that reduce over the batch, and record
        these operations with the divisors applied above them."""
        seen: set[Any] = {None}
        stack: list[tuple[Any, tuple[Any, ...]]] = [(root, ())]
        while stack and len(seen) < _MAX_NODES:
            node, divisors = stack.pop()
            if node in seen:
                continue
            seen.add(node)
            name = _operation_name(node)
            if IS_WHOLE in node.metadata:
                self.has_whole = True
                continue
            if name == "AccumulateGrad" or self._record_reduction(node, name, divisors):
                continue
            if name in ("Sum", "Mean") or name in _THROUGH:
                further = self._divisors(node, name, divisors)
                stack.extend((child, further) for child, _ in node.next_functions)
            elif name in _NONLINEAR:
                if not _is_of_weights(node):
                    self.bent.append(name.lower())
            else:
                self.opaque.append(name)

    def _divisors(self, node: Any, name: str, divisors: tuple[Any, ...]) -> tuple[Any, ...]:
        other = getattr(node, "_saved_other", None) if name in ("Mul", "Div") else None
        if isinstance(other, torch.Tensor):
            if other.dim() or other.requires_grad:
                return divisors
            if name == "Div" and not _is_python_number(other):
                return (*divisors, other)
            other = other.item() if other.device.type == "cpu" else None
        if other is None:
            return divisors
        return (*divisors, other if name == "Div" else 1 / other if other else 1)

    def _record_reduction(self, node: Any, name: str, divisors: tuple[Any, ...]) -> bool:
        """Record `node`, an operation in a loss's autograd graph, if it reduces the batch to one number. Return whether
        the graph below the node needs no further reading."""
        if IS_SUM in node.metadata:
            self.sums.append(node)
            return True
        fused = getattr(node, "_saved_reduction", 0) in (1, 2)
        if fused:
            sizes = tuple(node._saved_self.shape)
        elif name in ("Sum", "Mean"):
            sizes = tuple(map(int, node._saved_self_sym_sizes))
            if _is_of_weights(node, sizes):
                return True
        else:
            return False
        counts = name.startswith("NllLoss")  # with any kind of rows, it holds the number of its terms
        if not (counts or self._is_batch_shape(sizes)) or not (fused or _is_over_batch(node)):
            if fused and node._saved_reduction == 1:
                self.means += 1
            elif fused:
                self.opaque.append(name)
            return fused
        if name == "Sum" or (fused and node._saved_reduction == 2):
            self._record_sum(node, sizes, divisors)
        elif counts:
            self.weighted.append((node, node._saved_total_weight))
        else:
            self.means += 1
        return True

    def _is_batch_shape(self, sizes: tuple[int, ...]) -> bool:
        return bool(sizes) and sizes[0] > 0 and sizes[0] % self._local == 0

    def _record_sum(self, node: Any, sizes: tuple[int, ...], divisors: tuple[Any, ...]) -> None:
        """Record `node`, a sum over the batch in a loss's autograd graph. Record it as a mean if a number in `divisors`
        matches the number of this rank's samples, and as weighted if the divisor is a tensor."""
        count = math.prod(sizes)
        for divisor in divisors:
            if isinstance(divisor, torch.Tensor):
                self.weighted.append((node, divisor))
                return
            whole = round(divisor)
            if abs(divisor - whole) > 1e-6 * abs(divisor) or whole < 1:
                continue
            if whole == count or (whole % self._local == 0 and count % whole == 0 and whole != self._total):
                self.means += 1
                return
        self.sums.append(node)


def _is_over_batch(node: Any) -> bool:
    """Return whether `node`, a sum or mean in an autograd graph, reduces over the first dimension of its input, which
    is that of the batch."""
    dims = getattr(node, "_saved_dim", None)
    if dims is None:
        return True
    rank = len(node._saved_self_sym_sizes)
    found = dims if isinstance(dims, (tuple, list)) else (dims,)
    return not found or any((dim - (1 << 64) if dim >= 1 << 63 else dim) % rank == 0 for dim in found)


def _operation_name(node: Any) -> str:
    """Return the name of the operation of a node in an autograd graph, without the suffix of its variant: SumBackward1
    is Sum."""
    name: str = node.name().rpartition("::")[2].rpartition(" ")[2]
    return name.partition("Backward")[0] or name


def _is_python_number(number: Any) -> bool:
    """Return whether the tensor `number` represents a Python number, which is no count that a rank computed."""
    least = torch.tensor(1, dtype=torch.float16 if number.is_floating_point() else torch.int8)
    if number.device.type != "cpu" or number.dtype not in (torch.float64, torch.int64):
        return False
    return bool(torch.result_type(least, number) == least.dtype)


def _is_of_weights(root: Any, sizes: tuple[int, ...] = ()) -> bool:
    """Return whether `root`, a node in an autograd graph, depends on the model's weights alone, as a penalty on weights
    does, and not on the batch."""
    if not sizes and getattr(root, "_saved_self", None) is not None:
        sizes = tuple(root._saved_self.shape)
    stack, seen = [(child, sizes) for child, _ in root.next_functions if child is not None], 0
    while stack:
        (node, sizes), seen = stack.pop(), seen + 1
        name = _operation_name(node)
        if name == "AccumulateGrad":
            if sizes and tuple(node.variable.shape) != sizes:
                return False
        elif name not in _WEIGHT_OPERATIONS or seen > _MAX_WEIGHT_NODES:
            return False
        else:
            if name in ("Sum", "Mean"):
                sizes = tuple(map(int, node._saved_self_sym_sizes))
            stack.extend((child, sizes) for child, _ in node.next_functions if child is not None)
    return bool(seen)


def start_gradients(training: Training, run: BackwardPass, roots: Any, gradients: Any, handles: list[Any]) -> list[Any]:
    """Return the gradients with which a backward from the losses `roots` begins: each rank's part of the whole batch's
    loss; `gradients` unchanged if the batch is not sliced. Append hooks to `handles` that scale parts of the loss
    during the backward. Raise ScriptRefused in mode `split` if the loss is no sum or mean over its batch."""
    batch, size = training.batch, training.size
    number = roots[0].detach() if len(roots) == 1 and roots[0].numel() == 1 else 0.0
    if not batch.sliced:
        run.parts = False
        run.loss = number
        return list(gradients)
    readings = [LossReading(root.grad_fn, batch.local, batch.total) for root in roots]
    for reading in readings:
        _check_reading(training, reading)
        handles += [node.register_prehook(_make_scaling(size)) for node in reading.sums]
    scale: Any = 1.0 / size
    if len(readings) == 1 and readings[0].kind == "weighted":
        run.weight = scale = readings[0].weighted[0][1].detach().double() / (batch.local * size)
    else:
        _weigh(training, [pair for reading in readings for pair in reading.weighted], handles)
    run.summed = any(reading.sums for reading in readings)
    run.loss = number if run.summed else number * scale
    return [_scaled_gradient(root, gradient, scale) for root, gradient in zip(roots, gradients)]


def _check_reading(training: Training, reading: LossReading) -> None:
    if reading.bent and training.mode == "split":
        raise refusal(
            f"the loss is not a sum or a mean over its batch ({reading.bent[0]} of one), "
            "so slices of a batch do not add up to it",
            f"use the {reading.bent[0]} of each sample's loss, or use --data-parallel=scale",
        )
    if reading.opaque:
        training.show_notice(
            "the loss's last steps could not be analysed ({}): it is assumed to be a mean over the batch".format(
                ", ".join(sorted(set(reading.opaque)))
            )
        )


def _weigh(training: Training, pairs: list[tuple[Any, Any]], handles: list[Any]) -> None:
    """Register hooks that scale each mean in `pairs` by this rank's share of the elements of that mean. `pairs` holds
    an autograd node and its count of elements each. The ranks exchange their counts first: each mean is only one term
    of a loss, so that the whole loss cannot be weighted afterwards."""
    if not pairs:
        return
    mine = torch.stack([count.detach().double().reshape(()).cpu() for _, count in pairs])
    everyone = training.world.add_up(mine.clone())
    for (node, _), own, all_of_them in zip(pairs, mine.tolist(), everyone.tolist()):
        if all_of_them:
            handles.append(node.register_prehook(_make_scaling(own * training.size / all_of_them)))


def _make_scaling(factor: float) -> Any:
    return lambda gradients: tuple(gradient * factor if gradient is not None else None for gradient in gradients)


def _scaled_gradient(root: Any, gradient: Any, scale: Any) -> Any:
    if gradient is None:
        gradient = torch.ones_like(root, memory_format=torch.preserve_format)
    return (gradient * scale).to(gradient.dtype)
