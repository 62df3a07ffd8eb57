"""Device meshes of `cuda` are the CPU's, and say that they are cuda; fully_shard leaves its parameters on the GPU."""

from __future__ import annotations

import functools

from . import devices, process_groups
from .caller import is_called_by_torch
from .ddp_checks import to_gpu
from .device_marks import mark_of, put_mark
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DEVICE_TYPE = "_worldsize_kind"
_REPLACED = "_worldsize_virtual"


class _MeshState:
    """Whether there is a mesh of `cuda`: then a part of a mesh, which says nothing itself, is one."""

    cuda = False


def _device_type_of(mesh: Any) -> str:
    return str(mesh.__dict__.get(_DEVICE_TYPE) or ("cuda" if _MeshState.cuda else "cpu"))


def install_meshes(module: Any) -> None:
    """In torch.distributed.device_mesh."""
    mesh = getattr(module, "DeviceMesh", None)
    if mesh is None:
        return
    begin = mesh.__init__

    @functools.wraps(begin)
    def __init__(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        begin(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)
        if device_type == "cuda":
            self.__dict__[_DEVICE_TYPE], _MeshState.cuda = "cuda", True

    mesh.__init__ = __init__
    original = module.init_device_mesh

    @functools.wraps(original)
    def init_device_mesh(device_type: str, *args: Any, **kwargs: Any) -> Any:
        if device_type == "cuda":
            devices.begin_cuda()
            _MeshState.cuda = True
            if not torch.distributed.is_initialized():
                torch.distributed.init_process_group(backend="cpu:gloo,cuda:nccl")
        made = original("cpu" if device_type == "cuda" else device_type, *args, **kwargs)
        if not is_called_by_torch():
            made.__dict__[_DEVICE_TYPE] = device_type
        return made

    module.init_device_mesh = init_device_mesh
    for name in ("torch.distributed", "torch.distributed.tensor"):
        _replace(name, "init_device_mesh", original, init_device_mesh)
    _show_cuda(mesh)


def _replace(name: str, attribute: str, original: Any, function: Any) -> None:
    import sys

    module = sys.modules.get(name)
    if getattr(module, attribute, None) is original:
        setattr(module, attribute, function)


def _show_cuda(mesh: Any) -> None:
    """`mesh.device_type` for scripts."""
    former = mesh.__dict__.get("device_type")
    read: Any = former.fget if isinstance(former, property) else lambda self: self.__dict__["device_type"]

    def device_type(self: Any) -> str:
        truth = str(read(self))
        return _device_type_of(self) if truth == "cpu" and not is_called_by_torch() else truth

    def set_device_type(self: Any, value: str) -> None:
        self.__dict__["device_type"] = value

    mesh.device_type = property(device_type, None if isinstance(former, property) else set_device_type)


def install_tensors(module: Any) -> None:
    """In torch.distributed.tensor: the local part of what lies on a mesh of `cuda` is on this process's GPU."""
    kind = getattr(module, "DTensor", None)
    if kind is None or hasattr(kind.to_local, _REPLACED):
        return
    original = kind.to_local

    @functools.wraps(original)
    def to_local(self: Any, *args: Any, **kwargs: Any) -> Any:
        local = original(self, *args, **kwargs)
        if _device_type_of(self.device_mesh) == "cuda" and isinstance(local, torch.Tensor) and mark_of(local) is None:
            put_mark(local, devices.current_index())
        return local

    setattr(to_local, _REPLACED, True)
    kind.to_local = to_local


def install_fully_shard(module: Any) -> None:
    """In torch.distributed.fsdp, for its second version."""
    original = getattr(module, "fully_shard", None)
    if original is None or hasattr(original, _REPLACED):
        return

    @functools.wraps(original)
    def fully_shard(target: Any, *args: Any, **kwargs: Any) -> Any:
        index = _parameter_gpu(kwargs.get("mesh"))
        if index is None:
            return original(target, *args, **kwargs)
        process_groups.check_devices(None, index)
        sharded = original(target, *args, **kwargs)
        for each in target if isinstance(target, (list, tuple)) else [target]:
            for tensor in [*each.parameters(), *each.buffers()]:
                put_mark(tensor, index)
            each.register_forward_pre_hook(functools.partial(_move_inputs, index), prepend=True, with_kwargs=True)
        return sharded

    setattr(fully_shard, _REPLACED, True)
    module.fully_shard = fully_shard


def _parameter_gpu(mesh: Any) -> Any:
    """The GPU that parameters go to: the current one, unless the mesh is the CPU's."""
    if mesh is not None and _device_type_of(mesh) != "cuda":
        return None
    return devices.valid_index(None) if devices.count() else None


def _move_inputs(index: int, module: Any, args: Any, kwargs: Any) -> Any:
    return to_gpu(args, index), to_gpu(kwargs, index)


def install_fsdp(module: Any) -> None:
    """FullyShardedDataParallel: its devices are the CPU."""
    fsdp = getattr(module, "FullyShardedDataParallel", None)
    if fsdp is None:
        return
    begin = fsdp.__init__

    @functools.wraps(begin)
    def __init__(self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
        device = kwargs.get("device_id")
        index = devices.valid_index(None if device is None else devices.index_of(device))
        process_groups.check_devices(kwargs.get("process_group"), index)
        kwargs["device_id"] = torch.device("cpu")
        begin(self, module, *args, **kwargs)
        for tensor in [*self.parameters(), *self.buffers()]:
            put_mark(tensor, index)
        if not isinstance(getattr(module, "_fsdp_wrapped_module", None), torch.nn.Module):
            self.register_forward_pre_hook(functools.partial(_move_inputs, index), prepend=True, with_kwargs=True)

    fsdp.__init__ = __init__
