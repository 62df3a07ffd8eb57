"""The function mode through which every torch function is called. A device `cuda` among the arguments becomes the CPU,
and the results carry the mark of their virtual device."""

from __future__ import annotations

import threading
from typing import Any, Optional

from . import default_device, device_checks, device_moves, devices, tensor_views
from .caller import is_called_by_torch, is_made_by_torch
from .device_marks import CPU, mark_of, pin, put_mark
from .distributed import attention
from .torch_module import patch, torch

_CPU = torch.device("cpu")
_NAMES = (
    "empty empty_permuted empty_strided ones arange bartlett_window blackman_window eye full hamming_window "
    "hann_window kaiser_window linspace logspace rand randn randint randperm range sparse_coo_tensor tril_indices "
    "triu_indices zeros asarray tensor as_tensor scalar_tensor normal complex"
)
_FACTORIES = frozenset(getattr(torch, name) for name in _NAMES.split(" ") if hasattr(torch, name))
_SHARE_STORAGE = (torch.as_tensor, torch.asarray)


class VirtualGpuMode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        special = _SPECIAL.get(func)
        if special is not None:
            return special(func, args, kwargs or {})
        if func in _FACTORIES or (kwargs and kwargs.get("device") is not None):
            return _call_with_device(func, args, kwargs or {})
        check = device_checks.CHECKS.get(func)
        if check is not None:
            check(args, kwargs)
        wrapper = attention.WRAPPED.get(func)
        if wrapper is not None:
            result = wrapper(func, args, kwargs or {})
        else:
            result = func(*args, **kwargs) if kwargs else func(*args)
        if isinstance(result, (torch.Tensor, tuple, list)):
            _carry_mark(result, args, kwargs)
        return result


def _call_with_device(func: Any, args: Any, kwargs: Any) -> Any:
    """Call `func`, a torch function that creates tensors or has an argument `device`, and return its result. A GPU as
    the device is replaced by the CPU, and the result gets the mark of its virtual device."""
    device = kwargs.get("device")
    if device is None:
        index = default_device.default_index() if func in _FACTORIES else None
        plain = CPU if func in _FACTORIES and index is None else None
    else:
        index, plain = devices.find_index(device), CPU if str(device) == "cpu" else None
        if index is not None:
            kwargs = {**kwargs, "device": _CPU}
    is_pinned = bool(kwargs.get("pin_memory"))
    if is_pinned:
        devices.begin_runtime()
        kwargs = {**kwargs, "pin_memory": False}
    result = func(*args, **kwargs)
    if is_pinned and isinstance(result, torch.Tensor):
        pin(result)
    if index is not None:
        return _put_marks(_with_own_storage(func, result, args, index), index)
    if plain is not None and not (is_made_by_torch() if device is None else is_called_by_torch()):
        found = _mark_among(args) if device is None else None
        return _put_marks(result, plain if found is None else found)
    _carry_mark(result, args, kwargs)
    return result


def _with_own_storage(func: Any, result: Any, args: Any, index: int) -> Any:
    """Return `result`, of a torch function that places tensors on the virtual GPU `index`; a copy if `func` is
    as_tensor or asarray and the tensor changes its device. They share their argument's storage only if the device stays
    the same."""
    if func not in _SHARE_STORAGE or not args or (result is args[0] and mark_of(result) == index):
        return result
    return result.clone()


def _put_marks(result: Any, mark: int) -> Any:
    for each in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(each, torch.Tensor) and each.device.type != "meta":
            put_mark(each, mark)
    return result


def _carry_mark(result: Any, args: Any, kwargs: Any) -> None:
    """Mark the tensors in `result`, of a torch function, by the tensors among its arguments. The result of tensors on a
    GPU is on that GPU; the result of tensors that are all on the CPU is on the CPU. A tensor that has a mark keeps it.
    """
    mark = _mark_among(args)
    if (mark is None or mark == CPU) and kwargs:
        further = _mark_among(kwargs.values())
        mark = further if mark is None or (further is not None and further != CPU) else mark
    if mark is None:
        return
    for each in result if isinstance(result, (tuple, list)) else (result,):
        if isinstance(each, torch.Tensor) and mark_of(each) is None:
            put_mark(each, mark)


def _mark_among(values: Any) -> Optional[int]:
    """Return the mark (a GPU's index, or CPU) for the result of a torch function with the arguments `values`. A GPU
    takes precedence over the CPU. None if there is no tensor among them, or if there is none on a GPU and the place of
    one is unknown."""
    found: Optional[int] = None
    unknown = False
    for value in values:
        if isinstance(value, torch.Tensor):
            mark = mark_of(value)
        elif isinstance(value, (list, tuple)):
            mark = _mark_among(value)
            if mark is None:
                continue
        else:
            continue
        if mark is None:
            unknown = True
        elif mark != CPU:
            return mark
        else:
            found = CPU
    return None if unknown else found


def enter_mode() -> None:
    """Enter the torch function mode of the virtual GPUs in this thread, and in every thread that starts from now on."""
    mode = VirtualGpuMode()
    mode.__enter__()

    def begin_in_mode(begin: Any, thread: Any) -> Any:
        with mode:
            return begin(thread)

    patch(threading.Thread, "_bootstrap_inner", begin_in_mode)


_SPECIAL: dict[Any, Any] = {**tensor_views.SPECIAL, **device_moves.SPECIAL}
