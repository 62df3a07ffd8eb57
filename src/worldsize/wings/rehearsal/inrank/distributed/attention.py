"""Attention over distributed tensors on a mesh of `cuda`: each rank computes its own batches and heads, as torch
distributes the kernels of a GPU. Torch cannot distribute the CPU's kernel."""

from __future__ import annotations

import sys
from typing import Any

from ..torch_module import F, torch
from .device_meshes import is_of_gpus


def attend(func: Any, args: Any, kwargs: Any) -> Any:
    """Call scaled_dot_product_attention (`func`) and return its result. If all its tensors are distributed over a mesh
    of GPUs, each rank computes its own batches and heads, and the result is a distributed tensor."""
    said = {**dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args)), **kwargs}
    tensors = {name: value for name, value in said.items() if isinstance(value, torch.Tensor)}
    if not all(map(_is_spread_over_gpus, tensors.values())):
        return func(*args, **kwargs)
    query = tensors["query"]
    placements = [_own_part(placement, query) for placement in query.placements]
    for name, tensor in tensors.items():
        said[name] = tensor.redistribute(placements=[_own_part(each, tensor) for each in placements]).to_local()
    return type(query).from_local(func(**said), query.device_mesh, placements, run_check=False)


def _is_spread_over_gpus(tensor: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor) and is_of_gpus(tensor.device_mesh)


def _own_part(placement: Any, tensor: Any) -> Any:
    """Return `placement`, the distribution of a tensor over one dimension of a mesh, if it splits batches or heads of
    which there are several; otherwise Replicate, which places the whole tensor on each rank."""
    is_split = placement.is_shard() and placement.dim < tensor.dim() - 2 and tensor.size(placement.dim) > 1
    return placement if is_split else torch.distributed.tensor.Replicate()


WRAPPED: dict[Any, Any] = {F.scaled_dot_product_attention: attend}
