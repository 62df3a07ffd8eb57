"""Device meshes of `cuda` are made on the CPU and report cuda; fully_shard leaves its parameters on the GPU."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from .. import devices
from ..caller import is_called_by_torch
from ..device_marks import mark_of, put_mark, put_marks
from ..torch_module import patch, torch
from . import process_groups
from .ddp_checks import to_gpu

_DEVICE_TYPE = "_worldsize_kind"


class _MeshState:
    """Whether there is a mesh of `cuda`: then a part of a mesh, which has no type of its own, counts as one."""

    cuda = False


def _device_type_of(mesh: Any) -> str:
    return str(mesh.__dict__.get(_DEVICE_TYPE) or ("cuda" if _MeshState.cuda else "cpu"))


def install_meshes(module: Any) -> None:
    """Patch torch.distributed.device_mesh."""
    patch(module.DeviceMesh, "__init__", _begin_mesh)
    others = (torch.distributed, sys.modules.get("torch.distributed.tensor"))
    patch(module, "init_device_mesh", _init_device_mesh, *others)
    _show_cuda(module.DeviceMesh)


def _begin_mesh(begin: Any, self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
    begin(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)
    if device_type == "cuda":
        self.__dict__[_DEVICE_TYPE], _MeshState.cuda = "cuda", True


def _init_device_mesh(make: Any, device_type: str, *args: Any, **kwargs: Any) -> Any:
    if device_type == "cuda":
        devices.begin_cuda()
        _MeshState.cuda = True
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group(backend="cpu:gloo,cuda:nccl")
    made = make("cpu" if device_type == "cuda" else device_type, *args, **kwargs)
    if not is_called_by_torch():
        made.__dict__[_DEVICE_TYPE] = device_type
    return made


def _show_cuda(mesh: Any) -> None:
    """Make `mesh.device_type` show cuda to scripts."""
    former = mesh.__dict__.get("device_type")
    read: Any = former.fget if isinstance(former, property) else lambda self: self.__dict__["device_type"]

    def device_type(self: Any) -> str:
        truth = str(read(self))
        return _device_type_of(self) if truth == "cpu" and not is_called_by_torch() else truth

    def set_device_type(self: Any, value: str) -> None:
        self.__dict__["device_type"] = value

    mesh.device_type = property(device_type, None if isinstance(former, property) else set_device_type)


def install_tensors(module: Any) -> None:
    """Patch torch.distributed.tensor."""
    patch(getattr(module, "DTensor", None), "to_local", _to_local)


def _to_local(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """The local part of a tensor: on this process's GPU, where the tensor lies on a mesh of `cuda`."""
    local = original(self, *args, **kwargs)
    if _device_type_of(self.device_mesh) == "cuda" and isinstance(local, torch.Tensor) and mark_of(local) is None:
        put_mark(local, devices.current_index())
    return local


def install_fully_shard(module: Any) -> None:
    """Patch fully_shard in a module that has it: torch.distributed.fsdp, or an older one."""
    patch(module, "fully_shard", _fully_shard)


def _fully_shard(shard: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    index = _parameter_gpu(kwargs.get("mesh"))
    if index is None:
        return shard(target, *args, **kwargs)
    process_groups.check_devices(None, index)
    sharded = shard(target, *args, **kwargs)
    put_marks(target, index)
    for each in target if isinstance(target, (list, tuple)) else [target]:
        _move_inputs_of(each, index)
    return sharded


def _parameter_gpu(mesh: Any) -> Any:
    """The GPU that parameters go to: the current one, unless the mesh is the CPU's."""
    if mesh is not None and _device_type_of(mesh) != "cuda":
        return None
    return devices.valid_index(None) if devices.count() else None


def _move_inputs_of(module: Any, index: int) -> None:
    module.register_forward_pre_hook(partial(_move_inputs, index), prepend=True, with_kwargs=True)


def _move_inputs(index: int, module: Any, args: Any, kwargs: Any) -> Any:
    return to_gpu(args, index), to_gpu(kwargs, index)


def install_fsdp(module: Any) -> None:
    """Patch FullyShardedDataParallel: its devices become the CPU."""
    patch(module.FullyShardedDataParallel, "__init__", _begin_fsdp)


def _begin_fsdp(begin: Any, self: Any, module: Any, *args: Any, **kwargs: Any) -> None:
    index = devices.valid_device(kwargs.get("device_id"))
    process_groups.check_devices(kwargs.get("process_group"), index)
    kwargs["device_id"] = torch.device("cpu")
    begin(self, module, *args, **kwargs)
    put_marks(self, index)
    if not isinstance(getattr(module, "_fsdp_wrapped_module", None), torch.nn.Module):
        _move_inputs_of(self, index)
