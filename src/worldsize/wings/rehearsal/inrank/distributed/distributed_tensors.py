"""Distributed tensors on a mesh of `cuda`: their parts are on this process's GPU, wherever the whole came from."""

from __future__ import annotations

from typing import Any

from .. import devices
from ..device_marks import CPU, mark_of, put_mark
from ..torch_module import patch, torch
from .device_meshes import is_of_gpus


def install(module: Any) -> None:
    """Patch torch.distributed.tensor, or an older module that has DTensor."""
    kind = getattr(module, "DTensor", None)
    patch(kind, "__new__", _make_tensor)
    for name in ("to_local", "full_tensor"):
        patch(kind, name, _get_values)


def _make_tensor(make: Any, kind: Any, *args: Any, **kwargs: Any) -> Any:
    made = make(kind, *args, **kwargs)
    if is_of_gpus(made.device_mesh) and not made._local_tensor.is_meta:
        put_mark(made, devices.current_index())
    return made


def _get_values(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """The local part, or all of a tensor: where the tensor is, or else on this process's GPU."""
    found = original(self, *args, **kwargs)
    mark = mark_of(self)
    if is_of_gpus(self.device_mesh) and isinstance(found, torch.Tensor) and mark_of(found) in (None, CPU):
        put_mark(found, devices.current_index() if mark is None else mark)
    return found
