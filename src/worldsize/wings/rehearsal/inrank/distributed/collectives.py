"""Collectives of a process group that was requested with nccl: the checks of NCCL, and the features that gloo lacks
(averages, futures)."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any, Callable

from .. import devices
from ..caller import calling_module
from ..cuda.devices import do_nothing
from ..torch_module import arguments_of, patch, torch
from . import process_groups

_TENSOR_ARGUMENTS = {
    "all_reduce": "tensor", "broadcast": "tensor", "reduce": "tensor", "all_gather": "tensor",
    "all_gather_into_tensor": "input_tensor", "reduce_scatter": "output", "reduce_scatter_tensor": "input",
    "all_to_all_single": "input", "scatter": "tensor", "gather": "tensor",
    "all_gather_single": "input_tensor", "reduce_scatter_single": "input", "all_to_all": "input_tensor_list",
    "all_reduce_coalesced": "tensors",
}  # fmt: skip
"""The argument of each collective whose tensor shows the device that the group uses."""

_POINT_TO_POINT = ("send", "recv", "isend", "irecv")

_RESULT_ARGUMENTS = {
    "all_reduce": "tensor",
    "reduce": "tensor",
    "reduce_scatter": "output",
    "reduce_scatter_tensor": "output",
    "reduce_scatter_single": "output",
}
"""The argument of each collective that contains the result."""

_UNCHECKED = ("torch.distributed.distributed_c10d", "torch.distributed._state_dict_utils")
"""Modules whose calls are not changed: the collectives themselves, which the function mode calls a second time, and
code that moves tensors to the group's device, which it believes to be the CPU."""


def install(c10d: Any) -> None:
    for name in _TENSOR_ARGUMENTS:
        patch(c10d, name, partial(_collective, name), torch.distributed)
    for name in _POINT_TO_POINT:
        patch(c10d, name, _send_or_receive, torch.distributed)
    patch(c10d, "batch_isend_irecv", _send_and_receive, torch.distributed)
    patch(c10d, "barrier", _barrier, torch.distributed)


class _PendingResult:
    """The pending work of a collective. `finish` is called once with the result available, as `wait`, `is_completed` or
    a future finds out. Some work of gloo proceeds only while a caller waits for it, and has no future of its own."""

    def __init__(self, work: Any, result: Any, finish: Callable[[], object]) -> None:
        self._work, self._result, self._finish, self._lock = work, result, finish, threading.Lock()
        self._future: Any = None
        try:
            self._gloo_future = work.get_future()
        except RuntimeError:
            self._gloo_future = None

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        done = self._work.wait(*args, **kwargs)
        self._finish_once()
        return done

    def is_completed(self) -> bool:
        if self._gloo_future is None:
            self.wait()
        is_there = self._gloo_future is None or bool(self._work.is_completed())
        if is_there:
            self._finish_once()
        return is_there

    def get_future(self) -> Any:
        if self._future is None:
            self._future = (self._gloo_future or self._completed_future()).then(self._finish_value)
        return self._future

    def _completed_future(self) -> Any:
        self.wait()
        future = torch.futures.Future()
        future.set_result([self._result])
        return future

    def _finish_value(self, future: Any) -> Any:
        value = future.value()
        self._finish_once()
        return value

    def _finish_once(self) -> None:
        with self._lock:  # a future completes in a thread of gloo
            finish, self._finish = self._finish, lambda: None
            finish()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)


def _collective(name: str, original: Any, *args: Any, **kwargs: Any) -> Any:
    if calling_module().startswith(_UNCHECKED):
        return original(*args, **kwargs)
    said = arguments_of(original, args, kwargs)
    group, tensors = said.get("group"), said.get(_TENSOR_ARGUMENTS[name])
    for tensor in tensors[:1] if isinstance(tensors, list) else [tensors]:
        process_groups.check_tensor(group, tensor)
    result = said.get(_RESULT_ARGUMENTS.get(name, ""))
    if result is None or not process_groups.is_nccl(group) or _is_noted_down(group):
        return original(*args, **kwargs)
    finish: Callable[[], object] = do_nothing
    if said.get("op") == torch.distributed.ReduceOp.AVG:
        said["op"] = torch.distributed.ReduceOp.SUM
        finish = partial(_divide, result, torch.distributed.get_world_size(group))
    work = original(**said)
    return finish() if work is None else _PendingResult(work, result, finish)


def _is_noted_down(group: Any) -> bool:
    """Return whether torch now coalesces the collectives of the process group: it records the calls, to make them as
    one call later. Such a call includes averages, if gloo supports them."""
    c10d: Any = torch.distributed.distributed_c10d
    noted = getattr(getattr(c10d, "_world", None), "pg_coalesce_state", ())
    return (c10d._get_default_group() if group is None else group) in noted


def _send_or_receive(original: Any, *args: Any, **kwargs: Any) -> Any:
    said = arguments_of(original, args, kwargs)
    if not calling_module().startswith(_UNCHECKED):
        process_groups.check_place(said.get("group"), said.get("tensor"))
    return original(*args, **kwargs)


def _send_and_receive(original: Any, p2p_op_list: Any) -> Any:
    for each in p2p_op_list:
        process_groups.check_place(each.group, each.tensor)
    return original(p2p_op_list)


def _divide(total: Any, size: int) -> None:
    with torch.no_grad():
        total.div_(size, rounding_mode=None if total.is_floating_point() else "floor")


def _barrier(barrier: Any, *args: Any, **kwargs: Any) -> Any:
    said = arguments_of(barrier, args, kwargs)
    for each in said.pop("device_ids", None) or ():
        devices.valid_device(each)
    return barrier(**said)
