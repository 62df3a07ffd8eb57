"""Collectives of a group that was asked to be nccl: what NCCL would refuse, and what gloo lacks (averages)."""

from __future__ import annotations

import functools

from . import devices, process_groups
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_TENSOR_ARGUMENTS = {
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "all_gather": "tensor",
    "all_gather_into_tensor": "input_tensor", "reduce_scatter": "output", "reduce_scatter_tensor": "input",
    "all_to_all_single": "input", "scatter": "tensor", "gather": "tensor",
}  # fmt: skip
"""Which argument tells where the group's tensors are."""

_RESULT_ARGUMENTS = {
    "all_reduce": "tensor",
    "reduce": "tensor",
    "reduce_scatter": "output",
    "reduce_scatter_tensor": "output",
}
"""Which argument holds the result."""


def install(c10d: Any) -> None:
    for name in _TENSOR_ARGUMENTS:
        if hasattr(c10d, name):
            process_groups.replace_function(c10d, name, _wrap_collective(name, getattr(c10d, name)))
    _patch_barrier(c10d)


class _PendingAverage:
    """A pending sum that is an average once it is waited for."""

    def __init__(self, work: Any, divide: Callable[[], None]) -> None:
        self._work, self._divide = work, divide

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        done = self._work.wait(*args, **kwargs)
        divide, self._divide = self._divide, lambda: None
        divide()
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _wrap_collective(name: str, original: Any) -> Any:
    import inspect

    signature = inspect.signature(original)

    @functools.wraps(original)
    def collective(*args: Any, **kwargs: Any) -> Any:
        said = signature.bind(*args, **kwargs).arguments
        group = said.get("group")
        process_groups.check_tensor(group, said.get(_TENSOR_ARGUMENTS[name]))
        if (
            name not in _RESULT_ARGUMENTS
            or said.get("op") != torch.distributed.ReduceOp.AVG
            or not process_groups.is_nccl(group)
        ):
            return original(*args, **kwargs)
        said["op"] = torch.distributed.ReduceOp.SUM
        work = original(**said)
        result, size = said[_RESULT_ARGUMENTS[name]], torch.distributed.get_world_size(group)

        def divide() -> None:
            with torch.no_grad():
                result.div_(size, rounding_mode=None if result.is_floating_point() else "floor")

        if work is None:
            divide()
            return None
        return _PendingAverage(work, divide)

    return collective


def _patch_barrier(c10d: Any) -> None:
    original = c10d.barrier

    @functools.wraps(original)
    def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Any:
        for each in device_ids or ():
            devices.valid_index(devices.index_of(each))
        return original(async_op=async_op) if group is None else original(group, async_op)

    process_groups.replace_function(c10d, "barrier", barrier)
