"""An implementation of SyncBatchNorm for the CPU, which torch has only for GPUs: statistics over the batches of all
ranks, and gradients through them."""

from __future__ import annotations

from typing import Any

from ..torch_module import torch


def forward(self: Any, input: Any) -> Any:
    self._check_input_dim(input)
    self._check_non_zero_input_channels(input)
    if not (self.training and _has_several_ranks(self.process_group)):
        return torch.nn.modules.batchnorm._BatchNorm.forward(self, input)
    factor = self.momentum
    if self.track_running_stats:
        self.num_batches_tracked.add_(1)
        factor = 1.0 / float(self.num_batches_tracked) if factor is None else factor
    return _normalise(self, input, factor)


def _has_several_ranks(group: Any) -> bool:
    dist = torch.distributed
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size(group) > 1)


class _SumOverRanks(torch.autograd.Function):  # type: ignore[misc]
    """The sum of a value over all ranks. Its gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(context: Any, value: Any, group: Any) -> Any:
        context.group = group
        total = value.clone()
        torch.distributed.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(context: Any, gradient: Any) -> Any:
        return _SumOverRanks.apply(gradient, context.group), None


def _normalise(layer: Any, input: Any, factor: Any) -> Any:
    """Return `input` normalised by a SyncBatchNorm layer with the statistics of the batches of all ranks, and update
    the layer's running statistics. `factor` is the weight of this batch in them."""
    values = input.float()
    others = [dim for dim in range(input.dim()) if dim != 1]
    count = values.new_full((1,), input.numel() // input.size(1))
    sums = torch.cat([values.sum(others), (values * values).sum(others), count])
    sums = _SumOverRanks.apply(sums, layer.process_group or torch.distributed.group.WORLD)
    channels, total = input.size(1), sums[-1].detach()
    mean = sums[:channels] / total
    var = sums[channels:-1] / total - mean * mean
    if layer.track_running_stats and layer.running_mean is not None:
        with torch.no_grad():
            layer.running_mean.lerp_(mean.detach().to(layer.running_mean.dtype), factor)
            whole = var.detach() * total / (total - 1).clamp(min=1)
            layer.running_var.lerp_(whole.to(layer.running_var.dtype), factor)
    shape = [1, -1] + [1] * (input.dim() - 2)
    scale = torch.rsqrt(var + layer.eps)
    weight = scale if layer.weight is None else scale * layer.weight
    result = (values - mean.view(shape)) * weight.view(shape)
    return (result if layer.bias is None else result + layer.bias.view(shape)).to(input.dtype)
