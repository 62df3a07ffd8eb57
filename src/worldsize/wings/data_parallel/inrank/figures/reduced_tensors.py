"""Functions of tensors that were reduced over the batch: sums, means, and values that are computed from them."""

from __future__ import annotations

from typing import Any

import torch

from .call import Call
from .function_names import ADDING, ALIKE, JOINING, LINEAR, SCALING
from .parts import COMPUTED, MAX, MEAN, MIN, SUM, WEIGHTED, Part, PartTable, mapped

_MAX_DEPTH = 40
_WAITING = {SUM, MEAN, WEIGHTED, COMPUTED}
_MULTIPLYING = ("mul", "multiply", "rmul")


def linear_part(call: Call) -> Part | None:
    """Return the Part (relation to the whole batch) of the result of a torch function that is a sum or a mean over
    ranks like the arguments; None for any other result."""
    kind = _linear_kind(call)
    if kind is None:
        return None
    if kind != SUM:
        return Part(kind, weight=call.parts[0].weight)
    if call.name not in ADDING and all(part.base is None for part in call.parts):
        return Part(SUM)
    with torch.no_grad():
        base = call.function(*_bases(call.table, call.args), **call.kwargs)
    return Part(SUM, base=base.detach().clone() if isinstance(base, torch.Tensor) else base)


def can_wait(call: Call) -> bool:
    """Return whether the whole batch's result of a torch function need not be computed before it is requested. This is
    so for sums and means over ranks that are added, or multiplied by numbers: each rank's gradient is already its
    share."""
    known = sum(each in call.table for each in call.tensors)
    scales = call.name in SCALING and known == 1 and (call.name in _MULTIPLYING or call.args[0] in call.table)
    plain = call.name in ADDING or call.name in ALIKE or scales
    return plain and call.kinds <= _WAITING and not call.in_place and call.depth < _MAX_DEPTH


def _linear_kind(call: Call) -> str | None:
    if len(call.kinds) != 1:
        return None
    (kind,) = call.kinds
    if call.name in ALIKE:
        return kind if kind in _kept_by(call) else None
    if kind not in (SUM, MEAN, WEIGHTED):
        return None
    alone, all_known = len(call.tensors) == 1, len(call.parts) == len(call.tensors)
    if alone and call.name in LINEAR:
        return kind
    if kind != WEIGHTED and ((call.name in JOINING and all_known) or call.name in ADDING):
        return kind
    first = bool(call.args) and isinstance(call.args[0], torch.Tensor) and call.args[0] in call.table
    scales = call.name in SCALING and (first or call.name in _MULTIPLYING)
    return kind if scales and len(call.parts) == 1 else None


def _kept_by(call: Call) -> tuple[str, ...]:
    """Return the kinds of reduction (SUM, MEAN and the like) that stay the same when a call converts the values to
    another type."""
    if call.name in ("int", "long", "short", "bool") and call.tensors[0].is_floating_point():
        return ()
    return (SUM, MEAN, WEIGHTED, MAX, MIN) if call.name != "bool" else ()


def _bases(table: PartTable, value: Any) -> Any:
    """Return the arguments of a torch function with each tensor, which is a sum over ranks, replaced by its summand
    that is the same on all ranks."""

    def base(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        part = table.get(each)
        if part is None:
            return each.detach().clone()
        if part.base is None:
            return torch.zeros_like(each, requires_grad=False)
        return torch.as_tensor(part.base, dtype=each.dtype, device=each.device).expand(each.shape).clone()

    return mapped(value, base)


def reduction(call: Call, rows: Part) -> str | None:
    """Return the kind (SUM, MEAN, MAX or MIN) by which the ranks' results of a reduction over rows of the batch, such
    as `x.sum()`, are combined into that of the whole batch; None if that is not possible."""
    if not rows.is_even or len(call.tensors) != 1:
        return None
    if call.name in ("max", "min"):
        return {"max": MAX, "min": MIN}[call.name] if len(call.args) == 1 and not call.kwargs else None
    found = _REDUCTIONS.get(call.name)
    return None if found == MEAN and rows.padded else found


_REDUCTIONS = {
    "sum": SUM,
    "count_nonzero": SUM,
    "nansum": SUM,
    "mean": MEAN,
    "amax": MAX,
    "amin": MIN,
    "any": MAX,
    "all": MIN,
}


def summed_call(call: Call) -> tuple[Call, int] | None:
    """Return the Call that computes the sum for a call of `mean` or of a mean loss, and the number of elements of the
    mean; None for another function."""
    if call.name == "mean" and len(call.args) == 1 and not call.kwargs:
        summed = Call(call.table, "sum", False, torch.sum, call.args, {})
        return summed, int(torch._C.TensorBase.numel(call.tensors[0]))
    plain = len(call.args) == 2 and not {"weight", "pos_weight", "reduce", "size_average"} & set(call.kwargs)
    if call.name not in _MEAN_LOSSES or not plain or call.kwargs.get("reduction", "mean") != "mean":
        return None
    count = int(call.args[1].numel())
    if call.name in ("cross_entropy", "nll_loss") and not call.args[1].is_floating_point():
        count = int((call.args[1] != call.kwargs.get("ignore_index", -100)).sum())
    kwargs = {**call.kwargs, "reduction": "sum"}
    return Call(call.table, call.name, False, call.function, call.args, kwargs), count


_MEAN_LOSSES = frozenset((
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
))  # fmt: skip
