"""The wrappers fully_shard and FullyShardedDataParallel. They use their CPU paths, and parameters are placed on the GPU
that they choose."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Optional

from .. import devices, messages
from ..device_marks import CPU, mark_of, put_mark, put_marks
from ..torch_module import arguments_of, patch, torch
from . import process_groups
from .ddp_checks import to_gpu
from .device_meshes import check_gpus, is_of_gpus


def install_fully_shard(module: Any) -> None:
    """Patch `fully_shard` in `module`, torch.distributed.fsdp or an older one, so that it uses a mesh of virtual
    GPUs."""
    patch(module, "fully_shard", partial(_shard_module, ()))


def install_replicate(module: Any) -> None:
    """Patch `replicate` in `module`, if in this version of torch it works like fully_shard, on a device mesh."""
    if hasattr(module, "_init_default_mesh"):
        patch(module, "replicate", partial(_shard_module, ("replicate",)))


def _shard_module(dimensions: Any, shard: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("mesh") is None and devices.count():
        kwargs["mesh"] = _make_default_mesh(dimensions)
    mesh = kwargs.get("mesh")
    if mesh is None or not is_of_gpus(mesh):
        return shard(target, *args, **kwargs)
    index = devices.valid_index(None)
    check_gpus(mesh, index)
    sharded = shard(target, *args, **kwargs)
    is_offloaded = type(kwargs.get("offload_policy")).__name__ == "CPUOffloadPolicy"
    put_marks(target, CPU if is_offloaded else index)
    for each in target if isinstance(target, (list, tuple)) else [target]:
        _move_inputs_of(each, index)
    return sharded


def _make_default_mesh(dimensions: Any) -> Any:
    """Return a device mesh of all ranks' GPUs, as torch creates it for fully_shard if a script passes none.
    `dimensions` are the names of its dimensions. Create the process group if there is none."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group()
    size = torch.distributed.get_world_size()
    return torch.distributed.device_mesh.init_device_mesh("cuda", (size,), mesh_dim_names=dimensions or None)


def _move_inputs_of(module: Any, index: int) -> None:
    module.register_forward_pre_hook(partial(_move_inputs, index), prepend=True, with_kwargs=True)


def _move_inputs(index: int, module: Any, args: Any, kwargs: Any) -> Any:
    return to_gpu(args, index), to_gpu(kwargs, index)


def install_fsdp(module: Any) -> None:
    """Patch FullyShardedDataParallel in `module`, so that it works on the CPU and its parameters are marked as on a
    virtual GPU."""
    patch(module.FullyShardedDataParallel, "__init__", _begin_fsdp)
    patch(getattr(module, "_init_utils", None), "_init_intra_and_inter_node_groups", _split_by_node)
    flat = getattr(module, "_flat_param", None)
    patch(getattr(flat, "FlatParamHandle", None), "to_cpu", _show_on_cpu)


def _begin_fsdp(begin: Any, *args: Any, **kwargs: Any) -> None:
    said = arguments_of(begin, args, kwargs)
    device = said.get("device_id")
    if isinstance(device, torch.device) and device.type == "cpu":
        begin(**said)
        return
    self, module = said["self"], said["module"]
    marks = {mark_of(each) for each in module.parameters()}
    index = _compute_gpu(device, marks)
    process_groups.check_devices(said.get("process_group"), index)
    if device is not None or CPU not in marks:
        put_marks(module, index)
    begin(**{**said, "device_id": torch.device("cpu")})
    if not isinstance(getattr(module, "_fsdp_wrapped_module", None), torch.nn.Module):
        is_offloaded = bool(getattr(said.get("cpu_offload"), "offload_params", False))
        self.register_forward_pre_hook(partial(_check_place, index, is_offloaded), prepend=True)
        _move_inputs_of(self, index)


def _split_by_node(split: Any, group: Any, devices_of_node: int) -> Any:
    """Create the process groups of FSDP's hybrid sharding with torch's function `split`, by the number of virtual GPUs
    of a node: torch would count the devices of the CPU, which is one. Return the groups."""
    return split(group, devices.count() or devices_of_node)


@contextmanager
def _show_on_cpu(move: Any, handle: Any) -> Iterator[None]:
    """Mark the parameters of an FSDP handle as on the CPU inside a `with`, where they really are: torch frees their
    memory to move them. Restore their marks at the end."""
    shown = [getattr(module, name) for name, module, _ in handle.flat_param._param_infos]
    marks = [mark_of(each) for each in shown]
    put_marks(shown, CPU)
    try:
        yield
    finally:
        for each, mark in zip(shown, marks):
            put_mark(each, mark)


def _compute_gpu(device: Any, marks: Any) -> int:
    """Return the index of the GPU on which FSDP computes: the requested one (`device`), that of the module's parameters
    (`marks`), or the current one. Raise ValueError if another one than the module's is requested."""
    asked: Optional[int] = None if device is None else devices.valid_device(device)
    placed = [mark for mark in marks if mark not in (None, CPU)]
    index = placed[0] if placed else devices.valid_index(None)
    if asked is not None and placed and asked != index:
        raise ValueError(messages.FSDP_DEVICES % (torch.distributed.get_rank(), index, asked))
    return index if asked is None else asked


def _check_place(index: int, is_offloaded: bool, module: Any, inputs: Any) -> None:
    """Check, before an FSDP module is called, that its parameters are on the GPU `index`, if it was created on the CPU
    and is not offloaded there. Raise RuntimeError if they are still on the CPU."""
    if not is_offloaded and any(mark_of(each) == CPU for each in module.parameters()):
        raise RuntimeError(messages.FSDP_ON_CPU % index)
