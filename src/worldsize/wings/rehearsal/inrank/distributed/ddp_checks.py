"""The checks of DistributedDataParallel for modules and `device_ids`, as on GPUs. The wrapper is then built as for the
CPU."""

from __future__ import annotations

from typing import Any, Optional

from .. import devices, messages
from ..device_marks import CPU, device_of, mark_of, put_mark
from ..torch_module import arguments_of, patch, torch
from . import process_groups


def install() -> None:
    ddp = torch.nn.parallel.DistributedDataParallel
    patch(ddp, "__init__", _begin)
    patch(ddp, "_pre_forward", _pre_forward)
    patch(ddp, "_passing_sync_batchnorm_handle", _check_sync_batch_norm)


def _begin(begin: Any, *args: Any, **kwargs: Any) -> None:
    said = arguments_of(begin, args, kwargs)
    index = _module_gpu(said)
    process_groups.check_devices(said.get("process_group"), index)
    ddp, asked = said["self"], said.get("device_ids")
    ddp.__dict__["_virtual_place"] = index
    begin(**{**said, "device_ids": None, "output_device": None})
    if asked:
        ddp._virtual_device = index
    if index is not None:
        ddp.device = torch.device("cuda", index)


def _pre_forward(prepare: Any, self: Any, *inputs: Any, **kwargs: Any) -> Any:
    inputs, kwargs = prepare(self, *inputs, **kwargs)
    index = getattr(self, "_virtual_device", None)
    return (inputs, kwargs) if index is None else (to_gpu(inputs, index), to_gpu(kwargs, index))


def _check_sync_batch_norm(refuse: Any, self: Any, module: Any) -> None:
    """Accept a SyncBatchNorm in a module that DDP wraps, if the module is on a virtual GPU; otherwise call torch's
    check `refuse`. DDP refuses it on a CPU, but worldsize's version works there (sync_batch_norm.py)."""
    if self.__dict__.get("_virtual_place") is None:
        refuse(self, module)


def to_gpu(value: Any, index: int) -> Any:
    """Return `value` (a tensor, or tuples, lists and dicts of them) with all tensors inside it moved to the virtual GPU
    `index`. Tensors whose place is unknown are assumed to be there and only get the mark."""
    if isinstance(value, torch.Tensor):
        return put_mark(value, index) if mark_of(value) is None else value.to(torch.device("cuda", index))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(to_gpu(each, index) for each in value))
    if isinstance(value, (list, tuple)):
        return type(value)(to_gpu(each, index) for each in value)
    if isinstance(value, dict):
        return {name: to_gpu(each, index) for name, each in value.items()}
    return value


def _module_gpu(said: Any) -> Optional[int]:
    """Return the index of the only virtual GPU that the module of a DDP wrapper uses; None for the CPU, or several
    GPUs. `said` contains the arguments of DistributedDataParallel by name. Raise ValueError, RuntimeError as DDP does.
    """
    ids, output = said.get("device_ids"), said.get("output_device")
    marks = {CPU if mark_of(each) is None else mark_of(each) for each in said["module"].parameters()}
    if ids is not None and len(ids) > 1:
        raise ValueError(messages.DDP_ONE)
    if CPU in marks and len(marks) > 1:
        raise ValueError(messages.DDP_TYPES % {"cpu", "cuda"})
    if (CPU in marks or len(marks) > 1) and (ids or output):
        raise ValueError(
            messages.DDP_DEVICE_IDS % (ids, output, {device_of(each) for each in marks if each is not None})
        )
    for each in ids or ():
        devices.valid_device(each)
    if len(marks) != 1:
        return None
    mark = marks.pop()
    group = said.get("process_group")
    if mark == CPU and process_groups.is_nccl(group) and not process_groups.has_cpu(group):
        raise RuntimeError(messages.NO_BACKEND)
    return None if mark == CPU else mark
