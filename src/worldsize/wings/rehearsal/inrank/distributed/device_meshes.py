"""Device meshes of `cuda`. They are created on the CPU, report cuda, and choose this process's GPU as torch does."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from .. import devices, messages
from ..caller import is_called_by_torch
from ..torch_module import patch, torch
from . import process_groups

_DEVICE_TYPE = "_worldsize_kind"


class _MeshState:
    """The record of whether a mesh of `cuda` was created. If so, a part of a mesh, which has no type of its own, counts
    as one of `cuda`."""

    cuda = False


def is_of_gpus(mesh: Any) -> bool:
    return _device_type_of(mesh) == "cuda"


def _device_type_of(mesh: Any) -> str:
    """Return the device type for which a device mesh was created, such as "cuda". A part of a mesh has the type of the
    whole, if torch keeps a reference to that."""
    whole = mesh.__dict__.get("_root_mesh")
    known = mesh.__dict__.get(_DEVICE_TYPE) or (whole is not None and whole.__dict__.get(_DEVICE_TYPE))
    return str(known or ("cuda" if _MeshState.cuda else "cpu"))


def install(module: Any) -> None:
    """Patch `module`, which is torch.distributed.device_mesh, so that meshes of `cuda` are created on the CPU and
    report cuda."""
    patch(module.DeviceMesh, "__init__", _begin_mesh)
    for name in ("_setup_world_group_and_device", "_get_or_create_default_group"):
        patch(module.DeviceMesh, name, _set_up_world)
    for name in {"new_group", "init_process_group"} & vars(module).keys():
        setattr(module, name, getattr(torch.distributed, name))  # possibly bound before the patch
    others = (torch.distributed, sys.modules.get("torch.distributed.tensor"))
    patch(module, "init_device_mesh", _init_device_mesh, *others)
    patch(module.DeviceMesh, "__repr__", _describe_mesh)
    _show_cuda(module.DeviceMesh)


def _begin_mesh(begin: Any, self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
    if device_type == "cuda":
        _MeshState.cuda = True
    if device_type == "cuda" or not is_called_by_torch():
        self.__dict__[_DEVICE_TYPE] = device_type
    begin(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)


def _init_device_mesh(make: Any, device_type: str, *args: Any, **kwargs: Any) -> Any:
    made = make(device_type, *args, **kwargs)
    if not is_called_by_torch():
        made.__dict__[_DEVICE_TYPE] = device_type
    return made


def _set_up_world(set_up: Any, self: Any) -> Any:
    """Set up the default process group of a device mesh with torch's method `set_up`, and return its result. For a mesh
    of GPUs, create the process group before, if there is none, and afterwards choose this process's GPU, unless CUDA
    has begun."""
    if not is_of_gpus(self):
        return set_up(self)
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group()
    made = set_up(self)
    if not devices.has_begun():
        _choose_device(set_up)
    return made


def _choose_device(set_up: Any) -> None:
    """Make a virtual GPU current for a device mesh: that of LOCAL_RANK, if this version of torch reads it; otherwise
    the rank's number modulo the GPUs of a node, with a warning. Raise RuntimeError if the nodes could not have the same
    number of ranks."""
    local_rank = os.environ.get("LOCAL_RANK")
    world, gpus = torch.distributed.get_world_size(), devices.count()
    if local_rank is not None and "LOCAL_RANK" in set_up.__code__.co_consts:
        devices.make_current(int(local_rank))
    elif gpus:
        warnings.warn(messages.MESH_CHOICE, stacklevel=2)
        if world > gpus and world % gpus:
            raise RuntimeError(messages.MESH_UNEVEN % (world, gpus))
        devices.make_current(torch.distributed.get_rank() % gpus)


def check_gpus(mesh: Any, index: int) -> None:
    """Check that the processes of each group of a device mesh use different GPUs; `index` is the GPU of this process.
    Raise DistBackendError if they do not."""
    if mesh.get_coordinate() is not None:
        for dimension in range(mesh.ndim):
            process_groups.check_devices(mesh.get_group(dimension), index)


def _describe_mesh(describe: Any, self: Any) -> str:
    text = str(describe(self))
    return text.replace("'cpu'", "'cuda'", 1) if is_of_gpus(self) else text


def _show_cuda(mesh: Any) -> None:
    """Replace the attribute `device_type` of the class DeviceMesh, so that scripts read cuda for a mesh of virtual
    GPUs; torch's own code reads the real type."""
    former = mesh.__dict__.get("device_type")
    read: Any = former.fget if isinstance(former, property) else lambda self: self.__dict__["device_type"]

    def device_type(self: Any) -> str:
        truth = str(read(self))
        return _device_type_of(self) if truth == "cpu" and not is_called_by_torch() else truth

    def set_device_type(self: Any, value: str) -> None:
        self.__dict__["device_type"] = value

    mesh.device_type = property(device_type, None if isinstance(former, property) else set_device_type)
