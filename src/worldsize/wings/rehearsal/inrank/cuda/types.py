"""The types torch.cuda.FloatTensor and the like: the old way to create tensors on a GPU, and to check whether a tensor
is on a GPU."""

from __future__ import annotations

from typing import Any

from .. import devices
from ..device_marks import CPU, mark_of
from ..torch_module import torch

NAMES = ("Float", "Double", "Half", "BFloat16", "Byte", "Char", "Short", "Int", "Long", "Bool")


class _TensorType(type):
    """The metaclass of these types. Calling such a type creates a tensor on the current GPU."""

    dtype: Any

    def __call__(cls, *args: Any) -> Any:
        return getattr(torch, cls.__name__)(*args).to(torch.device("cuda", devices.valid_index(None)))

    def __instancecheck__(cls, value: object) -> bool:
        mark = mark_of(value) if isinstance(value, torch.Tensor) else None
        return mark is not None and mark != CPU and bool(value.dtype == cls.dtype)  # type: ignore[attr-defined]


def install() -> None:
    for name in NAMES:
        full = name + "Tensor"
        kind = _TensorType(full, (), {"__module__": "torch.cuda", "dtype": getattr(torch, full).dtype})
        setattr(torch.cuda, full, kind)
