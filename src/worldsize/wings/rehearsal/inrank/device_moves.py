"""Functions that move a tensor to another device. Its memory stays where it is; the tensor is copied as a move would
copy it, and gets a mark."""

from __future__ import annotations

from typing import Any, Optional

from . import devices, messages
from .caller import is_called_by_torch, is_cpu_meant
from .device_marks import CPU, is_pinned, mark_of, pin, put_mark
from .torch_module import torch


def _mark_moved(before: Any, result: Any, mark: Optional[int]) -> Any:
    """Return `result`, the result of moving the tensor `before` to the virtual device `mark`, with that mark. If the
    device changed, the result is always a new tensor. A `mark` of None means that the device did not change."""
    if mark is None:
        return result if result is before or result.is_meta else put_mark(result, mark_of(before))
    was = mark_of(before)
    lazy = isinstance(before, torch.nn.parameter.UninitializedTensorMixin)
    if result is before and was != mark and not (was is None and mark == CPU) and not lazy:
        result = result.clone()
    return put_mark(result, mark)


def _to(func: Any, args: Any, kwargs: Any) -> Any:
    """Move a tensor as Tensor.to, whose arguments are a device, a dtype, another tensor, or several of them, and return
    the moved tensor. A GPU becomes the CPU with the GPU's mark."""
    tensor, words = args[0], list(args[1:])
    mark: Optional[int] = None
    named = "other" if isinstance(kwargs.get("other"), torch.Tensor) else "device"
    target = kwargs.get(named) if kwargs.get(named) is not None else words[0] if words else None
    if isinstance(target, torch.Tensor):
        mark = mark_of(target)
    elif isinstance(target, (str, int, torch.device)) and not isinstance(target, bool):
        index = devices.find_index(target)
        if index is not None:
            mark = index
            if kwargs.get("device") is not None:
                kwargs = {**kwargs, "device": torch.device("cpu")}
            else:
                words[0] = torch.device("cpu")
        elif str(target) == "cpu" and is_cpu_meant():
            mark = CPU
    return _mark_moved(tensor, func(tensor, *words, **kwargs), mark)


def _cuda(func: Any, args: Any, kwargs: Any) -> Any:
    index = devices.valid_device(args[1] if len(args) > 1 else kwargs.get("device"))
    memory_format = kwargs.get("memory_format", torch.preserve_format)
    return _mark_moved(args[0], args[0].to(torch.device("cpu"), memory_format=memory_format), index)


def _cpu(func: Any, args: Any, kwargs: Any) -> Any:
    return _mark_moved(args[0], func(*args, **kwargs), CPU)


def _type(func: Any, args: Any, kwargs: Any) -> Any:
    """Implement Tensor.type. As `x.type()`, return the name of the tensor's type, which includes the virtual device; as
    `x.type("torch.cuda.FloatTensor")`, convert and move the tensor, and return it."""
    tensor, words = args[0], list(args[1:])
    target = words[0] if words else kwargs.get("dtype")
    if target is None:
        return func(*args, **kwargs) if is_called_by_torch() else type_name(tensor)
    plain = plain_type(target)
    if plain is None:
        return _mark_moved(tensor, func(*args, **kwargs), None)
    return _mark_moved(tensor, func(tensor, plain), devices.valid_index(None))


def plain_type(kind: Any) -> Optional[str]:
    """Return the name of the CPU's tensor type, such as "torch.FloatTensor", for `kind`, which is a type of torch.cuda
    or the name of one; None for other types."""
    text = kind if isinstance(kind, str) else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__name__', '')}"
    return "torch." + text.rpartition(".")[2] if text.startswith("torch.cuda.") else None


def type_name(tensor: Any) -> str:
    """Return the name of a tensor's type as on its virtual device, such as torch.cuda.FloatTensor or
    torch.FloatTensor."""
    with torch._C.DisableTorchFunction():
        name: str = tensor.type()
    mark = mark_of(tensor)
    return name if mark is None or mark == CPU else name.replace("torch.", "torch.cuda.", 1)


def _type_as(func: Any, args: Any, kwargs: Any) -> Any:
    return _mark_moved(args[0], func(*args, **kwargs), mark_of(args[1]))


def _set(func: Any, args: Any, kwargs: Any) -> Any:
    """Execute `x.data = y` or `x.set_(y)` on tensors with the original function `func`, copy the mark of `y` to `x`,
    and return the function's result."""
    result = func(*args, **kwargs)
    if len(args) > 1 and isinstance(args[1], torch.Tensor):
        put_mark(args[0], mark_of(args[1]))
    return result


def _pin(func: Any, args: Any, kwargs: Any) -> Any:
    mark = mark_of(args[0])
    if mark is not None and mark != CPU:
        raise RuntimeError(messages.PINNED % type_name(args[0]))
    devices.begin_runtime()
    return args[0] if is_pinned(args[0]) else pin(put_mark(args[0].clone(), mark))


def _is_pinned(func: Any, args: Any, kwargs: Any) -> bool:
    return is_pinned(args[0])


SPECIAL: dict[Any, Any] = {
    torch.Tensor.to: _to,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.cpu: _cpu,
    torch.Tensor.type: _type,
    torch.Tensor.type_as: _type_as,
    torch.Tensor.data.__set__: _set,
    torch.Tensor.set_: _set,
    torch.Tensor.pin_memory: _pin,
    torch.Tensor.is_pinned: _is_pinned,
}
