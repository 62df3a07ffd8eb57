"""BatchNorm over the whole batch. Its mean and variance are computed over all ranks' slices, in forward and backward.

It is always on for GPUs (under `split`), where torch's SyncBatchNorm would do the same but requires a special process
group. On CPUs, where two messages for each layer cost more, it is on only if WORLDSIZE_SYNC_BATCHNORM=1 is set.
"""

from __future__ import annotations

import os
from typing import Any

import torch

from .process_group import Communicator
from .random_streams import is_compiling
from .rank_state import Training, replace

SYNC_VARIABLE = "WORLDSIZE_SYNC_BATCHNORM"


class BatchNormPatch:
    def __init__(self, training: Training) -> None:
        self._training = training
        self._asked = os.environ.get(SYNC_VARIABLE, "") not in ("", "0")

    def install(self) -> None:
        replace(torch.nn.functional, "batch_norm", self._batch_norm)

    def is_synced_on(self, device: Any) -> bool:
        """Return whether BatchNorm normalises tensors on this device over all ranks' slices of the batch."""
        return self._training.mode == "split" and (device.type == "cuda" or self._asked)

    def _batch_norm(
        self,
        original: Any,
        input: Any,
        running_mean: Any,
        running_var: Any,
        weight: Any = None,
        bias: Any = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Any:
        sliced = training and self._training.active and self._training.batch.sliced
        if not sliced or not torch.is_grad_enabled() or not self.is_synced_on(input.device) or is_compiling():
            return original(input, running_mean, running_var, weight, bias, training, momentum, eps)
        return self._normalise_over_ranks(input, running_mean, running_var, weight, bias, momentum, eps)

    def _normalise_over_ranks(
        self, x: Any, running_mean: Any, running_var: Any, weight: Any, bias: Any, momentum: float, eps: float
    ) -> Any:
        world = self._training.world
        dims = [0, *range(2, x.dim())]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        wide = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
        count = wide.numel() // wide.shape[1] * world.size
        mean = _SumOverRanks.apply(wide.sum(dims), world) / count
        centred = wide - mean.view(shape)
        variance = _SumOverRanks.apply(centred.pow(2).sum(dims), world) / count
        with torch.no_grad():
            if running_mean is not None:
                running_mean.lerp_(mean.to(running_mean.dtype), momentum)
                running_var.lerp_((variance * count / max(count - 1, 1)).to(running_var.dtype), momentum)
        result = centred * (variance + eps).rsqrt().view(shape)
        if weight is not None:
            result = result * weight.view(shape) + bias.view(shape)
        return result.to(x.dtype)


class _SumOverRanks(torch.autograd.Function):  # type: ignore[misc]
    """A sum of a tensor over all ranks as a function of autograd. Every rank's loss depends on the sum, so its gradient
    is the sum of all ranks' gradients."""

    @staticmethod
    def forward(context: Any, tensor: Any, world: Communicator) -> Any:
        context.world = world
        return world.add_up(tensor.clone(), "norm")

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return context.world.add_up(gradient.clone(), "norm"), None
