"""The check for tensors of two devices in one operation, with the error that a GPU would raise. It applies only where
both places are known for certain, and only to operations that never accept the CPU's tensors together with those of a
GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import messages
from .device_marks import CPU, device_of, mark_of
from .device_moves import type_name
from .torch_module import F, torch


def _tensors(args: Any, kwargs: Any) -> Iterator[Any]:
    for value in (*args, *(kwargs or {}).values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            for each in value:
                if isinstance(each, torch.Tensor):
                    yield each


def check_same_device(args: Any, kwargs: Any) -> None:
    """Check that all tensors among the arguments of a torch function are on one device. Raise RuntimeError if they are
    not. Numbers (tensors without dimensions) on the CPU may be combined with any device. Tensors at an unknown place
    are ignored."""
    first = None
    for tensor in _tensors(args, kwargs):
        mark = mark_of(tensor)
        if mark is None or mark == first:
            continue
        if mark == CPU and tensor.dim() == 0:
            continue
        if first is not None:
            found = sorted((first, mark), reverse=True)
            raise RuntimeError(messages.MIXED % tuple(device_of(each) for each in found))
        first = mark


def _check_convolution(args: Any, kwargs: Any) -> None:
    tensors = list(_tensors(args, kwargs))[:2]
    marks = [mark_of(tensor) for tensor in tensors]
    if len(marks) == 2 and None not in marks and marks[0] != marks[1] and CPU in marks:
        message = messages.CONVOLUTION % (type_name(tensors[0]), type_name(tensors[1]))
        raise RuntimeError(message + (messages.CONVOLUTION_ON_CPU if marks[0] == CPU else ""))
    check_same_device(args, kwargs)


_OPERATORS = "add sub mul truediv matmul radd rsub rmul rtruediv rmatmul iadd isub imul itruediv eq ne lt le gt ge"
_BOTH = "add sub mul div matmul mm bmm mv dot addmm baddbmm addcmul addcdiv lerp eq ne lt le gt ge where maximum gather"
_TORCH = "cat stack einsum index_select minimum embedding"
_FUNCTIONAL = (
    "linear bilinear embedding batch_norm layer_norm group_norm cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss "
    "binary_cross_entropy binary_cross_entropy_with_logits kl_div huber_loss scaled_dot_product_attention"
)


def _functions(owner: Any, names: str) -> list[Any]:
    return [getattr(owner, name) for name in names.split(" ") if hasattr(owner, name)]


_ALL = [
    *_functions(torch.Tensor, " ".join(f"__{name}__" for name in _OPERATORS.split(" "))),
    *_functions(torch.Tensor, _BOTH),
    *_functions(torch, _BOTH),
    *_functions(torch, _TORCH),
    *_functions(F, _FUNCTIONAL),
]
CHECKS: dict[Any, Any] = {
    **dict.fromkeys(_ALL, check_same_device),
    **{getattr(F, f"conv{kind}{dim}d"): _check_convolution for kind in ("", "_transpose") for dim in (1, 2, 3)},
}
