"""Exchange between the ranks that combines their parts of a batch.

All ranks come here from the same line of the script, since they run the same script. Ranks that come from different
lines are refused, instead of waiting for each other.
"""

from __future__ import annotations

import os
import sys
import threading
import zlib
from typing import Any

import torch

from ..rank_state import Training, refusal, user_frame
from .parts import COMPUTED, MAX, MEAN, ROWS, SELECTED, SUM, WEIGHTED, Frozen, Part, mapped
from .row_layout import own_rows, product

_CPU = torch.device("cpu")
_DIMS = _FIRST = 8
"""The number of sizes, and of numbers, in the first message."""


class NotWhole(Exception):
    """The error that the whole batch's value cannot be combined. Either the ranks' values have different shapes, for
    example in slices that are padded to their own longest sample, or the arguments of the value have changed since."""


class Exchange:
    def __init__(self, training: Training) -> None:
        self._training = training
        self._world = training.world

    def is_possible(self) -> bool:
        """Return whether the ranks can exchange values. They cannot in a thread, nor while an error is being handled,
        which may have occurred on this rank only."""
        handled = sys.exc_info()[0]
        main = threading.current_thread() is threading.main_thread()
        return main and self._training.active and (handled is None or issubclass(handled, StopIteration))

    def gather_numbers(self, numbers: list[float]) -> list[list[float]]:
        """Send this rank's numbers to all ranks, and return one list of numbers for each rank. All ranks must pass the
        same count of numbers. The first message has a fixed size for all requests. Raise a refusal if the ranks come
        from different lines or with different counts."""
        first = numbers[:_FIRST]
        head = [_place(), float(len(numbers)), *first, *[0.0] * (_FIRST - len(first))]
        rows = [row.tolist() for row in self._gather(torch.tensor(head, dtype=torch.float64))]
        if any(row[:2] != rows[0][:2] for row in rows):
            raise refusal(
                "the ranks need values of the whole batch at different lines",
                "the condition for computing a value must be the same on all ranks",
            )
        found = [row[2 : 2 + len(first)] for row in rows]
        if len(numbers) > _FIRST:
            rest = self._gather(torch.tensor(numbers[_FIRST:], dtype=torch.float64))
            found = [row + more.tolist() for row, more in zip(found, rest)]
        return found

    def _gather(self, tensor: Any) -> list[Any]:
        found = [torch.empty_like(tensor) for _ in range(self._world.size)]
        self._world.group(_CPU, "values").allgather([found], [tensor]).wait()
        return found

    def gather(self, tensor: Any) -> list[Any]:
        """Return a list with each rank's values of a tensor, on this rank's device. The tensor has the same shape and
        type on all ranks except for its first dimension. Raise NotWhole if the shapes differ."""
        own = tensor.detach().to(_CPU).contiguous()
        shape = list(map(int, own.shape)) or [1]
        rows = self.gather_numbers([float(size) for size in (shape + [-1] * _DIMS)[:_DIMS]])
        if any(row[1:] != rows[0][1:] for row in rows):
            raise NotWhole
        counts = [int(row[0]) for row in rows]
        each = product(own.shape[1:])
        sent = torch.zeros(max(counts) * each, dtype=own.dtype)
        sent[: own.numel()] = own.reshape(-1)
        if not sent.numel():
            return [tensor.detach() for _ in counts]
        found = [flat.view(own.dtype) for flat in self._gather(sent.view(torch.uint8))]
        shapes = [(count, *own.shape[1:]) if own.dim() else () for count in counts]
        values = [flat[: count * each].view(shape) for flat, count, shape in zip(found, counts, shapes)]
        return [value.to(tensor.device) for value in values]

    def whole(self, tensor: Any, part: Part) -> Any:
        """Combine the ranks' values of a tensor, as `part` states, and return the whole batch's value, without its
        gradient. All ranks must call this. Raise NotWhole if it cannot be combined."""
        with torch.no_grad():
            return self._value_and_factor(tensor, part)[0]

    def whole_with_gradient(self, tensor: Any, part: Part) -> Any:
        """Combine the ranks' values of a tensor, as `part` states, and return the whole batch's value with its
        gradient, so that the ranks can train on values that all of them compute from it in the same way. Raise NotWhole
        if it cannot be combined."""
        if not (tensor.requires_grad and torch.is_grad_enabled()):
            return self.whole(tensor, part)
        with torch.no_grad():
            value, factor = self._value_and_factor(tensor, part)
        size = self._world.size

        def own_gradient(gradient: Any) -> Any:
            if part.kind == ROWS:
                return own_rows(gradient, part, self._training.rank, size, factor=size)
            if part.kind == SELECTED:
                return gradient.narrow(part.dim, factor, tensor.shape[part.dim]) * size
            return gradient * factor

        return _AsWhole.apply(tensor, value, own_gradient)

    def _value_and_factor(self, tensor: Any, part: Part) -> tuple[Any, Any]:
        """Return the whole batch's value of a tensor, and the factor that turns its gradient, which is the same on
        every rank, into that of the slice. The ranks' gradients are averaged later. For rows that a mask has selected,
        return the start of the slice's rows instead of a factor; for other rows and computed values, None."""
        if part.kind == COMPUTED:
            function, args, kwargs = part.recipe
            found = function(*self._thawed(args), **self._thawed(kwargs))
            return found.detach() if isinstance(found, torch.Tensor) else found, None
        if part.kind in (ROWS, SELECTED):
            return self._whole_rows(tensor, part)
        if tensor.numel() == 1 and not tensor.is_complex():
            return self._whole_number(tensor, part)
        return self._whole_array(tensor, part)

    def _thawed(self, value: Any) -> Any:
        def thaw(each: Any) -> Any:
            if not isinstance(each, Frozen):
                return each
            return each.value if each.part is None else self.whole(each.value, each.part)

        return mapped(value, thaw)

    def _whole_rows(self, tensor: Any, part: Part) -> tuple[Any, Any]:
        if part.padded:
            raise NotWhole
        everyone = self.gather(tensor.detach().movedim(part.dim, 0))
        if part.kind == SELECTED:
            start = sum(len(each) for each in everyone[: self._training.rank])
            return torch.cat(everyone).movedim(0, part.dim), start
        lengths = [length for length, _ in part.blocks]
        pieces = []
        for (_, shared), *runs in zip(part.blocks, *(each.split(lengths) for each in everyone)):
            pieces += runs if shared else runs[:1]
        return torch.cat(pieces).movedim(0, part.dim), None

    def _whole_number(self, tensor: Any, part: Part) -> tuple[Any, Any]:
        base = 0.0 if part.base is None else _own_number(part.base)
        weight = 1.0 if part.weight is None else _own_number(part.weight)
        own = _own_number(tensor.detach())
        rows = self.gather_numbers([own, weight])
        values, size = [row[0] for row in rows], len(rows)
        if part.kind == SUM:
            found, factor = sum(value - base for value in values) + base, float(size)
        elif part.kind == WEIGHTED:
            total = sum(row[1] for row in rows)
            found = sum(row[0] * row[1] for row in rows if row[1]) / total if total else own
            factor = weight * size / total if total else 0.0
        elif part.kind == MEAN:
            found, factor = sum(values) / size, 1.0
        else:
            found = max(values) if part.kind == MAX else min(values)
            factor = size / values.count(found) if own == found else 0.0
        return torch.full_like(tensor.detach(), found), factor

    def _whole_array(self, tensor: Any, part: Part) -> tuple[Any, Any]:
        values, size = torch.cat(self.gather(tensor.detach().unsqueeze(0))), self._world.size
        if part.kind == SUM:
            base = 0 if part.base is None else part.base
            return ((values - base).sum(0) + base).to(tensor.dtype), size
        if part.kind == MEAN:
            wide = values if values.is_complex() else values.double()
            return wide.mean(0).to(tensor.dtype), 1
        if part.kind == WEIGHTED:
            weights = torch.cat(self.gather(part.weight.detach().reshape(1))).double()
            shaped = weights.view(-1, *[1] * tensor.dim())
            factor = (weights[self._training.rank] * size / weights.sum()).item()
            return ((values.double() * shaped).sum(0) / weights.sum()).to(tensor.dtype), factor
        if values.dtype is torch.bool:
            return (values.any(0) if part.kind == MAX else values.all(0)), None
        found = values.amax(0) if part.kind == MAX else values.amin(0)
        holders = (values == found).sum(0)
        return found, (tensor.detach() == found).to(holders.dtype) * size / holders


class _AsWhole(torch.autograd.Function):  # type: ignore[misc]
    """The whole batch's value in place of a rank's own value. Its gradient is the rank's share."""

    @staticmethod
    def forward(context: Any, tensor: Any, value: Any, own_gradient: Any) -> Any:
        context.own_gradient = own_gradient
        return value

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return context.own_gradient(gradient), None, None


def _own_number(value: Any) -> float:
    """Return this rank's own number in a tensor of one element, or in a plain number, and not that of the whole batch,
    which the script would get."""
    return float(torch._C.TensorBase.item(value) if isinstance(value, torch.Tensor) else value)


def _place() -> float:
    """Return a number that identifies the line of the user's script that is being executed: computed from its file name
    and line; 0 if there is none."""
    frame = user_frame()
    if frame is None:
        return 0.0
    return float(zlib.crc32(os.path.basename(frame.f_code.co_filename).encode()) % 65536 * 1000000 + frame.f_lineno)
