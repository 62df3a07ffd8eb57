"""The installation of all parts of a rehearsal in torch, each after the parts that it needs."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Any

from worldsize_inrank.import_hook import call_after_import

from . import autocast, checkpoints, data_loading, default_device, device_marks, devices, function_mode
from .caller import is_called_by_torch
from .cuda import accelerator, modules, refusals
from .cuda import devices as cuda_devices
from .distributed import (
    collectives,
    ddp_checks,
    device_meshes,
    distributed_tensors,
    process_groups,
    sharded_modules,
    sync_batch_norm,
)
from .torch_module import patch, torch


def install_all() -> None:
    _patch_tensors()
    patch(torch.nn.Module, "to", _move_module)
    torch.nn.SyncBatchNorm.forward = sync_batch_norm.forward
    modules.install()
    refusals.install()
    _patch_backends()
    default_device.install()
    accelerator.install()
    _patch_without_effect()
    autocast.install()
    checkpoints.install()
    call_after_import("torch.utils.data.dataloader", data_loading.install)
    if torch.distributed.is_available():
        _patch_distributed()
    function_mode.enter_mode()


def _patch_tensors() -> None:
    for kind in (torch.Tensor, torch.nn.Parameter):
        patch(kind, "__reduce_ex__", device_marks.reduce_without_mark)
    patch(torch.nn.Parameter, "__new__", _make_parameter)
    # If the mode intercepted backward as a whole, hooks and custom backward functions would run outside it.
    torch.autograd.has_torch_function = lambda *_: False
    patch(torch.Tensor, "backward", _backward)
    torch.Tensor.record_stream = lambda self, stream: None
    patch(torch, "from_numpy", _from_numpy)


def _make_parameter(make: Any, cls: Any, data: Any = None, *args: Any, **kwargs: Any) -> Any:
    return device_marks.put_mark(make(cls, data, *args, **kwargs), device_marks.mark_of(data))


def _backward(
    backward: Any,
    self: Any,
    gradient: Any = None,
    retain_graph: Any = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def _from_numpy(make: Any, array: Any) -> Any:
    return device_marks.put_mark(make(array), None if is_called_by_torch() else device_marks.CPU)


def _move_module(move: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Move a module with the original `Module.to` (`move`), and return it. `module.to(1)` means a GPU, which torch
    itself recognises only if there is one. A keyword `device` is passed on by position: the function mode would
    otherwise mistake the function that parses it for one that creates a tensor on that device."""
    if not args and kwargs.get("device") is not None:
        args = (kwargs.pop("device"),)
    if args and isinstance(args[0], int) and not isinstance(args[0], bool):
        args = (torch.device("cuda", devices.valid_index(args[0])), *args[1:])
    return move(self, *args, **kwargs)


def _patch_backends() -> None:
    if torch.version.cuda is None:
        torch.version.cuda = "12.8"
    torch.backends.cuda.is_built = lambda: not is_called_by_torch()
    torch.backends.cudnn.version = lambda: None if is_called_by_torch() else 90100
    torch.backends.cudnn.is_available = lambda: not is_called_by_torch()


def _patch_without_effect() -> None:
    """Turn off features of torch that would only cost time in a rehearsal (compilation, the choice of attention
    kernels), and warnings that torch gives on a CPU about a request for a GPU."""
    torch.compile = _leave_uncompiled
    torch.nn.Module.compile = lambda self, *args, **kwargs: None
    for start in ("'pin_memory' argument is set as true but no acc", "DTensor random operators may not have complete"):
        warnings.filterwarnings("ignore", message=start)
    call_after_import("torch.nn.attention", lambda module: setattr(module, "sdpa_kernel", _choose_kernel))
    torch.backends.cuda.sdp_kernel = _choose_kernel
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        if hasattr(torch.backends.cuda, f"enable_{name}_sdp"):
            setattr(torch.backends.cuda, f"enable_{name}_sdp", cuda_devices.do_nothing)


def _leave_uncompiled(model: Any = None, **kwargs: Any) -> Any:
    """Return `model` uncompiled, in place of torch.compile; a module becomes its own `_orig_mod`. If `model` is None,
    return a decorator that does nothing."""
    if isinstance(model, torch.nn.Module):
        model.__dict__["_orig_mod"] = model
    return model if model is not None else lambda function: function


@contextmanager
def _choose_kernel(*args: Any, **kwargs: Any) -> Any:
    """Do nothing inside a `with`, in place of torch's choice among a GPU's kernels for attention: a CPU has fewer, and
    torch would find none."""
    yield


def _patch_distributed() -> None:
    process_groups.install()
    collectives.install(torch.distributed.distributed_c10d)
    ddp_checks.install()
    call_after_import("torch.distributed.checkpoint", _patch_checkpoints)
    call_after_import("torch.distributed.device_mesh", device_meshes.install)
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        call_after_import(name, distributed_tensors.install)
    for name in ("torch.distributed.fsdp", "torch.distributed._composable.fsdp"):
        call_after_import(name, sharded_modules.install_fully_shard)
    call_after_import("torch.distributed._composable.replicate_with_fsdp", sharded_modules.install_replicate)
    call_after_import("torch.distributed.fsdp", sharded_modules.install_fsdp)


def _patch_checkpoints(module: Any) -> None:
    patch(module, "async_save", process_groups.check_asynchronous_save, getattr(module, "state_dict_saver", module))
