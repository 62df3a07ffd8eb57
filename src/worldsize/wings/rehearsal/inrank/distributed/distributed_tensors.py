"""Distributed tensors on a mesh of `cuda`. Their parts are on this process's GPU, independent of the place of the whole
tensor."""

from __future__ import annotations

from typing import Any, Optional

from .. import device_marks, devices
from ..device_marks import CPU, mark_of, put_mark
from ..torch_module import arguments_of, patch, torch
from .ddp_checks import to_gpu
from .device_meshes import check_gpus, is_of_gpus


def install(module: Any) -> None:
    """Patch the class DTensor, and the functions that create distributed tensors, in `module`:
    torch.distributed.tensor, or an older module that has DTensor."""
    kind: Any = getattr(module, "DTensor", None)
    if kind is None:
        return
    device_marks.PLACES[kind] = _place_of
    for name in ("to_local", "full_tensor"):
        patch(kind, name, _get_values)
    patch(kind, "from_local", _move_first)
    kind.from_local = staticmethod(kind.from_local)
    api = getattr(module, "_api", None) or getattr(module, "api", module)
    patch(api, "distribute_tensor", _move_first, module)
    for name in ("rand", "randn"):
        patch(module, name, _make_random)


def _place_of(tensor: Any) -> Optional[int]:
    """Return the index of this process's current virtual GPU for a distributed tensor on a mesh of GPUs, which has no
    mark, since torch's own code creates most of them; None if the tensor is not on a GPU."""
    return devices.current_index() if is_of_gpus(tensor.device_mesh) and not tensor.is_meta else None


def _get_values(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Return the local part, or the whole, of a distributed tensor, from its method `original` (`to_local` or
    `full_tensor`). The result is marked with the GPU of the tensor's mark, or else with this process's GPU."""
    found = original(self, *args, **kwargs)
    place = device_marks.place_of(self)
    if isinstance(found, torch.Tensor) and place is not None and mark_of(found) in (None, CPU):
        put_mark(found, place)
    return found


def _move_first(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Move a tensor to this process's virtual GPU if the mesh is one of GPUs, then distribute it with `original`
    (`from_local` or `distribute_tensor`), and return the distributed tensor. For `distribute_tensor`, a parameter is
    detached before, so that the result is a leaf."""
    said = arguments_of(original, args, kwargs)
    name = next(iter(said))
    mesh, tensor = said.get("device_mesh") or _current_mesh(), said[name]
    is_collective = original.__name__ == "distribute_tensor"
    if is_of_gpus(mesh) and is_collective:
        check_gpus(mesh, devices.valid_index(None))
    if is_of_gpus(mesh) and not tensor.is_meta and mark_of(tensor) in (None, CPU):
        is_parameter = is_collective and tensor.is_leaf and tensor.requires_grad
        moved = to_gpu(tensor.detach() if is_parameter else tensor, devices.valid_index(None))
        said[name] = moved.requires_grad_() if is_parameter else moved
    return original(**said)


def _current_mesh() -> Any:
    return torch.distributed.device_mesh._mesh_resources.get_current_mesh()


def _make_random(
    make: Any,
    *size: Any,
    requires_grad: bool = False,
    device_mesh: Any = None,
    placements: Any = None,
    **kwargs: Any,
) -> Any:
    """Return a distributed random tensor, as torch.distributed.tensor's `rand` or `randn` (`make`). On a mesh of GPUs,
    create the whole tensor and distribute it: the CPU has no random numbers for parts of a tensor."""
    mesh = device_mesh or _current_mesh()
    if not is_of_gpus(mesh):
        words = {**kwargs, "requires_grad": requires_grad, "device_mesh": device_mesh, "placements": placements}
        return make(*size, **words)
    whole = getattr(torch, make.__name__)(*size, device=torch.device("cuda"), **kwargs)
    distribute = torch.distributed.tensor.distribute_tensor
    return distribute(whole, mesh, placements).detach().requires_grad_(requires_grad)
