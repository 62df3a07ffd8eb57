"""Collectives of a group that was asked to be nccl: what NCCL would refuse, and what gloo lacks (averages)."""

from __future__ import annotations

from functools import partial
from typing import Any, Callable

from .. import devices
from ..caller import calling_module
from ..torch_module import arguments_of, patch, torch
from . import process_groups

_TENSOR_ARGUMENTS = {
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "all_gather": "tensor",
    "all_gather_into_tensor": "input_tensor", "reduce_scatter": "output", "reduce_scatter_tensor": "input",
    "all_to_all_single": "input", "scatter": "tensor", "gather": "tensor",
}  # fmt: skip
"""The argument that tells where the group's tensors are."""

_RESULT_ARGUMENTS = {
    "all_reduce": "tensor",
    "reduce": "tensor",
    "reduce_scatter": "output",
    "reduce_scatter_tensor": "output",
}
"""The argument that holds the result."""

_UNCHECKED = ("torch.distributed.distributed_c10d", "torch.distributed._state_dict_utils")
"""Modules whose calls are not checked: collectives themselves, which the function mode calls a second time, and what
moves tensors to the group's device, which it takes for the CPU."""


def install(c10d: Any) -> None:
    for name in _TENSOR_ARGUMENTS:
        patch(c10d, name, partial(_collective, name), torch.distributed)
    patch(c10d, "barrier", _barrier, torch.distributed)


class _PendingAverage:
    """A pending sum that is an average once it is waited for."""

    def __init__(self, work: Any, divide: Callable[[], object]) -> None:
        self._work, self._divide = work, divide

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        done = self._work.wait(*args, **kwargs)
        divide, self._divide = self._divide, lambda: None
        divide()
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _collective(name: str, original: Any, *args: Any, **kwargs: Any) -> Any:
    said = arguments_of(original, args, kwargs)
    group = said.get("group")
    if not calling_module().startswith(_UNCHECKED):
        process_groups.check_tensor(group, said.get(_TENSOR_ARGUMENTS[name]))
    averaged = name in _RESULT_ARGUMENTS and said.get("op") == torch.distributed.ReduceOp.AVG
    if not averaged or not process_groups.is_nccl(group):
        return original(*args, **kwargs)
    work = original(**{**said, "op": torch.distributed.ReduceOp.SUM})
    divide = partial(_divide, said[_RESULT_ARGUMENTS[name]], torch.distributed.get_world_size(group))
    return divide() if work is None else _PendingAverage(work, divide)


def _divide(total: Any, size: int) -> None:
    with torch.no_grad():
        total.div_(size, rounding_mode=None if total.is_floating_point() else "floor")


def _barrier(barrier: Any, *args: Any, **kwargs: Any) -> Any:
    said = arguments_of(barrier, args, kwargs)
    for each in said.pop("device_ids", None) or ():
        devices.valid_device(each)
    return barrier(**said)
